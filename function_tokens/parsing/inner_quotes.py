# SPDX-License-Identifier: Apache-2.0
"""Whether a quote ends an attribute's value or stands in it, as in `cond="visible("ball")"` or `text='I don't'`."""

from __future__ import annotations

import re
from enum import Enum

from function_tokens.parsing.xml_chars import NAME_CHAR, NAME_START, SPACE, name_start

LOOK = 128
"""The tag must end within so many characters behind a quote for it to stand inside the value."""

_NAME = f"[{NAME_START}][{NAME_CHAR}]{{0,40}}"
_ENDING = rf"(?=[ \t]{{0,8}}/?[ \t]{{0,8}}>|[ \t,;]{{1,8}}{_NAME}[ \t]{{0,8}}[=/>])"
_attribute = re.compile(rf"{_NAME}[ \t]{{0,8}}[=/>]").match
_to_end = re.compile(r"[^<>\r\n]*").match
_ending = {quote: re.compile(quote + _ENDING) for quote in "\"'"}
"""A quote behind which the tag ends or another attribute begins."""
_opens = re.compile(rf"(?:\A|[ \t,;]){_NAME}[ \t]{{0,8}}=[ \t]{{0,8}}\Z").search


class Quote(Enum):
    """What a quote in a value is; MORE: what follows must be known first."""

    ENDS = "ends"
    INSIDE = "inside"
    MORE = "more"


def judge(text: str, at: int, *, mended: bool, final: bool) -> Quote:
    """What the quote at `text[at]` is. `mended`: the value holds such a quote already; `final`: nothing follows the text.

    It stands inside when what follows directly is no attribute and no end of the tag, and a quote that ends the value follows
    before the tag does: on this line, and before any other `<` or `>`. In doubt it ends the value, and what nobody
    understands behind it has the tag refused.
    """
    behind = at + 1
    if behind == len(text):
        return Quote.ENDS if final else Quote.MORE
    following = text[behind]
    if following in "\r\n<>" or not mended and following in SPACE + "/,;":
        return Quote.ENDS
    end = _to_end(text, behind).end()  # type: ignore[union-attr]
    if end - behind > LOOK:
        return Quote.ENDS
    if end == len(text):
        return Quote.ENDS if final else Quote.MORE
    if text[end] != ">":
        return Quote.ENDS
    if mended:
        if _ending[text[at]].match(text, at, end + 1):
            return Quote.ENDS
    elif name_start(text, behind) and _attribute(text, behind):
        return Quote.ENDS
    else:
        next_quote = text.find(text[at], behind, end)
        if next_quote < 0 or _opens(text[behind:next_quote]):
            return Quote.ENDS
    return Quote.INSIDE if _ending[text[at]].search(text, behind, end + 1) else Quote.ENDS
