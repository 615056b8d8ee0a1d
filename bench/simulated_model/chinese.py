# SPDX-License-Identifier: Apache-2.0
"""Reads a Chinese instruction as an English one, and says a sentence to people in Chinese; the words are those of the parser of
direct commands."""

from __future__ import annotations

import re

from planners.language.conditional import QUOTED, split
from planners.language.lexicon import is_chinese, spoken
from planners.language.words import Word, clean, plain_words

_SENTENCE = re.compile(
    r"[.!?;。！？；]+|[,，]?\s*(?=否则|要不然|(?<!要)不然|(?<=[,，])(?:如果|要是|假如|(?:找到|找不|没找|看到|看不|没看)[^,，]*就))"
)
_OTHERWISE = re.compile(r"(?:否则|要不然|不然)(?:的话)?[,，]?\s*(?:就|请)?")
_ONCE = re.compile("(?P<condition>(?:没|找不|看不|看到|看见|找到|发现|有).*?)[,，]?就(?P<action>.+)")
_CLAUSE = re.compile(r"[,，、]\s*(?:然后|接着|并且|再|就|最后)?|然后|接着|并且")
_ITS_OWN = {
    "not see": r"(?:没有?|还没)(?:看到|看见|找到|发现)|找不到|看不到|看不见",
    "see": "看到|看见|找到了?|发现",
    "look for": "有没有|是否有",
    "there is no": "没有",
    "there is": "有",
    "in this room": "(?:在|从)?(?:这个|整个)?(?:房间|屋子|屋)里?面?|在?这里",
    "walk up to it,": "走过去|(?:走到|走近)(?:它|他|她)(?:那里|那儿|旁边|面前|跟前)?",
    "return to the start,": "(?:走?回到?|返回)(?:起点|出发点|原处|原位|(?:原来|出发|开始)的(?:地方|位置))",
    "come back,": "回来",
    "it": "它|他|她",
    "the": "那个|这个|那只|这只|那|这",
    "": "看一?看|检查(?:一下)?|里面|里",
}
"""What the words of commands lack, as plain English."""
_PIECE = re.compile("|".join(f"(?P<g{n}>{pattern})" for n, pattern in enumerate(_ITS_OWN.values())))
_MARKS = {"@half": "around", "@turns": "turns", "search": "find"}
_PLACE = re.compile(r"^(in (?:this room|\w+)) (.+)$")
_VERB = re.compile(r"(?<=\w) find\b")
_PICTURE = re.compile(r"给(?P<thing>.+?)(?:拍(?:一?张)?(?:照片|照)|照相)|拍一?张(?P<what>.+?)的照片")


def in_english(instruction: str) -> str:
    """Return an instruction in plain English; one without Chinese words as it is."""
    if not is_chinese(instruction):
        return instruction
    parts = []
    for sentence in filter(None, (part.strip(" ,，") for part in _SENTENCE.split(clean(instruction)))):
        if found := _OTHERWISE.match(sentence):
            parts.append(f"Otherwise {_clauses(sentence[found.end() :])}.")
        elif clause := split(sentence) or _ONCE.fullmatch(sentence):
            condition, action = (
                (clause["condition"], clause["action"]) if isinstance(clause, re.Match) else (clause.condition, clause.action)
            )
            parts.append(f"If {_plain(condition)}, {_clauses(action)}.")
        else:
            parts.append(f"{_clauses(sentence)}.")
    return " ".join(part[:1].upper() + part[1:] for part in parts)


def _clauses(text: str) -> str:
    return ", ".join(filter(None, map(_plain, _CLAUSE.split(text))))


def _plain(clause: str) -> str:
    """Return the words of one clause, a place behind what is done there; as it is where not all of it is known."""
    clause = _PICTURE.sub(lambda found: f"take a picture of {found['thing'] or found['what']}", clause)
    words, at = list[str](), 0
    for found in [*_PIECE.finditer(clause), None]:
        between = clause[at : found.start() if found else len(clause)]
        words += map(_word, plain_words(between))
        if found is not None:
            words.append(list(_ITS_OWN)[int((found.lastgroup or "g0")[1:])])
            at = found.end()
    said = " ".join(word for word in " ".join(words).split() if not word.startswith("@"))
    return clause if is_chinese(QUOTED.sub("", said)) else _VERB.sub(", find", _PLACE.sub(r"\2 \1", said)).strip(" ,")


def _word(word: Word) -> str:
    if word.kind == "number":
        return f"{word.value:g}"
    return f'"{word.text}"' if word.kind == "quote" else _MARKS.get(word.text, word.text)


_SAID = (
    (re.compile(r"I could not do it: (.+)"), "我没做到：{0}"),
    (re.compile(r"I cannot get to the (.+?)(?: to look for .+)?: .+"), "去不了{0}：路走不通"),
    (re.compile(r"I (?:found no|do not see an?|did not find an?) (\w+).*"), "没看到{0}"),
    (re.compile(r"I cannot recognise '(\w+)'.*"), "我不认识{0}"),
    (re.compile(r"I do not know how to do (?:this: )?(.+)"), "我不会做：{0}"),
)


def to_people(sentence: str, instruction: str) -> str:
    """Return a sentence about a failure in the language of the instruction; one that is none of these as it is."""
    for pattern, chinese in _SAID if is_chinese(instruction) else ():
        if found := pattern.fullmatch(sentence.rstrip(".")):
            told = to_people(found[1], instruction) if " " in found[1] else spoken(found[1], chinese=True)
            return f"{chinese.format(told.rstrip('。'))}。"
    return sentence
