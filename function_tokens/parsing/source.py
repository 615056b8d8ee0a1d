# SPDX-License-Identifier: Apache-2.0
"""Keep the text in hand and its place in the stream, and turn violations there into errors or repairs."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from function_tokens.parsing.tokens import ParseError, ParserLimits, Position, Repair
from skill_kernel.codes import ParseCode

SPACE = " \t\r\n"
# https://www.w3.org/TR/xml/#NT-Char, negated
INVALID = r"\x00-\x08\x0B\x0C\x0E-\x1F\uD800-\uDFFF\uFFFE\uFFFF"
_invalid_runs = re.compile(f"[{INVALID}]+").finditer
_SNIPPET = 40
_KEPT = 320
"""Pieces of text kept for snippets, of one character or more: a snippet and the longest beginning that is held back."""

T = TypeVar("T")
Step = Generator[None, None, T]
"""A part of the reading. It yields when it needs more text, and returns what it read."""
Search = Callable[[str, int], "re.Match[str] | None"]
End = Callable[[str, int], int]
"""Returns the index behind what stands at an index."""


def run_of(characters: str) -> End:
    """Return a function that finds the end of a run of these characters."""
    match = re.compile(f"[{characters}]*").match
    return lambda text, at: match(text, at).end()  # type: ignore[union-attr]


class StreamEnd(Exception):
    """Raised to a reader that waits for more text when none will come."""


class Source:
    """Hold the text that is not read yet.

    Readers are generators: they advance `at` and yield when they need more text. `take()` keeps what they have not read and
    adds to it, so an index into `text` is valid until the next yield.
    """

    def __init__(self, strict: bool, limits: ParserLimits) -> None:
        self.strict = strict
        self.limits = limits
        self.text = ""
        self.at = 0
        self.held = 0
        """Length of the part of `text` that was in hand before the part taken last."""
        self.final = False
        """Set when no more text comes."""
        self.fed = 0
        """Offset behind `text`."""
        self.seq = 0
        """Number of the next token."""
        self.past: deque[str] = deque(maxlen=_KEPT)
        """Ends of the pieces before the one in hand, for snippets."""
        self._shift = 0  # what to add to an index for its offset
        self._first = 0  # offset of index 0, which may have been held back before characters that were dropped
        self._piece = ""
        self._piece_shift = 0  # what to add to an index for its index in the piece
        self._line = 1
        self._line_start = 0
        self._counted = 0
        self._raw: list[str] | None = None
        self._raw_from = 0
        self._repairs: list[Repair] = []
        self._counts: Counter[ParseCode] = Counter()

    # Text

    def take(self, piece: str) -> Iterator[None]:
        """Take a piece of the stream and yield whenever a part of it can be read.

        Characters that XML does not have are dropped.
        """
        self._piece = piece
        self._window("", 0)
        done = 0
        for run in (*_invalid_runs(piece), None):
            end = run.start() if run else len(piece)
            if end > done:
                self._window(piece[done:end], done)
                self.fed += end - done
                yield
            if run:
                self._drop(run[0], end)
                done = run.end()

    def end_piece(self) -> None:
        """Count the piece as passed."""
        if "\n" in self.text:
            self.locate(self.end)
        if self._piece:
            self.past.append(self._piece[-_KEPT:])

    def _drop(self, run: str, index: int) -> None:
        self._window(run, index)
        room = self.room(ParseCode.INVALID_CHARACTER)
        for i, char in enumerate(run if self.strict else run[:room], self.held):
            self.violation(ParseCode.INVALID_CHARACTER, f"U+{ord(char):04X} is no XML character; leave it out", i)
        self._counts[ParseCode.INVALID_CHARACTER] += max(0, len(run) - room)
        self.text = self.text[: self.held]
        self.fed += len(run)
        self._shift += len(run)
        self._piece_shift += len(run)

    def count_lines(self, text: str) -> None:
        """Count the newlines of a text that is read elsewhere, before `fed` passes it."""
        if "\n" in text:
            self._line += text.count("\n")
            self._line_start = self.fed + text.rindex("\n") + 1

    def _window(self, part: str, index: int) -> None:
        if self._raw is not None:
            self._raw.append(self.text[self._raw_from : self.at])
            self._raw_from = 0
        if "\n" in self.text:
            self.locate(self.end)
        held = self.text[self.at :]
        self._first = self.offset(self.at) if held else self.fed
        self.text, self.at, self.held = held + part, 0, len(held)
        self._shift = self.fed - len(held)
        self._piece_shift = index - len(held)
        self._counted = 0

    # Steps that readers share

    def more(self) -> Step[None]:
        """Wait for more text. Raises StreamEnd when none will come."""
        if self.final:
            raise StreamEnd
        yield

    def peek(self) -> Step[str]:
        """Return the next character, without reading it."""
        while self.at == len(self.text):
            yield from self.more()
        return self.text[self.at]

    def skip_if(self, char: str) -> Step[bool]:
        """Pass over the next character if it is this one; return whether it is."""
        found = (yield from self.peek()) == char
        self.at += found
        return found

    def find(self, literal: str) -> Step[None]:
        """Pass over all up to and with the literal."""
        while (found := self.text.find(literal, self.at)) < 0:
            self.at = max(self.at, len(self.text) - len(literal) + 1)
            while not literal.startswith(self.text[self.at :]):
                self.at += 1
            yield from self.more()
        self.at = found + len(literal)

    def search(self, pattern: Search) -> Step[str]:
        """Pass over all up to and with the one character that the pattern finds; return it."""
        while not (found := pattern(self.text, self.at)):
            self.at = len(self.text)
            yield from self.more()
        self.at = found.end()
        return found[0]

    def skip(self, end: End) -> Step[str]:
        """Pass over all up to the end; return the character behind it."""
        while True:
            self.at = end(self.text, self.at)
            if self.at < len(self.text):
                return self.text[self.at]
            yield from self.more()

    # Text of a rejected tag

    def keep_raw(self) -> None:
        """Keep what is read from now on for `take_raw()`."""
        self._raw, self._raw_from = [], self.at

    def take_raw(self) -> str:
        """Return the text kept since `keep_raw()`, and keep no more."""
        kept, self._raw = self._raw or [], None
        return "".join(kept) + self.text[self._raw_from : self.at]

    # Places

    @property
    def end(self) -> int:
        """Return the index behind the text."""
        return len(self.text)

    def offset(self, index: int) -> int:
        """Return the offset in the stream of an index."""
        return self._shift + index if index else self._first

    def position(self, index: int) -> Position:
        """Return the position of a character that may have been held back."""
        at = self.locate(index)
        return at if index else Position(self._first, at.line, at.column + self._first - at.offset)

    def locate(self, index: int) -> Position:
        """Return the position of an index. Newlines are counted once, so lines are right where indexes only grow."""
        if newlines := self.text.count("\n", self._counted, max(index, 0)):
            self._line += newlines
            self._line_start = self._shift + self.text.rfind("\n", self._counted, index) + 1
        self._counted = max(self._counted, index)
        offset = self._shift + index
        return Position(offset, self._line, offset - self._line_start + 1)

    def snippet(self, index: int) -> str:
        """Return the last characters of the stream up to and with the one at `index`."""
        end = min(index + self._piece_shift + 1, len(self._piece))
        if end >= _SNIPPET:
            return self._piece[end - _SNIPPET : end]
        past = "".join(self.past)
        return (past + self._piece[:end] if end >= 0 else past[:end])[-_SNIPPET:]

    # Violations

    def violation(self, code: ParseCode, message: str, index: int, at: Position | None = None) -> None:
        """Raise ParseError in strict mode, otherwise record a repair.

        `index` is where the violation shows, `at` where it stands if that is elsewhere.
        """
        if self.strict:
            raise ParseError(code, message, at or self.locate(index), self.snippet(index))
        if self.room(code):
            self.record(self.repair(code, message, index, at))
        else:
            self._counts[code] += 1

    def repair(self, code: ParseCode, message: str, index: int, at: Position | None = None) -> Repair:
        """Return a repair that is not recorded yet."""
        return Repair(code, message, *(at or self.locate(index)), self.snippet(index), self.seq)

    def record(self, repair: Repair) -> None:
        """Report a repair, or only count it once its code has been reported `limits.repairs` times."""
        if self.room(repair.code):
            self._repairs.append(repair)
        self._counts[repair.code] += 1

    def room(self, code: ParseCode) -> int:
        """Return how many repairs of this code will still be reported one by one."""
        return max(0, self.limits.repairs - self._counts[code])

    def exceeded(self, limit: str, index: int) -> ParseError:
        """Return the error for a limit passed at `index`, to be raised in either mode."""
        value = getattr(self.limits, limit)
        message = f"{limit} is over its limit of {value}; raise it or write less"
        return ParseError(ParseCode.LIMIT_EXCEEDED, message, self.locate(index), self.snippet(index))

    def summarise(self, at: Position, snippet: str) -> None:
        """Record one repair for each code that was met more often than it was reported, at the end of the stream."""
        for code, number in self._counts.items():
            more = number - self.limits.repairs
            if more > 0:
                self._repairs.append(Repair(code, f"{more} more of this kind", *at, snippet, self.seq, more))
        self._counts.clear()

    def take_repairs(self) -> list[Repair]:
        """Return the repairs recorded since the last call."""
        taken, self._repairs = self._repairs, []
        return taken
