# SPDX-License-Identifier: Apache-2.0
"""Tell an instruction that is nothing but a stop word, which halts the robot without any model (semantics, section 7)."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_ACCENTS = re.compile("[\u0300-\u036f]")
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+"
)
_STOP_SIGNS = re.compile("[\U0001f6d1\u23f9\u270b]")
_CJK = "\u2e80-\u2fdf\u3041-\u3096\u30a1-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_LETTER_HYPHEN = re.compile(r"(?<=\w)[-\u2010\u2011'\u2019](?=\w)")
_STOP = (
    "stop,halt,freeze,abort,emergency stop,e-stop,estop,e stop,full stop,stop it,stop that,stop this,cease,"
    "don't move,do not move,stop motion,"
    "alto,para,pare,parar,basta,detente,arrete,arretez,arret,stopp,anhalten,fermo,ferma,fermati,arresta,stoppen,"
    "стоп,стой,стойте,остановись,остановитесь,dur,멈춰,정지,그만,قف,توقف,ストップ"
)
_FILLER = (
    "please,pls,plz,now,right now,right away,at once,immediately,instantly,quick,quickly,robot,hey,oh,ok,okay,no,wait,"
    "just,i said,i say,you,can you,could you,would you,will you,here,there,everything,all,"
    "moving,every motion,all motion,"
    "all movement,all motors,the robot,bitte,sofort,por favor,ya,s'il te plait,s'il vous plait,per favore,jetzt"
)
_CJK_STOP = (
    "停,停下,停下来,停止,停住,停一下,站住,别动,别动了,不要动,不许动,不准动,紧急停止,急停,住手,中止,打住,"
    "停止一切动作,停止所有动作,停止动作,止まれ,止まって,止まってください,停止してください,やめて,やめろ,動くな"
)
_CJK_FILLER = "请,請,快,快点,马上,立刻,立即,赶紧,赶快,现在,给我,都,全部,机器人,吧,啊,了,你,我说"


def is_stop(text: str, robot_name: str = "") -> bool:
    """Return whether an instruction says stop and nothing else, in whatever language, spelling or punctuation.

    Forms of address (`robot_name`, "robot"), politeness and urgency may stand around the stop word. Anything more
    ("don't stop", "stop by the kitchen", "stop, then look left") is an instruction for the planner, so this is false.
    On doubt between two readings of the same words it is true: halting is the safe side.
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
    """Return the words in compatibility form and lower case, without accents, invisible characters and marks; hyphenated
    words become one."""
    if text.isascii():
        text = text.lower()
    else:
        text = unicodedata.normalize("NFKD", _STOP_SIGNS.sub(" stop ", _INVISIBLE.sub("", text)))
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", text).casefold())
    return " ".join(_WORD.findall(_LETTER_HYPHEN.sub("", text)))


def _one_of(phrases: str) -> str:
    return "|".join(sorted({re.escape(_words(phrase)) for phrase in phrases.split(",")}, key=lambda p: (-len(p), p)))


_PIECE = re.compile(
    rf"(?:(?P<stop>(?:{_one_of(_STOP)}|s+t+o+p+)(?= |$)|{_one_of(_CJK_STOP)})"
    rf"|(?:{_one_of(_FILLER)})(?= |$)|{_one_of(_CJK_FILLER)}) ?"
)


@lru_cache(maxsize=64)
def _name(robot: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(_words(robot))}(?: |$)" if _words(robot) else "(?!)")
