# SPDX-License-Identifier: Apache-2.0
"""Strategy `tokens`: perform an instruction that is function tokens already, as it stands; no model is asked.

So a program calls a skill by the way of every task: its process holds the parts of the body, pauses, and ends with whoever
sent it.
"""

from collections.abc import Sequence

from planners.prompts.prompt import CallReport
from planners.strategy import PlannerEvent, PlannerIO, Planning, Restarted, RobotView, Strategy, Task
from skill_kernel.codes import Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, StreamEvent, StreamKind


class Tokens(Strategy):
    """Perform the tokens of a task as one stream."""

    name = "tokens"

    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        return _Performance(task, io)


class _Performance:
    """Perform one task once. What was begun and cut off is told, not begun again: the tokens do not say what is left of it."""

    def __init__(self, task: Task, io: PlannerIO) -> None:
        self._task, self._io = task, io
        self._stream_id = self._fault = ""
        self._called = False
        self._begin(task.done)

    def on(self, event: PlannerEvent) -> None:
        if isinstance(event, Restarted):
            self._begin(event.done)
        elif isinstance(event, CallEvent) and event.stream_id == self._stream_id and not event.parent_id:
            self._called = True
            if event.kind is CallKind.ENDED and event.outcome is not Outcome.DONE and not self._fault:
                self._fault = f"{event.function} {event.outcome_name}: {event.told}"
        elif isinstance(event, StreamEvent) and event.kind is StreamKind.TURN_ENDED and event.stream_id == self._stream_id:
            fault = self._fault or ("" if self._called else event.error_msg or "the instruction holds no function token")
            self._io.finish(int(TaskCode.CALL_FAILED) if fault else 0, fault)

    def close(self, why: str) -> None:
        """Do nothing: the stream has been written."""

    def _begin(self, done: Sequence[CallReport]) -> None:
        if done:
            told = "; ".join(f"{call.function} {call.outcome}" for call in done)
            self._io.finish(int(TaskCode.CALL_FAILED), f"it was cut off after {told}; send what is left of it anew")
            return
        stream = self._io.open(0)
        self._stream_id = stream.stream_id
        stream.text(self._task.instruction)
        stream.end()
