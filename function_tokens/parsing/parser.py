# SPDX-License-Identifier: Apache-2.0
"""The streaming parser: text in pieces in, function tokens out as they are completed (GhostShell 3.4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from function_tokens.parsing.content import ContentReader
from function_tokens.parsing.inner_quotes import LOOK
from function_tokens.parsing.parse_error import ParseError, ParserLimits, Repair
from function_tokens.parsing.simple_tags import (
    attribute_goes_on,
    name_goes_on,
    plain_run,
    simple_attributes,
    simple_tag,
    simple_tag_begun,
    simple_tag_then_text,
    special,
    text_then_tag,
)
from function_tokens.parsing.tokens import NO_ATTRS, FunctionToken, TokenKind
from function_tokens.parsing.xml_chars import reference, reference_begun, resolve

REASONING_TAGS = ("think", "thinking", "reasoning", "thought")
"""Elements whose content is a model's reasoning (semantics 1.6)."""

_AF, _RF, _SCF, _CHAR, _REF = TokenKind
_new = tuple.__new__  # half the time of the NamedTuple's own constructor

_TEXT, _TAG, _TAG_ATTRIBUTES, _TAG_VALUE, _REFERENCE, _SLOW = range(6)
"""What the next chunk goes on with. A begun tag is in the mode `_TAG` plus the last group of `simple_tag_begun`."""

_TAIL = 40 + 2 * LOOK
"""Characters kept of a text: a snippet behind what may be held until more is known."""


