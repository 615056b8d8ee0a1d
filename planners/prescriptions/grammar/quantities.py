# SPDX-License-Identifier: Apache-2.0
"""Numbers, lengths and counts as people write them."""

from __future__ import annotations

import re

_WORDS = {
    "no": 0,
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "fifty": 50,
    "hundred": 100,
}
_METRES = {
    "mm": 0.001,
    "millimetre": 0.001,
    "millimeter": 0.001,
    "cm": 0.01,
    "centimetre": 0.01,
    "centimeter": 0.01,
    "m": 1.0,
    "metre": 1.0,
    "meter": 1.0,
    "foot": 0.3048,
    "feet": 0.3048,
    "ft": 0.3048,
    "inch": 0.0254,
    "inches": 0.0254,
}

NUMBER = rf"(?:\d+(?:[.,]\d+)?|\.\d+|half an?|a hundred|(?:{'|'.join(_WORDS)}))"
LENGTH = rf"(?P<number>{NUMBER})\s*-?(?P<unit>{'|'.join(sorted(_METRES, key=len, reverse=True))})s?\b"
_LENGTH = re.compile(LENGTH, re.IGNORECASE)


def number_of(text: str) -> float:
    """A number in figures or words. Raises ValueError."""
    words = text.strip().lower()
    if words in ("half a", "half an"):
        return 0.5
    if words == "a hundred":
        return 100.0
    return float(_WORDS[words]) if words in _WORDS else float(words.replace(",", "."))


def metres_of(text: str) -> float | None:
    """The length a text says, in m; None when it says none."""
    found = _LENGTH.search(text)
    if found is None:
        return None
    return round(number_of(found["number"]) * _METRES[found["unit"].lower()], 4)


def written(value: float) -> str:
    """A number as code."""
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"
