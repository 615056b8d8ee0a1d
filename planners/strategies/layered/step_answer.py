# SPDX-License-Identifier: Apache-2.0
"""Read answers of System 1 while they are written: what of them goes to the robot, and where reading stops (TypeGo 6)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from function_tokens.builtins import BRANCHES, BUILTINS, STEP_ALIASES
from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source
from planners.models.model_call import AnswerError
from planners.prompts.elements import WRAPPERS, Element, ElementParser

STEP = "step"
COMPLETE = "subtask_complete"
REPLACE = "replace_steps"
NOTHING = "nothing"
_BRANCHES = BRANCHES | frozenset(STEP_ALIASES)
_CONTROL = frozenset({COMPLETE, REPLACE, NOTHING, "plan_done", "observe"})
_OWN = _BRANCHES | _CONTROL | WRAPPERS | {STEP}
MAX_ANSWER, MAX_FIRST_ANSWER = 20_000, 1000
"""Characters of an answer, and of a first action, that are read."""

Check = Callable[[str, Mapping[str, str]], str]
"""What is wrong with a call, by its name and attributes; "" when it can be performed."""


class What(Enum):
    """What an answer was found to say."""

    TEXT = "text"
    """Text for the robot."""
    BEGUN = "begun"
    """A step begins with the text that follows."""
    STEP = "step"
    """A step is complete; its source."""
    CUT = "cut"
    """The answer broke off in a step that was begun; its source so far."""
    COMPLETE = "complete"
    """The subtask is done when the steps before have ended."""
    REPLACE = "replace"
    """What is queued is dropped."""


Found = tuple[What, str]


@dataclass
class _Step:
    """The step that is being read. `live`: its calls are sent as they come, from its first one on, else all at its end."""

    live: bool
    implicit: bool
    tokens: list[FunctionToken] = field(default_factory=list)
    begun: bool = False

    @property
    def empty(self) -> bool:
        """Whether there is nothing in it to perform or to say."""
        return not any(t.kind in (TokenKind.AF, TokenKind.SCF) or t.text.strip() for t in self.tokens)


class StepAnswer:
    """Text in, what is to be done out. `over` when nothing more is to be read, `faults` what was wrong.

    A call that cannot be performed ends the reading and its step: nothing of the step is sent, or no more of one that is
    sent while it is read (`live`, asked when it begins). `room` is asked when a step begins; without any, reading stops.
    Calls outside a step become one; text outside is not spoken. Of a step whose end tag is missing at the end of the answer
    nothing is performed, or no more than has begun by then: what would follow nobody knows.
    """

    def __init__(self, check: Check, *, room: Callable[[], bool], live: Callable[[], bool]) -> None:
        self._parser = StreamingParser("lenient")
        self._check, self._room, self._live = check, room, live
        self._step: _Step | None = None
        self._meant: dict[str, str] = {}
        self._open: list[str] = []
        self._outside: list[str] = []
        self._after: list[Found] = []
        self._read = 0
        self.over = False
        self.nothing = False
        self.steps = 0
        self.faults: list[str] = []

    def feed(self, text: str) -> Iterator[Found]:
        """Return what the next piece of the answer says, one after the other: what is done about one counts for the next."""
        if self.over:
            return
        self._read += len(text)
        yield from self._tokens(self._parser.feed(text))
        if self._read > MAX_ANSWER and not self.over:
            self.faults.append(f"the answer is longer than {MAX_ANSWER} characters; write a few steps only")
            yield from self._broken()

    def close(self) -> Iterator[Found]:
        """Return what the end of the answer completes."""
        if not self.over:
            yield from self._tokens(t for t in self._parser.close() if not _invented(t))
        self.over = True
        if self._step is not None:
            yield from self._ended() if self._step.implicit and not self._open else self._cut()
        self._tell_outside()

    def _tokens(self, tokens: Iterable[FunctionToken]) -> Iterator[Found]:
        for token in map(self._as_meant, tokens):
            if self.over:
                break
            if self._between(token):
                continue
            yield from self._in_step(token) if self._step is not None and not self._leaves(token) else self._top(token)
        self.faults += [repair.message for repair in self._parser.take_repairs()]

    def _as_meant(self, token: FunctionToken) -> FunctionToken:
        """`<Step>` and `<subtask-complete/>` are tags of ours, unless the robot has such a function."""
        name = token.name.lower().replace("-", "_")
        if name == token.name or name not in _OWN:
            return token
        if token.kind is not TokenKind.RF:
            self._meant[token.name] = name if self._check(token.name, token.attrs) else token.name
        return token._replace(name=self._meant.get(token.name, name))

    # -- outside a step -----------------------------------------------------------------------------------------------

    def _between(self, token: FunctionToken) -> bool:
        """Whether the token is the white space between two branches of an implicit step."""
        step = self._step
        blank = token.kind in (TokenKind.CHAR, TokenKind.REF) and not token.text.strip()
        return blank and step is not None and step.implicit and not self._open

    def _leaves(self, token: FunctionToken) -> bool:
        """Whether the token stands behind the implicit step, which goes on only with further branches."""
        step = self._step
        if step is None or not step.implicit or self._open or token.kind is TokenKind.RF:
            return False
        return not (token.name in _BRANCHES and step.tokens[0].name in _BRANCHES)

    def _top(self, token: FunctionToken) -> Iterator[Found]:
        if self._step is not None:
            yield from self._ended()
        if token.kind in (TokenKind.CHAR, TokenKind.REF):
            self._outside.append(token.text)
        elif token.kind is TokenKind.RF or (token.name in WRAPPERS and self._fault(token)):
            pass
        elif token.name in _CONTROL:
            yield from self._control(token.name)
        elif token.name == STEP and token.kind is TokenKind.SCF:
            self.faults.append("<step/> holds nothing; write calls inside <step>…</step>")
        elif not self._room():
            self.over = True
        else:
            implicit = token.name != STEP
            self._step, self._open = _Step(self._live(), implicit), []
            if implicit:
                yield from self._in_step(token)

    def _control(self, name: str) -> Iterator[Found]:
        if name == NOTHING or name == "observe":
            self.nothing = self.over = True
        elif name != REPLACE:
            yield What.COMPLETE, ""
        elif self.steps:
            self.faults.append(f"<{REPLACE}/> behind a step was left out; write it before the new steps")
        else:
            yield What.REPLACE, ""

    # -- inside a step ------------------------------------------------------------------------------------------------

    def _in_step(self, token: FunctionToken) -> Iterator[Found]:
        step = self._step
        assert step is not None
        if token.kind is TokenKind.RF:
            if not self._open:
                if not step.implicit:
                    yield from self._ended()
                return
            if not self._open.pop():
                return
        elif token.kind in (TokenKind.AF, TokenKind.SCF):
            if token.name == STEP:
                yield from self._ended()
                yield from self._top(token)
                return
            if token.name in _CONTROL:
                yield from self._control_inside(step, token)
                return
            if why := self._fault(token):
                self.faults.append(why)
                yield from self._broken()
                return
            if token.kind is TokenKind.AF:
                self._open.append(token.name)
        try:
            source = _source(token)
        except RoutineError as error:
            self.faults.append(str(error))
            yield from self._broken()
            return
        step.tokens.append(token)
        if step.begun:
            yield What.TEXT, source
        elif step.live and not step.empty:
            step.begun = True
            yield What.BEGUN, ""
            yield What.TEXT, f"<{STEP}>{source}"

    def _control_inside(self, step: _Step, token: FunctionToken) -> Iterator[Found]:
        """Completing a subtask inside a branch depends on it and stays there; elsewhere it counts behind the step."""
        if token.name == COMPLETE and any(self._open):
            step.tokens.append(FunctionToken(TokenKind.SCF, COMPLETE))
            if step.begun:
                yield What.TEXT, f"<{COMPLETE}/>"
        elif token.name in (COMPLETE, "plan_done"):
            self._after.append((What.COMPLETE, ""))
        if token.kind is TokenKind.AF:
            self._open.append("")

    def _fault(self, token: FunctionToken) -> str:
        if token.name in _BRANCHES or (token.name in BUILTINS and token.name != "stop" and token.name != "run"):
            return ""
        return self._check(token.name, token.attrs)

    def _ended(self) -> Iterator[Found]:
        step = self._step
        assert step is not None
        ends, source = self._closed(step)
        self._step, self._open = None, []
        after, self._after = self._after, []
        if step.empty:
            self.faults.append("a step holds nothing; write calls inside <step>…</step>")
        else:
            self.steps += 1
            if step.begun:
                yield What.TEXT, ends
            else:
                yield What.BEGUN, ""
                yield What.TEXT, source
            yield What.STEP, source
        yield from after

    def _broken(self) -> Iterator[Found]:
        """Stop here. What was sent of a step already is performed; its elements are closed."""
        step, self._step, self.over = self._step, None, True
        if step is not None and step.begun:
            ends, source = self._closed(step)
            yield What.TEXT, ends
            yield What.STEP, source

    def _cut(self) -> Iterator[Found]:
        """Close the step inside which the answer ended."""
        step, self._step, self._after = self._step, None, []
        assert step is not None
        left = "the rest of it" if step.begun else "it"
        self.faults.append(f"the answer ended before </{STEP}>, so {left} was left out; write fewer steps, and close each")
        if step.begun:
            self.steps += 1
            yield What.CUT, self._closed(step)[1]

    def _closed(self, step: _Step) -> tuple[str, str]:
        """Return the end tags that a step still needs, and its whole source."""
        ends = [FunctionToken(TokenKind.RF, name) for name in reversed(self._open) if name]
        return f"{''.join(map(_source, ends))}</{STEP}>", f"<{STEP}>{to_source([*step.tokens, *ends])}</{STEP}>"

    def _tell_outside(self) -> None:
        text = " ".join("".join(self._outside).split())
        if text:
            self.faults.append(f"text outside a <step> was not spoken: “{text[:80]}”; write it inside one")


def _invented(token: FunctionToken) -> bool:
    """Whether it is the parser's own end of an element, and not an end tag of the answer."""
    return token.kind is TokenKind.RF and token.end == token.start


def _source(token: FunctionToken) -> str:
    if token.kind is TokenKind.RF:
        return f"</{token.name}>"
    if token.kind is TokenKind.AF:
        whole = to_source([token, FunctionToken(TokenKind.RF, token.name)])
        return whole.removesuffix(f"</{token.name}>")
    return to_source([token])


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
            raise AnswerError(f"<{element.name[:40]}> may not be the first action; use one of {', '.join(self._allowed)}")
        if element.inner or element.text:
            raise AnswerError(f"<{element.name}> must be empty: <{element.name} …/>")
        if why := self._check(element.name, element.attrs):
            raise AnswerError(why)
        try:
            return to_source([FunctionToken(TokenKind.SCF, element.name, element.attrs)])
        except RoutineError as error:
            raise AnswerError(str(error)) from error
