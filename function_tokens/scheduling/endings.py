# SPDX-License-Identifier: Apache-2.0
"""What ends before its time: calls that are stopped, dropped or left out, turns that failed, steps that are replaced
(laws C6, C9, C11 and C12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from function_tokens.scheduling.calls import Call, CallResult, CallState, EventType, Executor, Role
from function_tokens.scheduling.streams import FrameKind, Stream
from function_tokens.scheduling.turns import Turns
from skill_kernel.codes import CallCode, Outcome

if TYPE_CHECKING:
    from function_tokens.scheduling.life import CallLife

NEVER = (-1, -1)


class Endings:
    """Drops and stops calls of one process, and whatever stands inside them."""

    def __init__(self, scheduler: CallLife, executor: Executor, turns: Turns, live: Mapping[str, Call]) -> None:
        self._scheduler = scheduler
        self._executor = executor
        self._turns = turns
        self._live = live
        self._newest = self._outdated = NEVER

    def began(self, stream: Stream) -> None:
        """A stream has begun."""
        self._newest = max(self._newest, (stream.epoch, stream.turn))

    def outdated(self, stream: Stream) -> bool:
        """Whether a stream was planned without knowledge of a failure or of steps that replace its own."""
        return (stream.epoch, stream.turn) <= self._outdated

    def stop(self, calls: Iterable[Call], cause: str) -> list[str]:
        """Drop those that have not begun, stop those that run, and whatever stands inside either. The ids of the
        latter."""
        chosen = {c.seq: c for c in calls}
        for call in self._scheduler.live_calls:
            if call.parent is not None and call.parent.seq in chosen:
                chosen[call.seq] = call
        running = []
        for call in sorted(chosen.values(), key=lambda c: c.seq, reverse=True):
            if call.unbegun:
                self._drop([call], CallCode.INTERRUPTED_BY, f"not started: {cause}")
            elif call.live:
                running.append(call.call_id)
                self._stop(call, cause)
        return running

    def _stop(self, call: Call, cause: str) -> None:
        if call.role is Role.BUILTIN:
            self._scheduler.body_ended(call, CallResult(Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY, cause))
        else:
            call.stopping = True
            self._executor.stop(call, cause)

    def drop_inside(self, call: Call, code: CallCode, why: str) -> None:
        """Drop what stands inside a call and has not begun."""
        inside = [c for c in call.descendants if c.unbegun]
        self._drop(reversed(inside), code, why)

    def end_turn(self, stream: Stream, call: Call | None, why: str) -> None:
        """A call that others build on failed or was refused (C11), or a strict stream broke its rules: nothing more of the
        stream begins, nor any step that was planned before this was known."""
        if not stream.closed:
            self._scheduler.emit(EventType.STOP_GENERATION, stream.stream_id, call, error=why)
            self._scheduler.close_stream(stream, "failure", 0, why)
        elif stream.reason in ("end", "plan_done"):
            stream.reason = "failure"
        self._turns.set_deadline(stream)
        rest = [c for c in self._scheduler.live_calls if c.stream_id == stream.stream_id and c.unbegun]
        code = call.result.code if call is not None and call.result is not None else CallCode.TURN_ENDED
        for touched in (call, *rest):
            self._not_all_done(touched, CallResult(Outcome.FAILED, code, why))
        self._drop(rest, CallCode.TURN_ENDED, f"not started, because {why}")
        if self._newest[0] == stream.epoch:
            self._outdated = max(self._outdated, self._newest)
        for other in list(self._turns.open.values()):
            if other is not stream and other.plans and other.epoch == stream.epoch:
                self._supersede(other, why)

    def replace_steps(self, stream: Stream) -> int:
        """Drop everything that has not begun, from whatever stream, but for what stands inside of what runs. How many."""
        why = "replaced by <replace_steps/>"
        waiting = [c for c in self._scheduler.live_calls if _root(c).unbegun]
        self._drop(reversed(waiting), CallCode.TURN_ENDED, why)
        self._outdated = max(self._outdated, (stream.epoch, stream.turn - 1))
        for other in list(self._turns.open.values()):
            if other is stream:
                break
            if other.plans:
                self._supersede(other, why)
        return sum(c.parent is None for c in waiting)

    def leave_out_rest(self, steps: Iterable[Call]) -> None:
        """The stream ended before the end tag of these steps: what has begun goes on, the rest does not begin."""
        why = "the answer ended before </step>"
        for step in steps:
            if step.unbegun:
                self._drop([step], CallCode.TURN_ENDED, f"not started: {why}")
            elif step.live:
                self.drop_inside(step, CallCode.TURN_ENDED, f"left out: {why}")
                step.ending = step.ending or CallResult(Outcome.DONE, message=f"{why}; what had not begun was left out")

    def _supersede(self, stream: Stream, why: str) -> None:
        """Its steps that have not begun are dropped; of the one that runs the rest is still read."""
        waiting = [c for c in self._live.values() if c.stream_id == stream.stream_id and _root(c).unbegun]
        self._drop(reversed(waiting), CallCode.TURN_ENDED, f"not started, because {why}")
        if stream.closed or stream.superseded:
            return
        self._scheduler.emit(EventType.STOP_GENERATION, stream.stream_id, error=why)
        if any(frame.kind is FrameKind.CALL and frame.call is not None and frame.call.live for frame in stream.frames):
            stream.superseded = why
        else:
            self._scheduler.close_stream(stream, "end", 0, why)

    @staticmethod
    def _not_all_done(call: Call | None, result: CallResult) -> None:
        for around in call.ancestors if call is not None else ():
            if around.function == "step" and around.role is Role.BUILTIN and around.state is CallState.RUNNING:
                around.ending = around.ending or result

    def _drop(self, calls: Iterable[Call], code: CallCode, why: str) -> None:
        for call in list(calls):
            self._scheduler.end(call, CallResult(Outcome.DROPPED, code, why))


def _root(call: Call) -> Call:
    """The outermost element around a call, or itself."""
    while call.parent is not None:
        call = call.parent
    return call
