# SPDX-License-Identifier: Apache-2.0
"""Turn text in pieces into function tokens as they are completed (GhostShell 3.4.1)."""

import re
from collections.abc import Mapping
from typing import Literal

from function_tokens.parsing.lexer import (
    CDATA,
    TagLexer,
    TagReader,
    begins_name,
    name_end,
    opening_at,
    reference,
    resolve,
    skip_comment,
    skip_declaration,
    skip_reasoning,
    stray_ampersand,
)
from function_tokens.parsing.source import INVALID, SPACE, Source, Step, StreamEnd, run_of
from function_tokens.parsing.tokens import NO_ATTRS, FunctionToken, ParseError, ParserLimits, Repair, TokenKind
from skill_kernel.codes import ParseCode

REASONING_TAGS = ("think", "thinking", "reasoning", "thought")
"""Elements whose content is a model's reasoning (semantics 1.6)."""

_SPECIAL = rf"<&\]`\r{INVALID}"
_special = re.compile(f"[{_SPECIAL}]").search
"""Finds what makes a piece more than text."""
_text_run = run_of(r"^<&\]`\r")
_TAG = r"""<[^<>"'&\s!?=][^<>"']*(?:(?:"[^"<]*"|'[^'<]*')[^<>"']*)*>"""
"""A complete tag that lxml may be able to read as it is."""
_NAME = r"[A-Za-z_][\w.\-]*"
_BEGUN = rf"<(?:/?(?:{_NAME})?|{_NAME} (?:{_NAME}(?:=([\"'][^<>\n\r]*)?)?)?)"
_tag_begun = re.compile(_BEGUN, re.ASCII).fullmatch
"""Matches the beginning of a tag in which nothing is to mend so far."""
_plain = re.compile(f"({_TAG})?([^{_SPECIAL}]*)({_BEGUN})?", re.ASCII).fullmatch
"""Matches a tag, text and the beginning of another tag, each of which may be missing."""
_reference_begun = re.compile(r"&(?:l|lt|g|gt|a|am|amp|ap|apo|apos|q|qu|quo|quot|#|#[0-9]+|#x|#x[0-9A-Fa-f]+)?").fullmatch
_brackets = run_of(r"\]")

_MAX_BACKTICKS = 128
"""More of them in a row are text."""
_backticks = run_of("`")
_fence_line = re.compile(r"`{3,}([A-Za-z0-9_+.#\-]{0,32})[ \t]{0,32}(?=[\r\n<]|\Z)").match
_fence_begun = re.compile(r"`+(?:(?<=```)[A-Za-z0-9_+.#\-]{0,32}[ \t]{0,32})?").fullmatch

_CHAR = TokenKind.CHAR
_new = tuple.__new__  # half the time of the NamedTuple's own constructor


