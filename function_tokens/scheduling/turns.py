# SPDX-License-Identifier: Apache-2.0
"""The streams of a process and when their turns are over: after their calls, an observation, a failure or too long a
silence (laws C11, C12; the ReAct loop of GhostShell 3.4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from function_tokens.scheduling.calls import Call, EventType
from function_tokens.scheduling.streams import Stream
from skill_kernel.codes import ParseCode

if TYPE_CHECKING:
    from function_tokens.scheduling.life import CallLife

_PAST_STREAMS = 32
"""Ended streams that are remembered, so that their late tokens are recorded."""


class Turns:
    """Streams with calls or tokens to come (`open`), the last ended ones (`past`), and what is reported of them."""

    def __init__(self, scheduler: CallLife, live: Mapping[str, Call]) -> None:
        self._scheduler = scheduler
        self._live = live
        self._drained = True
        self.open: dict[str, Stream] = {}
        self.past: dict[str, Stream] = {}

    def begin(self, stream: Stream) -> None:
        """A new stream."""
        self.open[stream.stream_id] = stream
        self._drained = False

    def report(self) -> None:
        """Report each turn that is over, once, and when the whole process has nothing left to do."""
        emit = self._scheduler.emit
        for stream in list(self.open.values()):
            if stream.closed and not stream.turn_over and self._is_over(stream):
                stream.turn_over = True
                emit(EventType.TURN_ENDED, stream.stream_id, code=stream.code, error=stream.error, reason=stream.reason)
            if stream.turn_over and not stream.live:
                self.past[stream.stream_id] = self.open.pop(stream.stream_id)
                if len(self.past) > _PAST_STREAMS:
                    del self.past[next(iter(self.past))]
        if not self.open and not self._live and not self._drained:
            self._drained = True
            emit(EventType.DRAINED, "")

    def set_deadline(self, stream: Stream) -> None:
        """The next turn begins after `observe_timeout_s` at the latest, even while motion still runs."""

        def passed() -> None:
            stream.deadline_passed = True
            self._scheduler.settle()

        self._scheduler.clock.call_later(self._scheduler.settings.observe_timeout_s, passed)

    def watch_silence(self, stream: Stream) -> None:
        """Look after `silence_s` whether a stream with something open has gone silent."""
        if stream.watched or stream.closed or not (stream.frames or stream.utterance):
            return
        stream.watched = True
        clock = self._scheduler.clock
        due = stream.last_token_s + self._scheduler.settings.silence_s - clock.now()
        clock.call_later(due, lambda: self._check_silence(stream))

    def _is_over(self, stream: Stream) -> bool:
        if not stream.live:
            return True
        if stream.reason == "observe":
            return not any(c.stream_id == stream.stream_id and c.function == "observe" for c in self._live.values())
        if stream.reason != "failure":
            return False
        return stream.deadline_passed or not any(c.exclusive for c in self._live.values())

    def _check_silence(self, stream: Stream) -> None:
        stream.watched = False
        if stream.closed:
            return
        scheduler = self._scheduler
        silence_s = scheduler.settings.silence_s
        if scheduler.clock.now() - stream.last_token_s < silence_s - 1e-6:
            self.watch_silence(stream)
        elif stream.frames:
            why = f"no token for {silence_s} s with <{stream.frames[-1].name}> open"
            scheduler.emit(EventType.STOP_GENERATION, stream.stream_id, error=why)
            scheduler.close_stream(stream, "end", int(ParseCode.SILENCE), why)
        else:
            scheduler.close_utterance(stream)
        scheduler.settle()
