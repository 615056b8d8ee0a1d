# SPDX-License-Identifier: Apache-2.0
"""Tell an instruction that is nothing but a stop word, which halts the robot without any model (semantics, section 7)."""

import re
import unicodedata
from functools import lru_cache

from planners.prompts.blocks import INVISIBLE, text_beside
from skill_kernel.config.yaml_text import read_yaml

_SAID: dict[str, dict[str, str]] = read_yaml(text_beside(__file__, "stop_words.yaml"), strict=True)
_NO_LETTERS = re.compile(f"[{INVISIBLE}\u0300-\u036f\u0640\u064b-\u0652\u30fc]+")
"""Invisible characters, accents, vowel marks, and the strokes that lengthen Arabic and Japanese words."""
_SIGNS = dict.fromkeys(map(ord, "\U0001f6d1\u23f9\u270b\u26d4"), " stop ")
_ALIKE = "aаαɑᴀ4@ bвβ cсϲ eеε3 fғ hһнηʜ iіι kкκ lӏʟ1 oоοᴏ0 pрρпπᴘ rʀ sѕσꜱ$5 tтτᴛ7 xх yу zᴢ"
_LATIN = {ord(other): letters[0] for letters in _ALIKE.split() for other in letters[1:]} | {
    first + i: chr(ord("a") + i) for first in (0x1F150, 0x1F170, 0x1F1E6) for i in range(26)
}
"""Letters, digits, signs and letters in boxes to the small Latin letter that they look like."""
_CJK = "\u2e80-\u2fdf\u3041-\u3096\u30a1-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]+|(?:[^\W_{_CJK}]|[\u0900-\u0963])+")
_INSIDE = re.compile(r"['\u2019](?<=\w.)(?=\w)|[-\u2010](?:(?<=\bno.)|(?<=\bnon.)|(?<=\bnot.))(?=\w)")
"""Apostrophes, and the hyphen behind no, non and not; others part words."""
_SPELT = re.compile(r" (?<=\b\w.)(?=\w\b)")
_DOUBLED = re.compile(r"(.)(?=\1)")


def is_stop(text: str, robot_name: str = "") -> bool:
    """Return whether an instruction says stop and nothing else, in whatever language, spelling or punctuation.

    Forms of address (`robot_name`, "robot"), politeness, urgency and a plain motion ("stop walking") may stand around the stop
    word, which may be spelt ("s.t.o.p."), shouted ("STOOOP") or repeated. Anything more ("don't stop", "stop by the kitchen",
    "stop, then look left") is an instruction for the planner, so this is false. On doubt between two readings of the same words
    it is true: halting is the safe side.
    """
    words = _words(text)
    stops = False
    at = 0
    while at < len(words):
        piece = _name(robot_name).match(words, at) or _PIECE.match(words, at)
        if piece is None:
            return False
        stops = stops or piece.lastgroup == "stop"
        at = piece.end()
    return stops


def _words(text: str) -> str:
    """Return the words in lower case, without accents, marks, invisible characters and doubled letters. Single letters become
    one word, and what looks like a Latin letter becomes that."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.translate(_SIGNS))
        text = unicodedata.normalize("NFC", _NO_LETTERS.sub("", text))
    words = " ".join(_WORD.findall(_INSIDE.sub("", text.casefold()).translate(_LATIN)))
    return _DOUBLED.sub("", _SPELT.sub("", words))


def _one_of(kind: str) -> str:
    words = {re.escape(_words(one)) for said in _SAID[kind].values() for one in said.split(",")}
    return "|".join(sorted(words - {""}, key=lambda word: (-len(word), word)))


_PIECE = re.compile(
    rf"(?:(?P<stop>(?:{_one_of('stop')})+(?= |$)|{_one_of('unspaced_stop')})"
    rf"|(?:{_one_of('around')})(?= |$)|{_one_of('unspaced_around')}) ?"
)


@lru_cache(maxsize=64)
def _name(robot: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(_words(robot))}(?: |$)" if _words(robot) else "(?!)")