class StreamingParser:
    """Turn a stream of XML content into function tokens (semantics 1).

    The stream is element content: text and any number of elements, without one root. How it is cut into pieces does
    not change the tokens, once adjacent CHAR tokens are joined.

    `strict`: the first violation raises ParseError and ends the stream; every later call raises it again.
    `lenient`: violations are mended; `take_repairs()` returns the repairs. Past a limit a lenient stream ends too: its open
    elements are reset, LIMIT_EXCEEDED is among the repairs, and later text is ignored.

    A piece of nothing but text is a token at once, and lxml reads each tag once it is complete. What it refuses is read
    again by TagLexer, which reports and mends it.
    """

    def __init__(
        self,
        mode: Literal["strict", "lenient"] = "lenient",
        limits: ParserLimits | None = None,
        *,
        reasoning_tags: tuple[str, ...] = REASONING_TAGS,
        strip_fence: bool = True,
        stream_id: str = "",
    ) -> None:
        self._limits = limits or ParserLimits()
        self._strict = mode == "strict"
        self._reasoning_tags = frozenset(reasoning_tags)
        self._strip_fence = strip_fence
        self._stream_id = stream_id
        self._tag_max = min(self._limits.name_length, self._limits.attribute_length)
        self._total = self._limits.total_length
        self._source = Source(self._strict, self._limits)
        self._write = self._source.written.write
        self._tags = TagReader()
        self._content = self._read_content()
        self._out: list[FunctionToken] = []
        self._open: list[str] = []
        self._begun = ""  # the beginning of a tag, not given to the source yet
        self._between = True  # False while the reader of the content holds something that is begun
        self._inside = ""  # the construct that is being read, as an error names it
        self._line_blank = True
        self._fenced = False
        self._ticks_end = -1  # offset behind more backticks than a fence has
        self._error: ParseError | None = None
        self.ended = False
        """True when nothing more can come: closed, failed, or ended by a limit."""

    def feed(self, text: str) -> list[FunctionToken]:
        """Return the tokens that `text` completes. Raises ParseError in strict mode."""
        source, begun = self._source, self._begun
        start = source.fed
        piece = begun + text
        end = start + len(piece)
        if not self._between or end > self._total:
            return self._read(text)
        if begun:
            if len(piece) <= self._tag_max and _tag_begun(piece):
                self._begun = piece
                return []
        elif text and not _special(text):
            if self._line_blank or "\n" in text:
                self._line_goes_on(text)
            source.fed = end
            self._write(text)
            seq = source.seq
            source.seq = seq + 1
            return [_new(FunctionToken, (_CHAR, "", NO_ATTRS, text, start, end, seq, self._stream_id))]
        if not (plain := _plain(piece)):
            return self._read(text)
        tag, words, begun, _ = plain.groups("")
        middle, end = start + len(tag), end - len(begun)
        if len(begun) > self._tag_max or (tag and not self._take_tag(tag, start, middle)):
            return self._read(text)
        source.fed = end
        self._write(tag + words)
        if words:
            self._line_goes_on(words)
            self._emit(_CHAR, "", NO_ATTRS, words, middle, end)
        self._begun = begun
        return self._taken()

    def close(self) -> list[FunctionToken]:
        """Return the tokens that the end of the stream completes; with them the stream has ended.

        Strict: raises ParseError (UNCLOSED) for an open element or unfinished markup. Lenient: unfinished markup is
        dropped, open elements are reset.
        """
        if self.ended and self._error is None:
            return []
        return self._read("", final=True)

    def take_repairs(self) -> list[Repair]:
        """Return what the lenient parser mended since the last call."""
        return self._source.take_repairs()

    # Pieces

    def _read(self, text: str, *, final: bool = False) -> list[FunctionToken]:
        """Read any text: with the reader of the content, which goes on where it stopped."""
        if self._error is not None and self._strict:
            raise self._error
        if self.ended or not (text or final):
            return []
        source = self._source
        piece, self._begun = self._begun + text, ""
        room = self._total - source.fed
        try:
            for _ in source.take(piece[:room]):
                next(self._content)
            if len(piece) > room:
                raise source.exceeded("total_length", source.fed)
            if final:
                self._finish()
        except ParseError as error:
            self._fail(error)
        if self.ended:
            source.written.truncate(0)  # nobody asks for a place in it any more
        self._between = not (self.ended or self._inside or source.at < len(source.text))
        return self._taken()

    def _taken(self) -> list[FunctionToken]:
        out, self._out = self._out, []
        return out

    def _finish(self) -> None:
        source = self._source
        source.final = True
        next(self._content, None)
        if source.at < len(source.text):
            source.violation(ParseCode.UNCLOSED, f"the stream ends in {source.text[source.at :]!r}")
        if self._inside:
            source.violation(ParseCode.UNCLOSED, f"the stream ends inside {self._inside}")
        for name in reversed(self._open):
            source.violation(ParseCode.UNCLOSED, f"<{name[:40]}> is open at the end of the stream", source.fed)
        self._reset_open(0, source.fed)
        source.summarise()
        self.ended = True

    def _fail(self, error: ParseError) -> None:
        self.ended, self._between, self._error = True, False, error
        if self._strict:
            error.tokens = tuple(self._out)
            raise error
        self._source.summarise(error)
        self._reset_open(0, error.offset)

    # Tokens

    def _emit(self, kind: TokenKind, name: str, attrs: Mapping[str, str], text: str, start: int, end: int) -> None:
        seq = self._source.seq
        self._out.append(_new(FunctionToken, (kind, name, attrs, text, start, end, seq, self._stream_id)))
        self._source.seq = seq + 1
        self._line_blank = self._line_blank and kind is TokenKind.CHAR

    def _text(self, end: int) -> None:
        """Take the text up to `end`, with line ends as XML reads them: a carriage return may wait for what follows it."""
        source = self._source
        if source.text[end - 1 : end] == "\r" and end == len(source.text) and not source.final:
            end -= 1
        if end > (i := source.at):
            self._chars(source.text[i:end], source.offset(i), source.offset(end, end=True))
            source.at = end

    def _chars(self, text: str, start: int, end: int) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
        if self._line_blank or "\n" in text:
            self._line_goes_on(text)
        self._emit(TokenKind.CHAR, "", NO_ATTRS, text, start, end)

    def _line_goes_on(self, text: str) -> None:
        newline = text.rfind("\n")
        self._line_blank = (newline >= 0 or self._line_blank) and not text[newline + 1 :].strip(SPACE)

    def _reset_open(self, depth: int, at: int) -> None:
        while len(self._open) > depth:
            self._emit(TokenKind.RF, self._open.pop(), NO_ATTRS, "", at, at)

    # Content

    def _read_content(self) -> Step[None]:
        source = self._source
        while True:
            self._text(_text_run(source.text, source.at))
            text, i = source.text, source.at
            char = text[i : i + 1]
            if char == "<" and (construct := self._open_markup(text, i)):
                try:
                    yield from construct
                except StreamEnd:
                    source.at = len(source.text)
                    return
                self._inside = ""
                continue
            if char == "&":
                self._reference(text, i)
            elif char == "\r":
                self._text(i + 1 + text.startswith("\n", i + 1))
            elif char == "]":
                self._closing_brackets(text, i)
            elif char == "`":
                self._fence(text, i)
            if source.at == i:
                if source.final:
                    return
                yield

    def _take_tag(self, tag: str, start: int, end: int) -> bool:
        """Take a complete tag if lxml reads it and no limit speaks against it; return whether it was taken."""
        if len(tag) > self._tag_max:
            return False
        if tag[1] == "/":
            if not self._open or tag != f"</{self._open[-1]}>":
                return False
            self._emit(TokenKind.RF, self._open.pop(), NO_ATTRS, "", start, end)
            return True
        if ":" in tag or "xmlns" in tag:
            return False  # lxml would read namespaces, which function tokens do not have
        empty = tag[-2] == "/"
        read = self._tags.read(tag if empty else tag[:-1] + "/>")
        if not read or len(read[1]) > self._limits.attributes or read[0] in self._reasoning_tags:
            return False
        return self._activate(read[0], read[1], empty, start, end)

    def _activate(self, name: str, attrs: Mapping[str, str], empty: bool, start: int, end: int) -> bool:
        """Give the token of a start tag; return False where too many elements are open."""
        if not empty:
            if len(self._open) >= self._limits.depth:
                return False
            self._open.append(name)
        self._emit(TokenKind.SCF if empty else TokenKind.AF, name, attrs, "", start, end)
        return True

    def _open_markup(self, text: str, i: int) -> Step[None] | None:
        """Return the reader of what begins with the `<` at `i`, or None where that is text or not known yet."""
        source = self._source
        following = text[i + 1 : i + 2]
        if following == "/" or following and begins_name(following):
            return self._mend_tag(TagLexer(source, self._tags, closing=following == "/"))
        opening = opening_at(text, i)
        if opening is None:
            return None
        if not opening:
            message = f"'<' begins no tag: {following!r} cannot follow; write '&lt;'"
            source.violation(ParseCode.SYNTAX, message)
            self._text(i + 1)
            return None
        start = source.offset(i)
        source.at = i + len(opening)
        if opening == CDATA:
            self._inside = "a CDATA section"
            return self._cdata()
        if opening == "<!--":
            self._inside = "a comment"
            return skip_comment(source)
        self._inside = "a processing instruction" if opening == "<?" else "a markup declaration"
        message = f"{self._inside if opening == '<?' else opening} is refused; leave it out"
        source.violation(ParseCode.FORBIDDEN_MARKUP, message, start)
        return source.find("?>") if opening == "<?" else skip_declaration(source)

    def _mend_tag(self, lexer: TagLexer) -> Step[None]:
        source = self._source
        self._inside = "a tag"
        try:
            yield from lexer.read()
        except StreamEnd:
            self._inside = lexer.unfinished
            raise
        start, end = lexer.start, source.offset(source.at, end=True)
        if lexer.is_text:
            self._chars(source.text_from(start), start, end)
        elif lexer.closing:
            self._end_tag(lexer, end)
        elif lexer.name not in self._reasoning_tags:
            if not self._activate(lexer.name, lexer.attrs or NO_ATTRS, lexer.empty, start, end):
                raise source.exceeded("depth", end - 1)
        elif not lexer.empty:
            self._inside = f"the reasoning block <{lexer.name}>"
            yield from skip_reasoning(source, lexer.name)

    def _end_tag(self, lexer: TagLexer, end: int) -> None:
        source = self._source
        name = lexer.name or (self._open[-1] if self._open else "")
        if name not in self._open:
            message = f"</{name[:40]}> closes no open element"
            source.violation(ParseCode.MISMATCHED_TAG, message, lexer.start)
            return
        if self._open[-1] != name:
            message = f"</{name[:40]}> while <{self._open[-1][:40]}> is open; close that first"
            source.violation(ParseCode.MISMATCHED_TAG, message, lexer.start)
            self._reset_open(len(self._open) - self._open[::-1].index(name), lexer.start)
        self._open.pop()
        self._emit(TokenKind.RF, name, NO_ATTRS, "", lexer.start, end)

    def _cdata(self) -> Step[None]:
        source = self._source
        while (end := source.text.find("]]>", source.at)) < 0:
            text = source.text
            keep = 0 if source.final else 2 if text.endswith("]]") else text.endswith("]")
            self._text(max(source.at, len(text) - keep))
            yield from source.more()
        self._text(end)
        source.at = end + 3

    def _reference(self, text: str, i: int) -> None:
        source, longest = self._source, self._limits.name_length
        if found := reference(text, i):
            if found.end() - i > longest:
                raise source.exceeded("name_length", source.offset(i + longest))
            char = resolve(found[0])
            if char is None:
                source.violation(ParseCode.INVALID_CHARACTER, f"{found[0][:40]!r} names no XML character")
            else:
                self._emit(TokenKind.REF, "", NO_ATTRS, char, source.offset(i), source.offset(found.end(), end=True))
            source.at = found.end()
            return
        rest = text[i : i + longest + 1]
        named = len(rest) > 1 and begins_name(rest[1])
        begun = name_end(rest, 1) == len(rest) if self._strict and named else _reference_begun(rest)
        if begun and not source.final:
            if len(rest) > longest:
                raise source.exceeded("name_length", source.offset(i + longest))
            return
        code, message = stray_ampersand(text, i)
        if begun:
            code, message = ParseCode.UNCLOSED, f"the stream ends in {rest!r}"
        elif named and not self._strict:
            code, message = ParseCode.UNKNOWN_REFERENCE, "'&' begins no reference; write '&amp;'"
        source.violation(code, message)
        self._text(i + 1)

    def _closing_brackets(self, text: str, i: int) -> None:
        source, end = self._source, _brackets(text, i)
        if end == len(text) and not source.final:
            end = max(i, end - 2)  # they may begin ']]>'
        elif text[end : end + 1] == ">" and end - i >= 2:
            self._text(end - 2)
            source.violation(ParseCode.SYNTAX, "']]>' in text; write ']]&gt;'")
        self._text(end)

    def _fence(self, text: str, i: int) -> None:
        """Read backticks: a fence line at the start of a line opens or closes a Markdown fence around the answer."""
        source = self._source
        j = _backticks(text, i)
        if j - i > _MAX_BACKTICKS or source.offset(i) == self._ticks_end:
            self._ticks_end = source.offset(j)
        elif self._strip_fence and (
            self._line_blank and not self._open or self._fenced and (self._line_blank or not self._open)
        ):
            if not source.final and _fence_begun(text, i):
                return
            if j - i >= 3 and (line := _fence_line(text, i)):
                self._fenced = not self._fenced or bool(line[1])
                source.at = line.end()
                return
            if j - i >= 3 and self._fenced:
                self._fenced = False
                source.at = j
                return
        self._text(j)
