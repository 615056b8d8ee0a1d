# SPDX-License-Identifier: Apache-2.0
"""Read answers of System 1 while they are written, and write what of them goes to the robot: steps go out as they are read and
are entered in the book (TypeGo 6)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from function_tokens.builtins import BRANCHES, BUILTINS, STEP_ALIASES
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source, token_source
from planners.models.base import ModelRequest
from planners.models.model_call import WRAPPERS, AnswerEnd, AnswerError, Element, ElementParser
from planners.prompts.blocks import Layer
from planners.strategies.layered.step_goals import COMPLETE, REPLACE, STEP, Item, StepBook
from planners.strategy import PlannerIO, StreamHandle
from skill_kernel.codes import ModelCode
from skill_kernel.config.sections import shown

NOTHING = "nothing"
_BRANCHES = BRANCHES | frozenset(STEP_ALIASES)
_CONTROL = frozenset({COMPLETE, REPLACE, NOTHING, "plan_done", "observe"})
_OWN = _BRANCHES | _CONTROL | WRAPPERS | {STEP}
MAX_ANSWER, MAX_FIRST_ANSWER = 20_000, 1000
"""Characters of an answer, and of a first action, that are read."""

Check = Callable[[str, Mapping[str, str]], str]
"""Say why a call, by its name and attributes, cannot be performed; "" when it can."""


@dataclass
class _Step:
    """Hold the step that is being read. `live`: its calls are sent as they come, from its first one on, else all at its end."""

    live: bool
    implicit: bool
    tokens: list[FunctionToken] = field(default_factory=list)
    begun: bool = False

    @property
    def empty(self) -> bool:
        """Return whether there is nothing in it to perform or to say."""
        return not any(t.kind in (TokenKind.AF, TokenKind.SCF) or t.text.strip() for t in self.tokens)


class StepAnswer:
    """Read text and tell `writer` what is to be done. `over` when nothing more is to be read, `faults` what was wrong.

    A call that cannot be performed ends the reading and its step: nothing of the step is sent, or no more of one that is
    sent while it is read. Without room for a step, reading stops. Calls outside a step become one; text outside is not
    spoken. Of a step whose end tag is missing at the end of the answer nothing is performed, or no more than has begun by
    then: what would follow nobody knows.
    """

    def __init__(self, check: Check, writer: StepWriting) -> None:
        self._parser = StreamingParser("lenient")
        self._check, self._writer = check, writer
        self._step: _Step | None = None
        self._meant: dict[str, str] = {}
        self._open: list[str] = []
        self._outside: list[str] = []
        self._completes = 0
        """Completions of the subtask that count behind the step."""
        self._read = 0
        self.over = False
        self.nothing = False
        self.steps = 0
        self.faults: list[str] = []

    def feed(self, text: str) -> None:
        """Read the next piece of the answer."""
        if self.over:
            return
        self._read += len(text)
        self._tokens(self._parser.feed(text))
        if self._read > MAX_ANSWER and not self.over:
            self._broken(f"the answer is longer than {MAX_ANSWER} characters; write a few steps only")

    def close(self) -> None:
        """Read the end of the answer."""
        if not self.over:
            self._tokens(t for t in self._parser.close() if not t.inserted)
        self.over = True
        if self._step is not None:
            if self._step.implicit and not self._open:
                self._ended(self._step)
            else:
                self._cut(self._step)
        self._tell_outside()

    def _tokens(self, tokens: Iterable[FunctionToken]) -> None:
        for token in map(self._as_meant, tokens):
            if self.over:
                break
            step = self._step
            if step is None or self._leaves(step, token):
                self._top(token)
            elif not _is_blank(token) or not step.implicit or self._open:
                self._in_step(step, token)  # white space between two branches of an implicit step is left out
        self.faults += [repair.message for repair in self._parser.take_repairs()]

    def _as_meant(self, token: FunctionToken) -> FunctionToken:
        """Take `<Step>` and `<subtask-complete/>` as tags of ours, unless the robot has such a function."""
        name = token.name.lower().replace("-", "_")
        if name == token.name or name not in _OWN:
            return token
        if token.kind is not TokenKind.RF:
            self._meant[token.name] = name if self._check(token.name, token.attrs) else token.name
        return token._replace(name=self._meant.get(token.name, name))

    # -- outside a step -----------------------------------------------------------------------------------------------

    def _leaves(self, step: _Step, token: FunctionToken) -> bool:
        """Return whether the token stands behind the implicit step, which goes on only with further branches."""
        if not step.implicit or self._open or token.kind is TokenKind.RF or _is_blank(token):
            return False
        return not (token.name in _BRANCHES and step.tokens[0].name in _BRANCHES)

    def _top(self, token: FunctionToken) -> None:
        if self._step is not None:
            self._ended(self._step)
        if token.kind in (TokenKind.CHAR, TokenKind.REF):
            self._outside.append(token.text)
        elif token.kind is TokenKind.RF or (token.name in WRAPPERS and self._fault(token)):
            pass
        elif token.name in _CONTROL:
            self._control(token.name)
        elif token.name == STEP and token.kind is TokenKind.SCF:
            self.faults.append("<step/> holds nothing; write calls inside <step>…</step>")
        elif not self._writer.has_room():
            self.over = True
        else:
            implicit = token.name != STEP
            step, self._open = _Step(self._writer.is_live(), implicit), []
            self._step = step
            if implicit:
                self._in_step(step, token)

    def _control(self, name: str) -> None:
        if name == NOTHING or name == "observe":
            self.nothing = self.over = True
        elif name != REPLACE:
            self._writer.complete()
        elif self.steps:
            self.faults.append(f"<{REPLACE}/> behind a step was left out; write it before the new steps")
        else:
            self._writer.replace()

    # -- inside a step ------------------------------------------------------------------------------------------------

    def _in_step(self, step: _Step, token: FunctionToken) -> None:
        if token.kind is TokenKind.RF:
            if not self._open:
                if not step.implicit:
                    self._ended(step)
                return
            if not self._open.pop():
                return
        elif token.kind in (TokenKind.AF, TokenKind.SCF):
            if token.name == STEP:
                self._top(token)
                return
            if token.name in _CONTROL:
                self._control_inside(step, token)
                return
            if why := self._fault(token):
                self._broken(why)
                return
            if token.kind is TokenKind.AF:
                self._open.append(token.name)
        try:
            source = token_source(token)
        except RoutineError as error:
            self._broken(str(error))
            return
        step.tokens.append(token)
        if step.begun:
            self._writer.text(source)
        elif step.live and not step.empty:
            step.begun = True
            self._writer.begin()
            self._writer.text(f"<{STEP}>{source}")

    def _control_inside(self, step: _Step, token: FunctionToken) -> None:
        """Leave the end of a subtask inside a branch there, for it depends on it; elsewhere count it behind the step."""
        if token.name == COMPLETE and any(self._open):
            step.tokens.append(FunctionToken(TokenKind.SCF, COMPLETE))
            if step.begun:
                self._writer.text(f"<{COMPLETE}/>")
        elif token.name in (COMPLETE, "plan_done"):
            self._completes += 1
        if token.kind is TokenKind.AF:
            self._open.append("")

    def _fault(self, token: FunctionToken) -> str:
        if token.name in _BRANCHES or (token.name in BUILTINS and token.name != "stop" and token.name != "run"):
            return ""
        return self._check(token.name, token.attrs)

    def _ended(self, step: _Step) -> None:
        ends, source = self._closed(step)
        self._step, self._open = None, []
        completes, self._completes = self._completes, 0
        if step.empty:
            self.faults.append("a step holds nothing; write calls inside <step>…</step>")
        else:
            self.steps += 1
            if not step.begun:
                self._writer.begin()
            self._writer.text(ends if step.begun else source)
            self._writer.step(source)
        for _ in range(completes):
            self._writer.complete()

    def _broken(self, why: str) -> None:
        """Stop here. What was sent of a step already is performed; its elements are closed."""
        self.faults.append(why)
        step, self._step, self.over = self._step, None, True
        if step is not None and step.begun:
            ends, source = self._closed(step)
            self._writer.text(ends)
            self._writer.step(source)

    def _cut(self, step: _Step) -> None:
        """Close the step inside which the answer ended."""
        self._step, self._completes = None, 0
        left = "the rest of it" if step.begun else "it"
        self.faults.append(f"the answer ended before </{STEP}>, so {left} was left out; write fewer steps, and close each")
        if step.begun:
            self.steps += 1
            self._writer.step(self._closed(step)[1])

    def _closed(self, step: _Step) -> tuple[str, str]:
        """Return the end tags that a step still needs, and its whole source."""
        ends = [FunctionToken(TokenKind.RF, name) for name in reversed(self._open) if name]
        return f"{''.join(map(token_source, ends))}</{STEP}>", f"<{STEP}>{to_source([*step.tokens, *ends])}</{STEP}>"

    def _tell_outside(self) -> None:
        text = " ".join("".join(self._outside).split())
        if text:
            self.faults.append(f"text outside a <step> was not spoken: “{shown(text)}”; write it inside one")


def _is_blank(token: FunctionToken) -> bool:
    return token.kind in (TokenKind.CHAR, TokenKind.REF) and not token.text.strip()


class StepWriting:
    """Ask the model and write its answer. `on_end` hears code and reason once; `cancel` ends it without a word.

    `following` gives the subtask behind one that is said to be complete, "" where none is known yet.
    """

    def __init__(
        self,
        io: PlannerIO,
        book: StepBook,
        request: ModelRequest,
        check: Check,
        subtask: str,
        handles: frozenset[str],
        following: Callable[[str], str],
        on_end: Callable[[int, str], None],
    ) -> None:
        self._book, self._handles, self._following, self._on_end = book, handles, following, on_end
        self.subtask = subtask
        self.answer = StepAnswer(check, self)
        self.useful = False
        """True when something of it was sent."""
        self._stream: StreamHandle | None = None
        self._turn = book.turn
        self._item: Item | None = None
        self._marked = False
        """True when it said that a subtask is complete, and no step since."""
        self._over = False
        late = f"the answer was not complete within {request.deadline_s:g} s"
        self._timer = io.clock.call_later(request.deadline_s, lambda: self._end(int(ModelCode.MODEL_TIMEOUT), late))
        self._handle = io.ask(Layer.S1, request, self._read, self._answered)

    def cancel(self, why: str) -> None:
        """Void what was planned; end what was sent."""
        if not self._over:
            self._handle.cancel()
            self._close(int(ModelCode.MODEL_CANCELLED), why)

    def _read(self, text: str) -> None:
        if not self._over:
            self.answer.feed(text)
            if not self._over and self.answer.over:
                self._handle.enough()
                self._end(0, "")

    def _answered(self, end: AnswerEnd) -> None:
        self._end(end.code, end.why)

    def _end(self, code: int, why: str) -> None:
        if not self._over:
            if code == ModelCode.MODEL_TIMEOUT:
                self._handle.cancel()
            self.answer.close()
            self._close(code, why)
            self._on_end(code, why)

    def _close(self, code: int, why: str) -> None:
        self._over = True
        self._timer.cancel()
        if self._stream is not None:
            self._stream.end(code, why)

    # -- asked by StepAnswer; each call is acted on before the next one comes -----------------------------------------

    def has_room(self) -> bool:
        """Return whether one more step may be written."""
        return self._book.has_room()

    def is_live(self) -> bool:
        """Return whether the calls of a step that begins now are to be sent as they come."""
        return self._book.idle

    def begin(self) -> None:
        """Begin a step with the text that follows."""
        self._item = Item(self._opened().stream_id, self.subtask, handles=self._handles)
        self._book.add(self._item)

    def text(self, text: str) -> None:
        """Write text for the robot."""
        self._opened().text(text)

    def step(self, source: str) -> None:
        """End the step; `source` is the whole of it, or what came of it before the answer broke off."""
        assert self._item is not None
        self._item.source = source
        self.useful, self._marked = True, False

    def complete(self) -> None:
        """Mark the subtask as done when the steps before have ended."""
        if not self.subtask:
            return
        if self._marked:
            self.answer.faults.append(f"a second <{COMPLETE}/> with no step between was not read; write one for SUBTASK only")
            self.subtask = ""
        else:
            self.useful = self._marked = True
            self._book.add(Item(self._opened().stream_id, self.subtask, mark=True))
            self.text(f"<{COMPLETE}/>")
            self.subtask = self._following(self.subtask)
        self.answer.over = self.answer.over or not self.subtask

    def replace(self) -> None:
        """Drop what is queued."""
        self._book.drop_queue()
        self._book.next_turn()
        self._turn = self._book.turn
        self.text(f"<{REPLACE}/>")

    def _opened(self) -> StreamHandle:
        if self._stream is None:
            self._stream = self._book.open(self._turn)
        return self._stream


class FirstActionReader:
    """Read one self-contained tag; the value is its source, or "" for `<none/>`. What follows the first tag is ignored.

    Raises AnswerError for a function outside `allowed`, or arguments that `check` refuses.
    """

    def __init__(self, allowed: Collection[str], check: Check) -> None:
        self._allowed, self._check = allowed, check
        self._parser = ElementParser()
        self._length = 0
        self._source: str | None = None

    def feed(self, text: str) -> None:
        self._length += len(text)
        if self._length > MAX_FIRST_ANSWER and self._source is None:
            raise AnswerError("the answer is too long; write one tag and nothing else")
        self._read(self._parser.feed(text))

    def close(self) -> str:
        self._read(self._parser.close())
        if self._source is None:
            raise AnswerError("there is no tag in the answer; write one call, or <none/>")
        return self._source

    def _read(self, elements: Iterable[Element]) -> None:
        for element in elements:
            if self._source is None and element.name:
                self._source = "" if element.name == "none" else self._call(element)

    def _call(self, element: Element) -> str:
        if element.name not in self._allowed:
            raise AnswerError(f"<{shown(element.name, 40)}> may not be the first action; use one of {', '.join(self._allowed)}")
        if element.inner or element.text:
            raise AnswerError(f"<{element.name}> must be empty: <{element.name} …/>")
        if why := self._check(element.name, element.attrs):
            raise AnswerError(why)
        try:
            return to_source([FunctionToken(TokenKind.SCF, element.name, element.attrs)])
        except RoutineError as error:
            raise AnswerError(str(error)) from error
