# SPDX-License-Identifier: Apache-2.0
"""Whether a quote ends an attribute's value or stands in it, as in `cond="visible("ball")"` or `text='I don't'`."""

from __future__ import annotations

import re
from enum import Enum

from ghostshell_ros.shell.xml_chars import NAME_CHAR, NAME_START, SPACE, name_start

LOOK = 128
"""Characters that are looked at behind a quote before it is taken for the end of the value."""

_NAME = f"[{NAME_START}][{NAME_CHAR}]{{0,40}}"
_attribute = re.compile(rf"{_NAME}[ \t\r\n]{{0,8}}[=/>]").match
_strong = re.compile(rf"[ \t\r\n]{{0,8}}/?[ \t\r\n]{{0,8}}>|[ \t\r\n,;]{{1,8}}{_NAME}[ \t\r\n]{{0,8}}[=/>]").match
_strong_begun = re.compile(
    rf"[ \t\r\n]{{0,8}}/?[ \t\r\n]{{0,8}}|[ \t\r\n,;]{{1,8}}(?:{_NAME}[ \t\r\n]{{0,8}})?"
).fullmatch
_next = {quote: re.compile(rf"[^\r\n<{quote}]*").match for quote in "\"'"}
_tag = re.compile(f"<[{NAME_START}/!?]").match


class Quote(Enum):
    """What a quote in a value is; MORE: what follows must be known first."""

    ENDS = "ends"
    INSIDE = "inside"
    MORE = "more"


def judge(text: str, at: int, *, mended: bool, final: bool) -> Quote:
    """What the quote at `text[at]` is. `mended`: the value holds such a quote already; `final`: nothing follows the text.

    It stands inside when something follows that no tag has there, and a quote that surely ends the value comes soon: before
    the line ends or another tag begins.
    """
    behind = at + 1
    if behind == len(text):
        return Quote.ENDS if final else Quote.MORE
    if mended:
        if _strong(text, behind):
            return Quote.ENDS
        if not final and _strong_begun(text, behind):
            return Quote.MORE
    elif text[behind] in SPACE + "/>,;<" or (name_start(text, behind) and _attribute(text, behind)):
        return Quote.ENDS
    return _by_what_follows(text, behind, text[at], final=final)


def _by_what_follows(text: str, behind: int, quote: str, *, final: bool) -> Quote:
    end = behind + LOOK
    i = behind
    while i < end:
        i = _next[quote](text, i).end()  # type: ignore[union-attr]
        if i >= end:
            break
        if i == len(text):
            return Quote.ENDS if final else Quote.MORE
        if text[i] == "<":
            if i + 1 == len(text) and not final:
                return Quote.MORE
            if _tag(text, i):
                break
        elif text[i] != quote:
            break
        elif _strong(text, i + 1):
            return Quote.INSIDE
        elif not final and _strong_begun(text, i + 1):
            return Quote.MORE
        i += 1
    return Quote.ENDS
