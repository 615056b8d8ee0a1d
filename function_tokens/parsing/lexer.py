# SPDX-License-Identifier: Apache-2.0
"""Find where markup ends, however it is cut, and mend what is clear in a tag (GhostShell 3.3, semantics 1.5)."""

from __future__ import annotations

import re

from function_tokens.parsing.source import SPACE, End, Source, Step, run_of
from function_tokens.parsing.tokens import NO_VALUE, ParseError, Position, Repair
from function_tokens.parsing.xml_reader import TagReader, begins_name, name_end, name_shape, resolve
from skill_kernel.codes import ParseCode

reference = re.compile(r"&(?:lt|gt|amp|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);").match
_value_parts = re.compile(r"&(?:(?:lt|gt|amp|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);)?|[<\"]").sub
_value_runs = {
    '"': run_of('^"<'),
    "'": run_of("^'<"),
    "\u201c": run_of('^"\u201c\u201d\u201e<'),
    "\u2018": run_of("^'\u2018\u2019\u201a<"),
}
_closing_quote = {
    '"': '"',
    "'": "'",
    **dict.fromkeys("\u201c\u201d\u201e", "\u201c"),
    **dict.fromkeys("\u2018\u2019\u201a", "\u2018"),
}
_unquoted = run_of(r"^ \t\r\n<>/&`\]")
_junk = run_of(r"^ \t\r\n<>/=")
_spreads = re.compile(r"[<>\r\n]").search
_spaces = run_of(SPACE)
_to_tag_end = run_of("^<>")

LOOK_AHEAD = 128
"""The tag must end within so many characters behind a quote for it to stand inside the value."""
_line_of_tag = run_of(r"^<>\r\n")
_NAME = r"[A-Za-z_:][A-Za-z0-9_:.\-]{0,40}"
_attribute = re.compile(rf"{_NAME}[ \t]{{0,8}}[=/>]").match
_opens_value = re.compile(rf"(?:\A|[ \t,;]){_NAME}[ \t]{{0,8}}=[ \t]{{0,8}}\Z").search
_ENDING = rf"(?=[ \t]{{0,8}}/?[ \t]{{0,8}}>|[ \t,;]{{1,8}}{_NAME}[ \t]{{0,8}}[=/>])"
_closes_value = {quote: re.compile(quote + _ENDING) for quote in "\"'"}
"""A quote behind which the tag ends or another attribute begins."""


# What ends a string, a subset or a declaration, and what begins a part of it.
_outside = re.compile(r"[\"'\[>]").search
_subset = re.compile(r"[\]<]").search
_declaration = re.compile(r"[\"'>]").search


CDATA = "<![CDATA["
_OPENINGS = ("<!--", CDATA, "<!DOCTYPE", "<!ENTITY", "<!ELEMENT", "<!ATTLIST", "<!NOTATION")


def opening_at(text: str, at: int) -> str | None:
    """Return the opening of markup at `at` that is no tag, "" where there is none, or None where more text must show it."""
    begun = text[at : at + 10]
    if begun.startswith("<?"):
        return None if len(begun) == 2 else "<?" if begins_name(begun[2]) else ""
    for opening in _OPENINGS:
        known = begun if opening == CDATA else begun.upper()
        if known.startswith(opening):
            return opening
        if opening.startswith(known) and at + len(known) == len(text):
            return None
    return ""


def stray_ampersand(text: str, at: int) -> tuple[ParseCode, str]:
    """Return code and message for an `&` at `at` that begins no reference."""
    if at + 1 < len(text) and begins_name(text[at + 1]):
        end = name_end(text, at + 1)
        if text[end : end + 1] == ";":
            name = text[at : end + 1][:40]
            return ParseCode.UNKNOWN_REFERENCE, f"{name!r} is no reference; only lt, gt, amp, quot and apos are"
    return ParseCode.SYNTAX, "a bare '&'; write '&amp;'"


