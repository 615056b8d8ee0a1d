# SPDX-License-Identifier: Apache-2.0
"""The fast path's patterns: chunks of nothing but text, tags of ASCII names with plain values in quotes."""

from __future__ import annotations

import re

from function_tokens.parsing.xml_chars import INVALID

_NAME = r"[A-Za-z_][\w.\-]*"
_SPECIAL = f"<&\\]`{INVALID}\\r"

special = re.compile(f"[{_SPECIAL}]").search
"""Finds what makes a chunk more than text."""
plain_run = re.compile(f"[^{_SPECIAL}]+").match
text_then_tag = re.compile(f"([^{_SPECIAL}]*)(</?(?:{_NAME})?)", re.ASCII).fullmatch
"""Matches text and behind it the beginning of a tag; the two are its groups."""
_QUOTED = r"""(?:"[^"<&\x00-\x1F]*"|'[^'"<&\x00-\x1F]*')"""
_TAG = rf"<(?:({_NAME})((?: {_NAME}={_QUOTED})*) ?(/?)|/({_NAME}))>"
simple_tag = re.compile(_TAG, re.ASCII).match
"""Groups: name, attributes, the slash of an empty element; name of an end tag."""
_ATTRIBUTE = rf'(?: ({_NAME})="([^"<&\x00-\x1F]*)")?'
_READ_TAG = rf"<(?:({_NAME}){_ATTRIBUTE}{_ATTRIBUTE}((?: {_NAME}={_QUOTED})*) ?(/?)|/({_NAME}))>"
simple_tag_then_text = re.compile(f"{_READ_TAG}([^{_SPECIAL}]*)(</?(?:{_NAME})?)?", re.ASCII).fullmatch
"""The same with text behind it and behind that the beginning of another tag. Groups: name, name and value of two
attributes, further attributes, the slash of an empty element; name of an end tag; text; beginning of a tag."""
_VALUE = r"""["'][^<>\n\r]*"""
_GIVEN = f"(?:=({_VALUE})?)?"
simple_tag_begun = re.compile(rf"<(?:/?(?:{_NAME})?|{_NAME}( )(?:{_NAME}{_GIVEN})?)", re.ASCII).fullmatch
"""Matches a beginning of such a tag. Its last group is 1 once attributes have begun, 2 once a value has: then all but `<`,
`>` goes on with it."""
name_goes_on = re.compile(rf"[\w.\-]*(?:( )(?:{_NAME}{_GIVEN})?)?", re.ASCII).fullmatch
"""Matches what may follow within the name of a begun start tag; groups as above."""
attribute_goes_on = re.compile(rf"(?: (?:{_NAME}{_GIVEN})?|=({_VALUE})?|[\w.\-]+{_GIVEN})", re.ASCII).fullmatch
"""Matches what may follow among the attributes, before their first value, with the last character so far put in front.
It has a last group once a value has begun."""


def simple_attributes(written: str) -> dict[str, str] | None:
    """The attributes of a simple tag, or None where one is given twice or something needs a closer look."""
    parts = written.split('"')
    size = len(parts)
    if "'" in written:
        if size == 1:
            parts = written.split("'")
            size = len(parts)
        elif "'" in "".join(parts[::2]):
            return None
    if size == 3:
        attrs = {parts[0][1:-1]: parts[1]}
    elif size == 5:
        attrs = {parts[0][1:-1]: parts[1], parts[2][1:-1]: parts[3]}
    else:
        attrs = {name[1:-1]: value for name, value in zip(parts[::2], parts[1::2])}  # noqa: B905
    # Printable characters are characters of XML, but not the other way round.
    return attrs if 2 * len(attrs) + 1 == size and (written.isascii() or written.isprintable()) else None
