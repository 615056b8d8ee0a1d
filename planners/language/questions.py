# SPDX-License-Identifier: Apache-2.0
"""Read plain questions in English and Chinese, about now and about the past; no model. The forms stand in `questions.yaml`."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from planners.language.conditional import sentences
from planners.language.lexicon import CHINESE, FILLERS, NUMBERS, UNITS, with_pieces
from planners.language.words import chinese_number, clean, plain_words
from planners.prompts.blocks import text_beside
from skill_kernel.config.yaml_text import read_yaml

MAX_QUESTION = 1000
"""Longest question, in characters."""
DAY_S = 86_400.0


@dataclass(frozen=True)
class Question:
    """A question as it was read. `form` is a name in questions.yaml: one that ends in “_now” is about the present, “other” is
    a question of no such form, and “” is no question. `subject` is the thing, place, person or deed; `room` limits it to one.
    `rooms`: rooms are meant rather than places; `first`: the first time is asked for, not the last. Times in seconds."""

    form: str
    text: str
    subject: str = ""
    room: str = ""
    rooms: bool = False
    first: bool = False
    since_s: float | None = None
    until_s: float | None = None

    @property
    def language(self) -> str:
        """Return `zh` for Chinese, else `en`."""
        return "zh" if _CHINESE_TEXT.search(self.text) else "en"

    def say(self, key: str, **values: Any) -> str:
        """Return one of the answers of questions.yaml in the language of the question."""
        text: str = WORDS["answers"][key][self.language]
        return text.format(**values)

    def name(self, name: str) -> str:
        """Return the name of a room or a thing in the language of the question."""
        return _CHINESE_NAMES.get(name, readable(name)) if self.language == "zh" else readable(name)

    def listed(self, items: Iterable[str], limit: int = 8) -> str:
        """Return `a, b and c` in the language of the question; of many the first ones and how many more."""
        if self.language == "en":
            return listed(items, limit)
        names = list(items)
        return "、".join([*names[:limit], *([f"还有{len(names) - limit}个"] if len(names) > limit else [])]) or "什么也没有"


WORDS: dict[str, Any] = read_yaml(text_beside(__file__, "questions.yaml"), strict=True)
ROWS = [tuple(row.split(": ", 1)) for row in WORDS["forms"].splitlines()]
_STAND_FOR = {word.replace("_", " "): name for name, words in WORDS["stand_for"].items() for word in words.split()}
_CHINESE_NAMES: dict[str, str] = {name: chinese for chinese, name in reversed(CHINESE.items())} | WORDS["names"]
_DEEDS = {"please", "go", "walk", "search", "look", "take", "approach", "turn", "wait", "say", "follow"}
_CJK = "[\u3400-\u9fff]"
_CHINESE_TEXT = re.compile(_CJK)
_SPANS_S = {word: UNITS[word][1] for word in ("second", "minute")} | {
    "hour": 3600.0,
    "day": DAY_S,
    "week": 7 * DAY_S,
    "month": 30 * DAY_S,
}
_TENS, _ONES = ({word: n for word, n in NUMBERS.items() if least <= n < most} for least, most in ((20, 100), (1, 10)))
_COUNTS = NUMBERS | {f"{ten}{joint}{one}": _TENS[ten] + _ONES[one] for ten in _TENS for one in _ONES for joint in " -"}
_COUNTS |= {"few": 3.0, "a few": 3.0, "couple of": 2.0, "a couple of": 2.0, "a": 1.0, "an": 1.0}
_COUNTS |= {"half": 0.5, "half a": 0.5, "half an": 0.5, "a quarter of an": 0.25, "three quarters of an": 0.75}
_HALF = " and a half"
_COUNT = rf"((?:\d{{1,6}}(?:[.,]\d{{1,3}})?|{'|'.join(_COUNTS)})(?:{_HALF})?)"
_UNIT = rf"({'|'.join(_SPANS_S)})s?"
_SPAN = re.compile(rf"\b(?:(?:in|within|during|over|for) )?(?:the )?(?:last|past) (?:{_COUNT} )?{_UNIT}\b")
_AGO = re.compile(rf"\b(?:about )?{_COUNT} {_UNIT}({_HALF})? ago\b")
_DAYS = re.compile(
    r"\b(?:(?P<half>this|yesterday|today in the|in the) (?P<part>morning|afternoon|evening)"
    r"|(?P<day>today|(?:the day before )?yesterday|tonight|last night))\b"
)
_DAYS_AGO = {"the day before yesterday": 2, "yesterday": 1, "last night": 1}
_PARTS = {"morning": (5, 12), "afternoon": (12, 18), "evening": (18, 24)}
_TIMES_CN: dict[str, str] = {chinese: english for english, words in WORDS["times"].items() for chinese in words.split()}
_TIME_CN = re.compile(
    rf"(?P<last>最近的?|过去的?)?(?P<count>\d{{1,6}}(?:\.\d{{1,3}})?|半|[一二两三四五六七八九十百零]+)个?(?P<half>半)?(?P<unit>{'|'.join(WORDS['spans'])})钟?"
    rf"(?P<ago>(?:以|之)?前)?|(?P<day>{'|'.join(sorted(_TIMES_CN, key=len, reverse=True))})的?"
)
_NOT_PAST = ("where_now", "seen_now")
"""Forms about now that mean something else where a time is said."""
_MARKS = re.compile(r"(?:[?!;:\"“”。、]|(?<!\d)[.,]|[.,](?!\d))+")
_IS = re.compile(r"\b(what|who|where|how|there)'s\b")
_JOINED = re.compile(r"[,，]|\b(?:and|then)\b")
_ADDRESS = re.compile(
    r"^ *(?:(?:please|and|so|hey|hi|hello|ok|okay|well|can you|could you|do you know|do you remember|tell me|remember) )+"
    r"|^(?:请问|请|告诉我|你好|嗨|嘿|喂|那么|那|你?还?(?:记得|记不记得|知道|知不知道))+|[呢啊呀哦]+ *$"
)


@lru_cache(maxsize=8)
def _forms(robots: str, *, chinese: bool) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the forms of a language where `robots` is the pattern of the names that mean a robot."""
    pieces = {**WORDS["pieces"], "ROBOTS": robots or "you"}
    rows = [row for row in ROWS if bool(_CHINESE_TEXT.search(row[1])) is chinese]
    return tuple((form, re.compile(with_pieces(pattern, pieces))) for form, pattern in rows)


