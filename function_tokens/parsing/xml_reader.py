# SPDX-License-Identifier: Apache-2.0
"""Read whole tags, references and names with lxml. It expands no entity, opens no file and keeps its limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial

from lxml import etree

from function_tokens.parsing.tokens import NO_ATTRS

_new_parser = partial(etree.XMLParser, resolve_entities=False, no_network=True, huge_tree=False)
_ascii_name = re.compile(r"[A-Za-z0-9_:.\-]*").match
_ascii_name_start = re.compile(r"[A-Za-z_:]").match


class TagReader:
    """Read start tags of one stream, each as soon as it is complete."""

    def __init__(self) -> None:
        self._parser: etree.XMLParser | None = None

    def read(self, tag: str) -> tuple[str, Mapping[str, str]] | None:
        """Return the name and attributes of an empty element's tag, or None where it is not well-formed.

        Namespaces are unknown here, so a tag with a colon or `xmlns` must not come.
        """
        if self._parser is None:
            self._target = _Target()
            self._parser = _new_parser(target=self._target)
            self._parser.feed("<stream>")
        try:
            self._parser.feed(tag)
        except (etree.LxmlError, UnicodeError):
            self._parser = None
            return None
        attrs = self._target.attrs
        if "&" in tag:  # where entities are not expanded, libxml2 leaves each '&' of a value as this reference
            attrs = {name: value.replace("&#38;", "&") for name, value in attrs.items()}
        return self._target.name, attrs or NO_ATTRS

    def values(self, written: Iterable[str]) -> list[str] | None:
        """Return the values of attributes as XML reads what is written between their quotes, or None where lxml cannot."""
        attributes = "".join(f' _{i}="{value}"' for i, value in enumerate(written))
        read = self.read(f"<_{attributes}/>") if attributes else ("", NO_ATTRS)
        return read and list(read[1].values())


class _Target:
    """Take what lxml reads; end tags and text never reach it."""

    name = ""
    attrs: Mapping[str, str] = NO_ATTRS

    def start(self, name: str, attrs: Mapping[str, str]) -> None:
        self.name, self.attrs = name, attrs

    def close(self) -> None:
        """Do nothing: the root of the stream is never closed."""


@lru_cache(4096)
def _text_of(element: str) -> str | None:
    """Return the text of an element, or None where it is not well-formed."""
    try:
        return etree.fromstring(element, _new_parser()).text or ""
    except (etree.LxmlError, UnicodeError):
        return None


def resolve(reference: str) -> str | None:
    """Return the character of a reference such as `&lt;` or `&#10;`, or None where it names none."""
    return _text_of(f"<_>{reference}</_>")


def begins_name(char: str) -> bool:
    """Return whether a name may begin with this character."""
    return bool(_ascii_name_start(char)) if char < "\x80" else _text_of(f"<{char}/>") is not None


def _continues_name(char: str) -> bool:
    return bool(_ascii_name(char)[0]) if char < "\x80" else _text_of(f"<_{char}/>") is not None  # type: ignore[index]


def name_end(text: str, at: int) -> int:
    """Return the index behind the characters of a name that stand at `at`."""
    while True:
        at = _ascii_name(text, at).end()  # type: ignore[union-attr]
        if at == len(text) or text[at] < "\x80" or not _continues_name(text[at]):
            return at
        at += 1


def name_shape(text: str) -> str:
    """Return the text in ASCII: each other character becomes one that names treat alike."""
    if text.isascii():
        return text
    return "".join(c if c < "\x80" else "a" if begins_name(c) else "." if _continues_name(c) else "\x7f" for c in text)
