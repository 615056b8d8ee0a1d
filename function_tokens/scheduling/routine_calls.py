# SPDX-License-Identifier: Apache-2.0
"""Routines in a stream: `save` records what it encloses, `run` performs what was recorded (semantics, section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from function_tokens.builtins import NOT_IN_ROUTINES
from function_tokens.mapper import Mapped, Mapper, Refusal
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, TokenKind
from function_tokens.routines import RoutineError, RoutineStore, to_source
from function_tokens.scheduling.calls import Call, CallResult, EventType, Role
from function_tokens.scheduling.records import Records
from function_tokens.scheduling.streams import Frame, FrameKind, Stream
from skill_kernel.codes import CallCode, Outcome

if TYPE_CHECKING:
    from function_tokens.scheduling.life import CallLife


class RoutineCalls:
    """Keeps and expands the routines of a robot; without a store nothing can be kept."""

    def __init__(self, scheduler: CallLife, mapper: Mapper, records: Records, routines: RoutineStore | None) -> None:
        self._scheduler = scheduler
        self._mapper = mapper
        self._records = records
        self._routines = routines

    def begin(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> Refusal | None:
        """At `<save>`: record from here on. Why that cannot be, or None."""
        if self._routines is None:
            return Refusal("save", CallCode.ROUTINE_INVALID, "this robot keeps no routines", False)
        if token.kind is TokenKind.SCF:
            message = "there is nothing between <save> and </save>; put the calls of the routine inside"
            return Refusal("save", CallCode.ROUTINE_INVALID, message, False)
        call = self._records.new(stream, "save", Role.BUILTIN, mapped.arguments, mapped.channels)
        call.start_s = self._scheduler.clock.now()
        stream.frames.append(Frame(FrameKind.SAVE, token.name, call))
        return None

    def record(self, stream: Stream, frame: Frame, token: FunctionToken) -> None:
        """Inside `save`: check like any call, keep, perform nothing; commit at the end tag."""
        if token.kind is TokenKind.RF and frame.depth == 0:
            stream.frames.pop()
            if token.end == token.start and frame.call is not None:  # the parser's own repair, not an end tag
                self.not_kept(stream, frame.call)
            else:
                self._commit(stream, frame)
            return
        frame.recorded.append(token)
        if token.kind is TokenKind.RF:
            frame.depth -= 1
            return
        if token.kind is TokenKind.AF:
            frame.depth += 1
        mapped = self._mapper.map(token.name, token.attrs)
        if isinstance(mapped, Refusal):
            frame.faults.append(mapped.message)
        elif isinstance(mapped, Mapped) and mapped.builtin and mapped.function in NOT_IN_ROUTINES:
            frame.faults.append(f"<{token.name}> cannot stand in a routine")

    def not_kept(self, stream: Stream, call: Call) -> None:
        """The end tag of a `save` never came."""
        why = f"there was no </save>, so nothing was kept as routine '{call.arguments['name']}'"
        self._records.only(stream, call, Outcome.DROPPED, CallCode.ROUTINE_INVALID, why)

    def expanded(self, stream: Stream, call: Call) -> Iterator[FunctionToken]:
        """The tokens of the routine that a `run` names, to be taken as its children and checked anew."""
        name = str(call.arguments["name"])
        routine = self._routines.get(name) if self._routines is not None else None
        parser = StreamingParser("strict")
        try:
            tokens = [*parser.feed(routine.source if routine is not None else ""), *parser.close()]
        except ParseError as error:
            self._scheduler.end(call, CallResult(Outcome.REFUSED, CallCode.ROUTINE_INVALID, f"routine '{name}': {error}"))
            return
        stream.run_stack.append(name)
        for token in tokens:
            if stream.closed:
                break
            yield token
        self._scheduler.close_utterance(stream)
        stream.run_stack.pop()

    def _commit(self, stream: Stream, frame: Frame) -> None:
        call = frame.call
        if call is None or self._routines is None:
            return
        name, description = str(call.arguments["name"]), str(call.arguments["description"])
        faults = list(frame.faults)
        if not faults:
            try:
                self._routines.save(name, description, to_source(frame.recorded))
            except RoutineError as error:
                faults.append(str(error))
        if faults:
            why = f"routine '{name}' was not kept: {'; '.join(faults[:3])}"
            self._records.only(stream, call, Outcome.REFUSED, CallCode.ROUTINE_INVALID, why)
            if stream.strict:
                self._scheduler.endings.end_turn(stream, call, why)
            return
        self._scheduler.emit(EventType.ROUTINE_SAVED, stream.stream_id, call, reason=name)
        self._records.only(stream, call, Outcome.DONE, CallCode.NONE, "")
