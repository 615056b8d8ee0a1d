# SPDX-License-Identifier: Apache-2.0
"""Makes the calls of what a stream writes, and records those that never enter a queue (law C10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from function_tokens.parsing.tokens import FunctionToken
from function_tokens.scheduling.calls import TEXT, Call, CallResult, CallState, EventType, Role
from function_tokens.scheduling.streams import Stream
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.skills.skill import MAIN

if TYPE_CHECKING:
    from function_tokens.scheduling.life import CallLife


class Records:
    """Numbers the calls of one process in the order of their tokens."""

    def __init__(self, scheduler: CallLife, new_call_id: Callable[[], str]) -> None:
        self._scheduler = scheduler
        self._new_call_id = new_call_id
        self._seq = 0

    def new(self, stream: Stream, function: str, role: Role, arguments: Mapping[str, Any], channels: frozenset[str]) -> Call:
        """A call inside what is open in its stream."""
        self._seq += 1
        return Call(
            call_id=self._new_call_id(),
            seq=self._seq,
            stream_id=stream.stream_id,
            epoch=stream.epoch,
            function=function,
            role=role,
            arguments=dict(arguments),
            channels=channels,
            subsystems=(),
            parent=stream.parent,
        )

    def admit(self, stream: Stream, call: Call) -> bool:
        """Queue a call, unless too many wait already."""
        limit = self._scheduler.settings.max_unstarted
        if self._scheduler.unstarted < limit:
            self._scheduler.add(stream, call)
            return True
        why = f"more than {limit} calls wait to start; write less at once and <observe/> in between"
        self.only(stream, call, Outcome.REFUSED, CallCode.QUEUE_FULL, why)
        self._scheduler.endings.end_turn(stream, call, why)
        return False

    def only(self, stream: Stream, call: Call, outcome: Outcome, code: CallCode, why: str, message: str = "") -> None:
        """Report a call that never enters a queue."""
        call.state, call.end_s = CallState.ENDED, self._scheduler.clock.now()
        call.result = CallResult(outcome, code, why, message)
        self._scheduler.emit(EventType.ENDED, stream.stream_id, call, int(code), why)

    def text(self, stream: Stream, token: FunctionToken, outcome: Outcome, code: CallCode, why: str) -> None:
        """Report text that is not spoken, by its first piece."""
        call = self.new(stream, TEXT, Role.TEXT, {}, frozenset({MAIN}))
        call.content.append(token.text.strip())
        self.only(stream, call, outcome, code, why)


def came_late(stream: Stream) -> tuple[Outcome, CallCode, str]:
    """What becomes of a token behind the end of its stream."""
    why = f"it came after the stream had ended ({stream.error or stream.reason})"
    return Outcome.DROPPED, CallCode.TURN_ENDED, why


def never_runs(stream: Stream) -> tuple[Outcome, CallCode, str] | None:
    """What becomes of all that stands inside an element that was refused or has ended already; None elsewhere."""
    if stream.inside_refused:
        why = f"the element around it, <{stream.frames[-1].name}>, was refused"
        return Outcome.REFUSED, CallCode.PARENT_REFUSED, why
    parent = stream.parent
    if parent is None or parent.takes_more:
        return None
    result = parent.result or parent.body_result
    ended = f"ended as {result.outcome.value}" if result is not None else "has ended"
    return Outcome.DROPPED, CallCode.PARENT_NOT_STARTED, f"the element around it, '{parent.function}', {ended}"
