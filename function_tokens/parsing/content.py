# SPDX-License-Identifier: Apache-2.0
"""Reads any content, however it is cut and however broken it is: the thorough path of the parser (semantics 1)."""

from __future__ import annotations

import re

from function_tokens.parsing.parse_error import ParserLimits, Position
from function_tokens.parsing.simple_tags import simple_tag_begun
from function_tokens.parsing.skippers import Comment, Construct, Declaration, Instruction, Reasoning
from function_tokens.parsing.tag_scanner import TagScanner
from function_tokens.parsing.token_output import TokenOutput
from function_tokens.parsing.tokens import TokenKind
from function_tokens.parsing.xml_chars import (
    invalid_runs,
    name_begun,
    name_start,
    normalise_newlines,
    reference,
    reference_begun,
    resolve,
    stray_ampersand,
)
from skill_kernel.codes import ParseCode

_FAST_TAG = 256

_text_run = re.compile(r"[^<&\r\]`]+").match
_brackets = re.compile(r"\]+").match
_fence_line = re.compile(r"`{3,}([A-Za-z0-9_+.#\-]{0,32})[ \t]{0,32}(?=[\r\n<]|\Z)").match
_fence_begun = re.compile(r"`+(?:(?<=```)[A-Za-z0-9_+.#\-]{0,32}[ \t]{0,32})?").fullmatch
_backticks = re.compile("`+").match
_FENCE_BEGUN_MAX = 128
_DECLARATIONS = ("<!DOCTYPE", "<!ENTITY", "<!ELEMENT", "<!ATTLIST", "<!NOTATION")
_OPENINGS = ("<!--", "<![CDATA[", *_DECLARATIONS)


