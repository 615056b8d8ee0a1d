# SPDX-License-Identifier: Apache-2.0
"""Define function tokens, the Shell's unit of exchange, and the errors, repairs and limits of their parser (GhostShell 3.3)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from skill_kernel.codes import ParseCode

NO_ATTRS: Mapping[str, str] = MappingProxyType({})
NO_VALUE = "true"
"""Value of an attribute that a lenient stream wrote without one, as in `<music loop>`."""


class TokenKind(str, Enum):
    """Name the five kinds of function token (GhostShell 3.3)."""

    AF = "AF"
    """Activation: `<name a="v">`."""
    RF = "RF"
    """Reset: `</name>`."""
    SCF = "SCF"
    """Self-contained: `<name a="v"/>`."""
    CHAR = "CHAR"
    """Character data; CDATA too."""
    REF = "REF"
    """Reference such as `&lt;`, resolved in `text`."""


class FunctionToken(NamedTuple):
    """Hold one token.

    `start` and `end` are character offsets in the stream, `end` behind the last character. `seq` counts from 0 within the
    stream. `text` is the character data, or the character of a reference.
    """

    kind: TokenKind
    name: str = ""
    attrs: Mapping[str, str] = NO_ATTRS
    text: str = ""
    start: int = 0
    end: int = 0
    seq: int = 0
    stream_id: str = ""

    @property
    def inserted(self) -> bool:
        """Return whether the parser inserted this end tag: such a token has zero length."""
        return self.kind is TokenKind.RF and self.end == self.start


class Position(NamedTuple):
    r"""Name a place in the stream: `offset` in characters from 0, `line` and `column` from 1. Only `\n` ends a line."""

    offset: int
    line: int
    column: int


class ParseError(ValueError):
    """Report the first violation in a strict stream, which ends it (GhostShell 3.4.1).

    `snippet` is the text up to the place where the violation shows. `tokens` are those that the same `feed()` or `close()`
    had completed before it.
    """

    def __init__(self, code: ParseCode, message: str, position: Position, snippet: str) -> None:
        super().__init__(f"{code.name} at line {position.line}, column {position.column}: {message}")
        self.code = code
        self.message = message
        self.position = position
        self.offset, self.line, self.column = position
        self.snippet = snippet
        self.tokens: tuple[FunctionToken, ...] = ()


@dataclass(frozen=True)
class Repair:
    """Report one thing that the lenient parser mended, with the code it would have had as a violation.

    `seq` is the number of the first token that was not complete yet: the mended place is in it or before it. `count`
    is above 1 only in the summary that `close()` gives of repairs past `ParserLimits.repairs`.
    """

    code: ParseCode
    message: str
    offset: int
    line: int
    column: int
    snippet: str
    seq: int = field(compare=False)
    count: int = 1


@dataclass(frozen=True)
class ParserLimits:
    """Bound a stream, in characters unless said otherwise. Past one of the limits: `LIMIT_EXCEEDED` (semantics 1.7)."""

    name_length: int = 256
    """Name of an element, attribute or reference."""
    attribute_length: int = 65_536
    """One attribute's value as written."""
    attributes: int = 64
    """Attributes of one element, a count."""
    depth: int = 256
    """Elements open at a time, a count."""
    reasoning_length: int = 1_000_000
    """One reasoning block."""
    total_length: int = 4_000_000
    """The whole stream."""
    repairs: int = 20
    """Repairs of one code reported one by one, a count; the others are summed up at the end."""
