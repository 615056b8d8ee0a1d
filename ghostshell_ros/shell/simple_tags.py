# SPDX-License-Identifier: Apache-2.0
"""The fast path's patterns: chunks that are nothing but text, and tags of ASCII names with plain quoted values."""

from __future__ import annotations

import re

from ghostshell_ros.shell.xml_chars import INVALID

_NAME = r"[A-Za-z_][A-Za-z0-9_.\-]*"
_VALUE = rf"""(?:"[^"<&\t\n\r{INVALID}]*"|'[^'<&\t\n\r{INVALID}]*')"""

special = re.compile(f"[<&\\]`{INVALID}\\r]").search
"""Finds what makes a chunk more than text."""
plain_run = re.compile(f"[^<&\\]`{INVALID}\\r]+").match
simple_tag = re.compile(rf"<(?:({_NAME})((?: +{_NAME}={_VALUE})*) *(/?)|/({_NAME}) *)>").match
"""Groups: name, attributes, the slash of an empty element; name of an end tag."""
simple_tag_begun = re.compile(rf"""<(?:/?(?:{_NAME})?|{_NAME} +(?:{_NAME}(?:=(["'][^<>\n\r]*)?)?)?)""").fullmatch
"""Matches a beginning of such a tag; group 1 is set once a value has begun, then all but `<`, `>` goes on with it."""


def simple_attributes(written: str) -> dict[str, str] | None:
    """The attributes of a simple tag, or None where one is given twice or both kinds of quote occur."""
    if "'" not in written:
        parts = written.split('"')
    elif '"' not in written:
        parts = written.split("'")
    else:
        return None
    attrs = {name.strip(" ="): value for name, value in zip(parts[::2], parts[1::2])}
    return attrs if len(parts) == 2 * len(attrs) + 1 else None