def read(question: str, now_s: float, robots: tuple[str, ...] = ()) -> Question:
    """Return the question as it reads at the asker's time `now_s`; `robots` are names that mean a robot. Raises ValueError when
    it is empty or too long."""
    text = " ".join(question.split())
    if not text or len(text) > MAX_QUESTION:
        raise ValueError(f"a question has 1 to {MAX_QUESTION} characters, not {len(text)}")
    names = "|".join(re.escape(r.lower()) for r in robots if r)
    *before, last = sentences(text) or [text]
    alone = not any(_without_address(_plain(sentence, names)) for sentence in before)
    said_last = _plain(last, names)
    without, times = _chinese_time(said_last)
    plain, since_s, until_s = _time(times or said_last, now_s)
    plain = without if times else plain
    spoken = dict.fromkeys((plain, _without_address(plain)))
    chinese = bool(_CHINESE_TEXT.search(last))
    for form, pattern in _forms(names, chinese=chinese) if alone else ():
        found = next(filter(None, map(pattern.fullmatch, spoken)), None)
        if found is None or (form == "other" and _JOINED.search(last)) or (since_s and form in _NOT_PAST and chinese):
            continue
        said = {name: value.strip() for name, value in found.groupdict(default="").items()}
        asked = [last] if form == "other" else [said.get("subject", ""), said.get("room", "")]
        if form.endswith(("seen", "been", "other")) and any(map(_begins_as_command, asked)):
            continue
        subject, room = said.get("subject", ""), _named(said.get("room", ""))
        if "see" in form or form == "field_now":
            subject = _STAND_FOR.get(subject, subject)
        if form != "able_now":
            subject = _named(subject)
        rooms, first = said.get("places") in ("rooms", "房间"), said.get("time") in ("first", "第一次")
        return Question(form, text, subject, room, rooms, first, since_s, until_s)
    return Question("", text, since_s=since_s, until_s=until_s)


def _begins_as_command(words: str) -> bool:
    """Return whether Chinese words begin with what is to be done: “去厨房看看有没有苹果” asks for more than an answer."""
    first = plain_words(words)[:1] if _CHINESE_TEXT.search(words) else []
    return any(word.text in _DEEDS for word in first)


def is_question(text: str) -> bool:
    """Return whether a text asks for an answer and for nothing to be done."""
    return bool(text.strip()) and len(text) <= MAX_QUESTION and read(text, 0.0).form != ""


def _plain(text: str, names: str) -> str:
    """Return the words of a question without marks, and without a robot's name in front."""
    plain = _IS.sub(r"\1 is", _MARKS.sub(" ", clean(text).lower()))
    if names:
        plain = re.sub(rf"^ *(?:(?:hey|hi|ok|okay|hello|你好) *)?(?:{names})(?: +|$|(?={_CJK}))", "", plain)
    return _closed_up(plain.replace("您", "你")).strip()


