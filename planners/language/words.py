# SPDX-License-Identifier: Apache-2.0
"""Cuts an instruction into words, quotations, numbers and quantities with units, each with its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from planners.language.lexicon import (
    CHINESE,
    CHINESE_DIGITS,
    CHINESE_NUMBER,
    CHINESE_PIECE,
    COUNTS,
    NUMBERS,
    PHRASES,
    UNITS,
    word_set,
)

_WIDE = {0xFF01 + i: 0x21 + i for i in range(94)} | {0x3000: 0x20, 0x2019: 0x27, 0x02BC: 0x27, 0x2212: 0x2D}
_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\ufffe\uffff\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
_CJK = "\u3400-\u9fff\uf900-\ufaff"
_SCAN = re.compile(
    r"\"(?P<q1>[^\"]*)\"|“(?P<q2>[^”]*)”|„(?P<q3>[^“”]*)[“”]|«(?P<q4>[^»]*)»|「(?P<q5>[^」]*)」|『(?P<q6>[^』]*)』|‘(?P<q7>[^’']*)['’]"
    r"|(?<!\w)'(?P<q8>.+?)'(?!\w)"
    r"|(?P<number>(?<![\w.])-?\d+(?:\.\d+)?|\d+(?:\.\d+)?)"
    rf"|(?P<cjk>[{_CJK}]+)"
    r"|(?P<unit>[%°])"
    rf"|(?P<word>[^\W\d_{_CJK}]+(?:'[^\W\d_{_CJK}]+)*)"
    r"|(?P<mark>[.!?;,:\n…。、&]|--+|\s[-–—]+\s|—)"
    r"|(?P<other>[^\s\-])"
)
_LONGEST_PHRASE = max(map(len, PHRASES))
_TURN_NOUNS = word_set("turn turns circle circles revolution revolutions rotation rotations")

Kind = Literal["word", "number", "quantity", "quote", "mark"]


@dataclass(frozen=True)
class Word:
    """A piece of the instruction. `text` is a lower-case English word, a mark, or the words in quotation marks.
    Numbers and
    quantities carry `value`, quantities in the base unit of their `dimension` (metre, degree, second, count,
    percent)."""

    text: str
    start: int
    end: int
    kind: Kind = "word"
    value: float = 0.0
    dimension: str = ""


def clean(text: str) -> str:
    """The instruction with full-width forms made plain and invisible characters removed; places of words refer to
    it."""
    return _INVISIBLE.sub("", text.translate(_WIDE))


def words_of(cleaned: str) -> list[Word]:
    """The words of a cleaned instruction, phrases and numbers joined."""
    return list(_with_units(_join_numbers(_join_phrases(list(_raw(cleaned))))))


def _raw(text: str) -> Iterator[Word]:
    for match in _SCAN.finditer(text):
        start, end, group = match.start(), match.end(), match.lastgroup or ""
        piece = match.group(group)
        if group.startswith("q"):
            yield Word(piece.strip(), start, end, "quote")
        elif group == "number":
            yield Word(piece, start, end, "number", float(piece))
        elif group == "cjk":
            yield from _chinese(piece, start)
        elif group == "mark":
            yield Word(
                {"\n": ";", "。": ".", "、": ",", "…": ".", "&": "and"}.get(piece, piece.strip()[:1] or ";"),
                start,
                end,
                "word" if piece == "&" else "mark",
            )
        elif group == "word":
            yield from _english(piece.lower(), start, end)
        else:
            yield Word(piece, start, end)


def _english(word: str, start: int, end: int) -> Iterator[Word]:
    if word.endswith("n't") or word == "cannot":
        yield Word("not", start, end)
        return
    head, quote, _ = word.partition("'")
    yield Word(word if word in ("let's", "that's") else head if quote else word, start, end)


def _chinese(run: str, offset: int) -> Iterator[Word]:
    at = 0
    while at < len(run):
        start = offset + at
        if number := CHINESE_NUMBER.match(run, at):
            at = number.end()
            yield Word(number.group(), start, offset + at, "number", _chinese_value(number.group()))
        elif piece := CHINESE_PIECE.match(run, at):
            at = piece.end()
            for word in CHINESE[piece.group()].split():
                yield Word(word, start, offset + at)
        else:
            at += 1
            yield Word(run[at - 1], start, offset + at)


def _chinese_value(text: str) -> float:
    total, digit = 0, 0
    for character in text:
        if character in CHINESE_DIGITS:
            digit = CHINESE_DIGITS[character]
        else:
            total += (digit or 1) * {"十": 10, "百": 100, "千": 1000}[character]
            digit = 0
    return float(total + digit)


def _join_phrases(words: list[Word]) -> list[Word]:
    """Phrases become their plain words, longest first."""
    out: list[Word] = []
    at = 0
    while at < len(words):
        for count in range(min(_LONGEST_PHRASE, len(words) - at), 0, -1):
            span = words[at : at + count]
            plain = PHRASES.get(tuple(w.text for w in span)) if all(w.kind == "word" for w in span) else None
            if plain is not None:
                out += [Word(text, span[0].start, span[-1].end) for text in plain]
                at += count
                break
        else:
            out.append(words[at])
            at += 1
    return out


def _join_numbers(words: list[Word]) -> list[Word]:
    """Number words become numbers: `forty five`, `one and a half`, `half a metre`, `a second`."""
    out: list[Word] = []
    at = 0
    while at < len(words):
        value, taken = _number_at(words, at)
        if taken:
            out.append(
                Word(
                    " ".join(w.text for w in words[at : at + taken]),
                    words[at].start,
                    words[at + taken - 1].end,
                    "number",
                    value,
                )
            )
            at += taken
        else:
            out.append(words[at])
            at += 1
    return out


def _number_at(words: list[Word], at: int) -> tuple[float, int]:
    texts = [w.text if w.kind == "word" else "" for w in words[at : at + 7]] + [""] * 7
    here = words[at]
    value, taken = (here.value, 1) if here.kind == "number" else (0.0, 0)
    if not taken and texts[0] == "@percent" and at + 1 < len(words) and words[at + 1].kind == "number":
        return words[at + 1].value, 2
    if not taken and texts[0] in NUMBERS:
        value, taken = NUMBERS[texts[0]], 1
        if value >= 20 and texts[1] in NUMBERS and 0 < NUMBERS[texts[1]] < 10:
            value, taken = value + NUMBERS[texts[1]], 2
    if not taken and texts[0] in ("a", "an") and texts[1] in ("half", "quarter"):
        return {"half": 0.5, "quarter": 0.25}[texts[1]], 2
    if not taken and texts[0] in ("half", "quarter") and (texts[1] in ("a", "an") or _is_measure(texts[1])):
        return {"half": 0.5, "quarter": 0.25}[texts[0]], 2 if texts[1] in ("a", "an") else 1
    if not taken and texts[0] in ("a", "an", "one", "full") and (_is_measure(texts[1]) or texts[1] == "full"):
        return 1.0, 2 if texts[1] == "full" else 1
    if not taken and texts[0] in ("a", "hundred") and "hundred" in texts[:2]:
        value, taken = 1.0, texts[:2].index("hundred")
    if (taken or texts[0] == "hundred") and texts[taken] == "hundred":
        value, taken = (value or 1.0) * 100, taken + 1
        skip = 1 if texts[taken] == "and" else 0
        more, extra = (
            _number_at(words, at + taken + skip)
            if at + taken + skip < len(words) and texts[taken + skip] in NUMBERS
            else (0.0, 0)
        )
        value, taken = value + more, taken + (skip + extra if extra else 0)
    if taken and texts[taken : taken + 3] == ["and", "a", "half"]:
        return value + 0.5, taken + 3
    return value, taken


def _is_measure(word: str) -> bool:
    return (word in UNITS and word not in ("x", "s", "m", "time", "min")) or word in _TURN_NOUNS


def _with_units(words: Iterable[Word]) -> Iterator[Word]:
    """A number and the unit behind it become one quantity; `twice` and turns of a circle too."""
    pending: Word | None = None
    for word in words:
        unit = UNITS.get(word.text) if word.kind == "word" else None
        if pending is not None and unit is not None:
            yield replace(pending, kind="quantity", end=word.end, value=pending.value * unit[1], dimension=unit[0])
            pending = None
            continue
        if pending is not None and word.kind == "word" and word.text in _TURN_NOUNS:
            yield replace(pending, kind="quantity", end=word.end, value=pending.value * 360.0, dimension="angle")
            pending = None
            if word.text.startswith("turn"):
                yield replace(word, text="turn")
            continue
        if pending is not None:
            yield _percent(pending)
        pending = None
        if word.kind == "number":
            pending = word
        elif word.kind == "word" and word.text in COUNTS:
            yield replace(word, kind="quantity", value=COUNTS[word.text], dimension="count")
        elif word.text in ("@half", "@full"):
            yield replace(word, kind="quantity", value=180.0 if word.text == "@half" else 360.0, dimension="angle")
        else:
            yield word
    if pending is not None:
        yield _percent(pending)


def _percent(number: Word) -> Word:
    """A Chinese 百分之 stands before its number."""
    return replace(number, kind="quantity", dimension="percent") if number.text.startswith("@percent") else number
