# SPDX-License-Identifier: Apache-2.0
"""Where in the stream the parser is, and what becomes of a violation there: an exception or a repair."""

from __future__ import annotations

from collections import Counter, deque

from function_tokens.parsing.parse_error import ParseError, ParserLimits, Position, Repair
from skill_kernel.codes import ParseCode

_SNIPPET = 40
_PAST = 320  # texts of one character or more: a snippet and the longest beginning the parser may hold


class Reporter:
    """Turns indexes of the text in hand into positions of the stream, and violations into errors or repairs.

    The parser announces its text by `feed()` and `segment()`; indexes given later count in that segment's buffer and
    may only grow, so that newlines are counted once.
    """

    def __init__(self, strict: bool, limits: ParserLimits) -> None:
        self.strict = strict
        self.limits = limits
        self.seq = 0
        self.past: deque[str] = deque(maxlen=_PAST)
        """Tails of the texts before the one in hand, for snippets."""
        self._repairs: list[Repair] = []
        self._counts: Counter[ParseCode] = Counter()
        self._line = 1
        self._line_start = 0
        self._data = ""
        self._data_shift = 0
        self._buffer = ""
        self._shift = 0
        self._counted = 0

    @property
    def end(self) -> int:
        """The index behind the segment."""
        return len(self._buffer)

    def feed(self, data: str, offset: int) -> None:
        """`data` is in hand from now on; it begins at `offset`."""
        self._data = data
        self.segment("", 0, 0, offset)

    def segment(self, buffer: str, held: int, data_at: int, shift: int) -> None:
        """`buffer` is `held` characters kept from before and a part of the data from index `data_at` on; index i of
        it stands at offset `shift` + i of the stream."""
        self._buffer, self._shift, self._counted = buffer, shift, 0
        self._data_shift = data_at - held

    def end_segment(self) -> None:
        """Counts the newlines of the segment to its end."""
        if "\n" in self._buffer:
            self.locate(self.end)

    def newlines(self, text: str, offset: int) -> None:
        """Counts the newlines of a text that was read outside any segment."""
        self._line += text.count("\n")
        self._line_start = offset + text.rindex("\n") + 1

    def locate(self, index: int) -> Position:
        """The position of an index of the segment."""
        start, newlines = self._counted, self._buffer.count("\n", self._counted, index)
        if newlines:
            self._line += newlines
            self._line_start = self._shift + self._buffer.rfind("\n", start, index) + 1
        self._counted = max(start, index)
        offset = self._shift + index
        return Position(offset, self._line, offset - self._line_start + 1)

    def snippet(self, index: int) -> str:
        """The last characters of the stream up to and with the one at `index`."""
        end = min(index + self._data_shift + 1, len(self._data))
        if end >= _SNIPPET:
            return self._data[end - _SNIPPET : end]
        past = "".join(self.past)
        return (past + self._data[:end] if end >= 0 else past[:end])[-_SNIPPET:]

    def violation(self, code: ParseCode, message: str, index: int, at: Position | None = None) -> None:
        """Raises ParseError in strict mode, otherwise records a repair. `index` is where the violation shows, `at`
        where it stands if that is elsewhere."""
        if self.strict:
            raise ParseError(code, message, at or self.locate(index), self.snippet(index))
        if self._counts[code] < self.limits.repairs:
            self.record(self.describe(code, message, index, at))
        else:
            self._counts[code] += 1

    def describe(self, code: ParseCode, message: str, index: int, at: Position | None = None) -> Repair:
        """A repair that is not recorded yet."""
        position = at or self.locate(index)
        return Repair(code, message, *position, self.snippet(index), self.seq)

    def record(self, repair: Repair) -> None:
        """Reports a repair, or only counts it once its code has been reported `limits.repairs` times."""
        self._counts[repair.code] += 1
        if self._counts[repair.code] <= self.limits.repairs:
            self._repairs.append(repair)

    def count(self, code: ParseCode, number: int) -> None:
        """Counts repairs that are past the reported ones."""
        self._counts[code] += number

    def room(self, code: ParseCode) -> int:
        """How many repairs of this code will still be reported one by one."""
        return max(0, self.limits.repairs - self._counts[code])

    def exceeded(self, limit: str, index: int) -> ParseError:
        """The error for a limit passed at `index`, to be raised in either mode."""
        value = getattr(self.limits, limit)
        message = f"{limit} is over its limit of {value}; raise it or write less"
        return ParseError(ParseCode.LIMIT_EXCEEDED, message, self.locate(index), self.snippet(index))

    def ended_by(self, error: ParseError) -> None:
        """Records the error that ended a lenient stream."""
        self._repairs.append(Repair(error.code, error.message, error.offset, error.line, error.column, error.snippet, self.seq))

    def summarise(self) -> None:
        """Records one repair for each code that was met more often than it was reported."""
        at, snippet = self.locate(self.end), self.snippet(self.end - 1)
        for code, number in self._counts.items():
            more = number - self.limits.repairs
            if more > 0:
                self._repairs.append(Repair(code, f"{more} more of this kind", *at, snippet, self.seq, more))
        self._counts.clear()

    def take(self) -> list[Repair]:
        """The repairs recorded since the last call."""
        taken, self._repairs = self._repairs, []
        return taken