def _closed_up(text: str) -> str:
    """Return a text without the spaces beside Chinese characters."""
    return re.sub(rf"\s+(?={_CJK})|(?<={_CJK})\s+", "", text)


def _without_address(plain: str) -> str:
    return " ".join(_ADDRESS.sub("", f"{plain} ").split())


def _named(words: str) -> str:
    """Return the English name of what is named in Chinese; English words as they are."""
    if not _CHINESE_TEXT.search(words):
        return words
    return CHINESE.get(words) or " ".join(w.text for w in plain_words(words) if w.text not in FILLERS)


def _chinese_time(plain: str) -> tuple[str, str]:
    """Return a question without its Chinese words of time, and these in English, "" where there are none."""
    found = _TIME_CN.search(plain)
    if found is None or not (found["day"] or found["last"] or found["ago"]):
        return plain, ""
    without = f"{plain[: found.start()]}{plain[found.end() :]}"
    if found["day"]:
        return without, _TIMES_CN[found["day"]]
    count, unit = found["count"], WORDS["spans"][found["unit"]]
    number = 0.5 if count == "半" else float(count) if count[0].isdecimal() else chinese_number(count)
    told = f"{number + (0.5 if found['half'] else 0.0):g} {unit}"
    return without, f"{told} ago" if found["ago"] else f"last {told}"


def _time(plain: str, now_s: float) -> tuple[str, float | None, float | None]:
    """Return the question without its words of time, and the times they mean."""
    if found := _SPAN.search(plain):
        return _without(plain, found), now_s - _number(found[1] or "1") * _SPANS_S[found[2]], None
    if found := _AGO.search(plain):
        unit_s = _SPANS_S[found[2]]
        at_s = now_s - (_number(found[1]) + (0.5 if found[3] else 0.0)) * unit_s
        return _without(plain, found), at_s - unit_s / 2, at_s + unit_s / 2
    if found := _DAYS.search(plain):
        day = time.localtime(now_s)
        ago = next((days for said, days in _DAYS_AGO.items() if said in found.group()), 0)
        hours = (18, 24) if found["day"] in ("tonight", "last night") else _PARTS.get(found["part"], (0, 24))
        since_s, until_s = (time.mktime((day.tm_year, day.tm_mon, day.tm_mday - ago, h, 0, 0, 0, 0, -1)) for h in hours)
        return _without(plain, found), since_s, until_s
    return plain, None, None


def times_in(text: str, now_s: float) -> tuple[float | None, float | None]:
    """Return since when and until when a text means by its words of time; None where it names none."""
    plain = _plain(text, "")
    return _time(_chinese_time(plain)[1] or plain, now_s)[1:]


def _number(word: str) -> float:
    count = word.removesuffix(_HALF)
    number = _COUNTS[count] if count in _COUNTS else float(count.replace(",", "."))
    return number if count == word else number + 0.5


def _without(plain: str, found: re.Match[str]) -> str:
    return _closed_up(" ".join(f"{plain[: found.start()]} {plain[found.end() :]}".split()))


def listed(items: Iterable[str], limit: int = 8) -> str:
    """Return `a, b and c`; of many the first ones and how many more."""
    names = list(items)
    if len(names) > limit:
        names = [*names[:limit], f"{len(names) - limit} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"


def readable(name: str) -> str:
    """Return a name without its underscores."""
    return name.replace("_", " ")


def with_article(label: str) -> str:
    """Return `a ball`, `an apple`."""
    return f"{'an' if label[:1].lower() in 'aeiou' else 'a'} {label}"


def same_thing(wanted: str, name: str) -> bool:
    """Return whether a name is meant: the same words, one more or one less before the last, in singular or plural."""
    asked, known = _singular(wanted), _singular(readable(name))
    return bool(asked and known) and asked[-1] == known[-1] and (set(asked) <= set(known) or set(known) <= set(asked))


def names(text: str, name: str) -> bool:
    """Return whether a text names a thing, in English or Chinese."""
    said, known = (_singular(_MARKS.sub(" ", words)) for words in (text, readable(name)))
    chinese = _CHINESE_NAMES.get(name, name)
    spoken = any(said[i : i + len(known)] == known for i in range(len(said)))
    return bool(known) and (spoken or (bool(_CHINESE_TEXT.search(chinese)) and chinese in text))


def _singular(text: str) -> list[str]:
    return [w[:-1] if len(w) > 3 and w.endswith("s") and not w.endswith("ss") else w for w in text.casefold().split()]
