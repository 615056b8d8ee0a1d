# SPDX-License-Identifier: Apache-2.0
"""Cuts text that is still being written into phrases, each spoken as soon as its end is certain."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator

from ghostshell_ros.drivers.speech import SpeechTiming

MAX_PHRASE = 160
_ENDS = ".!?;:,\u2026\n"
_WIDE_ENDS = "\u3002\uff01\uff1f\uff1b\uff1a\uff0c\u3001"


def phrases(pieces: Iterable[str]) -> Iterator[str]:
    """Cut text that arrives in pieces into what is worth saying in one breath, each as soon as its end is certain.

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
    """Seconds that saying a text takes; 1 s for one that is not known yet."""
    if not isinstance(text, str) or not text:
        return 1.0
    return sum(SpeechTiming(phrase).duration_s for phrase in phrases([text]))
