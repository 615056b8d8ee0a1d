# SPDX-License-Identifier: Apache-2.0
"""Cut text into phrases and time its speech, without ROS and without a synthesiser."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator

LATIN_CHAR_S = 1 / 15
"""About 150 words a minute, six characters a word with the space."""
CJK_CHAR_S = 1 / 4
"""About 240 syllables a minute; each character is a syllable."""
SENTENCE_PAUSE_S = 0.3
CLAUSE_PAUSE_S = 0.15
SLOWEST, FASTEST = 0.25, 4.0
MAX_PHRASE = 160
_ENDS = ".!?;:,\u2026\n"
_WIDE_ENDS = "\u3002\uff01\uff1f\uff1b\uff1a\uff0c\u3001"

_SENTENCE = frozenset(".!?…。！？\n")
_CLAUSE = frozenset(",;:，；：、—–")


def clamp_rate(rate: float) -> float:
    """Return a rate that speech can follow; 0 (a field not set) and what is not a number mean normal."""
    if not rate > 0:
        return 1.0
    return min(max(rate, SLOWEST), FASTEST)


def is_cjk(char: str) -> bool:
    """Return whether a character is Chinese, Japanese or Korean writing."""
    code = ord(char)
    return (
        0x3040 <= code <= 0x30FF
        or 0x3400 <= code <= 0x9FFF
        or 0xAC00 <= code <= 0xD7A3
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x3FFFF
    )


def _seconds(char: str) -> float:
    if char in _SENTENCE:
        return SENTENCE_PAUSE_S
    if char in _CLAUSE:
        return CLAUSE_PAUSE_S
    if is_cjk(char):
        return CJK_CHAR_S
    # Emoji, control, format (zero-width) characters and marks are not said.
    if unicodedata.category(char)[0] in "CMS" or (unicodedata.category(char)[0] == "P" and char not in "'-’"):
        return 0.0
    return LATIN_CHAR_S


class SpeechTiming:
    """Time the speech of a text: when each character has been said, at `rate` times the normal speed."""

    def __init__(self, text: str, rate: float = 1.0) -> None:
        self._ends: list[float] = []
        speed = clamp_rate(rate)
        at = 0.0
        pausing = False
        for char in text:
            # "..." and "?!" are one pause, and so is the space after it.
            pause = char in _SENTENCE or char in _CLAUSE
            if not (pausing and (pause or char.isspace())):
                at += _seconds(char) / speed
            pausing = pause or (pausing and char.isspace())
            self._ends.append(at)

    @property
    def duration_s(self) -> float:
        return self._ends[-1] if self._ends else 0.0

    def spoken_chars(self, elapsed_s: float) -> int:
        """Return the number of characters said after `elapsed_s` seconds."""
        return bisect_right(self._ends, elapsed_s + 1e-9)


def phrases(pieces: Iterable[str]) -> Iterator[str]:
    """Cut text that arrives in pieces into phrases for one breath each, as soon as their end is certain.

    A phrase ends behind punctuation or a line break; a full stop, comma or colon behind a digit only when no digit
    follows. Invisible characters vanish; a phrase without a letter or digit is not said.
    """
    pending = ""
    for piece in pieces:
        pending += "".join(c for c in piece if unicodedata.category(c) != "Cf")
        while (cut := _boundary(pending)) is not None:
            yield from _worth_saying(pending[:cut])
            pending = pending[cut:]
    yield from _worth_saying(pending)


def _boundary(text: str) -> int | None:
    for i, c in enumerate(text):
        if c in _WIDE_ENDS or (c in _ENDS and not (c in ".,:" and text[i - 1 : i].isdigit())):
            return i + 1
        if c in ".,:" and text[i - 1 : i].isdigit() and i + 1 < len(text) and not text[i + 1].isdigit():
            return i + 1
    if len(text) > MAX_PHRASE:
        space = text.rfind(" ", 1, MAX_PHRASE)
        return space + 1 if space > 0 else MAX_PHRASE
    return None


def _worth_saying(phrase: str) -> Iterator[str]:
    phrase = " ".join(phrase.split())
    if any(c.isalnum() for c in phrase):
        yield phrase


def speaking_s(text: object) -> float:
    """Return the seconds that saying a text takes; 1 s for one that is not known yet."""
    if not isinstance(text, str) or not text:
        return 1.0
    return sum(SpeechTiming(phrase).duration_s for phrase in phrases([text]))
