# SPDX-License-Identifier: Apache-2.0
"""Walk as many centimetres as the task names, and say how far the robot really came. No model is asked."""

from __future__ import annotations

import re

from function_tokens.parsing.tokens import FunctionToken, TokenKind
from planners.strategy import Parameter, PlannerEvent, PlannerIO, Planning, Restarted, RobotView, Strategy, Task
from skill_kernel.codes import Outcome, TaskCode
from skill_kernel.events import CallEvent, StreamEvent, StreamKind


class Pacing(Strategy):
    """Plan with one skill: "pace 10" walks 10 cm."""

    name = "pacing"
    parameters = (Parameter("pacing.skill", "spider_run_distance", "skill that walks a distance in cm"),)

    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        """Walk at once."""
        return _Pacing(task, io)


class _Pacing:
    def __init__(self, task: Task, io: PlannerIO) -> None:
        self._task, self._io = task, io
        self._spoken = ""
        self._walk()

    def on(self, event: PlannerEvent) -> None:
        """Finish when everything has been said; walk once more after an interrupt."""
        if isinstance(event, Restarted):
            self._walk()
        elif isinstance(event, StreamEvent) and event.kind is StreamKind.TURN_ENDED and event.stream_id == self._spoken:
            self._io.finish()

    def close(self, why: str) -> None:
        """Nothing has to be ended."""

    def _walk(self) -> None:
        self._spoken = ""
        number = re.search(r"\d+", self._task.instruction)
        if number is None:
            self._io.finish(int(TaskCode.GIVEN_UP), "name a distance in centimetres, as in: pace 10")
            return
        self._io.call(self._io.settings["pacing.skill"], distance=int(number[0])).then(self._walked)

    def _walked(self, call: CallEvent) -> None:
        if call.outcome is not Outcome.DONE:
            self._io.finish(int(TaskCode.CALL_FAILED), f"{call.function} {call.outcome_name}: {call.told}")
            return
        said = FunctionToken(TokenKind.CHAR, text=f"I walked {call.value['distance']:.0f} centimetres.")
        self._spoken = self._io.perform([said]).stream_id
