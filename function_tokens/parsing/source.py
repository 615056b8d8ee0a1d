# SPDX-License-Identifier: Apache-2.0
"""Keep the text in hand and its place in the stream, and turn violations there into errors or repairs."""

import re
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from io import StringIO
from typing import TypeVar

from function_tokens.parsing.tokens import ParseError, ParserLimits, Position, Repair
from skill_kernel.codes import ParseCode

SPACE = " \t\r\n"
# https://www.w3.org/TR/xml/#NT-Char, negated
INVALID = r"\x00-\x08\x0B\x0C\x0E-\x1F\uD800-\uDFFF\uFFFE\uFFFF"
_invalid_run = re.compile(f"[{INVALID}]+")
_SNIPPET = 40

T = TypeVar("T")
Step = Generator[None, None, T]
"""A part of the reading. It yields when it needs more text, and returns what it read."""
Search = Callable[[str, int], "re.Match[str] | None"]
End = Callable[[str, int], int]
"""Returns the index behind what stands at an index."""


def run_of(characters: str) -> End:
    """Return a function that finds the end of a run of these characters."""
    match = re.compile(f"[{characters}]*").match

    def end(text: str, at: int) -> int:
        found = match(text, at)
        return found.end() if found else at

    return end


class StreamEnd(Exception):
    """Tell a reader that waits for more text that none will come."""


class Source:
    """Hold the text that is not read yet.

    Readers are generators: they advance `at` and yield when they need more text. `take()` keeps what they have not read and
    adds to it, so an index into `text` is valid until the next yield. An offset counts all characters of the stream.
    """

    def __init__(self, strict: bool, limits: ParserLimits) -> None:
        self.strict = strict
        self.limits = limits
        self.text = ""
        self.at = 0
        self.final = False
        """Set when no more text comes."""
        self.fed = 0
        """Offset behind `text`."""
        self.seq = 0
        """Number of the next token."""
        self.written = StringIO()
        """The whole stream up to `fed`; its place is at its end."""
        self._base = 0  # offset of index 0
        self._gaps: list[tuple[int, int]] = []  # indexes before which characters were dropped, and how many
        self._repairs: list[Repair] = []
        self._counts: Counter[ParseCode] = Counter()

    # Text

    def take(self, piece: str) -> Iterator[None]:
        """Take a piece of the stream and yield whenever a part of it can be read.

        Characters that XML does not have are dropped.
        """
        self.written.write(piece)
        done = 0
        for run in (*_invalid_run.finditer(piece), None):
            if part := piece[done : run.start() if run else len(piece)]:
                held = self.at < len(self.text)
                self._base = self.offset(self.at) if held else self.fed
                self._gaps = [(index - self.at, length) for index, length in self._gaps if held and index > self.at]
                self.text, self.at = self.text[self.at :] + part, 0
                self.fed += len(part)
                yield
            if run:
                for i, char in enumerate(run[0], self.fed):
                    self.fed += 1
                    self.violation(ParseCode.INVALID_CHARACTER, f"U+{ord(char):04X} is no XML character; leave it out", i)
                self._gaps.append((len(self.text), len(run[0])))
                done = run.end()

    def text_from(self, start: int) -> str:
        """Return what has been read since an offset, without the characters that were dropped."""
        self.written.seek(start)
        text = self.written.read(self.offset(self.at, end=True) - start)
        self.written.seek(0, 2)
        return _invalid_run.sub("", text)

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

    def find(self, literal: str) -> Step[None]:
        """Pass over all up to and with the literal."""
        while (found := self.text.find(literal, self.at)) < 0:
            self.at = max(self.at, len(self.text) - len(literal) + 1)
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

    # Places

    def offset(self, index: int, *, end: bool = False) -> int:
        """Return the offset in the stream of an index: of the character there, or of the `end` of those before it."""
        if not self._gaps:
            return self._base + index
        return self._base + index + sum(length for at, length in self._gaps if at < index or at == index and not end)

    def place(self, offset: int, shown: int) -> tuple[Position, str]:
        """Return the position of an offset, and the last characters of the stream up to and with `shown`."""
        text, last = self.written.getvalue(), shown + 1
        position = Position(offset, text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))
        return position, text[max(0, last - _SNIPPET) : last]

    # Violations

    def violation(self, code: ParseCode, message: str, offset: int | None = None) -> None:
        """Raise ParseError in strict mode, otherwise report a repair, or only count it once its code has been reported
        `limits.repairs` times. `offset` is where it stands if that is not where the reader is."""
        if self.strict:
            raise self.error(code, message, offset)
        if self._counts[code] < self.limits.repairs:
            error = self.error(code, message, offset)
            self._repairs.append(Repair(code, message, *error.position, error.snippet, self.seq))
        self._counts[code] += 1

    def error(self, code: ParseCode, message: str, offset: int | None = None) -> ParseError:
        """Return the error of a violation that stands at an offset, or else where the reader is."""
        here = self.offset(self.at)
        offset = here if offset is None else offset
        return ParseError(code, message, *self.place(offset, max(offset, here - 1)))

    def exceeded(self, limit: str, offset: int) -> ParseError:
        """Return the error for a limit passed at an offset, to be raised in either mode."""
        message = f"{limit} is over its limit of {getattr(self.limits, limit)}; raise it or write less"
        return ParseError(ParseCode.LIMIT_EXCEEDED, message, *self.place(offset, offset))

    def summarise(self, error: ParseError | None = None) -> None:
        """Record the error that ended the stream, and one repair for each code met more often than it was reported."""
        if error is not None:
            self._repairs.append(Repair(error.code, error.message, *error.position, error.snippet, self.seq))
        position, snippet = (error.position, error.snippet) if error else self.place(self.fed, self.fed)
        for code, number in self._counts.items():
            if (more := number - self.limits.repairs) > 0:
                self._repairs.append(Repair(code, f"{more} more of this kind", *position, snippet, self.seq, more))
        self._counts.clear()

    def take_repairs(self) -> list[Repair]:
        """Return the repairs recorded since the last call."""
        taken, self._repairs = self._repairs, []
        return taken
