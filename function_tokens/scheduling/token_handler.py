# SPDX-License-Identifier: Apache-2.0
"""Turn tokens into calls: nest elements, gather text, record routines (semantics 2 and 3)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from function_tokens.builtins import BRANCHES, FURTHER, NOT_IN_ROUTINES, NOT_UNDER_CONDITION, STEP_ALIASES, STEP_NAMES
from function_tokens.mapper import Mapped, Mapper, Refusal
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, ParseError, TokenKind
from function_tokens.routines import RoutineError, RoutineStore, to_source
from function_tokens.scheduling.call_table import CallTable
from function_tokens.scheduling.calls import (
    PHRASE_BOUNDARY,
    PHRASE_REACH,
    TEXT,
    Call,
    CallState,
    ConditionSource,
    Frame,
    FrameKind,
    Role,
    Stream,
    constant,
)
from skill_kernel.calls import DONE, CallResult
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.config.sections import shown
from skill_kernel.events import Notice, NoticeKind
from skill_kernel.skills.skill import MAIN

MAX_RUN_DEPTH = 8
MAX_EXPANDED = 5000
"""Function tokens that the routines of one stream may be in all; 20 characters of one count as a token at least."""
NO_STORE = "this robot has no routine store"
BRANCH_TAGS = BRANCHES | FURTHER
BRANCHING = frozenset({"if", *STEP_ALIASES})

PLANNED = frozenset({"step", "subtask_complete"})
"""Built-ins of stepwise plans. Dropped if the plan predates a known failure."""


@dataclass(eq=False)
class TokenHandler:
    """Turn tokens of each stream into queued calls of a table. Refuse further calls while `max_unstarted` calls wait."""

    table: CallTable
    mapper: Mapper
    conditions: ConditionSource
    new_call_id: Callable[[], str]
    routines: RoutineStore | None
    max_unstarted: int
    _made: int = 0

    def take(self, stream: Stream, token: FunctionToken) -> None:
        if stream.step is not None and not stream.run_stack:
            self.table.steps.wrote(stream.step, token)
        if token.kind in (TokenKind.CHAR, TokenKind.REF):
            self._text(stream, token)
            return
        self.table.close_utterance(stream)
        if stream.closed:
            if token.kind is not TokenKind.RF:
                self._record_unperformed(stream, token, _late_result(stream))
        elif (top := stream.top) is not None and top.kind is FrameKind.SAVE:
            self._record_routine(stream, top, token)
        elif token.kind is TokenKind.RF:
            self._reset(stream, token)
        else:
            self._begin(stream, token)

    # -- text ---------------------------------------------------------------------------------------------------------

    def _text(self, stream: Stream, token: FunctionToken) -> None:
        frame = stream.top
        if frame is not None and frame.kind is FrameKind.SAVE:
            frame.recorded.append(token)
            return
        if frame is not None and frame.call is not None and frame.call.takes_content:
            self.table.content(frame.call, token.text)
            return
        outcome_without_run = _result_if_unreachable(stream) if stream.utterance is None else None
        if outcome_without_run is None:
            self._utter(stream, token.text)
        elif token.text.strip() and not stream.unspoken:
            stream.unspoken = True  # report only the first piece of unspoken text
            call = self._make(stream, TEXT, Role.TEXT, {}, frozenset({MAIN}))
            call.content.append(token.text.strip())
            self.table.record(call, outcome_without_run)

    def _utter(self, stream: Stream, text: str) -> None:
        """Speak text. White space at either end is left out; in between it is kept."""
        body = text.rstrip()
        if stream.utterance is None:
            body = body.lstrip()
            if not body:
                return
            call = self._make(stream, TEXT, Role.TEXT, {}, frozenset({MAIN}))
            call.skill = self.mapper.registry.text_skill
            call.takes_content, call.content_ready = True, False
            if not self._admit(stream, call):
                return
            stream.utterance, stream.phrase = call, ""
        elif not body:
            stream.held_space += text
            return
        call = stream.utterance
        piece = stream.held_space + body
        self.table.content(call, piece)
        stream.held_space = text[len(text.rstrip()) :]
        if not call.content_ready:
            stream.phrase = stream.phrase[-PHRASE_REACH:] + piece
            call.content_ready = PHRASE_BOUNDARY.search(stream.phrase) is not None

    def _make(self, stream: Stream, function: str, role: Role, arguments: Mapping[str, Any], channels: frozenset[str]) -> Call:
        """Return a new call, numbered in token order, with the innermost open call as parent."""
        self._made += 1
        known = (self.new_call_id(), self._made, stream.stream_id, stream.epoch, function, role)
        return Call(*known, dict(arguments), channels, subsystems=(), parent=stream.parent)

    # -- elements -----------------------------------------------------------------------------------------------------

    def _begin(self, stream: Stream, token: FunctionToken) -> None:
        outcome_without_run = _result_if_unreachable(stream)
        if outcome_without_run is not None and not _belongs_outside(stream.frames[-1], token):
            self._record_unperformed(stream, token, outcome_without_run)
            frame = stream.frames[-1]
            frame.branched = frame.branched or token.name in BRANCHING
            if token.kind is TokenKind.AF:
                kind = FrameKind.REFUSED if frame.kind is FrameKind.REFUSED else FrameKind.WRAPPER
                stream.frames.append(Frame(kind, token.name))
            return
        mapped = self.mapper.map(token.name, token.attrs, strict=stream.strict)
        if mapped is None:
            if token.kind is TokenKind.AF:
                stream.frames.append(Frame(FrameKind.WRAPPER, token.name))
            return
        refusal = mapped if isinstance(mapped, Refusal) else self._misplaced(stream, mapped, token.name)
        if refusal is None and isinstance(mapped, Mapped):
            refusal = self._perform(stream, token, mapped)
        if refusal is not None:
            self._refuse(stream, token, refusal)

    def _perform(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> Refusal | None:
        name = mapped.function
        if mapped.builtin and name == "save":
            return self._begin_routine(stream, token, mapped)
        if mapped.builtin and name == "run":
            return self._run_routine(stream, token, mapped)
        if mapped.builtin and name == "replace_steps":
            self._replace_steps(stream, token, mapped)
        elif mapped.builtin and name in PLANNED and self.table.outdated(stream):
            why = "it was planned before a failure was known or before <replace_steps/>"
            self.table.cut_off(stream, "end", why)
            self._record_unperformed(stream, token, _late_result(stream))
        else:
            self._begin_call(stream, token, mapped)
        return None

    def _begin_call(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> Call | None:
        opens = token.kind is TokenKind.AF
        role = Role.BUILTIN if mapped.builtin else Role.SKILL
        call = self._make(stream, mapped.function, role, mapped.arguments, mapped.channels)
        call.skill, call.subsystems, call.exclusive = mapped.skill, mapped.subsystems, mapped.exclusive
        call.open, call.closed = opens, not opens
        call.takes_content = mapped.skill.content is not None
        if not self._admit(stream, call):
            return None
        for note in mapped.clamped:
            self._notice(call, error_msg=note)
        if mapped.builtin and call.function in STEP_NAMES:
            self._note_step(stream, token, call)
        if opens or call.function == "run":
            call.closed = False
            stream.frames.append(Frame(FrameKind.CALL, token.name, call))
        if mapped.builtin and call.function in ("observe", "plan_done"):
            self.table.stop_generation(stream, f"<{call.function}/>")
            self.table.close_stream(stream, call.function)
        elif not opens:
            self._decided(stream, call)
        return call

    def _decided(self, stream: Stream, call: Call) -> None:
        """End the stream behind a call whose result decides what comes next, or behind the outermost element around it. Behind
        a step that holds one, whoever writes steps waits for it."""
        if call.decides:
            stream.deciding = call.function
        elif call.function == "step":
            stream.deciding = ""
        if stream.deciding and stream.parent is None and not stream.closed:
            self.table.stop_generation(stream, f"what comes next depends on <{stream.deciding}>")
            self.table.close_stream(stream, "observe")

    def _admit(self, stream: Stream, call: Call) -> bool:
        """Queue a call, unless too many wait already."""
        live = self.table.live
        if len(live) < self.max_unstarted or sum(c.state is CallState.QUEUED for c in live.values()) < self.max_unstarted:
            self.table.add(stream, call)
            return True
        why = f"{self.max_unstarted} calls already wait; write less at once and <observe/> in between"
        self.table.record(call, CallResult(Outcome.REFUSED, CallCode.QUEUE_FULL, why))
        self.table.end_turn(call, why)
        return False

    def _note_step(self, stream: Stream, token: FunctionToken, call: Call) -> None:
        if call.function in PLANNED:
            stream.plans = True
        if call.function == "if" and (inner := stream.inner) is not None and call.parent is not None:
            inner.branched = True
            call.parent.has_branches = True
        if call.function == "step" and stream.step is None and not stream.run_stack:
            self.table.steps.opened(call, token)
            if token.kind is TokenKind.AF:
                stream.step = call

    def _replace_steps(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> None:
        """Act on `replace_steps` as it is read; steps between its tags, if it has two, are the new ones."""
        call = self._make(stream, mapped.function, Role.BUILTIN, mapped.arguments, mapped.channels)
        call.start_s = self.table.clock.now()
        if token.kind is TokenKind.AF:
            stream.frames.append(Frame(FrameKind.WRAPPER, token.name))
        stream.plans = True
        dropped = self.table.replace_steps(stream)
        self.table.record(call, CallResult(Outcome.DONE, message=f"dropped: {dropped}"))

    def _reset(self, stream: Stream, token: FunctionToken) -> None:
        """Close the innermost element; both parsers guarantee that names nest."""
        if not stream.frames:
            return
        frame = stream.frames.pop()
        if not token.inserted:
            stream.unfinished.clear()
        if frame.kind is FrameKind.REFUSED and frame.faults and frame.call is not None:
            self.table.end_turn(frame.call, frame.faults[0])
        elif frame.kind is FrameKind.CALL and frame.call is not None:
            if frame.call.function == "step" and token.inserted:
                stream.unfinished.append(frame.call)
            self.table.close_element(stream, frame.call)
            self._decided(stream, frame.call)
            if stream.superseded and stream.parent is None and not stream.closed:
                self.table.close_stream(stream, "end", error=stream.superseded)

    def _refuse(self, stream: Stream, token: FunctionToken, refusal: Refusal) -> None:
        call = self._make(stream, refusal.function, Role.SKILL, token.attrs, refusal.channels)
        self.table.record(call, CallResult(Outcome.REFUSED, refusal.code, refusal.message))
        if refusal.function in STEP_NAMES and call.parent is not None:
            call.parent.break_branches(refusal.message)
        why = f"'{refusal.function}' was refused: {refusal.message}" if refusal.ends_turn or stream.strict else ""
        if token.kind is TokenKind.AF:
            frame = Frame(FrameKind.REFUSED, token.name, call)
            stream.frames.append(frame)
            late = refusal.function in STEP_NAMES or refusal.code is CallCode.UNKNOWN_FUNCTION
            if why and late and not stream.strict:
                frame.faults.append(why)  # end the turn at its end tag, after its content has been refused
                return
        if why:
            self.table.end_turn(call, why)

    def _record_unperformed(self, stream: Stream, token: FunctionToken, result: CallResult) -> None:
        self.table.record(self._make(stream, token.name, Role.SKILL, token.attrs, frozenset()), result)

    # -- placement checks: channels of ancestors (C7), routines, steps ------------------------------------------------

    def _misplaced(self, stream: Stream, mapped: Mapped, written: str) -> Refusal | None:
        """Return why this call, whose tag is `written`, cannot stand here; None when it can."""
        name = mapped.function
        if not mapped.builtin:
            return self._held_by_ancestor(stream, mapped)
        if stream.run_stack and name in NOT_IN_ROUTINES:
            message = f"<{name}> cannot stand in routine '{stream.run_stack[-1]}'; save the routine again without it"
            return Refusal(name, CallCode.ROUTINE_INVALID, message, ends_turn=False, channels=mapped.channels)
        if name in NOT_UNDER_CONDITION and any(c.function in BRANCHES for c in stream.around):
            message = f"<{name}> cannot stand under a condition; write it outside of <if> and <else>"
            return Refusal(name, CallCode.RESERVED_NAME, message, ends_turn=True)
        if name == "replace_steps" and stream.parent is not None:
            message = f"<replace_steps/> cannot stand inside <{stream.parent.function}>; write it before the steps that replace"
            return Refusal(name, CallCode.RESERVED_NAME, message, ends_turn=True)
        return self._no_branch(stream, mapped, written) if name in BRANCHES else None

    def _held_by_ancestor(self, stream: Stream, mapped: Mapped) -> Refusal | None:
        for node in stream.around:
            shared = (node.channels & mapped.channels) - {MAIN} - self.mapper.parallel
            if shared:
                message = (
                    f"'{mapped.function}' needs channel '{min(shared)}', which <{node.function}> around it holds; "
                    f"close </{node.function}> first"
                )
                ends = mapped.exclusive and mapped.skill.on_failure == "end_turn"
                return Refusal(mapped.function, CallCode.CHANNEL_HELD_BY_ANCESTOR, message, ends, mapped.channels)
        return None

    def _no_branch(self, stream: Stream, mapped: Mapped, written: str) -> Refusal | None:
        name = mapped.function
        if not any(c.function == "step" for c in stream.around):
            message = f'<{written}> has a meaning only inside a step; write <step><if cond="…">…</if><else>…</else></step>'
        elif (
            written in FURTHER
            and (inner := stream.inner) is not None
            and not inner.branched
            and (name == "else" or inner.name in BRANCH_TAGS)
        ):
            hint = 'write <if cond="…">…</if> before it'
            hint = f"close it with </{inner.name}> first" if inner.name in BRANCH_TAGS else hint
            message = f"<{written}> has no <if> before it inside <{inner.name}>; {hint}"
        elif name == "if" and constant(condition := str(mapped.arguments["cond"])) is None:
            fault = self.conditions.fault(condition)
            return Refusal(name, CallCode.INVALID_ARGUMENT, f"cond: {fault}", ends_turn=True) if fault else None
        else:
            return None
        return Refusal(name, CallCode.RESERVED_NAME, message, ends_turn=True)

    # -- routines -----------------------------------------------------------------------------------------------------

    def _begin_routine(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> Refusal | None:
        """Record from `<save>` on, or return a refusal."""
        if self.routines is None:
            return Refusal("save", CallCode.ROUTINE_INVALID, NO_STORE, False)
        if token.kind is TokenKind.SCF:
            message = "there is nothing between <save> and </save>; put the calls of the routine inside"
            return Refusal("save", CallCode.ROUTINE_INVALID, message, False)
        call = self._make(stream, "save", Role.BUILTIN, mapped.arguments, mapped.channels)
        call.start_s = self.table.clock.now()
        stream.frames.append(Frame(FrameKind.SAVE, token.name, call))
        return None

    def _record_routine(self, stream: Stream, frame: Frame, token: FunctionToken) -> None:
        """Check the name and arguments of a token inside `save`, and keep it. The routine is saved at the end tag."""
        if token.kind is TokenKind.RF and frame.depth == 0:
            stream.frames.pop()
            if frame.call is not None and token.inserted:
                self.table.record_lost_routine(frame.call)
            elif frame.call is not None:
                self._save_routine(stream, frame, frame.call)
            return
        frame.recorded.append(token)
        if token.kind is TokenKind.RF:
            frame.depth -= 1
            return
        if token.kind is TokenKind.AF:
            frame.depth += 1
        mapped = self.mapper.map(token.name, token.attrs, strict=stream.strict)
        if isinstance(mapped, Refusal):
            frame.faults.append(mapped.message)
        elif isinstance(mapped, Mapped) and mapped.builtin and mapped.function in NOT_IN_ROUTINES:
            frame.faults.append(f"<{token.name}> cannot stand in a routine")

    def _save_routine(self, stream: Stream, frame: Frame, call: Call) -> None:
        name, description = str(call.arguments["name"]), str(call.arguments["description"])
        faults = list(frame.faults)
        if not faults and self.routines is not None:
            try:
                self.routines.save(name, description, to_source(frame.recorded))
            except RoutineError as error:
                faults.append(str(error))
        if faults:
            why = f"routine '{shown(name)}' was not kept: {'; '.join(faults[:3])}"
            self.table.record(call, CallResult(Outcome.REFUSED, CallCode.ROUTINE_INVALID, why))
            if stream.strict:
                self.table.end_turn(call, why)
            return
        self._notice(call, kind=NoticeKind.ROUTINE_SAVED, routine=name)
        self.table.record(call, DONE)

    def _notice(self, call: Call, **what: Any) -> None:
        """Report something about a call for the operator."""
        table = self.table
        about: dict[str, Any] = {"process_id": table.process_id, "stream_id": call.stream_id, "stamp_s": table.clock.now()}
        about |= {"call_id": call.call_id, "function": call.function, "channels": call.channels_shown}
        self.table.on_event(Notice(**about, **what))

    def _run_routine(self, stream: Stream, token: FunctionToken, mapped: Mapped) -> Refusal | None:
        """Take the tokens of the routine that a `run` names as its children, checked once more, or return a refusal."""
        name = str(mapped.arguments["name"])
        routine = self.routines.get(name) if self.routines is not None else None
        if routine is None:
            why = NO_STORE if self.routines is None else f"there is no routine '{shown(name)}'; save it first"
            return Refusal("run", CallCode.ROUTINE_UNKNOWN, why, False)
        if routine.refusal:
            return Refusal("run", CallCode.ROUTINE_INVALID, routine.refusal, False)
        if name in stream.run_stack or len(stream.run_stack) >= MAX_RUN_DEPTH:
            deep = f"routines nest deeper than {MAX_RUN_DEPTH} at '{name}'"
            chain = " → ".join([*stream.run_stack, name])
            why = f"routine '{name}' runs itself ({chain})" if name in stream.run_stack else deep
            return Refusal("run", CallCode.ROUTINE_CYCLE, why, False)
        try:
            tokens = _parsed(routine.source) if stream.expanded <= MAX_EXPANDED else ()
        except ParseError as error:
            return Refusal("run", CallCode.ROUTINE_INVALID, f"routine '{name}': {error}", False)
        stream.expanded += max(len(tokens), len(routine.source) // 20)
        if stream.expanded > MAX_EXPANDED:
            why = f"the routines of this answer are longer than {MAX_EXPANDED} function tokens; run fewer in one answer"
            return Refusal("run", CallCode.QUEUE_FULL, why, False)
        call = self._begin_call(stream, token, mapped)
        if call is None:
            return None
        stream.run_stack.append(name)
        for inner in tokens:
            if stream.closed:
                break
            self.take(stream, inner)
        self.table.close_utterance(stream)
        stream.run_stack.pop()
        if not call.open and not stream.closed:
            stream.frames.pop()
            self.table.close(call)
            self._decided(stream, call)
        return None


@lru_cache(maxsize=32)
def _parsed(source: str) -> tuple[FunctionToken, ...]:
    parser = StreamingParser("strict")
    return (*parser.feed(source), *parser.close())


def _belongs_outside(frame: Frame, token: FunctionToken) -> bool:
    """Return whether the token starts an alternative branch written inside its own `<if>`.

    Such a branch is refused, even after that `<if>` has ended.
    """
    inside_if = frame.kind is FrameKind.CALL and frame.name in BRANCHING
    return token.name in FURTHER and inside_if and not frame.branched


def _late_result(stream: Stream) -> CallResult:
    """Return the outcome of a token after the end of its stream."""
    why = f"it came after the stream had ended ({stream.error or stream.reason})"
    return CallResult(Outcome.DROPPED, CallCode.TURN_ENDED, why)


def _result_if_unreachable(stream: Stream) -> CallResult | None:
    """Return the outcome of everything inside an element or stream that was refused or has ended; None elsewhere."""
    if stream.closed:
        return _late_result(stream)
    if stream.top is not None and stream.top.kind is FrameKind.REFUSED:
        why = f"the element around it, <{stream.top.name}>, was refused"
        return CallResult(Outcome.REFUSED, CallCode.PARENT_REFUSED, why)
    parent = stream.parent
    if parent is None or parent.takes_more:
        return None
    result = parent.result or parent.body_result
    ended = f"ended as {result.outcome.value}" if result is not None else "has ended"
    why = f"the element around it, '{parent.function}', {ended}"
    return CallResult(Outcome.DROPPED, CallCode.PARENT_NOT_STARTED, why)
