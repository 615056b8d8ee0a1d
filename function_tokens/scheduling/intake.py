# SPDX-License-Identifier: Apache-2.0
"""The token side of the scheduler: nests elements, gathers text, makes calls of what was written (semantics 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from function_tokens.builtins import FURTHER, STEP_ALIASES, STEP_NAMES
from function_tokens.mapper import Mapped, Mapper, Refusal, Wrapper
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineStore
from function_tokens.scheduling.calls import TEXT, Call, EventType, Role
from function_tokens.scheduling.placement import Placement
from function_tokens.scheduling.records import Records, came_late, never_runs
from function_tokens.scheduling.routine_calls import RoutineCalls
from function_tokens.scheduling.streams import PHRASE_BOUNDARY, PHRASE_REACH, Frame, FrameKind, Stream
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.skills.skill import MAIN

if TYPE_CHECKING:
    from function_tokens.scheduling.life import CallLife

BRANCHING = frozenset({"if", *STEP_ALIASES})

PLANNED = frozenset({"step", "subtask_complete"})
"""What only a plan in steps holds: dropped where the plan was made without knowing of a failure."""


class Intake:
    """Turns the tokens of each stream into queued calls."""

    def __init__(
        self, scheduler: CallLife, mapper: Mapper, new_call_id: Callable[[], str], routines: RoutineStore | None
    ) -> None:
        self._scheduler = scheduler
        self._mapper = mapper
        self._records = Records(scheduler, new_call_id)
        self._routines = RoutineCalls(scheduler, mapper, self._records, routines)
        self._placement = Placement(mapper.parallel, routines, scheduler.branches)

    def token(self, stream: Stream, token: FunctionToken) -> None:
        """Take one token."""
        if stream.step is not None and not stream.run_stack:
            self._scheduler.steps.wrote(stream.step, token)
        if token.kind in (TokenKind.CHAR, TokenKind.REF):
            self._text(stream, token)
            return
        self.close_utterance(stream)
        if stream.closed:
            if token.kind is not TokenKind.RF:
                self._late(stream, token)
        elif (saving := stream.saving) is not None:
            self._routines.record(stream, saving, token)
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

    def close_open(self, stream: Stream) -> list[Call]:
        """The stream ends: its utterance and its open elements count as finished, from the inside out (C12). The steps
        whose end tag was not read."""
        self.close_utterance(stream)
        unfinished = stream.unfinished
        while stream.frames:
            frame = stream.frames.pop()
            if frame.kind is FrameKind.SAVE and frame.call is not None:
                self._routines.not_kept(stream, frame.call)
            elif frame.kind is FrameKind.CALL and frame.call is not None:
                if frame.call.function == "step":
                    unfinished.append(frame.call)
                self._close(stream, frame.call)
        return unfinished

    # -- text ---------------------------------------------------------------------------------------------------------

    def _text(self, stream: Stream, token: FunctionToken) -> None:
        if stream.closed:
            if token.text.strip() and not stream.late_text:
                stream.late_text = True
                self._records.text(stream, token, *came_late(stream))
            return
        frame = stream.frames[-1] if stream.frames else None
        if frame is not None and frame.kind is FrameKind.SAVE:
            frame.recorded.append(token)
        elif frame is not None and frame.call is not None and frame.call.takes_content:
            self._scheduler.content(frame.call, token.text)
        elif frame is not None and stream.utterance is None and (never := never_runs(stream)) is not None:
            if token.text.strip() and not frame.text_seen:
                frame.text_seen = True
                self._records.text(stream, token, *never)
        else:
            self._utter(stream, token.text)

    def _utter(self, stream: Stream, text: str) -> None:
        """White space at either end is not spoken; in between it is kept."""
        body = text.rstrip()
        if stream.utterance is None:
            body = body.lstrip()
            if not body:
                return
            call = self._records.new(stream, TEXT, Role.TEXT, {}, frozenset({MAIN}))
            call.skill = self._mapper.registry.text_skill
            call.takes_content, call.content_ready = True, False
            if not self._records.admit(stream, call):
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
        never = never_runs(stream)
        if never is not None and not _belongs_outside(stream.frames[-1], token):
            self._leave_out(stream, token, *never)
            return
        mapped = self._mapper.map(token.name, token.attrs)
        if isinstance(mapped, Wrapper):
            if opens:
                stream.frames.append(Frame(FrameKind.WRAPPER, token.name))
            return
        refusal = mapped if isinstance(mapped, Refusal) else self._placement.refusal(stream, mapped, token.name)
        if refusal is None and isinstance(mapped, Mapped):
            refusal = self._take(stream, token, mapped)
        if refusal is not None:
            self._refuse(stream, token, refusal)

    def _leave_out(self, stream: Stream, token: FunctionToken, outcome: Outcome, code: CallCode, why: str) -> None:
        call = self._records.new(stream, token.name, Role.SKILL, dict(token.attrs), frozenset())
        self._records.only(stream, call, outcome, code, why)
        frame = stream.frames[-1]
        frame.branched = frame.branched or token.name in BRANCHING
        if token.kind is TokenKind.AF:
            kind = FrameKind.REFUSED if stream.inside_refused else FrameKind.LEFT_OUT
            stream.frames.append(Frame(kind, token.name))

    def _take(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> Refusal | None:
        name = mapped.function
        if mapped.builtin and name == "save":
            return self._routines.begin(stream, token, mapped)
        if mapped.builtin and name == "replace_steps":
            self._replace_steps(stream, token, mapped)
        elif mapped.builtin and name in PLANNED and self._scheduler.endings.outdated(stream):
            why = "it was planned before a failure was known, or steps that replace it were"
            self._scheduler.emit(EventType.STOP_GENERATION, stream.stream_id, error=why)
            self._scheduler.close_stream(stream, "end", 0, why)
            self._late(stream, token)
        else:
            self._begin_call(stream, token, mapped)
        return None

    def _begin_call(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> None:
        opens = token.kind is TokenKind.AF
        role = Role.BUILTIN if mapped.builtin else Role.SKILL
        call = self._records.new(stream, mapped.function, role, mapped.arguments, mapped.channels)
        call.skill, call.subsystems, call.exclusive = mapped.skill, mapped.subsystems, mapped.exclusive
        call.open, call.closed = opens, not opens
        call.takes_content = mapped.skill.content is not None
        if not self._records.admit(stream, call):
            return
        for note in mapped.clamped:
            self._scheduler.emit(EventType.NOTICE, stream.stream_id, call, error=note)
        if mapped.builtin and call.function in STEP_NAMES:
            self._note_step(stream, token, call)
        if opens or call.function == "run":
            call.closed = False
            stream.frames.append(Frame(FrameKind.CALL, token.name, call))
        if mapped.builtin and call.function == "run":
            for inner in self._routines.expanded(stream, call):
                self.token(stream, inner)
            if not opens and not stream.closed:
                stream.frames.pop()
                self._scheduler.closed(call)
        elif mapped.builtin and call.function in ("observe", "plan_done"):
            self._scheduler.emit(EventType.STOP_GENERATION, stream.stream_id, call, error=f"<{call.function}/>")
            self._scheduler.close_stream(stream, call.function, 0, "")

    def _note_step(self, stream: Stream, token: FunctionToken, call: Call) -> None:
        if call.function in PLANNED:
            stream.plans = True
        if call.function == "if" and (inner := stream.inner) is not None and call.parent is not None:
            inner.branched = True
            self._scheduler.branches.read(call.parent)
        if call.function == "step" and stream.step is None and not stream.run_stack:
            self._scheduler.steps.opened(call, token)
            if token.kind is TokenKind.AF:
                stream.step = call

    def _replace_steps(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> None:
        """Acts when it is read; steps between its tags, if it has two, are the new ones."""
        call = self._records.new(stream, mapped.function, Role.BUILTIN, mapped.arguments, mapped.channels)
        call.start_s = self._scheduler.clock.now()
        if token.kind is TokenKind.AF:
            stream.frames.append(Frame(FrameKind.WRAPPER, token.name))
        stream.plans = True
        dropped = self._scheduler.endings.replace_steps(stream)
        self._records.only(stream, call, Outcome.DONE, CallCode.NONE, "", f"dropped: {dropped}")

    def _reset(self, stream: Stream, token: FunctionToken) -> None:
        """Close the innermost element; both parsers guarantee that names nest."""
        if not stream.frames:
            return
        frame = stream.frames.pop()
        written = token.end > token.start  # the parser's own repair takes no room
        if written:
            stream.unfinished.clear()
        if frame.kind is FrameKind.REFUSED and frame.faults:
            self._scheduler.endings.end_turn(stream, frame.call, frame.faults[0])
        elif frame.kind is FrameKind.CALL and frame.call is not None:
            if frame.call.function == "step" and not written:
                stream.unfinished.append(frame.call)
            self._close(stream, frame.call)
            if stream.superseded and stream.parent is None:
                self._scheduler.close_stream(stream, "end", 0, stream.superseded)

    def _close(self, stream: Stream, call: Call) -> None:
        if call is stream.step:
            stream.step = None
            self._scheduler.steps.read(call)
        self._scheduler.closed(call)

    def _refuse(self, stream: Stream, token: FunctionToken, refusal: Refusal) -> None:
        call = self._records.new(stream, refusal.function, Role.SKILL, dict(token.attrs), refusal.channels)
        self._records.only(stream, call, Outcome.REFUSED, refusal.code, refusal.message)
        self._scheduler.branches.broke(call.parent if refusal.function in STEP_NAMES else None, refusal.message)
        why = f"'{refusal.function}' was refused: {refusal.message}" if refusal.ends_turn or stream.strict else ""
        frame = Frame(FrameKind.REFUSED, token.name, call)
        if token.kind is TokenKind.AF:
            stream.frames.append(frame)
            if why and refusal.function in STEP_NAMES and not stream.strict:
                frame.faults.append(why)  # what it encloses is refused with it, then the turn ends
                return
        if why:
            self._scheduler.endings.end_turn(stream, call, why)

    def _late(self, stream: Stream, token: FunctionToken) -> None:
        call = self._records.new(stream, token.name, Role.SKILL, dict(token.attrs), frozenset())
        self._records.only(stream, call, *came_late(stream))


def _belongs_outside(frame: Frame, token: FunctionToken) -> bool:
    """Whether another branch stands in the very `if` whose other case it is meant for: refused also where that failed."""
    inside_if = frame.kind is FrameKind.CALL and frame.name in BRANCHING
    return token.name in FURTHER and inside_if and not frame.branched
