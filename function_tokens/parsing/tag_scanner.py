# SPDX-License-Identifier: Apache-2.0
"""Reads one tag, however it is cut, and mends what is clear in it (GhostShell 3.3, semantics 1.5)."""

from __future__ import annotations

import re
from collections.abc import Callable

from function_tokens.parsing.inner_quotes import Quote, judge
from function_tokens.parsing.parse_error import Position, Repair
from function_tokens.parsing.reporter import Reporter
from function_tokens.parsing.xml_chars import SPACE, attribute_value, name_chars, name_start, spaces
from skill_kernel.codes import ParseCode

NO_VALUE = "true"
"""Value of an attribute that a lenient stream wrote without one, as in `<music loop>`."""

_value_runs = {
    '"': re.compile(r'[^"<]*').match,
    "'": re.compile(r"[^'<]*").match,
    "\u201c": re.compile('[^"\u201c\u201d\u201e<]*').match,
    "\u2018": re.compile("[^'\u2018\u2019\u201a<]*").match,
}
_smart = {"\u201c": "\u201c", "\u201d": "\u201c", "\u201e": "\u201c"}
_smart |= {"\u2018": "\u2018", "\u2019": "\u2018", "\u201a": "\u2018"}
_unquoted = re.compile(r"[^ \t\r\n<>/&`\]]*").match
_junk = re.compile(r"[^ \t\r\n<>/=]*").match
_spreads = re.compile(r"[<>\r\n]").search
_to_tag_end = re.compile(r"[^<>]*").match