class ContentReader(TokenOutput):
    """Element content in segments, with what is undecided at the end of one kept for the next."""

    def __init__(
        self, strict: bool, limits: ParserLimits, stream_id: str, *, reasoning_tags: frozenset[str], strip_fence: bool
    ) -> None:
        super().__init__(strict, limits, stream_id)
        self._reasoning_tags = reasoning_tags
        self._strip_fence = strip_fence
        self._fast_max = min(_FAST_TAG, limits.name_length, limits.attribute_length)
        self._fed = 0  # offset behind the last character that was read; not those kept in _fast
        self._fast = ""  # a begun tag left to the fast path
        self._held = ""  # an undecided beginning kept by this path
        self._held_at = 0
        self._shift = 0  # index i of the segment's text stands at this offset + i …
        self._first = 0  # … but for index 0, which may have been held before dropped characters
        self._construct: Construct | TagScanner | None = None
        self._in_cdata = False
        self._fenced = False
        self._ended = False

    def _read_segments(self, data: str, *, may_keep: bool) -> None:
        """Reads the data without the characters that XML does not have."""
        done = 0
        for run in invalid_runs(data):
            if run.start() > done:
                self._read_segment(data[done : run.start()], done, may_keep=False)
            self._drop_invalid(run[0], run.start())
            done = run.end()
        if done < len(data):
            self._read_segment(data[done:], done, may_keep=may_keep)

    def _drop_invalid(self, run: str, at: int) -> None:
        self._reporter.segment(self._held + run, len(self._held), at, self._fed - len(self._held))
        each = self._reporter.room(ParseCode.INVALID_CHARACTER)
        for i, char in enumerate(run if self._strict else run[:each], len(self._held)):
            message = f"U+{ord(char):04X} is no XML character; leave it out"
            self._reporter.violation(ParseCode.INVALID_CHARACTER, message, i)
        if len(run) > each:
            self._reporter.count(ParseCode.INVALID_CHARACTER, len(run) - each)
        self._fed += len(run)

    def _read_segment(self, segment: str, at: int, *, may_keep: bool) -> None:
        held = len(self._held)
        text = self._held + segment
        self._shift = self._fed - held
        self._first = self._held_at if held else self._shift
        self._held = ""
        self._reporter.segment(text, held, at, self._shift)
        self._fed += len(segment)
        i = self._scan(text, may_keep=may_keep)
        self._flush()
        if i < len(text) and not self._fast:
            self._held, self._held_at = text[i:], self._offset(i)
        self._reporter.end_segment()

    def _scan(self, text: str, *, may_keep: bool = False, final: bool = False) -> int:
        """Reads the text as far as it is decided; the index behind that."""
        i, size = 0, len(text)
        while i < size:
            if self._construct is not None:
                i, done = self._construct.scan(text, i)
                if isinstance(self._construct, TagScanner) and self._construct.waits:
                    return i
                if done:
                    construct, self._construct = self._construct, None
                    if isinstance(construct, TagScanner):
                        self._tag_read(construct, self._offset(i), i - 1)
                continue
            if self._in_cdata:
                j = self._read_cdata(text, i, final=final)
            elif run := _text_run(text, i):
                j = run.end()
                self._text(run[0], self._offset(i), self._offset(j))
            else:
                char = text[i]
                if char == "<":
                    j = self._markup(text, i, may_keep=may_keep)
                    if self._fast:
                        return j
                elif char == "&":
                    j = self._reference(text, i, final=final)
                elif char == "\r":
                    j = self._carriage_return(text, i, final=final)
                elif char == "]":
                    j = self._closing_brackets(text, i, final=final)
                else:
                    j = self._fence(text, i, final=final)
            if j == i:
                return i
            i = j
        return i

    def _offset(self, index: int) -> int:
        return self._shift + index if index else self._first

    def _tag_read(self, tag: TagScanner, end: int, index: int) -> None:
        start = tag.at.offset
        if not tag.is_tag:
            self._text(normalise_newlines(tag.raw), start, end)
        elif tag.closing:
            name = tag.name or (self._open[-1] if self._open else "")
            self._end_tag(name, start, end, index, tag.at)
        else:
            self._start_tag(tag.name, tag.attrs, tag.empty, start, end, index)

    def _start_tag(self, name: str, attrs: dict[str, str] | None, empty: bool, start: int, end: int, index: int) -> None:
        self._flush()
        if name in self._reasoning_tags:
            if not empty:
                self._construct = Reasoning(name, self._reporter)
            return
        self._line_blank = False
        if empty:
            self._emit(TokenKind.SCF, name, attrs, "", start, end)
            return
        if len(self._open) >= self._limits.depth:
            raise self._reporter.exceeded("depth", index)
        self._open.append(name)
        self._emit(TokenKind.AF, name, attrs, "", start, end)

    def _end_tag(self, name: str, start: int, end: int, index: int, at: Position | None = None) -> None:
        self._flush()
        if self._open and self._open[-1] == name:
            self._open.pop()
            self._line_blank = False
            self._emit(TokenKind.RF, name, None, "", start, end)
            return
        at = at or self._reporter.locate(index - (end - start) + 1)
        if name not in self._open:
            self._reporter.violation(ParseCode.MISMATCHED_TAG, f"</{name[:40]}> closes no open element", index, at)
            return
        inner = f"</{name[:40]}> while <{self._open[-1][:40]}> is open; close that first"
        self._reporter.violation(ParseCode.MISMATCHED_TAG, inner, index, at)
        depth = len(self._open) - 1 - self._open[::-1].index(name)
        self._reset_open(depth + 1, start)
        self._open.pop()
        self._line_blank = False
        self._emit(TokenKind.RF, name, None, "", start, end)

    def _markup(self, text: str, i: int, *, may_keep: bool) -> int:
        """At a `<`."""
        size = len(text) - i
        if may_keep and size <= self._fast_max and self._offset(i) == self._shift + i and simple_tag_begun(text, i):
            self._flush()
            self._fast = text[i:]
            self._fed -= size
            return i
        following = text[i + 1 : i + 2]
        if not following:
            return i
        if following == "/":
            self._flush()
            self._construct = TagScanner(self._reporter, self._at(i), closing=True)
            return i + 2
        if following == "!":
            return self._declaration(text, i)
        if following == "?":
            if i + 2 == len(text):
                return i
            if name_start(text, i + 2):
                self._flush()
                message = "a processing instruction is refused; leave it out"
                self._reporter.violation(ParseCode.FORBIDDEN_MARKUP, message, i + 2, self._at(i))
                self._construct = Instruction()
                return i + 2
        elif name_start(text, i + 1):
            self._flush()
            self._construct = TagScanner(self._reporter, self._at(i), closing=False)
            return i + 1
        return self._stray(text, i)

    def _at(self, i: int) -> Position:
        at = self._reporter.locate(i)
        return at if i else Position(self._first, at.line, at.column + self._first - at.offset)

    def _stray(self, text: str, i: int) -> int:
        self._flush()
        message = f"'<' begins no tag: {text[i + 1]!r} cannot follow; write '&lt;'"
        self._reporter.violation(ParseCode.SYNTAX, message, i + 1, self._at(i))
        self._text("<", self._offset(i), self._offset(i + 1))
        return i + 1

    def _declaration(self, text: str, i: int) -> int:
        begun = text[i : i + 10].upper()
        for opening in _OPENINGS:
            known = text[i : i + len(opening)] if opening == "<![CDATA[" else begun[: len(opening)]
            if known == opening:
                self._flush()
                self._opened(opening, i)
                return i + len(opening)
            if len(known) == len(text) - i and opening.startswith(known):
                return i
        return self._stray(text, i)

    def _opened(self, opening: str, i: int) -> None:
        if opening == "<!--":
            self._construct = Comment(self._reporter)
        elif opening == "<![CDATA[":
            self._in_cdata = True
        else:
            message = f"{opening} is refused; leave it out"
            self._reporter.violation(ParseCode.FORBIDDEN_MARKUP, message, i + len(opening) - 1, self._at(i))
            self._construct = Declaration()

    def _read_cdata(self, text: str, i: int, *, final: bool) -> int:
        end = text.find("]]>", i)
        j = end
        if end < 0:
            j = len(text)
            if not final:
                j -= 2 if text.endswith("]]") else 1 if text.endswith(("]", "\r")) else 0
            j = max(i, j)
        if j > i:
            self._text(normalise_newlines(text[i:j]), self._offset(i), self._offset(j))
        if end < 0:
            return j
        self._in_cdata = False
        self._flush()
        return end + 3

    def _reference(self, text: str, i: int, *, final: bool) -> int:
        if found := reference(text, i):
            if found.end() - i > self._limits.name_length:
                raise self._reporter.exceeded("name_length", i + self._limits.name_length)
            self._flush()
            char = resolve(found)
            if char is None:
                message = f"{found[0][:40]!r} names no XML character"
                self._reporter.violation(ParseCode.INVALID_CHARACTER, message, found.end() - 1, self._at(i))
            else:
                self._line_blank = False
                self._emit(TokenKind.REF, "", None, char, self._offset(i), self._offset(found.end()))
            return found.end()
        rest = text[i : i + self._limits.name_length + 1]
        begun = name_begun(rest) if self._strict and len(rest) > 1 and rest[1] != "#" else reference_begun(rest)
        if begun and not final:
            if len(rest) > self._limits.name_length:
                raise self._reporter.exceeded("name_length", i + self._limits.name_length)
            return i
        self._flush()
        code, message = stray_ampersand(text, i)
        if begun:
            code, message = ParseCode.UNCLOSED, f"the stream ends in {rest!r}"
        elif not self._strict and name_start(text, i + 1):
            code, message = ParseCode.UNKNOWN_REFERENCE, "'&' begins no reference; write '&amp;'"
        self._reporter.violation(code, message, min(i + 1, len(text) - 1), self._at(i))
        self._text("&", self._offset(i), self._offset(i + 1))
        return i + 1

    def _carriage_return(self, text: str, i: int, *, final: bool) -> int:
        if i + 1 == len(text) and not final:
            return i
        j = i + 2 if text[i + 1 : i + 2] == "\n" else i + 1
        self._text("\n", self._offset(i), self._offset(j))
        return j

    def _closing_brackets(self, text: str, i: int, *, final: bool) -> int:
        j = _brackets(text, i).end()  # type: ignore[union-attr]
        if j == len(text):
            keep = 0 if final else 2
            j = max(i, j - keep) if j - i > keep else i
            if j > i:
                self._text(text[i:j], self._offset(i), self._offset(j))
            return j
        if text[j] == ">" and j - i >= 2:
            if j - i > 2:
                self._text(text[i : j - 2], self._offset(i), self._offset(j - 2))
            i = j - 2
            self._flush()
            self._reporter.violation(ParseCode.SYNTAX, "']]>' in text; write ']]&gt;'", j, self._at(i))
        self._text(text[i:j], self._offset(i), self._offset(j))
        return j

    def _fence(self, text: str, i: int, *, final: bool) -> int:
        """At backticks: a fence line at the start of a line opens or closes a Markdown fence around the answer."""
        j = _backticks(text, i).end()  # type: ignore[union-attr]
        can_be = self._line_blank or not self._open if self._fenced else self._line_blank and not self._open
        if self._strip_fence and can_be:
            if not final and len(text) - i <= _FENCE_BEGUN_MAX and _fence_begun(text, i):
                return i
            if j - i >= 3:
                if line := _fence_line(text, i):
                    self._fenced = not self._fenced or bool(line[1])
                    return line.end()
                if self._fenced:
                    self._fenced = False
                    return j
        self._text(text[i:j], self._offset(i), self._offset(j))
        return j

    def _finish(self, size: int) -> None:
        held, self._held = self._held, ""
        self._shift = self._fed - len(held)
        self._first = self._held_at if held else self._shift
        self._reporter.segment(held, len(held), size, self._shift)
        if isinstance(self._construct, TagScanner):
            self._construct.final = True
        done = self._scan(held, final=True)
        self._flush()
        if done < len(held):
            message = f"the stream ends in {held[done:]!r}"
            self._reporter.violation(ParseCode.UNCLOSED, message, len(held) - 1, self._at(done))
        inside = self._construct.unfinished if self._construct else "a CDATA section" if self._in_cdata else ""
        if inside:
            self._reporter.violation(ParseCode.UNCLOSED, f"the stream ends inside {inside}", self._reporter.end)
        for name in reversed(self._open):
            message = f"<{name[:40]}> is open at the end of the stream"
            self._reporter.violation(ParseCode.UNCLOSED, message, self._reporter.end)
        self._reset_open(0, self._fed)
        self._reporter.summarise()
        self._ended = True
