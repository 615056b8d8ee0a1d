# SPDX-License-Identifier: Apache-2.0
"""Read whole tags, references and names with lxml. It expands no entity, opens no file and keeps its limits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache, partial

from lxml import etree

from function_tokens.parsing.source import run_of
from function_tokens.parsing.tokens import NO_ATTRS

_new_parser = partial(etree.XMLParser, resolve_entities=False, no_network=True, huge_tree=False)
# https://www.w3.org/TR/xml/#NT-NameStartChar and NameChar
NAME_START = (
    r":A-Z_a-z\xC0-\xD6\xD8-\xF6\xF8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C-\u200D\u2070-\u218F\u2C00-\u2FEF"
    r"\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
NAME = NAME_START + r"\-.0-9\xB7\u0300-\u036F\u203F-\u2040"


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
