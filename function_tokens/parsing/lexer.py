# SPDX-License-Identifier: Apache-2.0
"""Find where markup ends, however it is cut, and mend what is clear in a tag (GhostShell 3.3, semantics 1.5). lxml reads whole
tags: it expands no entity, opens no file and keeps its limits."""

import re
from collections.abc import Mapping
from functools import lru_cache, partial

from lxml import etree

from function_tokens.parsing.source import SPACE, End, Source, Step, run_of
from function_tokens.parsing.tokens import NO_ATTRS, NO_VALUE
from skill_kernel.codes import ParseCode

_new_parser = partial(etree.XMLParser, resolve_entities=False, no_network=True, huge_tree=False)
# https://www.w3.org/TR/xml/#NT-NameStartChar and NameChar
NAME_START = (
    r":A-Z_a-z\xC0-\xD6\xD8-\xF6\xF8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C-\u200D\u2070-\u218F\u2C00-\u2FEF"
    r"\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
NAME = NAME_START + r"\-.0-9\xB7\u0300-\u036F\u203F-\u2040"


class TagReader:
    """Read start tags of one stream, each as soon as it is complete. It is the target of its own parser."""

    def __init__(self) -> None:
        self._parser: etree.XMLParser | None = None
        self._name = ""
        self._attrs: Mapping[str, str] = NO_ATTRS

    def read(self, tag: str) -> tuple[str, Mapping[str, str]] | None:
        """Return the name and attributes of an empty element's tag, or None where it is not well-formed.

        Namespaces are unknown here, so a tag with a colon or `xmlns` must not come.
        """
        if self._parser is None:
            self._parser = _new_parser(target=self)
            self._parser.feed("<stream>")
        try:
            self._parser.feed(tag)
        except (etree.LxmlError, UnicodeError):
            self._parser = None
            return None
        attrs = self._attrs
        if "&" in tag:  # where entities are not expanded, libxml2 leaves each '&' of a value as this reference
            attrs = {name: value.replace("&#38;", "&") for name, value in attrs.items()}
        return self._name, attrs or NO_ATTRS

    def start(self, name: str, attrs: Mapping[str, str]) -> None:
        """Take what lxml reads; end tags and text never come here."""
        self._name, self._attrs = name, attrs

    def close(self) -> None:
        """Do nothing: the root of the stream is never closed."""


@lru_cache(4096)
def resolve(reference: str) -> str | None:
    """Return the character of a reference such as `&lt;` or `&#10;`, or None where it names none."""
    try:
        return etree.fromstring(f"<_>{reference}</_>", _new_parser()).text or ""
    except (etree.LxmlError, UnicodeError):
        return None


begins_name = re.compile(f"[{NAME_START}]").match
"""Find a character with which a name may begin."""
name_end = run_of(NAME)
"""Return the index behind the characters of a name that stand at an index."""


reference = re.compile(r"&(?:lt|gt|amp|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);").match
_value_parts = re.compile(r"&(?:(?:lt|gt|amp|quot|apos|#[0-9]+|#x[0-9A-Fa-f]+);)?|[<\"]").sub
_value_runs = {
    '"': run_of('^"<'),
    "'": run_of("^'<"),
    **dict.fromkeys("\u201c\u201d\u201e", run_of('^"\u201c\u201d\u201e<')),
    **dict.fromkeys("\u2018\u2019\u201a", run_of("^'\u2018\u2019\u201a<")),
}
"""By the quote that opens a value: up to a `<` or what may close it."""
_unquoted = run_of(r"^ \t\r\n<>/&`\]")
_junk = run_of(r"^ \t\r\n<>/=")
_spreads = re.compile(r"[<>\r\n]").search
_spaces = run_of(SPACE)
_to_tag_end = run_of("^<>")

LOOK_AHEAD = 128
"""The tag must end within so many characters behind a quote for it to stand inside the value."""
_line_of_tag = run_of(r"^<>\r\n")
_NAME = f"[{NAME_START}][{NAME}]{{0,40}}"
_attribute = re.compile(rf"{_NAME}[ \t]{{0,8}}[=/>]").match
_opens_value = re.compile(rf"(?:\A|[ \t,;]){_NAME}[ \t]{{0,8}}=[ \t]{{0,8}}\Z").search
_ENDING = rf"(?=[ \t]{{0,8}}/?[ \t]{{0,8}}>|[ \t,;]{{1,8}}{_NAME}[ \t]{{0,8}}[=/>])"
_closes_value = {quote: re.compile(quote + _ENDING) for quote in "\"'"}
"""A quote behind which the tag ends or another attribute begins."""
_in_declaration = re.compile(r"[\"'\[>]").search
_in_subset = re.compile(r"[\]<]").search

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
    """Read one tag, with the reader at its `<`.

    A tag is *committed* once a quoted value was read: before that, a character that no tag can have shows that the `<`
    was text. A committed tag stays one. What nobody can understand in it becomes an attribute that no function has, so
    that it is refused with everything inside it (semantics 2.5) instead of running with half its arguments.
    """

    def __init__(self, source: Source, reader: TagReader, *, closing: bool) -> None:
        self.start = source.offset(source.at)
        self.closing = closing
        self.name = ""
        self.attrs: dict[str, str] = {}
        self.empty = False
        """True where it ended in `/>`."""
        self.is_text = False
        """True where the `<` turned out to be text."""
        self._source = source
        self._reader = reader
        self._committed = False
        self._pending: list[tuple[ParseCode, str, int]] = []
        self._begun = 0  # offset of the name or value that is being read
        self._taken = 0  # how many characters of it have been read
        source.at += 1 + closing

    @property
    def unfinished(self) -> str:
        """Return the name that an error gives it when the stream ends inside."""
        return f"the tag <{'/' if self.closing else ''}{(self.name or self._so_far())[:40]}"

    def read(self) -> Step[None]:
        """Read to the end of the tag, or to the character that shows that it is none: then `is_text` is set."""
        yield from self._closing_tag() if self.closing else self._start_tag()
        if not self.is_text:
            self._commit()
            if self.attrs:
                self._read_values()

    def _closing_tag(self) -> Step[None]:
        source = self._source
        spaced = (yield from source.peek()) in SPACE
        char = yield from self._after_space()
        if char != ">" and not begins_name(char):
            return self._be_text()
        self._commit()
        if char != ">":
            yield from self._name()
        junk = (yield from self._after_space()) != ">"
        if spaced or junk or not self.name:
            self._problem(f"an end tag is written </{self.name or 'name'}>, without anything else")
        if junk:
            yield from source.skip(_to_tag_end)
        source.at += source.text[source.at] == ">"
        return None

    def _start_tag(self) -> Step[None]:
        source = self._source
        yield from self._name()
        if source.text[source.at] not in SPACE + "/>":
            return self._be_text()
        while not (self.is_text or self.empty):
            char = yield from self._after_space()
            if char == ">":
                source.at += 1
                break
            if char == "/":
                source.at += 1
                yield from self._slash()
            elif not self._committed and not begins_name(char):
                self._be_text()
            elif char == "<":
                self._problem(f"the tag <{self.name}> is not finished before the next '<'")
                self.attrs.setdefault("<", NO_VALUE)
                break
            elif char in ",;":
                self._problem(f"{char!r} between the attributes of <{self.name}>; separate them by a space")
                source.at += 1
            else:
                yield from self._attribute()
        return None

    def _slash(self) -> Step[None]:
        while (char := (yield from self._source.peek())) in SPACE:
            self._problem(f"white space between '/' and '>' of <{self.name}>")
            yield from self._after_space()
        if char == ">":
            self._source.at += 1
            self.empty = True
        elif not self._committed:
            self._be_text()
        else:
            self._problem(f"'/' inside the tag <{self.name}>")
            self.empty = char == "<"

    def _attribute(self) -> Step[None]:
        """Read an attribute and its value. In a committed tag anything but white space, `/`, `=` and brackets is a name."""
        source = self._source
        self._begin()
        yield from self._run(_junk if self._committed else name_end, "name_length")
        if not self._taken:
            self._take(source.at + 1, "name_length")
        elif source.text[source.at] not in SPACE + "=/<>":
            return self._be_text()
        name = self._so_far()
        if not begins_name(name[0]) or name_end(name, 0) < len(name):
            self._problem(f"{name!r} cannot be an attribute of <{self.name}>")
        if (yield from self._after_space()) != "=":
            self._problem(f"attribute {name!r} of <{self.name}> has no value; taken as {NO_VALUE!r}")
            return self._add(name, NO_VALUE)
        source.at += 1
        char = yield from self._after_space()
        if char not in _value_runs:
            self._problem(f"the value of {name!r} has no quotes")
            return (yield from self._unquoted_value(name))
        if char not in _closes_value:
            self._problem(f"the value of {name!r} is in typographic quotes {char!r}; write '\"'")
        self._commit()
        source.at += 1
        yield from self._quoted_value(name, char)
        if begins_name((yield from source.peek())):
            self._problem(f"no white space before an attribute of <{self.name}>")
        return None

    def _quoted_value(self, name: str, quote: str) -> Step[None]:
        source = self._source
        inner = False  # True once the value holds quotes of its own kind
        spread = False  # True once it spans lines or tags, so that its end may have been forgotten
        self._begin()
        while True:
            begun = source.at
            self._take(_value_runs[quote](source.text, begun), "attribute_length")
            spread = spread or _spreads(source.text, begun, source.at) is not None
            if source.at == len(source.text):
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
        self._add(name, self._mended(name, self._so_far()))
        source.at += 1

    def _unquoted_value(self, name: str) -> Step[None]:
        source = self._source
        self._begin()
        while not self.empty:
            yield from self._run(_unquoted, "attribute_length")
            char = source.text[source.at]
            if char == "/":
                source.at += 1
                self.empty = (yield from source.peek()) == ">"
                if not self.empty:
                    self._taken += 1
                    self._take(source.at, "attribute_length")
            elif char not in "&`]":
                break
            elif self._committed:
                self._take(source.at + 1, "attribute_length")
            else:
                return self._be_text()
        value = self._so_far()
        self._add(name, self._mended(name, (value[:-1] if self.empty else value).rstrip(",;")))
        source.at += self.empty
        return None

    # What the parts share.

    def _after_space(self) -> Step[str]:
        return self._source.skip(_spaces)

    def _begin(self) -> None:
        self._begun, self._taken = self._source.offset(self._source.at, end=True), 0

    def _run(self, end: End, limit: str) -> Step[None]:
        """Take all up to the end, however it is cut."""
        source = self._source
        while True:
            self._take(end(source.text, source.at), limit)
            if source.at < len(source.text):
                return
            yield from source.more()

    def _take(self, end: int, limit: str) -> None:
        source = self._source
        self._taken += end - source.at
        over = self._taken - getattr(source.limits, limit)
        if over > 0:
            raise source.exceeded(limit, source.offset(end - over))
        source.at = end

    def _so_far(self) -> str:
        """Return what has been read of the name or value."""
        return self._source.text_from(self._begun) if self._taken else ""

    def _name(self) -> Step[None]:
        self._begin()
        yield from self._run(name_end, "name_length")
        self.name = self._so_far()

    def _add(self, name: str, value: str) -> None:
        if name in self.attrs:
            message = f"attribute {name!r} of <{self.name}> is given twice; the first counts"
            self._problem(message, ParseCode.DUPLICATE_ATTRIBUTE)
            return
        self.attrs[name] = value
        if len(self.attrs) > self._source.limits.attributes:
            raise self._source.exceeded("attributes", self._source.offset(self._source.at))

    def _mended(self, name: str, raw: str) -> str:
        """Return what is written between the quotes so that lxml reads it; a reference to no character is left out."""

        def mend(match: re.Match[str]) -> str:
            found = match[0]
            if found in '<"':
                return "&lt;" if found == "<" else "&quot;"
            if found != "&" and resolve(found) is not None:
                return found
            code, message = ParseCode.INVALID_CHARACTER, f"{found[:40]!r} names no XML character"
            if found == "&":
                code, message = stray_ampersand(raw, match.start())
            self._source.violation(code, f"{message} (in the value of {name!r})", self._begun + match.start())
            return "&amp;" if found == "&" else ""

        return _value_parts(mend, raw)

    def _read_values(self) -> None:
        """Let lxml read what is written between the quotes, under names that it knows."""
        attributes = "".join(f' _{i}="{value}"' for i, value in enumerate(self.attrs.values()))
        read = self._reader.read(f"<_{attributes}/>")
        if read is None:
            message = f"the tag <{self.name[:40]}> is longer than lxml reads; write less"
            raise self._source.error(ParseCode.LIMIT_EXCEEDED, message)
        self.attrs = dict(zip(self.attrs, read[1].values(), strict=True))

    def _problem(self, message: str, code: ParseCode = ParseCode.SYNTAX) -> None:
        source = self._source
        if self._committed or source.strict:
            source.violation(code, message)
        else:
            self._pending.append((code, message, source.offset(source.at)))

    def _commit(self) -> None:
        if not self._committed:
            self._committed = True
            for problem in self._pending:
                self._source.violation(*problem)

    def _be_text(self) -> None:
        """Take the `<` as text: nothing that was read behind it holds markup."""
        source = self._source
        message = f"'<' begins no tag: {source.text[source.at]!r} cannot follow; write '&lt;'"
        source.violation(ParseCode.SYNTAX, message, self.start)
        self.is_text = True


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
    line = text[at] + rest[: end + 1]
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
        source.violation(ParseCode.SYNTAX, "'--' inside a comment; end it with '-->'")
        source.at += 1
        if char != "-":
            yield from source.find("--")
    source.at += 1


def skip_declaration(source: Source) -> Step[None]:
    """Skip `<!DOCTYPE … [ … ]>` or another markup declaration as a whole."""
    ends = [">"]
    while ends:
        char = yield from source.search(_in_subset if ends[-1] == "]" else _in_declaration)
        if char == ends[-1]:
            ends.pop()
        elif char == "[" and len(ends) == 1:
            ends.append("]")
        elif char in "\"'":
            yield from source.find(char)
        elif char == "<":
            ends.append(">")


def skip_reasoning(source: Source, name: str) -> Step[None]:
    """Skip to the literal end tag of a reasoning block, whatever stands before it (semantics 1.6)."""
    last = source.offset(source.at) + source.limits.reasoning_length
    for _ in _find_end_tag(source, name):
        if source.fed > last:
            raise source.exceeded("reasoning_length", last)
        yield
    if source.offset(source.at, end=True) > last:
        raise source.exceeded("reasoning_length", last)


def _find_end_tag(source: Source, name: str) -> Step[None]:
    char = ""
    while char != ">":
        yield from source.find(f"</{name}")
        char = yield from source.skip(_spaces)
    source.at += 1
