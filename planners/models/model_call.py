# SPDX-License-Identifier: Apache-2.0
"""Ask one question of a planning layer: read the answer while it is written, bound its time, repair it once (TypeGo 6)."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from planners.models.base import Message, ModelRequest
from planners.prompts.blocks import Layer, block
from skill_kernel import robot
from skill_kernel.clock import Clock, Timer
from skill_kernel.codes import ModelCode

T = TypeVar("T")
Read = TypeVar("Read", covariant=True)

_THOUGHT = re.compile(
    r"<(think|thinking|reasoning)>.*?(?:</\1>|\Z)|\A(?:(?!<(?:think|thinking|reasoning)>).)*</(?:think|thinking|reasoning)>",
    re.DOTALL | re.IGNORECASE,
)
"""A block in which a model reasoned; its begin may stand in the prompt, where the server's template writes it."""
MAX_ANSWER = 10_000
"""Characters of an answer that is read as a whole, where its reader names no other number."""
SHOWN_ANSWER = 400
"""Characters of a faulty answer that the model is shown again."""


class AnswerError(ValueError):
    """Say why an answer cannot be used. The message is shown to the model, once."""


@dataclass(frozen=True)
class AnswerEnd:
    """Tell how an answer ended: `code` 0 when the model finished it, else a ModelCode or BUDGET_SPENT, and `why`. `forgot`: the
    model was asked without the earlier messages, which its context could not hold. `cut`: it came to `max_output_tokens`
    before its end."""

    text: str
    code: int = 0
    why: str = ""
    forgot: bool = False
    cut: bool = False


class Handle(Protocol):
    """Follow an answer that is being written."""

    def cancel(self) -> None:
        """Stop it; nothing more is heard of it. Does nothing once it has ended."""

    def enough(self) -> None:
        """Do the same for an answer that was good as far as it was read: its end is still taken, for what it cost."""


class Model(Protocol):
    """Answer questions (`LayerModel` in a node). `on_text` hears each piece, `on_end` the end, once and never from within
    `ask`; all on the caller's thread."""

    def ask(
        self,
        layer: Layer,
        process_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream_id: str = "",
    ) -> Handle: ...

    def allowance(self, process_id: str, layer: str) -> tuple[bool, float, str]:
        """Return whether the budget lets it ask, in how many seconds at the earliest, and why not."""


Ask = Callable[[ModelRequest, Callable[[str], None], Callable[[AnswerEnd], None]], Handle]
"""Asks the model of one layer for one process: `Model.ask` or `PlannerIO.ask` with its first arguments."""


class Reader(Protocol[Read]):
    """Read one answer. Both methods raise AnswerError when it cannot be used."""

    def feed(self, text: str) -> None:
        """Read the next piece."""

    def close(self) -> Read:
        """Return what the whole answer says."""


@dataclass(frozen=True)
class CallEnd(Generic[T]):
    """Tell what came of a question: `value`, or None with `code` (a ModelCode, BUDGET_SPENT) and `why`."""

    value: T | None
    code: int = 0
    why: str = ""


class ModelCall(Generic[T]):
    """Ask once, and once more with the error shown when the answer cannot be used. `on_end` hears of it once, at the deadline
    of the request at the latest, both answers together; `cancel` ends it without a word.

    A model that gives no answer is not asked again: its client has tried as often as may help.
    """

    def __init__(
        self,
        ask: Ask,
        clock: Clock,
        request: ModelRequest,
        reader: Callable[[], Reader[T]],
        on_end: Callable[[CallEnd[T]], None],
    ) -> None:
        self._ask_model, self._request, self._new_reader, self._on_end = ask, request, reader, on_end
        self._repaired = self._over = False
        self._timer: Timer = clock.call_later(request.deadline_s, self._too_late)
        self._ask(request)

    def cancel(self) -> None:
        """End it without a word."""
        if not self._over:
            self._over = True
            self._timer.cancel()
            self._handle.cancel()

    def _ask(self, request: ModelRequest) -> None:
        self._written, self._reader = "", self._new_reader()
        self._handle = self._ask_model(request, self._text, self._ended)

    def _text(self, text: str) -> None:
        if not self._over:
            self._written += text
            try:
                self._reader.feed(text)
            except AnswerError as error:
                self._handle.cancel()
                self._faulty(error)

    def _ended(self, end: AnswerEnd) -> None:
        if self._over:
            return
        if end.code:
            self._finish(None, end.code, end.why)
            return
        try:
            value = self._reader.close()
        except AnswerError as error:
            self._faulty(error)
        else:
            self._finish(value)

    def _faulty(self, error: AnswerError) -> None:
        if self._repaired:
            why = f"the answer of the model could not be used twice, at last: {error}"
            self._finish(None, int(ModelCode.MODEL_NOT_UNDERSTOOD), why)
        else:
            self._repaired = True
            self._ask(repair(self._request, str(error), self._written))

    def _too_late(self) -> None:
        if not self._over:
            self._handle.cancel()
            self._finish(None, int(ModelCode.MODEL_TIMEOUT), f"no usable answer within {self._request.deadline_s:g} s")

    def _finish(self, value: T | None, code: int = 0, why: str = "") -> None:
        self._over = True
        self._timer.cancel()
        self._on_end(CallEnd(value, code, why))


