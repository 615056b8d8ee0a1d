# SPDX-License-Identifier: Apache-2.0
"""Cut a text into words, quotations, numbers and quantities with units, each with its place in the text."""

import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from planners.language.lexicon import (
    CHINESE,
    CHINESE_APART,
    CHINESE_DIGITS,
    CHINESE_NUMBER,
    CHINESE_PIECE,
    COUNTS,
    FILLERS,
    NUMBERS,
    PHRASES,
    UNITS,
    concept,
    stem,
    unit_name,
    word_set,
)
from planners.prompts.blocks import INVISIBLE

_WIDE = {0xFF01 + i: 0x21 + i for i in range(94)} | {0x3000: 0x20, 0x2019: 0x27, 0x02BC: 0x27, 0x2212: 0x2D}
_INVISIBLE = re.compile(f"[{INVISIBLE}\ufffe\uffff\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CJK = "\u3400-\u9fff\uf900-\ufaff"
_SCAN = re.compile(
    r"\"(?P<q1>[^\"]*)\"|“(?P<q2>[^”]*)”|„(?P<q3>[^“”]*)[“”]|«(?P<q4>[^»]*)»|「(?P<q5>[^」]*)」|『(?P<q6>[^』]*)』|‘(?P<q7>[^’']*)['’]"
    r"|(?<!\w)'(?P<q8>.+?)'(?!\w)"
    r"|(?P<number>(?<![\w.])-?\d+(?:\.\d+)?|\d+(?:\.\d+)?)"
    rf"|(?P<cjk>[{_CJK}]+(?:\d[下次张个][{_CJK}]+)*)"
    r"|(?P<unit>[%°])"
    rf"|(?P<word>[^\W\d_{_CJK}]+(?:'[^\W\d_{_CJK}]+)*)"
    r"|(?P<mark>[.!?;,:\n…。、&]|--+|\s[-–—]+\s|—)"
    r"|(?P<other>[^\s\-])"
)
_LONGEST_PHRASE = max(map(len, PHRASES))
_PARTS = {"half": 0.5, "quarter": 0.25}
_MARKS = {"\n": ";", "。": ".", "、": ",", "…": "."}
_NUMERALS = str.maketrans("0123456789", "零一二三四五六七八九")
MOST = 1_000_000_000_000
"""Largest number that is read as one; nothing that a robot does is counted or measured further."""
TURN_NOUNS = word_set("turn turns circle circles revolution revolutions rotation rotations")

Kind = Literal["word", "number", "quantity", "quote", "mark"]


@dataclass(frozen=True)
class Word:
    """A piece of the text. `text` is a lower-case English word, a mark, or the words in quotation marks.

    Numbers and quantities carry `value`, quantities in the base unit of their `dimension` (metre, degree, second, count,
    percent).
    """

    text: str
    start: int
    end: int
    kind: Kind = "word"
    value: float = 0.0
    dimension: str = ""

    @property
    def stem(self) -> str:
        """Return the word without its ending."""
        return stem(self.text)

    @property
    def concept(self) -> str:
        """Return the group of meaning of the text, whatever its kind."""
        return concept(self.text)

    @property
    def meaning(self) -> str:
        """Return the group of meaning of a word, "" for what is none."""
        return concept(self.text) if self.kind == "word" else ""

    def among(self, words: Container[str]) -> bool:
        """Return whether this is one of these words."""
        return self.kind == "word" and self.text in words

    def is_count(self, most: float = float("inf")) -> bool:
        """Return whether this says how often, as a whole number from 1 to `most`."""
        return self.kind == "quantity" and self.dimension == "count" and 1 <= self.value <= most and self.value % 1 == 0


_END = Word("", 0, 0, "mark")


def clean(text: str) -> str:
    """Return the text with plain forms for full-width ones and without invisible characters. Places of words refer to it."""
    return _INVISIBLE.sub("", text.translate(_WIDE))


def words_of(cleaned: str) -> list[Word]:
    """Return the words of a cleaned text, with phrases and numbers joined."""
    return list(_with_units(_joined(plain_words(cleaned), _number)))


def concepts(text: str) -> frozenset[str]:
    """Return what the words of a text mean, without those that mean nothing by themselves."""
    return frozenset(word.concept for word in words_of(clean(text)) if not word.among(FILLERS) and word.kind != "mark")


def plain_words(cleaned: str) -> list[Word]:
    """Return the words of a cleaned text with phrases as the plain words they stand for, and numbers as they are written."""
    return phrased(list(_scan(cleaned)))


def phrased(words: list[Word]) -> list[Word]:
    """Return the words with phrases as the plain words they stand for."""
    return _joined(words, _phrase)


def figures(text: str) -> str:
    """Return the text with its numbers in figures and its quantities in m, %, s and degrees: `half a metre` is `0.5 m`."""
    # 1,5 is 1.5; whether 1,500 is 1.5 or 1500 nobody can tell, so that is left as it is.
    text = re.sub(r"(?<![\w.])\.(?=\d)", "0.", re.sub(r"(?<=\d),(?=\d)(?!\d{3}(?!\d))", ".", clean(text)))
    for word in reversed(words_of(text)):
        said = text[word.start : word.end].lower()
        turns = word.dimension == "angle" and "deg" not in said and "°" not in said
        spelt = word.kind == "number" and not said[0].isdigit() and said != "one"
        if spelt or (word.dimension and word.dimension != "count" and not turns):
            written = f"{round(word.value, 4):g} {unit_name(word.dimension)}".rstrip()
            text = f"{text[: word.start]}{written}{text[word.end :]}"
    return text


def _scan(text: str) -> Iterator[Word]:
    for match in _SCAN.finditer(text):
        start, end, group = match.start(), match.end(), match.lastgroup or ""
        piece = match.group(group)
        if group.startswith("q"):
            yield Word(piece.strip(), start, end, "quote")
        elif group == "number" and abs(value := float(piece)) <= MOST:
            yield Word(piece, start, end, "number", value)
        elif group == "cjk":
            yield from _chinese(piece.translate(_NUMERALS), start)
        elif piece == "&":
            yield Word("and", start, end)
        elif group == "mark":
            yield Word(_MARKS.get(piece, piece.strip()[:1] or ";"), start, end, "mark")
        elif group == "word":
            yield Word(_english(piece.lower()), start, end)
        else:
            yield Word(piece, start, end)


def _english(word: str) -> str:
    if word.endswith("n't") or word == "cannot":
        return "not"
    return word if word in ("let's", "that's") else word.partition("'")[0] or word


def _chinese(run: str, offset: int) -> Iterator[Word]:
    at = 0
    while at < len(run):
        start = offset + at
        if (apart := CHINESE_APART.match(run, at)) and (said := CHINESE.get(apart["verb"] + apart["object"])):
            at = apart.end()
            yield from (Word(word, start, offset + at) for word in said.split())
            if apart["number"]:
                value = chinese_number(apart["number"])
                yield Word(apart["number"], start, offset + at, "number", value)
                yield Word("times", start, offset + at)
        elif number := CHINESE_NUMBER.match(run, at):
            at = number.end()
            yield Word(number.group(), start, offset + at, "number", chinese_number(number.group()))
        elif piece := CHINESE_PIECE.match(run, at):
            at = piece.end()
            for word in CHINESE[piece.group()].split():
                yield Word(word, start, offset + at)
        else:
            at += 1
            yield Word(run[at - 1], start, offset + at)


def chinese_number(text: str) -> float:
    """Return the number that Chinese numerals mean: 一百零五 is 105."""
    total, digit = 0, 0
    whole, _, decimals = text.partition("点")
    for character in whole:
        if character in CHINESE_DIGITS:
            digit = CHINESE_DIGITS[character]
        else:
            total += (digit or 1) * {"十": 10, "百": 100, "千": 1000}[character]
            digit = 0
    fraction = "".join(str(CHINESE_DIGITS[character]) for character in decimals)
    return float(f"{total + digit}.{fraction or 0}")


_Rule = Callable[[list[Word], int], tuple[list[Word], int]]
"""Makes words of those from a place on, and says of how many; 0 where it makes none."""


def _joined(words: list[Word], rule: _Rule) -> list[Word]:
    out: list[Word] = []
    at = 0
    while at < len(words):
        made, taken = rule(words, at)
        out += made if taken else [words[at]]
        at += taken or 1
    return out


def _phrase(words: list[Word], at: int) -> tuple[list[Word], int]:
    """Make the plain words of the longest phrase."""
    for count in range(min(_LONGEST_PHRASE, len(words) - at), 0, -1):
        span = words[at : at + count]
        plain = PHRASES.get(tuple(w.text for w in span)) if all(w.kind == "word" for w in span) else None
        if plain is not None:
            return [Word(text, span[0].start, span[-1].end) for text in plain], count
    return [], 0


def _number(words: list[Word], at: int) -> tuple[list[Word], int]:
    """Make a number of number words: `forty five`, `one and a half`, `half a metre`, `a second`."""
    value, taken = _number_at(words, at)
    span = words[at : at + taken]
    text = " ".join(w.text for w in span)
    return ([Word(text, span[0].start, span[-1].end, "number", value)] if span else []), taken


def _number_at(words: list[Word], at: int) -> tuple[float, int]:
    """Return the number that begins at a place, and of how many words it consists."""
    texts = [w.text if w.kind == "word" else "" for w in words[at : at + 7]] + [""] * 7
    first, second = texts[:2]
    if words[at].kind == "number":
        value, taken = words[at].value, 1
    elif first == "@percent" and at + 1 < len(words) and words[at + 1].kind == "number":
        return words[at + 1].value, 2
    elif first in NUMBERS:
        value, taken = NUMBERS[first], 1
        if value >= 20 and 0 < NUMBERS.get(second, 0.0) < 10:
            value, taken = value + NUMBERS[second], 2
    elif first in ("a", "an") and second in _PARTS:
        return _PARTS[second], 2
    elif first in _PARTS and (second in ("a", "an") or _is_measure(second)):
        return _PARTS[first], 2 if second in ("a", "an") else 1
    elif first in ("a", "an", "full") and (second == "full" or _is_measure(second)):
        return 1.0, 2 if second == "full" else 1
    elif first == "hundred" or (first, second) == ("a", "hundred"):
        value, taken = 1.0, 1 if first == "a" else 0
    else:
        return 0.0, 0
    if texts[taken] == "hundred":
        value, taken = value * 100, taken + 1
        skip = 1 if texts[taken] == "and" else 0
        more, unit = NUMBERS.get(texts[taken + skip]), NUMBERS.get(texts[taken + skip + 1], 0.0)
        if more is not None:
            tens = more >= 20 and 0 < unit < 10
            value, taken = value + more + (unit if tens else 0.0), taken + skip + (2 if tens else 1)
    return (value + 0.5, taken + 3) if texts[taken : taken + 3] == ["and", "a", "half"] else (value, taken)


def _is_measure(word: str) -> bool:
    return (word in UNITS and word not in ("x", "s", "m", "time", "min")) or word in TURN_NOUNS


def _with_units(words: Iterable[Word]) -> Iterator[Word]:
    """Make one quantity of a number and the unit behind it, also of `twice` and of turns of a circle."""
    number: Word | None = None
    for word in (*words, _END):
        plain = word.text if word.kind == "word" else ""
        if number is not None and (plain in UNITS or plain in TURN_NOUNS):
            dimension, factor = UNITS.get(plain, ("angle", 360.0))
            yield replace(number, kind="quantity", end=word.end, value=number.value * factor, dimension=dimension)
            if plain.startswith(("turn", "step")):
                yield replace(word, text=plain[:4])
            number = None
            continue
        if number is not None:  # 百分之 stands before a number
            share = number.text.startswith("@percent")
            yield replace(number, kind="quantity", dimension="percent") if share else number
        number = word if word.kind == "number" else None
        if plain in COUNTS:
            yield replace(word, kind="quantity", value=COUNTS[plain], dimension="count")
        elif word.text in ("@half", "@full"):
            yield replace(word, kind="quantity", value=180.0 if word.text == "@half" else 360.0, dimension="angle")
        elif number is None and word is not _END:
            yield word
