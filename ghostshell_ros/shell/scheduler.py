# SPDX-License-Identifier: Apache-2.0
"""The multi-channel scheduler: one process's calls, in order within a channel, parallel across channels
(GhostShell 3.4.3; laws C1 to C12 of the semantics). Pure, event-driven, on an injected clock; it never polls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ghostshell_ros.shell.calls import (
    Call,
    CallResult,
    CallState,
    Clock,
    EventType,
    Executor,
    Role,
    ShellEvent,
)
from ghostshell_ros.shell.intake import Intake
from ghostshell_ros.shell.mapper import Mapper
from ghostshell_ros.shell.queues import ChannelQueues
from ghostshell_ros.shell.routines import RoutineStore
from ghostshell_ros.shell.streams import Stream
from ghostshell_ros.shell.tokens import FunctionToken
from ghostshell_ros.shell.turns import Turns
from skill_kernel.codes import CallCode, Outcome


@dataclass(frozen=True)
class SchedulerSettings:
    """`silence_s`: a stream with an open element that says nothing for so long is ended (C12). `observe_timeout_s`: an
    observation starts then at the latest. `max_unstarted`: more waiting calls than that are refused (QUEUE_FULL)."""

    silence_s: float = 3.0
    observe_timeout_s: float = 30.0
    max_unstarted: int = 2000


class Scheduler:
    """Schedules the calls of one process. Every method is to be called on one thread.

    Tokens go in through `feed` and `end_stream`; calls go out through the executor, which answers with `started`,
    `held` and `ended`; what happened goes to `on_event`.
    """

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
    ) -> None:
        self.settings = settings or SchedulerSettings()
        self.clock = clock
        self._executor = executor
        self._on_event = on_event
        self._queues = ChannelQueues(mapper.parallel)
        self._live: dict[str, Call] = {}
        self._turns = Turns(self, self._live)
        self._recheck: list[Call] = []
        self._observing: Call | None = None
        self._busy = False
        self._unstarted = 0
        self._intake = Intake(self, mapper, new_call_id, routines)

    # -- what goes in -------------------------------------------------------------------------------------------------

    @property
    def unstarted(self) -> int:
        """Calls that have not been handed to the executor; the model should pause when this grows."""
        return self._unstarted

    @property
    def live_calls(self) -> list[Call]:
        """Calls without an outcome, in token order."""
        return sorted(self._live.values(), key=lambda c: c.seq)

    def call(self, call_id: str) -> Call | None:
        """The live call of that id."""
        return self._live.get(call_id)

    def open_stream(self, stream_id: str, *, epoch: int = 0, strict: bool = False) -> None:
        """Begin a stream. In strict mode the first refusal ends it."""
        self._turns.begin(Stream(stream_id, epoch, strict, last_token_s=self.clock.now()))
        self.emit(EventType.STREAM_STARTED, stream_id)

    def feed(self, stream_id: str, token: FunctionToken) -> None:
        """Take the next token of an open stream; a token of an ended one is recorded as dropped, while it is remembered."""
        stream = self._turns.open.get(stream_id) or self._turns.past.get(stream_id)
        if stream is None:
            return
        stream.last_token_s = self.clock.now()
        self._intake.token(stream, token)
        self._turns.watch_silence(stream)
        self.settle()

    def end_stream(self, stream_id: str, code: int = 0, error: str = "") -> None:
        """The stream has ended, regularly or with an error; open elements are reset when their children ended (C12)."""
        stream = self._turns.open.get(stream_id)
        if stream is not None and not stream.closed:
            self.close_stream(stream, "end", code, error)
        self.settle()

    def void_stream(self, stream_id: str, cause: str) -> None:
        """A stream of an epoch that was interrupted: nothing of it is dispatched, its calls end as dropped."""
        stream = self._turns.open.get(stream_id)
        if stream is not None and not stream.closed:
            self.emit(EventType.STOP_GENERATION, stream_id, error=cause)
            self.close_stream(stream, "interrupt", 0, cause)
        self.settle()

    def interrupt(self, cause: str, channels: Iterable[str] = ()) -> list[str]:
        """Event-driven termination (C9): end all streams, drop what has not started, stop what runs, on the given
        channels or all. Returns the ids of the calls that were running. Their results follow."""
        for stream in [s for s in self._turns.open.values() if not s.closed]:
            self.emit(EventType.STOP_GENERATION, stream.stream_id, error=cause)
            self.close_stream(stream, "interrupt", 0, cause)
        named = frozenset(channels)
        stopped = self.stop_calls([c for c in self.live_calls if not named or c.channels & named], cause)
        self.settle()
        return stopped

    # -- the executor's answers ---------------------------------------------------------------------------------------

    def started(self, call_id: str) -> None:
        """The executor has begun a call."""
        call = self._live.get(call_id)
        if call is None or call.state is not CallState.STARTING:
            return
        self._mark_running(call)
        self.settle()

    def held(self, call_id: str, reason: str) -> None:
        """A subsystem is held by another process: the call stays at the head of its queue until `freed` (C10)."""
        call = self._live.get(call_id)
        if call is None or call.state is not CallState.STARTING:
            return
        call.state = CallState.QUEUED
        call.held = reason
        self._unstarted += 1
        if call.stopping:
            self.end(call, CallResult(Outcome.DROPPED, CallCode.INTERRUPTED_BY, reason))
        self.settle()

    def freed(self) -> None:
        """Subsystems changed hands: try held calls again."""
        held = [call for call in self._live.values() if call.held]
        for call in held:
            call.held = ""
        if held:
            self.settle()

    def ended(self, call_id: str, result: CallResult) -> None:
        """The executor's one result of a call."""
        call = self._live.get(call_id)
        if call is None:
            return
        if call.start_s is None and (result.outcome is Outcome.INTERRUPTED or result.code is CallCode.STALE_EPOCH):
            result = CallResult(Outcome.DROPPED, result.code, result.error, result.message)
        self._body_ended(call, result)
        self.settle()

    # -- used by the intake and the turns -----------------------------------------------------------------------------

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
            call.parent.live_children += 1
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
        self._intake.close_open(stream)
        self.emit(EventType.STREAM_ENDED, stream.stream_id, code=code, error=error, reason=reason)

    def close_utterance(self, stream: Stream) -> None:
        """The current utterance of a stream is complete."""
        self._intake.close_utterance(stream)

    def end_turn(self, stream: Stream, call: Call | None, why: str) -> None:
        """A call on an exclusive subsystem failed or was refused (C11), or a strict stream broke its rules."""
        if not stream.closed:
            self.emit(EventType.STOP_GENERATION, stream.stream_id, call, error=why)
            self.close_stream(stream, "failure", 0, why)
        elif stream.reason in ("end", "plan_done"):
            stream.reason = "failure"
        self._turns.set_deadline(stream)
        for other in self.live_calls:
            if other.stream_id == stream.stream_id and other.state is CallState.QUEUED:
                self.end(other, CallResult(Outcome.DROPPED, CallCode.TURN_ENDED, f"not started, because {why}"))

    # -- life of a call -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Start and end whatever can be, then report turns that are over."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._finish_one() or self._start_one():
                pass
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
            if self._queues.blocker(call) is None:
                self._start(call)
                return True
        return False

    def _start(self, call: Call) -> None:
        self._unstarted -= 1
        if call.role is Role.BUILTIN:
            self._mark_running(call)
            self._perform(call)
            return
        call.state = CallState.STARTING
        self._executor.start(call)
        if call.takes_content and call.live:
            self._executor.content(call, call.text, call.closed)

    def _mark_running(self, call: Call) -> None:
        call.state = CallState.RUNNING
        call.start_s = self.clock.now()
        self._queues.running(call)
        self._recheck.append(call)
        self.emit(EventType.STARTED, call.stream_id, call)

    def _perform(self, call: Call) -> None:
        """Begin a built-in; `wait` and `run` have no body and end with their children."""
        if call.function == "sleep":
            self.clock.call_later(float(call.arguments["seconds"]), lambda: self.ended(call.call_id, _DONE))
        elif call.function == "stop":
            channel = call.arguments["channel"]
            earlier = [c for c in self.live_calls if c.seq < call.seq and not call.is_descendant_of(c)]
            self.stop_calls([c for c in earlier if not channel or channel in c.channels], "stopped by <stop>")
            self._body_ended(call, _DONE)
        elif call.function == "observe":
            self._observing = call
            self.clock.call_later(self.settings.observe_timeout_s, lambda: self._observe_timed_out(call))
        elif call.function == "plan_done":
            self._body_ended(call, _DONE)

    def _observe_timed_out(self, call: Call) -> None:
        self.ended(call.call_id, CallResult(Outcome.DONE, message="observed at the deadline; motion still runs"))

    def _finish_one(self) -> bool:
        """Take one step for a call whose children, reset or body have changed."""
        while self._recheck:
            call = self._recheck.pop()
            if call.state is not CallState.RUNNING or call.live_children:
                continue
            if call.body_result is not None:
                if call.closed or not call.open or call.body_result.outcome is not Outcome.DONE:
                    self.end(call, call.body_result)
                    return True
            elif call.closed and call.role is Role.BUILTIN:
                if call.function in ("wait", "run") or (call.open and call.function != "observe"):
                    self.end(call, _DONE)
                    return True
            elif call.closed and call.open and not call.takes_content and not call.stopping:
                call.stopping = True
                self.emit(EventType.RESETTING, call.stream_id, call)
                self._executor.reset(call)
                return True
        return self._finish_observation()

    def _finish_observation(self) -> bool:
        call = self._observing
        if call is None or not call.live:
            return False
        before = (c for c in self._live.values() if c.exclusive and c.seq < call.seq)
        if any(not call.is_descendant_of(c) for c in before):
            return False
        self._observing = None
        self.end(call, _DONE)
        return True

    def _body_ended(self, call: Call, result: CallResult) -> None:
        if call.body_result is None:
            call.body_result = result
        if call.state is not CallState.RUNNING:
            self.end(call, call.body_result)
            return
        if result.outcome is not Outcome.DONE:
            self._drop_descendants(call, result)
        self._recheck.append(call)

    def stop_calls(self, calls: Iterable[Call], cause: str) -> list[str]:
        """Drop those that have not started, stop those that run, and whatever stands inside either."""
        roots = list(calls)
        chosen = {c.seq: c for c in roots}
        for call in self.live_calls:
            if call.parent is not None and call.parent.seq in chosen:
                chosen[call.seq] = call
        running = []
        for call in sorted(chosen.values(), key=lambda c: c.seq, reverse=True):
            if call.state is CallState.QUEUED:
                self.end(call, CallResult(Outcome.DROPPED, CallCode.INTERRUPTED_BY, f"not started: {cause}"))
            elif call.live:
                running.append(call.call_id)
                self._stop(call, cause)
        return running

    def _stop(self, call: Call, cause: str) -> None:
        if call.role is Role.BUILTIN:
            self._body_ended(call, CallResult(Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY, cause))
        else:
            call.stopping = True
            self._executor.stop(call, cause)

    def _drop_descendants(self, call: Call, result: CallResult) -> None:
        why = f"the element around it, '{call.function}', ended as {result.outcome.value}"
        for other in reversed(self.live_calls):
            if other.is_descendant_of(call) and other.state is CallState.QUEUED:
                self.end(other, CallResult(Outcome.DROPPED, CallCode.PARENT_NOT_STARTED, why))

    def end(self, call: Call, result: CallResult) -> None:
        """Give a call its one outcome."""
        if not call.live:
            return
        if call.state is CallState.QUEUED:
            self._unstarted -= 1
        call.state, call.result, call.end_s = CallState.ENDED, result, self.clock.now()
        del self._live[call.call_id]
        self._queues.remove(call)
        stream = self._turns.open[call.stream_id]
        stream.live -= 1
        if call.parent is not None:
            call.parent.live_children -= 1
            self._recheck.append(call.parent)
        self.emit(EventType.ENDED, call.stream_id, call, int(result.code), result.error)
        if call.live_children:
            self._drop_descendants(call, result)
        failed = result.outcome in (Outcome.FAILED, Outcome.REFUSED)
        if failed and call.exclusive and (call.skill is None or call.skill.on_failure == "end_turn"):
            self.end_turn(stream, call, f"'{call.function}' {_verb(result)}: {result.error or result.message}")


_DONE = CallResult(Outcome.DONE)


def _verb(result: CallResult) -> str:
    return "failed" if result.outcome is Outcome.FAILED else "was refused"
