# SPDX-License-Identifier: Apache-2.0
"""What the parser's two paths share: the tokens given so far, the elements open and the state of the line."""

from __future__ import annotations

from function_tokens.parsing.parse_error import ParserLimits
from function_tokens.parsing.reporter import Reporter
from function_tokens.parsing.tokens import NO_ATTRS, FunctionToken, TokenKind
from function_tokens.parsing.xml_chars import SPACE


class TokenOutput:
    """Collects the tokens of a stream in order; text is gathered until something else comes."""

    def __init__(self, strict: bool, limits: ParserLimits, stream_id: str) -> None:
        self._limits = limits
        self._strict = strict
        self._stream_id = stream_id
        self._reporter = Reporter(strict, limits)
        self._seq = 0
        self._open: list[str] = []
        self._line_blank = True
        self._out: list[FunctionToken] = []
        self._parts: list[str] = []
        self._part_start = 0
        self._part_end = 0

    def _emit(self, kind: TokenKind, name: str, attrs: dict[str, str] | None, text: str, start: int, end: int) -> None:
        if self._parts:
            self._flush()
        seq = self._seq
        self._out.append(FunctionToken(kind, name, attrs or NO_ATTRS, text, start, end, seq, self._stream_id))
        self._seq = self._reporter.seq = seq + 1

    def _text(self, text: str, start: int, end: int) -> None:
        if not self._parts:
            self._part_start = start
        elif self._part_end != start:
            self._flush()
            self._part_start = start
        self._parts.append(text)
        self._part_end = end
        if "\n" in text:
            self._line_blank = not text[text.rindex("\n") :].strip(SPACE)
        elif self._line_blank:
            self._line_blank = not text.strip(SPACE)

    def _flush(self) -> None:
        if self._parts:
            text = "".join(self._parts)
            self._parts.clear()
            self._emit(TokenKind.CHAR, "", None, text, self._part_start, self._part_end)

    def _reset_open(self, depth: int, at: int) -> None:
        while len(self._open) > depth:
            self._emit(TokenKind.RF, self._open.pop(), None, "", at, at)

    def _line_passed(self, text: str, start: int) -> None:
        if "\n" in text:
            self._reporter.newlines(text, start)
            text = text[text.rindex("\n") :]
            self._line_blank = True
        self._line_blank = self._line_blank and not text.strip(SPACE)
