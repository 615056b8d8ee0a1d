# SPDX-License-Identifier: Apache-2.0
"""Hold the living calls and open streams of one process, and draw the consequences when one ends (laws C6 and C9 to C12)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from function_tokens.scheduling.calls import Call, CallState, Executor, FrameKind, Role, Stream
from function_tokens.scheduling.queues import ChannelQueues, StepLine
from skill_kernel.calls import CallResult
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.config.sections import shown
from skill_kernel.events import CallKind, ProcessEvent, ProcessKind, RunEvent, StreamEvent, StreamKind

PAST_STREAMS = 32
"""Ended streams that are remembered, so that their late tokens are recorded."""


@dataclass(eq=False)
class CallTable:
    """Change calls and streams, report each change as an event, and note what it makes possible in `recheck`.

    Nothing is started here: that is for the scheduler, which `on_deadline` calls when time alone has changed something.
    `observe_timeout_s` after a failure the next turn begins, even while motion still runs.
    """

    process_id: str
    executor: Executor
    clock: Clock
    on_event: Callable[[RunEvent], None]
    steps: StepLine
    queues: ChannelQueues
    on_deadline: Callable[[], None]
    observe_timeout_s: float
    live: dict[str, Call] = field(default_factory=dict)
    streams: dict[str, Stream] = field(default_factory=dict)
    """Streams with calls or tokens to come."""
    past_streams: dict[str, Stream] = field(default_factory=dict)
    recheck: list[Call] = field(default_factory=list)
    """Calls whose children, reset or body have changed."""
    _newest: tuple[int, int] = (-1, -1)
    """The highest epoch and turn of any stream."""
    _outdated: tuple[int, int] = (-1, -1)
    """Plans of streams up to this epoch and turn were made without knowing of a failure."""
    _drained: bool = True

    @property
    def in_order(self) -> list[Call]:
        """Return the calls without an outcome, in token order."""
        return sorted(self.live.values(), key=lambda call: call.seq)

    def tell(self, kind: CallKind, call: Call) -> None:
        """Report where a call stands."""
        self.on_event(call.event(kind, self.process_id, self.clock.now()))

    def _tell_stream(self, kind: StreamKind, stream: Stream, code: int = 0, error: str = "", end: str = "") -> None:
        about: dict[str, Any] = {"process_id": self.process_id, "stream_id": stream.stream_id, "stamp_s": self.clock.now()}
        self.on_event(StreamEvent(kind=kind, error_code=code, error_msg=error, end=end, **about))

    # -- streams and their turns --------------------------------------------------------------------------------------

    def open_stream(self, stream: Stream) -> None:
        self.streams[stream.stream_id] = stream
        self._drained = False
        self._newest = max(self._newest, (stream.epoch, stream.turn))
        self._tell_stream(StreamKind.STARTED, stream)

    def stop_generation(self, stream: Stream, why: str) -> None:
        """Tell the model to write no more of a stream."""
        self._tell_stream(StreamKind.STOP_GENERATION, stream, error=why)

    def close_stream(self, stream: Stream, reason: str, code: int = 0, error: str = "") -> None:
        """Dispatch no further token of a stream; its utterance and open elements count as finished, inside out (C12)."""
        stream.closed, stream.reason, stream.code, stream.error = True, reason, code, error
        self.close_utterance(stream)
        while stream.frames:
            frame = stream.frames.pop()
            if frame.kind is FrameKind.SAVE and frame.call is not None:
                self.record_lost_routine(frame.call)
            elif frame.kind is FrameKind.CALL and frame.call is not None:
                if frame.call.function == "step":
                    stream.unfinished.append(frame.call)
                self.close_element(stream, frame.call)
        self._tell_stream(StreamKind.ENDED, stream, code, error, reason)
        if reason == "end":
            self._leave_out_rest(stream.unfinished)

    def end_stream(self, stream: Stream, code: int = 0, error: str = "") -> None:
        """Close a stream of which no more tokens come. A refused element that is still open ends the turn now."""
        refused = [(f.call, f.faults[0]) for f in stream.frames if f.kind is FrameKind.REFUSED and f.call and f.faults]
        if not refused:
            self.close_stream(stream, "end", code, error)
        for call, why in refused:  # one at most
            self.close_stream(stream, "failure", code, f"{why}; {error}" if error else why)
            self.end_turn(call, why)

    def cut_off(self, stream: Stream, reason: str, why: str, code: int = 0) -> None:
        """Tell the model to write no more of a stream, and close it."""
        self.stop_generation(stream, why)
        self.close_stream(stream, reason, code, why)

    def close_utterance(self, stream: Stream) -> None:
        """End the current utterance of a stream: any other token does (C4)."""
        if stream.utterance is not None:
            call, stream.utterance = stream.utterance, None
            call.content_ready = True
            self.close(call)
        stream.held_space = ""
        stream.unspoken = False

    def close_element(self, stream: Stream, call: Call) -> None:
        """Take the end tag of an element as read."""
        if call is stream.step:
            stream.step = None
            self.steps.changed(call)
        self.close(call)

    def outdated(self, stream: Stream) -> bool:
        """Return whether a stream was planned without knowledge of a failure or of steps that replace its own."""
        return (stream.epoch, stream.turn) <= self._outdated

    def report(self) -> None:
        """Report changes of the step queue, each turn that is over, once, and a process with nothing left to do."""
        self.steps.report()
        for stream in list(self.streams.values()):
            if stream.closed and not stream.turn_over and self._turn_is_over(stream):
                stream.turn_over = True
                self._tell_stream(StreamKind.TURN_ENDED, stream, stream.code, stream.error, stream.reason)
            if stream.turn_over and not stream.live:
                self.past_streams[stream.stream_id] = self.streams.pop(stream.stream_id)
                if len(self.past_streams) > PAST_STREAMS:
                    del self.past_streams[next(iter(self.past_streams))]
        if not self.streams and not self.live and not self._drained:
            self._drained = True
            self.on_event(ProcessEvent(kind=ProcessKind.DRAINED, process_id=self.process_id, stamp_s=self.clock.now()))

    def _turn_is_over(self, stream: Stream) -> bool:
        if not stream.live:
            return True
        if stream.reason == "observe":
            return not any(c.stream_id == stream.stream_id and c.decides for c in self.live.values())
        if stream.reason != "failure":
            return False
        return stream.deadline_passed or not any(c.exclusive for c in self.live.values())

    # -- the life of a call -------------------------------------------------------------------------------------------

    def add(self, stream: Stream, call: Call) -> None:
        """Queue a new call in token order."""
        self.live[call.call_id] = call
        self.queues.add(call)
        stream.live += 1
        if call.parent is not None:
            call.parent.inside[call.seq] = call
        self.tell(CallKind.QUEUED, call)

    def record(self, call: Call, result: CallResult) -> None:
        """Report the outcome of a call that never enters a queue."""
        call.state, call.end_s, call.result = CallState.ENDED, self.clock.now(), result
        self.tell(CallKind.ENDED, call)

    def record_lost_routine(self, call: Call) -> None:
        """Report a `save` whose end tag never came."""
        why = f"there was no </save>, so nothing was kept as routine '{shown(call.arguments['name'])}'"
        self.record(call, CallResult(Outcome.DROPPED, CallCode.ROUTINE_INVALID, why))

    def content(self, call: Call, text: str) -> None:
        """Add character data to a call."""
        call.content.append(text)
        if call.state in (CallState.STARTING, CallState.RUNNING):
            self.executor.content(call, text, False)

    def close(self, call: Call) -> None:
        """Take the reset token of a call, or the end of its content, as read."""
        if call.closed:
            return
        call.closed = True
        if call.takes_content and call.state in (CallState.STARTING, CallState.RUNNING):
            self.executor.content(call, "", True)
        self.recheck.append(call)

    def mark_running(self, call: Call) -> None:
        """Note that a call has begun."""
        call.state = CallState.RUNNING
        call.start_s = self.clock.now()
        self.queues.running(call)
        self.recheck.append(call)
        self.steps.changed(call)
        self.tell(CallKind.STARTED, call)

    def body_ended(self, call: Call, result: CallResult) -> None:
        """Note that the body of a call has ended; the call itself may wait for its children and its reset."""
        if call.body_result is None:
            call.body_result = result
        if call.state is not CallState.RUNNING:
            self.end(call, call.body_result)
            return
        if result.outcome is not Outcome.DONE:
            self._drop_inside(call, result)
        self.recheck.append(call)

    def end(self, call: Call, result: CallResult) -> None:
        """Give a call its one outcome (C10). One that others build on ends its turn by failing (C11)."""
        if not call.live:
            return
        call.state, call.result, call.end_s = CallState.ENDED, result, self.clock.now()
        del self.live[call.call_id]
        self.queues.remove(call)
        self.steps.changed(call)
        self.streams[call.stream_id].live -= 1
        if call.parent is not None:
            call.parent.inside.pop(call.seq, None)
            self.recheck.append(call.parent)
        self.tell(CallKind.ENDED, call)
        if call.inside:
            self._drop_inside(call, result)
        failed = result.outcome in (Outcome.FAILED, Outcome.REFUSED) or _cut_off_in_step(call, result)
        if failed and call.exclusive and (call.skill is None or call.skill.on_failure == "end_turn"):
            verb = {Outcome.FAILED: "failed", Outcome.REFUSED: "was refused"}.get(result.outcome, "was cut off")
            self.end_turn(call, f"'{call.function}' {verb}: {result.error or result.message}")

    # -- what ends before its time ------------------------------------------------------------------------------------

    def stop(self, calls: Iterable[Call], cause: str) -> list[str]:
        """Drop those that have not begun, stop those that run, and everything inside either (C9). Return the ids of those
        that ran."""
        chosen = {call.seq: call for call in calls}
        for call in self.in_order:
            if call.parent is not None and call.parent.seq in chosen:
                chosen[call.seq] = call
        running = []
        for call in sorted(chosen.values(), key=lambda c: c.seq, reverse=True):
            if call.unbegun:
                self._drop([call], CallCode.INTERRUPTED_BY, f"not started: {cause}")
            elif call.live:
                running.append(call.call_id)
                if call.role is Role.BUILTIN:
                    self.body_ended(call, CallResult(Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY, cause))
                else:
                    call.stopping = True
                    self.executor.stop(call, cause)
        return running

    def end_turn(self, call: Call, why: str) -> None:
        """End the turn of a call that failed or was refused (C11), or that broke the rules of a strict stream: nothing more
        of its stream begins, nor any step that was planned before this was known."""
        stream = self.streams[call.stream_id]
        if not stream.closed:
            self.cut_off(stream, "failure", why)
        elif stream.reason in ("end", "plan_done"):
            stream.reason = "failure"
        self._bound_turn(stream)
        rest = [c for c in self.in_order if c.stream_id == stream.stream_id and c.unbegun]
        code = call.result.code if call.result is not None else CallCode.TURN_ENDED
        for touched in (call, *rest):
            _mark_steps_failed(touched, CallResult(Outcome.FAILED, code, why))
        self._drop(rest, CallCode.TURN_ENDED, f"not started, because {why}")
        if self._newest[0] == stream.epoch:
            self._outdated = max(self._outdated, self._newest)
        for other in list(self.streams.values()):
            if other is not stream and other.plans and other.epoch == stream.epoch:
                self._supersede(other, why)

    def replace_steps(self, stream: Stream) -> int:
        """Drop everything that has not begun, of any stream, except what stands inside a running call. Return how many
        outermost calls that were."""
        why = "replaced by <replace_steps/>"
        waiting = [c for c in self.in_order if c.root.unbegun]
        self._drop(reversed(waiting), CallCode.TURN_ENDED, why)
        self._outdated = max(self._outdated, (stream.epoch, stream.turn - 1))
        for other in list(self.streams.values()):
            if other is stream:
                break
            if other.plans:
                self._supersede(other, why)
        return sum(c.parent is None for c in waiting)

    def _bound_turn(self, stream: Stream) -> None:
        def passed() -> None:
            stream.deadline_passed = True
            self.on_deadline()

        self.clock.call_later(self.observe_timeout_s, passed)

    def _leave_out_rest(self, steps: Iterable[Call]) -> None:
        """Let these steps, whose end tag never came, finish what has begun; begin nothing more of them."""
        why = "the answer ended before </step>"
        for step in steps:
            if step.unbegun:
                self._drop([step], CallCode.TURN_ENDED, f"not started: {why}")
            elif step.live:
                self._drop_unbegun_inside(step, CallCode.TURN_ENDED, f"left out: {why}")
                step.ending = step.ending or CallResult(Outcome.DONE, message=f"{why}; what had not begun was left out")

    def _supersede(self, stream: Stream, why: str) -> None:
        """Drop the steps of a stream that have not begun; read only the rest of the one that runs."""
        waiting = [c for c in self.live.values() if c.stream_id == stream.stream_id and c.root.unbegun]
        self._drop(reversed(waiting), CallCode.TURN_ENDED, f"not started, because {why}")
        if stream.closed or stream.superseded:
            return
        if any(frame.kind is FrameKind.CALL and frame.call is not None and frame.call.live for frame in stream.frames):
            self.stop_generation(stream, why)
            stream.superseded = why
        else:
            self.cut_off(stream, "end", why)

    def _drop_inside(self, call: Call, result: CallResult) -> None:
        why = f"the element around it, '{call.function}', ended as {result.outcome.value}"
        self._drop_unbegun_inside(call, CallCode.PARENT_NOT_STARTED, why)

    def _drop_unbegun_inside(self, call: Call, code: CallCode, why: str) -> None:
        self._drop(reversed([c for c in call.descendants if c.unbegun]), code, why)

    def _drop(self, calls: Iterable[Call], code: CallCode, why: str) -> None:
        for call in list(calls):
            self.end(call, CallResult(Outcome.DROPPED, code, why))


def _mark_steps_failed(call: Call, result: CallResult) -> None:
    for around in call.ancestors:
        if around.function == "step" and around.role is Role.BUILTIN and around.state is CallState.RUNNING:
            around.ending = around.ending or result


def _cut_off_in_step(call: Call, result: CallResult) -> bool:
    """Return whether somebody else stopped the robot within a step: what its successors build on is not there then."""
    asked = call.stopping or result.code == CallCode.PROCESS_PAUSED
    return result.outcome is Outcome.INTERRUPTED and not asked and any(a.function == "step" for a in call.ancestors)