class TagScanner:
    """One tag, from behind its `<` or `</` on.

    A tag is *committed* once a quoted value was read: before that, a character that no tag can have shows that the `<`
    was text. A committed tag stays one; what nobody can understand in it becomes an attribute that no function has, so
    that it is refused with everything inside it (semantics 2.5) instead of running with half its arguments.
    """

    def __init__(self, reporter: Reporter, at: Position, *, closing: bool) -> None:
        self.at = at
        self.closing = closing
        self.name = ""
        self.attrs: dict[str, str] = {}
        self.empty = False
        """Whether it ended in `/>`."""
        self.is_tag = True
        """False when the `<` turned out to be text; `raw` is that text."""
        self.raw = "</" if closing else "<"
        self._raw: list[str] = [self.raw]
        self._reporter = reporter
        self._ended = False
        self._committed = False
        self._pending: list[Repair] = []
        self._parts: list[str] = []
        self._length = 0
        self._last = ""
        self._attr = ""
        self._value_at = at
        self._quote = ""
        self._mended = False
        """Whether the value that is read holds a quote of its own kind."""
        self._spread = False
        """Whether it spans lines or tags, so that its end may have been forgotten."""
        self.waits = False
        """Whether what was read does not tell yet how to go on."""
        self.final = False
        """Set when no more text comes."""
        self._state: Callable[[str, int], int] = self._closing_name if closing else self._name

    @property
    def unfinished(self) -> str:
        """What an error calls it when the stream ends inside."""
        name = (self.name or "".join(self._parts))[:40]
        return f"the tag <{'/' if self.closing else ''}{name}"

    def scan(self, text: str, at: int) -> tuple[int, bool]:
        """Reads on from `at`; the index behind what was read, and whether the tag has ended there. What is left of the text
        must come again with what follows it."""
        start, self.waits = at, False
        while at < len(text) and not self._ended and not self.waits:
            at = self._state(text, at)
        if not self._committed or not self.is_tag:
            self._raw.append(text[start:at])
        if self._ended and not self.is_tag:
            self.raw = "".join(self._raw)
        return at, self._ended

    # States: each reads from `at` and returns where the next one goes on.

    def _closing_name(self, text: str, at: int) -> int:
        end = spaces(text, at)
        self._length += end - at
        at = end
        if at == len(text):
            return at
        if text[at] == ">":
            self._commit()
            self._problem("an end tag without a name; it closes the innermost element", at)
            return self._end(at + 1)
        if not name_start(text, at):
            return self._text(text, at)
        self._commit()
        if self._length:
            self._problem("white space before the name of an end tag", at)
        self._length = 0
        self._state = self._name
        return at

    def _name(self, text: str, at: int) -> int:
        at = self._collect(name_chars(text, at), "name_length")
        if at == len(text):
            return at
        self.name = self._collected()
        char = text[at]
        if char == ">":
            return self._end(at + 1)
        if self.closing:
            self._state = self._closing_rest
            return at
        if char in SPACE or char == "/":
            self._state = self._gap
            return at
        return self._text(text, at)

    def _closing_rest(self, text: str, at: int) -> int:
        at = spaces(text, at)
        if at == len(text):
            return at
        if text[at] == ">":
            return self._end(at + 1)
        self._problem(f"{text[at]!r} in the end tag </{self.name}>; it takes only a name", at)
        self._state = self._closing_junk
        return at

    def _closing_junk(self, text: str, at: int) -> int:
        at = _to_tag_end(text, at).end()  # type: ignore[union-attr]
        return at if at == len(text) else self._end(at + (text[at] == ">"))

    def _gap(self, text: str, at: int) -> int:
        """Between attributes, behind white space."""
        at = spaces(text, at)
        if at == len(text):
            return at
        char = text[at]
        if char == ">":
            return self._end(at + 1)
        if char == "/":
            self._state = self._slash
            return at + 1
        if name_start(text, at):
            self._state = self._attribute
            return at
        if char == "<":
            return self._interrupted(text, at)
        if not self._committed:
            return self._text(text, at)
        if char in ",;":
            self._problem(f"{char!r} between the attributes of <{self.name}>; separate them by a space", at)
            return at + 1
        self._problem(f"{char!r} cannot begin an attribute of <{self.name}>", at)
        self._state = self._junk_attribute
        return at

    def _slash(self, text: str, at: int) -> int:
        char = text[at]
        if char == ">":
            self.empty = True
            return self._end(at + 1)
        if char == "<" and self._committed:
            self._problem(f"the tag <{self.name}> lacks its '>'", at)
            self.empty = True
            return self._end(at)
        if char in SPACE:
            self._problem(f"white space between '/' and '>' of <{self.name}>", at)
            self._state = self._slash_space
            return at
        if not self._committed:
            return self._text(text, at)
        self._problem(f"'/' inside the tag <{self.name}>", at)
        self._state = self._gap
        return at

    def _slash_space(self, text: str, at: int) -> int:
        at = spaces(text, at)
        if at < len(text):
            self._state = self._slash
        return at

    def _attribute(self, text: str, at: int) -> int:
        at = self._collect(name_chars(text, at), "name_length")
        if at == len(text):
            return at
        char = text[at]
        if char not in SPACE and char not in "=/<>":
            if not self._committed:
                return self._text(text, at)
            self._problem(f"{char!r} in the name of an attribute of <{self.name}>", at)
            self._state = self._junk_attribute
            return at
        return self._attribute_named(at)

    def _junk_attribute(self, text: str, at: int) -> int:
        at = self._collect(_junk(text, at), "name_length")
        if at == len(text):
            return at
        if not self._parts:
            self._parts.append(text[at])
            at += 1
        return self._attribute_named(at)

    def _attribute_named(self, at: int) -> int:
        self._attr = self._collected()
        self._state = self._equals
        return at

    def _equals(self, text: str, at: int) -> int:
        at = spaces(text, at)
        if at == len(text):
            return at
        if text[at] == "=":
            self._state = self._value_start
            return at + 1
        self._problem(f"attribute {self._attr!r} of <{self.name}> has no value; taken as {NO_VALUE!r}", at)
        self._add(NO_VALUE, at)
        return at

    def _value_start(self, text: str, at: int) -> int:
        at = spaces(text, at)
        if at == len(text):
            return at
        char = text[at]
        if char in "\"'":
            self._quote = char
        elif char in _smart:
            self._quote = _smart[char]
            self._problem(f"the value of {self._attr!r} is in typographic quotes {char!r}; write '\"'", at)
        else:
            self._problem(f"the value of {self._attr!r} has no quotes", at)
            self._state = self._unquoted_value
            return at
        self._commit()
        self._value_at = self._reporter.locate(at + 1)
        self._state = self._quoted_value
        return at + 1

    def _quoted_value(self, text: str, at: int) -> int:
        begun = at
        at = self._collect(_value_runs[self._quote](text, at), "attribute_length")
        self._spread = self._spread or _spreads(text, begun, at) is not None
        if at == len(text):
            return at
        if text[at] == "<":
            self._spread = True
            self._problem(f"a bare '<' in the value of {self._attr!r}; write '&lt;'", at)
            self._take("<", at, "attribute_length")
            return at + 1
        if self._quote in "\"'" and not (self._reporter.strict or self._spread):
            what = judge(text, at, mended=self._mended, final=self.final)
            if what is Quote.MORE:
                self.waits = True
                return at
            if what is Quote.INSIDE:
                if not self._mended:
                    reference = "&quot;" if self._quote == '"' else "&apos;"
                    self._problem(f"a bare {self._quote} in the value of {self._attr!r}; write {reference}", at)
                self._take(self._quote, at, "attribute_length")
                self._mended = True
                return at + 1
        self._mended = self._spread = False
        self._add(attribute_value(self._collected(), self._in_value(at)), at)
        self._state = self._after_value
        return at + 1

    def _in_value(self, at: int) -> Callable[[ParseCode, str, int], None]:
        raw = self._last

        def report(code: ParseCode, message: str, index: int) -> None:
            if not self._reporter.strict and not self._reporter.room(code):
                self._reporter.count(code, 1)
                return
            offset, line, column = self._value_at
            lines = raw.count("\n", 0, index)
            column = index - raw.rfind("\n", 0, index) if lines else column + index
            message = f"{message} (in the value of {self._attr!r})"
            self._reporter.violation(code, message, at, Position(offset + index, line + lines, column))

        return report

    def _unquoted_value(self, text: str, at: int) -> int:
        at = self._collect(_unquoted(text, at), "attribute_length")
        if at == len(text):
            return at
        char = text[at]
        if char in "&`]":
            if not self._committed:
                return self._text(text, at)
            self._take(char, at, "attribute_length")
            return at + 1
        if char == "/":
            self._state = self._unquoted_slash
            return at + 1
        return self._unquoted_end(at)

    def _unquoted_slash(self, text: str, at: int) -> int:
        if text[at] == ">":
            self.empty = True
            return self._end(self._unquoted_end(at) + 1)
        self._take("/", at, "attribute_length")
        self._state = self._unquoted_value
        return at

    def _unquoted_end(self, at: int) -> int:
        self._add(attribute_value(self._collected().rstrip(",;"), self._in_value(at)), at)
        return at

    def _after_value(self, text: str, at: int) -> int:
        char = text[at]
        self._state = self._gap
        if name_start(text, at):
            self._problem(f"no white space before an attribute of <{self.name}>", at)
        return at if char not in SPACE else at + 1

    # What the states share.

    def _collect(self, match: re.Match[str] | None, limit: str) -> int:
        assert match is not None
        if part := match[0]:
            self._take(part, match.start(), limit)
        return match.end()

    def _take(self, part: str, at: int, limit: str) -> None:
        self._length += len(part)
        over = self._length - getattr(self._reporter.limits, limit)
        if over > 0:
            raise self._reporter.exceeded(limit, at + len(part) - over)
        self._parts.append(part)

    def _collected(self) -> str:
        self._last = "".join(self._parts)
        self._parts, self._length = [], 0
        return self._last

    def _add(self, value: str, at: int) -> None:
        if self._attr in self.attrs:
            message = f"attribute {self._attr!r} of <{self.name}> is given twice; the first counts"
            self._problem(message, at, ParseCode.DUPLICATE_ATTRIBUTE)
        else:
            self.attrs[self._attr] = value
            if len(self.attrs) > self._reporter.limits.attributes:
                raise self._reporter.exceeded("attributes", at)
        self._state = self._gap

    def _problem(self, message: str, at: int, code: ParseCode = ParseCode.SYNTAX) -> None:
        if self._committed or self._reporter.strict:
            self._reporter.violation(code, message, at)
        else:
            self._pending.append(self._reporter.describe(code, message, at))

    def _commit(self) -> None:
        self._committed = True
        self._raw.clear()
        for repair in self._pending:
            self._reporter.record(repair)
        self._pending.clear()

    def _interrupted(self, text: str, at: int) -> int:
        if not self._committed:
            return self._text(text, at)
        self._problem(f"the tag <{self.name}> is not finished before the next '<'", at)
        self.attrs.setdefault("<", NO_VALUE)
        return self._end(at)

    def _text(self, text: str, at: int) -> int:
        """The `<` was text: only so much has been read that no markup is in it."""
        self._reporter.violation(ParseCode.SYNTAX, f"'<' begins no tag: {text[at]!r} cannot follow; write '&lt;'", at, self.at)
        self.is_tag, self._ended = False, True
        return at

    def _end(self, at: int) -> int:
        self._commit()
        self._ended = True
        return at
