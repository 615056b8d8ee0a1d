# SPDX-License-Identifier: Apache-2.0
"""Cut text into phrases, say them one by one and time its speech, without ROS and without a synthesiser."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from threading import Event

from skill_kernel import SkillReturn
from skill_kernel.skills.drivers import DriverResult, outcome

LATIN_CHAR_S = 1 / 15
"""About 150 words a minute, six characters a word with the space."""
CJK_CHAR_S = 1 / 4
"""About 240 syllables a minute; each character is a syllable."""
SENTENCE_PAUSE_S = 0.3
CLAUSE_PAUSE_S = 0.15
SLOWEST, FASTEST = 0.25, 4.0
MAX_PHRASE = 160
_MARK = re.compile("[.!?;:,\u2026\n\u3002\uff01\uff1f\uff1b\uff1a\uff0c\u3001]")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]")

_SENTENCE = frozenset(".!?…。！？\n")
_CLAUSE = frozenset(",;:，；：、—–")


def clamp_rate(rate: float) -> float:
    """Return a rate that speech can follow; 0 (a field not set) and what is not a number mean normal."""
    if not rate > 0:
        return 1.0
    return min(max(rate, SLOWEST), FASTEST)


def is_cjk(char: str) -> bool:
    """Return whether a character is Chinese, Japanese or Korean writing."""
    return _CJK.match(char) is not None


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
        begin, end = 0, _boundary(pending, 0)
        while end is not None or len(pending) - begin > MAX_PHRASE:
            # Without a mark it is cut behind the last space that one breath reaches.
            cut = end or pending.rfind(" ", begin + 1, begin + MAX_PHRASE) + 1 or begin + MAX_PHRASE
            yield from _worth_saying(pending[begin:cut])
            begin, end = cut, None if end is None else _boundary(pending, cut)
        pending = pending[begin:]
    yield from _worth_saying(pending)


def say(text: Iterable[str], utter: Callable[[str], DriverResult], stop: Event, go_on: Callable[[], bool]) -> SkillReturn:
    """Say a text phrase by phrase. `utter` says one, and ends as cancelled at a stop or pause.

    `go_on` waits as long as the call is paused, and is false at a stop. Speech goes on at the word that was cut.
    """
    said: list[str] = []

    def so_far() -> str:
        return f"said: {' '.join(filter(None, said))}" if any(said) else "said nothing"

    for phrase in phrases(text):
        while phrase and go_on():
            result = utter(phrase)
            cut = len(phrase) if result.ok else int(result.values.get("spoken_chars", 0.0))
            if 0 < cut < len(phrase):
                cut = phrase.rfind(" ", 0, cut) + 1
            said.append(phrase[:cut].strip())
            phrase = phrase[cut:]
            if not result.ok and not result.cancelled:
                return outcome(result, so_far())
        if stop.is_set():
            break
    return SkillReturn.interruption(so_far()) if stop.is_set() else SkillReturn.success(so_far())


def _boundary(text: str, begin: int) -> int | None:
    """Return the end of the phrase from `begin` on, None where there is none yet."""
    for found in _MARK.finditer(text, begin):
        i = found.start()
        if text[i] not in ".,:" or not text[i - 1 : i].isdigit() or (i + 1 < len(text) and not text[i + 1].isdigit()):
            return i + 1
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