class StreamingParser(ContentReader):
    """Turns a stream of XML content into function tokens (semantics 1).

    The stream is element content: text and any number of elements, without one root. How it is cut into pieces does
    not change the tokens, once adjacent CHAR tokens are joined.

    `strict`: the first violation raises ParseError and ends the stream; every later call raises it again.
    `lenient`: violations are mended; `take_repairs()` tells what was. Past a limit a lenient stream ends too: its open
    elements are reset, LIMIT_EXCEEDED is among the repairs, and later text is ignored.
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
        if mode not in ("strict", "lenient"):
            raise ValueError(f"mode {mode!r} is unknown; give 'strict' or 'lenient'")
        limits = limits or ParserLimits()
        super().__init__(mode == "strict", limits, stream_id, reasoning_tags=frozenset(reasoning_tags), strip_fence=strip_fence)
        self._remember = self._reporter.past.append
        self._total = limits.total_length
        self._mode = _TEXT
        self._error: ParseError | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more can come: closed, failed, or ended by a limit."""
        return self._ended

    @property
    def open_elements(self) -> tuple[str, ...]:
        """Names of the elements that are open, the outermost first."""
        return tuple(self._open)

    def feed(self, text: str) -> list[FunctionToken]:
        """The tokens that `text` completes. Raises ParseError in strict mode."""
        mode = self._mode
        if not mode:  # _TEXT
            start = self._fed
            end = start + len(text)
            if end > self._total:
                return self._read(text)
            if special(text) or not text:
                split = text_then_tag(text)
                if not split:
                    return self._read_simple(text)
                text, self._fast = split.groups()
                self._mode = _TAG
                if not text:
                    return []
                end = start + len(text)
            self._fed = end
            if self._line_blank or "\n" in text:
                self._line_passed(text, start)
            seq = self._seq
            self._seq = seq + 1
            self._remember(text)
            return [_new(FunctionToken, (_CHAR, "", NO_ATTRS, text, start, end, seq, self._stream_id))]
        if mode == _SLOW:
            return self._read(text)
        fast = self._fast
        begun = fast + text
        if len(begun) > self._fast_max:
            return self._read(text)
        if ">" in text:
            return self._read_tag(begun)
        if mode == _TAG_VALUE:
            if "<" in text:
                return self._read_simple(begun)
        elif mode == _REFERENCE:
            return self._read_simple(begun)
        elif not (text.isidentifier() and text.isascii() and fast[-1] != "="):
            if mode == _TAG_ATTRIBUTES:
                match = attribute_goes_on(fast[-1] + text)
                if match and match.lastindex:
                    self._mode = _TAG_VALUE
            else:
                # Right behind `<` or `</` less is allowed than within a name.
                match = name_goes_on(text) if fast[1:2] not in "/" else simple_tag_begun(begun)
                if match:
                    self._mode = _TAG + (match.lastindex or 0)
            if not match:
                return self._read_simple(begun)
        self._fast = begun
        return []

    def close(self) -> list[FunctionToken]:
        """The tokens that the end of the stream completes; with them the stream has ended.

        Strict: raises ParseError (UNCLOSED) for an open element or unfinished markup. Lenient: unfinished markup is
        dropped, open elements are reset.
        """
        if self._ended and self._error is None:
            return []
        return self._read("", final=True)

    def take_repairs(self) -> list[Repair]:
        """What the lenient parser mended since the last call."""
        return self._reporter.take()

    def _read_tag(self, data: str) -> list[FunctionToken]:
        """Reads one whole simple tag and the text behind it; leaves everything else to `_read_simple`."""
        found = simple_tag_then_text(data)
        if not found or self._fed + len(data) > self._total:
            return self._read_simple(data)
        name, first, value, second, other, more, empty, closed, text, begun = found.groups()
        kind, attrs = _RF, NO_ATTRS
        open_elements = self._open
        length = len(data) - len(text)
        if begun:
            length -= len(begun)
        if length > self._fast_max:
            return self._read_simple(data)
        if closed:
            if not open_elements or open_elements[-1] != closed:
                return self._read_simple(data)
            name = open_elements.pop()
        else:
            if first:
                # Printable characters are characters of XML, but not the other way round.
                if more or first == second or not (data.isascii() or (value + (other or "")).isprintable()):
                    return self._read_simple(data)
                attrs = {first: value, second: other} if second else {first: value}
                if len(attrs) > self._limits.attributes:
                    return self._read_simple(data)
            elif more:
                return self._read_simple(data)
            if name in self._reasoning_tags:
                return self._read_simple(data)
            if empty:
                kind = _SCF
            elif len(open_elements) >= self._limits.depth:
                return self._read_simple(data)
            else:
                kind = _AF
                open_elements.append(name)
        start = self._fed
        mid = start + length
        seq = self._seq
        stream_id = self._stream_id
        self._line_blank = False
        if begun:
            self._fast = begun
            self._mode = _TAG
            self._remember(data[: length + len(text)][-40:])
        else:
            self._fast = ""
            self._mode = _TEXT
            self._remember(data if len(data) <= 40 else data[-40:])
        tag = _new(FunctionToken, (kind, name, attrs, "", start, mid, seq, stream_id))
        if not text:
            self._seq = seq + 1
            self._fed = mid
            return [tag]
        self._seq = seq + 2
        self._fed = end = mid + len(text)
        if "\n" in text:
            self._line_passed(text, mid)
        return [tag, _new(FunctionToken, (_CHAR, "", NO_ATTRS, text, mid, end, seq + 1, stream_id))]

    def _read_simple(self, data: str) -> list[FunctionToken]:
        """Reads plain text and whole simple tags; from anything else on `_read` takes over."""
        base, size = self._fed, len(data)
        self._fast = ""
        if base + size > self._total:
            return self._read(data)
        out: list[FunctionToken] = []
        seq, stream_id, open_elements = self._seq, self._stream_id, self._open
        i = 0
        while i < size:
            char = data[i]
            if char == "<":
                tag = simple_tag(data, i)
                if not tag:
                    break
                j = tag.end()
                name, written, empty, closed = tag.groups()
                attrs: Mapping[str, str] = NO_ATTRS
                if closed:
                    if j - i > self._fast_max or not open_elements or open_elements[-1] != closed:
                        break
                    name, kind = open_elements.pop(), _RF
                else:
                    if written:
                        found = simple_attributes(written)
                        if not found or len(found) > self._limits.attributes:
                            break
                        attrs = found
                    if j - i > self._fast_max or name in self._reasoning_tags:
                        break
                    kind = _SCF
                    if not empty:
                        if len(open_elements) >= self._limits.depth:
                            break
                        open_elements.append(name)
                        kind = _AF
                out.append(_new(FunctionToken, (kind, name, attrs, "", base + i, base + j, seq, stream_id)))
                self._line_blank = False
            elif char == "&":
                entity = reference(data, i)
                meant = entity and resolve(entity)
                if not entity or not meant or entity.end() - i > self._fast_max:
                    break
                j = entity.end()
                out.append(_new(FunctionToken, (_REF, "", NO_ATTRS, meant, base + i, base + j, seq, stream_id)))
                self._line_blank = False
            else:
                run = plain_run(data, i)
                if not run:
                    break
                text, j = run[0], run.end()
                out.append(_new(FunctionToken, (_CHAR, "", NO_ATTRS, text, base + i, base + j, seq, stream_id)))
                if self._line_blank or "\n" in text:
                    self._line_passed(text, base + i)
            seq += 1
            i = j
        self._seq = seq
        self._fed = base + i
        if i == size:
            self._mode = _TEXT
            self._remember(data if size <= 40 else data[-40:])
            return out
        if i:
            self._remember(data[:i][-40:])
        if size - i <= self._fast_max and (begun := simple_tag_begun(data, i)):
            self._fast = data[i:]
            self._mode = _TAG + (begun.lastindex or 0)
            return out
        if size - i <= self._fast_max and reference_begun(data, i):
            self._fast, self._mode = data[i:], _REFERENCE
            return out
        return self._read(data[i:], out)

    def _read(self, text: str, before: list[FunctionToken] | None = None, *, final: bool = False) -> list[FunctionToken]:
        """Reads anything; the tokens follow those of `before`, which the same text has completed."""
        if self._error is not None and self._strict:
            raise self._error
        if self._ended or not (text or final):
            return []
        data = self._fast + text
        fast = self._fast = ""
        self._mode = _SLOW
        self._out = before if before is not None else []
        self._reporter.seq = self._seq
        room = self._total - self._fed
        over = len(data) > room
        if over:
            data = data[:room]
        self._reporter.feed(data, self._fed)
        try:
            self._read_segments(data, may_keep=not (over or final))
            if over:
                raise self._reporter.exceeded("total_length", self._reporter.end)
            if final:
                self._finish(len(data))
        except ParseError as error:
            self._fail(error)
        fast = self._fast
        if tail := data[: len(data) - len(fast)][-_TAIL:]:
            self._remember(tail)
        if fast:
            self._mode = _TAG + (simple_tag_begun(fast).lastindex or 0)  # type: ignore[union-attr]
        elif not (self._construct or self._in_cdata or self._held or self._ended):
            self._mode = _TEXT
        out, self._out = self._out, []
        return out

    def _fail(self, error: ParseError) -> None:
        self._flush()
        self._ended, self._error = True, error
        if self._strict:
            error.tokens = tuple(self._out)
            raise error
        self._reporter.ended_by(error)
        self._reset_open(0, error.offset)
        self._reporter.summarise()