def repair(request: ModelRequest, error: str, answer: str) -> ModelRequest:
    """Return the same question with what was wrong with the answer in a block FAULTS, so that the prompt stays whole."""
    last = request.messages[-1]
    shown = f"{error}; the answer was: {answer[:SHOWN_ANSWER] or '(nothing)'}"
    text = f"{last.text}\n{block('FAULTS', [shown], 'in your last answer; data, avoid them')}"
    return replace(request, messages=(*request.messages[:-1], Message("user", text, last.images)))


def without_thoughts(text: str) -> str:
    """Return an answer without the blocks in which a model reasoned."""
    return _THOUGHT.sub("", text)


class WholeAnswer(Generic[T]):
    """Read an answer of `most` characters at most when it has ended; a `Reader`. `how` tells what to write instead of more."""

    def __init__(self, read: Callable[[str], T], most: int = MAX_ANSWER, how: str = "write less") -> None:
        self._read, self._most, self._how, self._text = read, most, how, ""

    def feed(self, text: str) -> None:
        self._text += text
        if len(self._text) > self._most:
            raise AnswerError(f"the answer is longer than {self._most} characters; {self._how}")

    def close(self) -> T:
        return self._read(without_thoughts(self._text))


WRAPPERS = frozenset(robot.WRAPPERS) | {"subtasks", "events"}
"""Elements that only wrap others; their children count as if they were not there."""


@dataclass(frozen=True)
class Element:
    """A top-level element, or with an empty name the text between two. `inner` names the elements inside it."""

    name: str
    attrs: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    inner: tuple[str, ...] = ()


class ElementParser:
    """Text in, whole elements out. Lenient: fences and reasoning vanish, violations are mended."""

    def __init__(self) -> None:
        self._parser = StreamingParser("lenient")
        self._open: list[FunctionToken] = []
        self._text: list[str] = []
        self._inner: list[str] = []

    def feed(self, text: str) -> list[Element]:
        """Return the elements that this text completes."""
        return self._read(self._parser.feed(text))

    def close(self) -> list[Element]:
        """Those that the end completes; an element that was left open is complete now."""
        return [*self._read(self._parser.close()), *self._flushed()]

    def _read(self, tokens: Iterable[FunctionToken]) -> list[Element]:
        found: list[Element] = []
        for token in tokens:
            if token.kind in (TokenKind.CHAR, TokenKind.REF):
                self._text.append(token.text)
            elif token.name in WRAPPERS and not self._open:
                found += self._flushed()
            elif token.kind is TokenKind.SCF and not self._open:
                found += [*self._flushed(), Element(token.name, dict(token.attrs))]
            elif token.kind is TokenKind.RF:
                found += self._reset()
            elif self._open:
                self._inner.append(token.name)
                if token.kind is TokenKind.AF:
                    self._open.append(token)
            else:
                found += self._flushed()
                self._open.append(token)
        return found

    def _reset(self) -> list[Element]:
        if not self._open:
            return []
        token = self._open.pop()
        if self._open:
            return []
        element = Element(token.name, dict(token.attrs), "".join(self._text).strip(), tuple(self._inner))
        self._text, self._inner = [], []
        return [element]

    def _flushed(self) -> list[Element]:
        text, self._text = "".join(self._text).strip(), []
        return [Element("", text=text)] if text else []
