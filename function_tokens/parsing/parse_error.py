# SPDX-License-Identifier: Apache-2.0
"""What the parser reports: violations, repairs and the limits it holds (semantics 1.5, 1.7)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple

from function_tokens.parsing.tokens import FunctionToken
from skill_kernel.codes import ParseCode


class Position(NamedTuple):
    """A place in the stream: `offset` in characters from 0, `line` and `column` from 1. Only `\\n` ends a line."""

    offset: int
    line: int
    column: int


class ParseError(ValueError):
    """The first violation in a strict stream, which ends it (GhostShell 3.4.1).

    `snippet` is the text up to the place where the violation shows; `tokens` are those that the same `feed()` or
    `close()` had completed before it.
    """

    def __init__(self, code: ParseCode, message: str, position: Position, snippet: str) -> None:
        super().__init__(f"{code.name} at line {position.line}, column {position.column}: {message}")
        self.code = code
        self.message = message
        self.offset, self.line, self.column = position
        self.snippet = snippet
        self.tokens: tuple[FunctionToken, ...] = ()


@dataclass(frozen=True)
class Repair:
    """One thing the lenient parser mended, with the code it would have had as a violation.

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
    """Bounds on a stream, in characters unless said otherwise; past one: `LIMIT_EXCEEDED` (semantics 1.7)."""

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

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value < 1:
                raise ValueError(f"limit {limit.name} is {value}; give at least 1")