class TagLexer:
    """Read one tag from behind its `<` or `</` on.

    A tag is *committed* once a quoted value was read: before that, a character that no tag can have shows that the `<`
    was text. A committed tag stays one. What nobody can understand in it becomes an attribute that no function has, so
    that it is refused with everything inside it (semantics 2.5) instead of running with half its arguments.
    """

    def __init__(self, source: Source, reader: TagReader, at: Position, *, closing: bool) -> None:
        self.at = at
        self.closing = closing
        self.name = ""
        self.attrs: dict[str, str] = {}
        self.empty = False
        """True where it ended in `/>`."""
        self.raw: str | None = None
        """The text that was read, where the `<` turned out to be text."""
        self._source = source
        self._reader = reader
        self._committed = False
        self._pending: list[Repair] = []
        self._parts: list[str] = []
        self._length = 0
        self._value_at = at

    @property
    def unfinished(self) -> str:
        """Return the name that an error gives it when the stream ends inside."""
        name = (self.name or "".join(self._parts))[:40]
        return f"the tag <{'/' if self.closing else ''}{name}"

    def read(self) -> Step[None]:
        """Read to the end of the tag, or to the character that shows that it is none: then `raw` is set."""
        source = self._source
        source.keep_raw()
        yield from self._closing_tag() if self.closing else self._start_tag()
        if self.raw is None:
            self._commit()
            if self.attrs:
                self._read_values()

    # The parts of a tag. A step returns True where the tag has ended, or is none.

    def _closing_tag(self) -> Step[None]:
        source = self._source
        spaced = (yield from self._source.peek()) in SPACE
        char = yield from self._after_space()
        if char == ">":
            self._commit()
            self._problem("an end tag without a name; it closes the innermost element")
        elif not begins_name(char):
            return self._be_text()
        else:
            self._commit()
            if spaced:
                self._problem("white space before the name of an end tag")
            self.name = yield from self._name()
            if (char := (yield from self._after_space())) != ">":
                self._problem(f"{char!r} in the end tag </{self.name}>; it takes only a name")
                yield from source.skip(_to_tag_end)
        source.at += source.text[source.at] == ">"
        return None

    def _start_tag(self) -> Step[None]:
        source = self._source
        self.name = yield from self._name()
        if source.text[source.at] not in SPACE + "/>":
            return self._be_text()
        ended = False
        while not ended:
            char = yield from self._after_space()
            if char == ">":
                source.at += 1
                ended = True
            elif char == "/":
                source.at += 1
                ended = yield from self._slash()
            elif begins_name(char):
                ended = yield from self._attribute()
            elif not self._committed:
                return self._be_text()
            elif char == "<":
                self._problem(f"the tag <{self.name}> is not finished before the next '<'")
                self.attrs.setdefault("<", NO_VALUE)
                ended = True
            elif char in ",;":
                self._problem(f"{char!r} between the attributes of <{self.name}>; separate them by a space")
                source.at += 1
            else:
                self._problem(f"{char!r} cannot begin an attribute of <{self.name}>")
                ended = yield from self._value_of((yield from self._junk_name()))
        return None

    def _slash(self) -> Step[bool]:
        source = self._source
        while (char := (yield from self._source.peek())) in SPACE:
            self._problem(f"white space between '/' and '>' of <{self.name}>")
            yield from self._after_space()
        if char == ">":
            source.at += 1
            self.empty = True
        elif not self._committed:
            self._be_text()
            return True
        elif char == "<":
            self._problem(f"the tag <{self.name}> lacks its '>'")
            self.empty = True
        else:
            self._problem(f"'/' inside the tag <{self.name}>")
        return self.empty

    def _attribute(self) -> Step[bool]:
        source = self._source
        yield from self._run(name_end, "name_length")
        char = source.text[source.at]
        if char in SPACE + "=/<>":
            return (yield from self._value_of(self._collected()))
        if not self._committed:
            self._be_text()
            return True
        self._problem(f"{char!r} in the name of an attribute of <{self.name}>")
        return (yield from self._value_of((yield from self._junk_name())))

    def _junk_name(self) -> Step[str]:
        source = self._source
        yield from self._run(_junk, "name_length")
        if not self._parts:
            self._parts.append(source.text[source.at])
            source.at += 1
        return self._collected()

    def _value_of(self, name: str) -> Step[bool]:
        source = self._source
        if (yield from self._after_space()) != "=":
            self._problem(f"attribute {name!r} of <{self.name}> has no value; taken as {NO_VALUE!r}")
            self._add(name, NO_VALUE)
            return False
        source.at += 1
        char = yield from self._after_space()
        if (quote := _closing_quote.get(char)) is None:
            self._problem(f"the value of {name!r} has no quotes")
            return (yield from self._unquoted_value(name))
        if char not in _closes_value:
            self._problem(f"the value of {name!r} is in typographic quotes {char!r}; write '\"'")
        self._commit()
        source.at += 1
        self._value_at = source.locate(source.at)
        yield from self._quoted_value(name, quote)
        if begins_name((yield from self._source.peek())):
            self._problem(f"no white space before an attribute of <{self.name}>")
        return False

    def _quoted_value(self, name: str, quote: str) -> Step[None]:
        source = self._source
        inner = False  # True once the value holds quotes of its own kind
        spread = False  # True once it spans lines or tags, so that its end may have been forgotten
        while True:
            begun = source.at
            self._take(_value_runs[quote](source.text, begun), "attribute_length")
            spread = spread or _spreads(source.text, begun, source.at) is not None
            if source.at == source.end:
                yield from source.more()
            elif source.text[source.at] == "<":
                spread = True
                self._problem(f"a bare '<' in the value of {name!r}; write '&lt;'")
                self._take(source.at + 1, "attribute_length")
            elif source.strict or spread or quote not in _closes_value:
                break
            elif (inside := quote_is_inside(source.text, source.at, inner=inner)) is None and not source.final:
                yield
            elif not inside:
                break
            else:
                if not inner:
                    escaped = "&quot;" if quote == '"' else "&apos;"
                    self._problem(f"a bare {quote} in the value of {name!r}; write {escaped}")
                inner = True
                self._take(source.at + 1, "attribute_length")
        self._add(name, self._mended(name, self._collected()))
        source.at += 1

    def _unquoted_value(self, name: str) -> Step[bool]:
        source = self._source
        while True:
            yield from self._run(_unquoted, "attribute_length")
            char = source.text[source.at]
            if char in "&`]":
                if not self._committed:
                    self._be_text()
                    return True
                self._take(source.at + 1, "attribute_length")
            elif char == "/":
                source.at += 1
                self.empty = (yield from self._source.peek()) == ">"
                if self.empty:
                    break
                self._count(1, source.at + 1, "attribute_length")
                self._parts.append("/")
            else:
                break
        raw = self._collected()
        self._add(name, self._mended(name, raw.rstrip(",;")))
        source.at += self.empty
        return self.empty

    # What the parts share.

    def _after_space(self) -> Step[str]:
        return self._source.skip(_spaces)

    def _run(self, end: End, limit: str) -> Step[None]:
        """Take all up to the end, however it is cut."""
        source = self._source
        while True:
            self._take(end(source.text, source.at), limit)
            if source.at < source.end:
                return
            yield from source.more()

    def _name(self) -> Step[str]:
        yield from self._run(name_end, "name_length")
        return self._collected()

    def _take(self, end: int, limit: str) -> None:
        source = self._source
        self._count(end - source.at, end, limit)
        if end > source.at:
            self._parts.append(source.text[source.at : end])
            source.at = end

    def _count(self, length: int, end: int, limit: str) -> None:
        self._length += length
        over = self._length - getattr(self._source.limits, limit)
        if over > 0:
            raise self._source.exceeded(limit, end - over)

    def _collected(self) -> str:
        collected = "".join(self._parts)
        self._parts, self._length = [], 0
        return collected

    def _add(self, name: str, value: str) -> None:
        if name in self.attrs:
            message = f"attribute {name!r} of <{self.name}> is given twice; the first counts"
            self._problem(message, ParseCode.DUPLICATE_ATTRIBUTE)
            return
        self.attrs[name] = value
        if len(self.attrs) > self._source.limits.attributes:
            raise self._source.exceeded("attributes", self._source.at)

    def _mended(self, name: str, raw: str) -> str:
        """Return what is written between the quotes so that lxml reads it; a reference to no character is left out."""

        def mend(match: re.Match[str]) -> str:
            found = match[0]
            if found in '<"':
                return "&lt;" if found == "<" else "&quot;"
            if found == "&":
                self._value_problem(name, raw, match.start(), *stray_ampersand(raw, match.start()))
                return "&amp;"
            if resolve(found) is None:
                message = f"{found[:40]!r} names no XML character"
                self._value_problem(name, raw, match.start(), ParseCode.INVALID_CHARACTER, message)
                return ""
            return found

        return _value_parts(mend, raw)

    def _value_problem(self, name: str, raw: str, index: int, code: ParseCode, message: str) -> None:
        at = self._value_at
        if self._source.strict or self._source.room(code):  # the position of one that is only counted is not needed
            lines = raw.count("\n", 0, index)
            column = index - raw.rfind("\n", 0, index) if lines else at.column + index
            at = Position(at.offset + index, at.line + lines, column)
        self._source.violation(code, f"{message} (in the value of {name!r})", self._source.at, at)

    def _read_values(self) -> None:
        values = self._reader.values(self.attrs.values())
        if values is None:
            at = self._source.at
            message = f"the tag <{self.name[:40]}> is longer than lxml reads; write less"
            raise ParseError(ParseCode.LIMIT_EXCEEDED, message, self._source.locate(at), self._source.snippet(at))
        self.attrs = dict(zip(self.attrs, values, strict=True))

    def _problem(self, message: str, code: ParseCode = ParseCode.SYNTAX) -> None:
        source = self._source
        if self._committed or source.strict:
            source.violation(code, message, source.at)
        else:
            self._pending.append(source.repair(code, message, source.at))

    def _commit(self) -> None:
        if not self._committed:
            self._committed = True
            self._source.take_raw()
            for repair in self._pending:
                self._source.record(repair)

    def _be_text(self) -> None:
        """Take the `<` as text: nothing that was read behind it holds markup."""
        source = self._source
        message = f"'<' begins no tag: {source.text[source.at]!r} cannot follow; write '&lt;'"
        source.violation(ParseCode.SYNTAX, message, source.at, self.at)
        self.raw = source.take_raw()


