# SPDX-License-Identifier: Apache-2.0
"""Reads an answer of top-level elements while it is written; for the layers whose answers are performed by nobody else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from function_tokens.parsing.parser import StreamingParser
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from skill_kernel import robot

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
