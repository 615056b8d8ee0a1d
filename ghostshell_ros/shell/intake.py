# SPDX-License-Identifier: Apache-2.0
"""The token side of the scheduler: nests elements, gathers text, expands and records routines (semantics 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ghostshell_ros.shell.calls import TEXT, Call, CallResult, CallState, EventType, Role
from ghostshell_ros.shell.mapper import Mapped, Mapper, Refusal, Wrapper
from ghostshell_ros.shell.parse_error import ParseError
from ghostshell_ros.shell.parser import StreamingParser
from ghostshell_ros.shell.routines import RoutineError, RoutineStore, to_source
from ghostshell_ros.shell.streams import PHRASE_BOUNDARY, PHRASE_REACH, Frame, FrameKind, Stream
from ghostshell_ros.shell.tokens import FunctionToken, TokenKind
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.skill import MAIN

if TYPE_CHECKING:
    from ghostshell_ros.shell.scheduler import Scheduler

MAX_RUN_DEPTH = 8

NOT_IN_ROUTINES = frozenset({"save", "observe", "plan_done"})
"""Built-ins that end a turn or record; a routine cannot hold them."""


class Intake:
    """Turns the tokens of each stream into queued calls."""

    def __init__(
        self, scheduler: Scheduler, mapper: Mapper, new_call_id: Callable[[], str], routines: RoutineStore | None
    ) -> None:
        self._scheduler = scheduler
        self._mapper = mapper
        self._new_call_id = new_call_id
        self._routines = routines
        self._seq = 0

    def token(self, stream: Stream, token: FunctionToken) -> None:
        """Take one token."""
        if token.kind in (TokenKind.CHAR, TokenKind.REF):
            self._text(stream, token)
            return
        self.close_utterance(stream)
        if stream.closed:
            self._late(stream, token)
        elif (saving := stream.saving) is not None:
            self._record(stream, saving, token)
        elif token.kind is TokenKind.RF:
            self._reset(stream, token)
        else:
            self._begin(stream, token)

    def close_utterance(self, stream: Stream) -> None:
        """End the current utterance: any other token does (C4)."""
        if stream.utterance is not None:
            call, stream.utterance = stream.utterance, None
            call.content_ready = True
            self._scheduler.closed(call)
        stream.held_space = ""
        stream.late_text = False
        if stream.frames:
            stream.frames[-1].text_seen = False

    def close_open(self, stream: Stream) -> None:
        """The stream ends: its utterance and its open elements count as finished, from the inside out (C12)."""
        self.close_utterance(stream)
        while stream.frames:
            frame = stream.frames.pop()
            if frame.kind is FrameKind.SAVE and frame.call is not None:
                self._not_kept(stream, frame.call)
            elif frame.kind is FrameKind.CALL and frame.call is not None:
                self._scheduler.closed(frame.call)

    # -- text ---------------------------------------------------------------------------------------------------------

    def _text(self, stream: Stream, token: FunctionToken) -> None:
        if stream.closed:
            if token.text.strip() and not stream.late_text:
                stream.late_text = True
                self._record_text(stream, token, *_came_late(stream))
            return
        frame = stream.frames[-1] if stream.frames else None
        if frame is not None and frame.kind is FrameKind.SAVE:
            frame.recorded.append(token)
        elif frame is not None and frame.kind is FrameKind.REFUSED:
            if token.text.strip() and not frame.text_seen:
                frame.text_seen = True
                self._record_text(stream, token, *_parent_refused(frame.name))
        elif frame is not None and frame.call is not None and frame.call.takes_content:
            self._scheduler.content(frame.call, token.text)
        else:
            self._utter(stream, token.text)

    def _utter(self, stream: Stream, text: str) -> None:
        """White space at either end is not spoken; in between it is kept."""
        body = text.rstrip()
        if stream.utterance is None:
            body = body.lstrip()
            if not body:
                return
            call = self._new_call(stream, TEXT, Role.TEXT, {}, frozenset({MAIN}))
            call.skill = self._mapper.registry.text_skill
            call.takes_content, call.content_ready = True, False
            if not self._admit(stream, call):
                return
            stream.utterance, stream.phrase = call, ""
        elif not body:
            stream.held_space += text
            return
        call = stream.utterance
        piece = stream.held_space + body
        self._scheduler.content(call, piece)
        stream.held_space = text[len(text.rstrip()) :]
        if not call.content_ready:
            stream.phrase = stream.phrase[-PHRASE_REACH:] + piece
            call.content_ready = PHRASE_BOUNDARY.search(stream.phrase) is not None

    # -- elements -----------------------------------------------------------------------------------------------------

    def _begin(self, stream: Stream, token: FunctionToken) -> None:
        opens = token.kind is TokenKind.AF
        if stream.inside_refused:
            call = self._new_call(stream, token.name, Role.SKILL, dict(token.attrs), frozenset())
            self._record_only(stream, call, *_parent_refused(stream.frames[-1].name))
            if opens:
                stream.frames.append(Frame(FrameKind.REFUSED, token.name))
            return
        mapped = self._mapper.map(token.name, token.attrs)
        if isinstance(mapped, Wrapper):
            if opens:
                stream.frames.append(Frame(FrameKind.WRAPPER, token.name))
            return
        if isinstance(mapped, Mapped):
            mapped = self._placed(stream, mapped)
        if isinstance(mapped, Refusal):
            self._refuse(stream, token, mapped)
        elif mapped.builtin and mapped.function == "save":
            self._begin_save(stream, token, mapped)
        else:
            self._begin_call(stream, token, mapped)

    def _begin_call(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> None:
        opens = token.kind is TokenKind.AF
        role = Role.BUILTIN if mapped.builtin else Role.SKILL
        call = self._new_call(stream, mapped.function, role, mapped.arguments, mapped.channels)
        call.skill, call.subsystems, call.exclusive = mapped.skill, mapped.subsystems, mapped.exclusive
        call.open, call.closed = opens, not opens
        call.takes_content = mapped.skill.content is not None
        if not self._admit(stream, call):
            return
        for note in mapped.clamped:
            self._scheduler.emit(EventType.NOTICE, stream.stream_id, call, error=note)
        if opens or call.function == "run":
            call.closed = False
            stream.frames.append(Frame(FrameKind.CALL, token.name, call))
        if mapped.builtin and call.function == "run":
            self._expand(stream, call)
            if not opens and not stream.closed:
                stream.frames.pop()
                self._scheduler.closed(call)
        elif mapped.builtin and call.function in ("observe", "plan_done"):
            self._scheduler.emit(EventType.STOP_GENERATION, stream.stream_id, call, error=f"<{call.function}/>")
            self._scheduler.close_stream(stream, call.function, 0, "")

    def _placed(self, stream: Stream, mapped: Mapped) -> Mapped | Refusal:
        """Refuse what cannot stand where it stands: on an ancestor's channel (C7), or inside a routine."""
        name = mapped.function
        if mapped.builtin and stream.run_stack and name in NOT_IN_ROUTINES:
            message = f"<{name}> cannot stand in routine '{stream.run_stack[-1]}'; save the routine anew without it"
            return Refusal(name, CallCode.ROUTINE_INVALID, message, ends_turn=False, channels=mapped.channels)
        if mapped.builtin and name == "run":
            return self._runnable(stream, mapped)
        node = stream.parent
        while node is not None:
            shared = (node.channels & mapped.channels) - {MAIN} - self._mapper.parallel
            if shared:
                message = (
                    f"'{name}' needs channel '{min(shared)}', which <{node.function}> around it holds; "
                    f"close </{node.function}> first"
                )
                ends = mapped.exclusive and mapped.skill.on_failure == "end_turn"
                return Refusal(name, CallCode.CHANNEL_HELD_BY_ANCESTOR, message, ends, mapped.channels)
            node = node.parent
        return mapped

    def _reset(self, stream: Stream, token: FunctionToken) -> None:
        """Close the innermost element; both parsers guarantee that names nest."""
        if not stream.frames:
            return
        frame = stream.frames.pop()
        if frame.kind is FrameKind.CALL and frame.call is not None:
            self._scheduler.closed(frame.call)

    def _refuse(self, stream: Stream, token: FunctionToken, refusal: Refusal) -> None:
        if token.kind is TokenKind.AF:
            stream.frames.append(Frame(FrameKind.REFUSED, token.name))
        call = self._new_call(stream, refusal.function, Role.SKILL, dict(token.attrs), refusal.channels)
        self._record_only(stream, call, Outcome.REFUSED, refusal.code, refusal.message)
        if refusal.ends_turn or stream.strict:
            self._scheduler.end_turn(stream, call, f"'{refusal.function}' was refused: {refusal.message}")

    def _late(self, stream: Stream, token: FunctionToken) -> None:
        if token.kind is not TokenKind.RF:
            call = self._new_call(stream, token.name, Role.SKILL, dict(token.attrs), frozenset())
            self._record_only(stream, call, *_came_late(stream))

    # -- routines -----------------------------------------------------------------------------------------------------

    def _begin_save(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> None:
        call = self._new_call(stream, "save", Role.BUILTIN, mapped.arguments, mapped.channels)
        if self._routines is None:
            self._refuse(stream, token, Refusal("save", CallCode.ROUTINE_INVALID, "this robot keeps no routines", False))
        elif token.kind is TokenKind.SCF:
            message = "there is nothing between <save> and </save>; put the calls of the routine inside"
            self._refuse(stream, token, Refusal("save", CallCode.ROUTINE_INVALID, message, False))
        else:
            call.start_s = self._scheduler.clock.now()
            stream.frames.append(Frame(FrameKind.SAVE, token.name, call))

    def _record(self, stream: Stream, frame: Frame, token: FunctionToken) -> None:
        """Inside `save`: check like any call, keep, perform nothing; commit at the end tag."""
        if token.kind is TokenKind.RF and frame.depth == 0:
            stream.frames.pop()
            if token.end == token.start and frame.call is not None:  # the parser's own repair, not an end tag
                self._not_kept(stream, frame.call)
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

    def _not_kept(self, stream: Stream, call: Call) -> None:
        why = f"there was no </save>, so nothing was kept as routine '{call.arguments['name']}'"
        self._record_only(stream, call, Outcome.DROPPED, CallCode.ROUTINE_INVALID, why)

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
            self._record_only(stream, call, Outcome.REFUSED, CallCode.ROUTINE_INVALID, why)
            if stream.strict:
                self._scheduler.end_turn(stream, call, why)
            return
        self._scheduler.emit(EventType.ROUTINE_SAVED, stream.stream_id, call, reason=name)
        self._record_only(stream, call, Outcome.DONE, CallCode.NONE, "")

    def _runnable(self, stream: Stream, mapped: Mapped) -> Mapped | Refusal:
        name = str(mapped.arguments["name"])
        if self._routines is None or self._routines.get(name) is None:
            return Refusal("run", CallCode.ROUTINE_UNKNOWN, f"there is no routine '{name}'; save it first", False)
        if name in stream.run_stack:
            chain = " → ".join([*stream.run_stack, name])
            return Refusal("run", CallCode.ROUTINE_CYCLE, f"routine '{name}' runs itself ({chain})", False)
        if len(stream.run_stack) >= MAX_RUN_DEPTH:
            message = f"routines nest deeper than {MAX_RUN_DEPTH} at '{name}'"
            return Refusal("run", CallCode.ROUTINE_CYCLE, message, False)
        return mapped

    def _expand(self, stream: Stream, call: Call) -> None:
        """Feed a routine's tokens as children of its `run` call, checked anew."""
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
            self.token(stream, token)
        self.close_utterance(stream)
        stream.run_stack.pop()

    # -- records ------------------------------------------------------------------------------------------------------

    def _new_call(
        self, stream: Stream, function: str, role: Role, arguments: Mapping[str, Any], channels: frozenset[str]
    ) -> Call:
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

    def _admit(self, stream: Stream, call: Call) -> bool:
        limit = self._scheduler.settings.max_unstarted
        if self._scheduler.unstarted < limit:
            self._scheduler.add(stream, call)
            return True
        why = f"more than {limit} calls wait to start; write less at once and <observe/> in between"
        self._record_only(stream, call, Outcome.REFUSED, CallCode.QUEUE_FULL, why)
        self._scheduler.end_turn(stream, call, why)
        return False

    def _record_only(self, stream: Stream, call: Call, outcome: Outcome, code: CallCode, why: str) -> None:
        """Report a call that never enters a queue."""
        call.state, call.end_s = CallState.ENDED, self._scheduler.clock.now()
        call.result = CallResult(outcome, code, why)
        self._scheduler.emit(EventType.ENDED, stream.stream_id, call, int(code), why)

    def _record_text(
        self, stream: Stream, token: FunctionToken, outcome: Outcome, code: CallCode, why: str
    ) -> None:
        """Report text that is not spoken, by its first piece."""
        call = self._new_call(stream, TEXT, Role.TEXT, {}, frozenset({MAIN}))
        call.content.append(token.text.strip())
        self._record_only(stream, call, outcome, code, why)


def _came_late(stream: Stream) -> tuple[Outcome, CallCode, str]:
    why = f"it came after the stream had ended ({stream.error or stream.reason})"
    return Outcome.DROPPED, CallCode.TURN_ENDED, why


def _parent_refused(name: str) -> tuple[Outcome, CallCode, str]:
    return Outcome.REFUSED, CallCode.PARENT_REFUSED, f"the element around it, <{name}>, was refused"
