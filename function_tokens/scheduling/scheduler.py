# SPDX-License-Identifier: Apache-2.0
"""The multi-channel scheduler: one process's calls, in order within a channel, parallel across channels
(GhostShell 3.4.3; laws C1 to C12 of the semantics). Pure, event-driven, on an injected clock; it never polls."""

from __future__ import annotations

from collections.abc import Iterable

from function_tokens.parsing.tokens import FunctionToken
from function_tokens.scheduling.calls import Call, CallResult, CallState, EventType
from function_tokens.scheduling.life import PAUSE_TOLD_S, CallLife, SchedulerSettings
from function_tokens.scheduling.streams import Stream
from skill_kernel.codes import CallCode, Outcome

__all__ = ["Scheduler", "SchedulerSettings"]


class Scheduler(CallLife):
    """Schedules the calls of one process. Every method is to be called on one thread.

    Tokens go in through `feed` and `end_stream`; calls go out through the executor, which answers with `started`,
    `held` and `ended`; what happened goes to `on_event`, each change of the steps to `on_steps`. `conditions` knows which
    branch of a step holds.
    """

    # -- what goes in -------------------------------------------------------------------------------------------------

    def call(self, call_id: str) -> Call | None:
        """The live call of that id."""
        return self._live.get(call_id)

    def open_stream(self, stream_id: str, *, epoch: int = 0, strict: bool = False, turn: int = 0) -> None:
        """Begin a stream. In strict mode the first refusal ends it. `turn` tells what its writer knew: after a failure, steps
        of a stream that has no higher turn than the highest by then were planned without knowing, and are dropped."""
        stream = Stream(stream_id, epoch, strict, turn, last_token_s=self.clock.now())
        self._turns.begin(stream)
        self.endings.began(stream)
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
        stopped = self.endings.stop([c for c in self.live_calls if not named or c.channels & named], cause)
        self.settle()
        return stopped

    def pause(self, paused: bool) -> None:
        """While the process is paused no step and no branch begins: what its conditions say must be so when it goes on."""
        if paused != self._paused:
            self._paused = paused
            self.settle()

    # -- the executor's answers ---------------------------------------------------------------------------------------

    def started(self, call_id: str) -> None:
        """The executor has begun a call."""
        call = self._live.get(call_id)
        if call is None or call.state is not CallState.STARTING:
            return
        self.mark_running(call)
        self.settle()

    def held(self, call_id: str, reason: str) -> None:
        """A subsystem is held by another process: the call stays at the head of its queue until `freed` (C10)."""
        call = self._live.get(call_id)
        if call is None or call.state is not CallState.STARTING:
            return
        call.held = reason
        self.put_back(call)
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
        if result.code is CallCode.PROCESS_PAUSED and not self._expecting_pause:
            self._expecting_pause = True
            self.clock.call_later(PAUSE_TOLD_S, self._pause_was_told)
        self.body_ended(call, result)
        self.settle()

    def _pause_was_told(self) -> None:
        self._expecting_pause = False
        self.settle()
