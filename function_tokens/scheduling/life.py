# SPDX-License-Identifier: Apache-2.0
"""The life of a process's calls between token and outcome: what may start, what has ended, in which order (laws C1 to C8,
C10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from function_tokens.builtins import BRANCHES
from function_tokens.mapper import Mapper
from function_tokens.routines import RoutineStore
from function_tokens.scheduling.branches import Branches
from function_tokens.scheduling.builtin_calls import BuiltinCalls
from function_tokens.scheduling.calls import Call, CallResult, CallState, Clock, EventType, Executor, Role, ShellEvent
from function_tokens.scheduling.conditions import ConditionSource, NoConditions
from function_tokens.scheduling.endings import Endings
from function_tokens.scheduling.intake import Intake
from function_tokens.scheduling.queues import ChannelQueues
from function_tokens.scheduling.step_queue import StepLine, StepQueue
from function_tokens.scheduling.streams import Stream
from function_tokens.scheduling.turns import Turns
from skill_kernel.codes import CallCode, Outcome


@dataclass(frozen=True)
class SchedulerSettings:
    """`silence_s`: a stream with an open element that says nothing for so long is ended (C12). `observe_timeout_s`: an
    observation starts then at the latest. `max_unstarted`: more waiting calls than that are refused (QUEUE_FULL).
    `condition_timeout_s`: a condition that is not answered by then is unknown."""

    silence_s: float = 3.0
    observe_timeout_s: float = 30.0
    max_unstarted: int = 2000
    condition_timeout_s: float = 30.0


PAUSE_TOLD_S = 0.2
"""A call that a pause has ended may be reported before the pause itself: for so long no step begins."""


class CallLife:
    """What the parts of a scheduler share: its living calls, their order, the way each of them ends."""

    def __init__(
        self,
        mapper: Mapper,
        executor: Executor,
        clock: Clock,
        on_event: Callable[[ShellEvent], None],
        *,
        new_call_id: Callable[[], str],
        routines: RoutineStore | None = None,
        settings: SchedulerSettings | None = None,
        conditions: ConditionSource | None = None,
        on_steps: Callable[[StepQueue], None] = lambda steps: None,
    ) -> None:
        self.settings = settings or SchedulerSettings()
        self.clock = clock
        self._executor = executor
        self._on_event = on_event
        self._queues = ChannelQueues(mapper.parallel)
        self._live: dict[str, Call] = {}
        self._turns = Turns(self, self._live)
        self._recheck: list[Call] = []
        self._busy = False
        self._unstarted = 0
        self._paused = False
        self._expecting_pause = False
        self.branches = Branches(self, conditions or NoConditions())
        self.endings = Endings(self, executor, self._turns, self._live)
        self.steps = StepLine(on_steps)
        self._builtins = BuiltinCalls(self, self.branches, self.endings, self._live)
        self._intake = Intake(self, mapper, new_call_id, routines)

    @property
    def unstarted(self) -> int:
        """Calls that have not been handed to the executor; the model should pause when this grows."""
        return self._unstarted

    @property
    def live_calls(self) -> list[Call]:
        """Calls without an outcome, in token order."""
        return sorted(self._live.values(), key=lambda c: c.seq)

    @property
    def paused(self) -> bool:
        """Whether the process is paused."""
        return self._paused

    def emit(
        self, kind: EventType, stream_id: str, call: Call | None = None, code: int = 0, error: str = "", reason: str = ""
    ) -> None:
        """Report one event, stamped now."""
        self._on_event(ShellEvent(kind, self.clock.now(), stream_id, call, code, error, reason))

    def add(self, stream: Stream, call: Call) -> None:
        """Queue a new call in token order."""
        self._live[call.call_id] = call
        self._queues.add(call)
        self._unstarted += 1
        stream.live += 1
        if call.parent is not None:
            call.parent.inside[call.seq] = call
        self.emit(EventType.QUEUED, stream.stream_id, call)

    def closed(self, call: Call) -> None:
        """The reset token of a call, or the end of its content, has been read."""
        if call.closed:
            return
        call.closed = True
        if call.takes_content and call.state in (CallState.STARTING, CallState.RUNNING):
            self._executor.content(call, "", True)
        self._recheck.append(call)

    def content(self, call: Call, text: str) -> None:
        """More character data of a call."""
        call.content.append(text)
        if call.state in (CallState.STARTING, CallState.RUNNING):
            self._executor.content(call, text, False)

    def close_stream(self, stream: Stream, reason: str, code: int, error: str) -> None:
        """No further token of the stream is dispatched; its open elements count as reset."""
        stream.closed, stream.reason, stream.code, stream.error = True, reason, code, error
        unfinished = self._intake.close_open(stream)
        self.emit(EventType.STREAM_ENDED, stream.stream_id, code=code, error=error, reason=reason)
        if reason == "end":
            self.endings.leave_out_rest(unfinished)

    def close_utterance(self, stream: Stream) -> None:
        """The current utterance of a stream is complete."""
        self._intake.close_utterance(stream)

    def fail_turn(self, call: Call, why: str) -> None:
        """What a call ended as ends its turn."""
        self.endings.end_turn(self._turns.open[call.stream_id], call, why)

    # -- life of a call -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Start and end whatever can be, then report turns that are over."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._finish_one() or self._start_one():
                pass
            self.steps.report()
            self._turns.report()
        finally:
            self._busy = False

    def _start_one(self) -> bool:
        for call in self._queues.candidates():
            parent = call.parent
            if call.held or not call.content_ready:
                continue
            if parent is not None and parent.state is not CallState.RUNNING:
                continue
            if call.role is Role.BUILTIN and not self._may_begin(call):
                continue
            if self._queues.blocker(call) is None:
                self._start(call)
                return True
        return False

    def _may_begin(self, call: Call) -> bool:
        if (self._paused or self._expecting_pause) and (call.function == "step" or call.function in BRANCHES):
            return False
        return self.branches.may_begin(call)

    def _start(self, call: Call) -> None:
        self._unstarted -= 1
        if call.role is Role.BUILTIN:
            if call.function in BRANCHES:
                self.branches.begin(call)
            else:
                self.mark_running(call)
                self._builtins.perform(call)
            return
        call.state = CallState.STARTING
        self._executor.start(call)
        if call.takes_content and call.live:
            self._executor.content(call, call.text, call.closed)

    def put_back(self, call: Call) -> None:
        """A call that was about to begin goes back to the head of its queue."""
        call.state = CallState.QUEUED
        self._unstarted += 1

    def mark_running(self, call: Call) -> None:
        """A call has begun."""
        call.state = CallState.RUNNING
        call.start_s = self.clock.now()
        self._queues.running(call)
        self._recheck.append(call)
        self.steps.began(call)
        self.emit(EventType.STARTED, call.stream_id, call)

    def _finish_one(self) -> bool:
        """Take one step for a call whose children, reset or body have changed."""
        while self._recheck:
            call = self._recheck.pop()
            if call.state is not CallState.RUNNING or call.inside:
                continue
            if call.body_result is not None:
                if call.closed or not call.open or call.body_result.outcome is not Outcome.DONE:
                    self.end(call, call.body_result)
                    return True
            elif call.closed and call.role is Role.BUILTIN:
                if (result := self._builtins.result(call)) is not None:
                    self.end(call, result)
                    return True
            elif call.closed and call.open and not call.takes_content and not call.stopping:
                call.stopping = True
                self.emit(EventType.RESETTING, call.stream_id, call)
                self._executor.reset(call)
                return True
        return self._builtins.finish_observation()

    def body_ended(self, call: Call, result: CallResult) -> None:
        """What a call does by itself has ended."""
        if call.body_result is None:
            call.body_result = result
        if call.state is not CallState.RUNNING:
            self.end(call, call.body_result)
            return
        if result.outcome is not Outcome.DONE:
            self._drop_inside(call, result)
        self._recheck.append(call)

    def _drop_inside(self, call: Call, result: CallResult) -> None:
        why = f"the element around it, '{call.function}', ended as {result.outcome.value}"
        self.endings.drop_inside(call, CallCode.PARENT_NOT_STARTED, why)

    def end(self, call: Call, result: CallResult) -> None:
        """Give a call its one outcome."""
        if not call.live:
            return
        if call.state is CallState.QUEUED:
            self._unstarted -= 1
        call.state, call.result, call.end_s = CallState.ENDED, result, self.clock.now()
        del self._live[call.call_id]
        self._queues.remove(call)
        self.branches.forget(call)
        self.steps.ended(call)
        stream = self._turns.open[call.stream_id]
        stream.live -= 1
        if call.parent is not None:
            call.parent.inside.pop(call.seq, None)
            self._recheck.append(call.parent)
        self.emit(EventType.ENDED, call.stream_id, call, int(result.code), result.error)
        if call.inside:
            self._drop_inside(call, result)
        failed = result.outcome in (Outcome.FAILED, Outcome.REFUSED) or _cut_off_in_step(call, result)
        if failed and call.exclusive and (call.skill is None or call.skill.on_failure == "end_turn"):
            self.endings.end_turn(stream, call, f"'{call.function}' {_verb(result)}: {result.error or result.message}")


def _cut_off_in_step(call: Call, result: CallResult) -> bool:
    """Whether the robot was stopped by somebody else: what a step's successors build on is not there then."""
    told = call.stopping or result.code is CallCode.PROCESS_PAUSED
    return result.outcome is Outcome.INTERRUPTED and not told and any(a.function == "step" for a in call.ancestors)


def _verb(result: CallResult) -> str:
    return {Outcome.FAILED: "failed", Outcome.REFUSED: "was refused"}.get(result.outcome, "was cut off")