def quote_is_inside(text: str, at: int, *, inner: bool) -> bool | None:
    """Return whether the quote at `text[at]` stands inside its value, or None where that shows only in more text.

    `inner`: the value holds such a quote already. The quote stands inside, as in `cond="visible("ball")"`, when what follows
    directly is no attribute and no end of the tag, and a quote that ends the value follows before the tag does: on this line,
    and before any other `<` or `>`. In doubt it ends the value, and what nobody understands behind it has the tag refused.
    """
    rest = text[at + 1 : at + 2 + LOOK_AHEAD]
    if not rest:
        return None
    if rest[0] in "\r\n<>" or not inner and rest[0] in SPACE + "/,;":
        return False
    end = _line_of_tag(rest, 0)
    if end > LOOK_AHEAD:
        return False
    if end == len(rest):
        return None
    if rest[end] != ">":
        return False
    closes_value = _closes_value[text[at]]
    line = text[at] + name_shape(rest[: end + 1])
    if inner:
        if closes_value.match(line):
            return False
    elif _attribute(line, 1):
        return False
    else:
        next_quote = line.find(line[0], 1)
        if next_quote < 0 or _opens_value(line[1:next_quote]):
            return False
    return closes_value.search(line, 1) is not None


# Markup that gives no tokens and is not stored.


