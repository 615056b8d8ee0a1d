# SPDX-License-Identifier: Apache-2.0
"""Tells an instruction that is nothing but a stop word, which halts the robot without any model (semantics, section
7)."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_MARKS = re.compile("[\u0300-\u036f]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+"
)
_STOP_SIGNS = re.compile("[\U0001f6d1\u23f9\u270b]")
_CJK = "\u2e80-\u2fdf\u3041-\u3096\u30a1-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_LETTER_HYPHEN = re.compile(r"(?<=\w)[-\u2010\u2011'\u2019](?=\w)")
_LONG_STOP = re.compile(r"s+t+o+p+")
_LONGEST_PHRASE = 3


def _fold(text: str) -> str:
    """Compatibility form, lower case, without accents and invisible characters; hyphenated words become one word."""
    if text.isascii():
        return _LETTER_HYPHEN.sub("", text).lower()
    text = unicodedata.normalize("NFKD", _STOP_SIGNS.sub(" stop ", _INVISIBLE.sub("", text)))
    text = unicodedata.normalize("NFC", _MARKS.sub("", text).casefold())
    return _LETTER_HYPHEN.sub("", text)


def _vocabulary(text: str) -> frozenset[str]:
    return frozenset(" ".join(_WORD.findall(_fold(phrase))) for phrase in text.split(","))


_STOP = _vocabulary(
    "stop,halt,freeze,abort,emergency stop,e-stop,estop,e stop,full stop,stop it,stop that,stop this,cease,"
    "don't move,do not move,stop motion,"
    "alto,para,pare,parar,basta,detente,arrete,arretez,arret,stopp,anhalten,fermo,ferma,fermati,arresta,stoppen,"
    "стоп,стой,стойте,остановись,остановитесь,dur,멈춰,정지,그만,قف,توقف,ストップ"
)
_FILLER = _vocabulary(
    "please,pls,plz,now,right now,right away,at once,immediately,instantly,quick,quickly,robot,hey,oh,ok,okay,no,wait,"
    "just,i said,i say,you,can you,could you,would you,will you,here,there,everything,all,"
    "moving,every motion,all motion,"
    "all movement,all motors,the robot,bitte,sofort,por favor,ya,s'il te plait,s'il vous plait,per favore,jetzt"
)
_CJK_STOP = _vocabulary(
    "停,停下,停下来,停止,停住,停一下,站住,别动,别动了,不要动,不许动,不准动,紧急停止,急停,住手,中止,打住,"
    "停止一切动作,停止所有动作,停止动作,止まれ,止まって,止まってください,停止してください,やめて,やめろ,動くな"
)
_CJK_FILLER = _vocabulary("请,請,快,快点,马上,立刻,立即,赶紧,赶快,现在,给我,都,全部,机器人,吧,啊,了,你,我说")


def _longest_first(*sets: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(frozenset().union(*sets), key=lambda w: (-len(w), w)))))


_CJK_PIECE = _longest_first(_CJK_STOP, _CJK_FILLER)


def is_stop(text: str, robot_name: str = "") -> bool:
    """Whether an instruction says stop and nothing else, in whatever language, spelling or punctuation.

    Forms of address (`robot_name`, "robot"), politeness and urgency may stand around the stop word. Anything more
    ("don't stop", "stop by the kitchen", "stop, then look left") is an instruction for the planner, so this is false.
    On doubt between two readings of the same words it is true: halting is the safe side.
    """
    words = _WORD.findall(_fold(text))
    if not words:
        return False
    name = _name_words(robot_name)
    stops = False
    at = 0
    while at < len(words):
        if name and tuple(words[at : at + len(name)]) == name:
            at += len(name)
            continue
        taken, is_stop_word = _phrase(words, at)
        if not taken:
            return False
        stops = stops or is_stop_word
        at += taken
    return stops


@lru_cache(maxsize=64)
def _name_words(name: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(_fold(name)))


def _phrase(words: list[str], at: int) -> tuple[int, bool]:
    """How many words from `at` on are known as one phrase (0: none), and whether it is a stop word."""
    for count in range(min(_LONGEST_PHRASE, len(words) - at), 0, -1):
        phrase = " ".join(words[at : at + count])
        if phrase in _STOP:
            return count, True
        if phrase in _FILLER:
            return count, False
    word = words[at]
    if _LONG_STOP.fullmatch(word):
        return 1, True
    known, stops = _chinese(word)
    return int(known), stops


def _chinese(run: str) -> tuple[bool, bool]:
    """Whether a run of Chinese or Japanese is made of known pieces only, and whether one of them is a stop word."""
    stops, at = False, 0
    while at < len(run):
        piece = _CJK_PIECE.match(run, at)
        if piece is None:
            return False, False
        stops = stops or piece.group() in _CJK_STOP
        at = piece.end()
    return True, stops
