# SPDX-License-Identifier: Apache-2.0
"""The fast path's patterns: chunks of nothing but text, tags of ASCII names with plain values in quotes."""

from __future__ import annotations

import re

from ghostshell_ros.shell.xml_chars import INVALID

_NAME = r"[A-Za-z_][\w.\-]*"
_SPECIAL = f"<&\\]`{INVALID}\\r"

special = re.compile(f"[{_SPECIAL}]").search
"""Finds what makes a chunk more than text."""
plain_run = re.compile(f"[^{_SPECIAL}]+").match
text_then_tag = re.compile(f"([^{_SPECIAL}]*)(</?(?:{_NAME})?)", re.ASCII).fullmatch
"""Matches text and behind it the beginning of a tag; the two are its groups."""
_QUOTED = r"""(?:"[^"<&\x00-\x1F]*"|'[^'"<&\x00-\x1F]*')"""
simple_tag = re.compile(rf"<(?:({_NAME})((?: {_NAME}={_QUOTED})*) ?(/?)|/({_NAME}))>", re.ASCII).match
"""Groups: name, attributes, the slash of an empty element; name of an end tag."""
simple_tag_begun = re.compile(rf'<(?:/?(?:{_NAME})?|{_NAME} (?:{_NAME}(?:=(["\'][^<>\n\r]*)?)?)?)', re.ASCII).fullmatch
"""Matches a beginning of such a tag; group 1 is set once a value has begun, then all but `<`, `>` goes on with it."""


def simple_attributes(written: str) -> dict[str, str] | None:
    """The attributes of a simple tag, or None where one is given twice or something needs a closer look."""
    parts = written.split('"' if '"' in written else "'")
    if '"' in written and "'" in written and "'" in "".join(parts[::2]):
        return None
    attrs = {name[1:-1]: value for name, value in zip(parts[::2], parts[1::2])}  # noqa: B905
    # Printable characters are characters of XML, but not the other way round.
    return attrs if 2 * len(attrs) + 1 == len(parts) and (written.isascii() or written.isprintable()) else None