def skip_comment(source: Source) -> Step[None]:
    """Skip to behind `-->`. XML forbids `--` inside, which a lenient stream may have."""
    yield from source.find("--")
    while (char := (yield from source.peek())) != ">":
        source.violation(ParseCode.SYNTAX, "'--' inside a comment; end it with '-->'", source.at)
        source.at += 1
        if char != "-":
            yield from source.find("--")
    source.at += 1


def skip_declaration(source: Source) -> Step[None]:
    """Skip `<!DOCTYPE … [ … ]>` or another markup declaration as a whole."""
    while (char := (yield from source.search(_outside))) != ">":
        if char == "[":
            yield from _skip_subset(source)
        else:
            yield from source.find(char)


def _skip_subset(source: Source) -> Step[None]:
    while (yield from source.search(_subset)) == "<":
        if (yield from source.skip_if("?")):
            yield from source.find("?>")
        elif (yield from source.skip_if("!")) and (yield from source.skip_if("-")) and (yield from source.skip_if("-")):
            yield from source.find("-->")
        else:
            while (char := (yield from source.search(_declaration))) != ">":
                yield from source.find(char)


def skip_reasoning(source: Source, name: str) -> Step[None]:
    """Skip to the literal end tag of a reasoning block, whatever stands before it (semantics 1.6)."""
    room = source.limits.reasoning_length
    start = source.at
    for _ in _find_end_tag(source, name):
        room = _spend(source, room, start, source.end)
        yield
        start = source.held
    _spend(source, room, start, source.at)


def _find_end_tag(source: Source, name: str) -> Step[None]:
    char = ""
    while char != ">":
        yield from source.find(f"</{name}")
        while (char := (yield from source.peek())) in SPACE:
            source.at += 1
    source.at += 1


def _spend(source: Source, room: int, start: int, end: int) -> int:
    if end - start > room:
        raise source.exceeded("reasoning_length", start + room)
    return room - (end - start)
