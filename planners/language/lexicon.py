# SPDX-License-Identifier: Apache-2.0
"""The words of direct commands in English and Chinese, which stand in `lexicon.yaml`, and units and numbers."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from planners.prompts.blocks import text_beside
from skill_kernel.config.yaml_text import read_yaml


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


_WORDS: dict[str, Any] = read_yaml(text_beside(__file__, "lexicon.yaml"), strict=True)
CONCEPT = {word: concept for concept, words in _WORDS["groups"].items() for word in (concept, *words.split())}
"""Words and the groups of meaning that they belong to."""
RELATED = {"smile": ("happy",), "happy": ("smile",)}
"""Concepts that may stand in where a robot lacks the first."""

FILLERS, LIGHT, NEGATIONS, CONDITIONS, ALWAYS_QUESTION, RELATIONS, NOT_MANNER = (
    word_set(_WORDS[kind]) for kind in ("fillers", "light", "negations", "conditions", "questions", "relations", "not_manner")
)
EXAMPLES: tuple[list[str], ...] = tuple(_WORDS["examples"][language].split(", ") for language in ("english", "chinese"))
FIGURES: list[list[str]] = _WORDS["figures"]
ROLES = {role: word_set(names) for role, names in _WORDS["roles"].items()}
GREETINGS = frozenset(_WORDS["greetings"].split("|"))
_CJK = re.compile("[\u3400-\u9fff]")


class Reason(Exception):
    """Why nothing is done, as a text of `lexicon.yaml` and its values; a value may be a reason, or several.

    `understood`: the words were clear, the act is not possible.
    """

    def __init__(self, key: str, *, understood: bool = False, **values: Any) -> None:
        super().__init__(key)
        self.key, self.understood, self.values = key, understood, values

    def text(self, *, chinese: bool = False) -> str:
        """Return the sentence for people, in English or Chinese."""

        def written(value: Any) -> Any:
            if isinstance(value, list):
                joined = ("；" if chinese else "; ").join(map(written, value))
                return joined and (f"（{joined}）" if chinese else f" ({joined})")
            return value.text(chinese=chinese) if isinstance(value, Reason) else value

        values = {name: written(value) for name, value in self.values.items()}
        return str(_WORDS["texts"][self.key][chinese]).format(**values)


def is_chinese(text: str) -> bool:
    """Return whether a text holds Chinese characters."""
    return _CJK.search(text) is not None


POLITE = re.compile(
    r"^\s*(?:(?:ok|okay|hey|hi|well|so|please|now|and|robot|alright)[,\s]+)*"
    r"(?:(?:would|do) you mind|(?:could|would|can|will) you(?: please)?(?: kindly)?|i want you to|i would like you to|"
    r"i'd like you to|you should|go ahead and|try to|let's|let us|please)\s+",
    re.IGNORECASE,
)


PHRASES = {
    tuple(phrase.split()): tuple(plain.split()) for plain, said in _WORDS["phrases"].items() for phrase in said.split(", ")
}
"""Phrases and the plain words they stand for; words with @ are marks for the parser."""
_COMMANDS, _LABELS = (
    {word: plain for plain, words in _WORDS[kind].items() for word in words.split()} for kind in ("chinese", "labels")
)
CHINESE: dict[str, str] = _COMMANDS | _LABELS
"""Chinese words and the English ones they stand for; of several for one the first is what people say."""


def spoken(value: str, *, chinese: bool) -> str:
    """Return the allowed value of a parameter as people say it."""
    said = value.replace("_", " ")
    return next((word for word, plain in CHINESE.items() if plain == said), said) if chinese else said


CHINESE_PIECE = re.compile("|".join(sorted(map(re.escape, CHINESE), key=len, reverse=True)))
_CHINESE_UNIT = "公里|厘米|公分|毫米|米|度|秒|分钟|次|遍|回|声|圈|步|下(?!来)"
_DIGIT = "[一二两三四五六七八九]"
_NUMERALS = f"(?:(?:(?:零?{_DIGIT}?[十百千])+(?:零{_DIGIT}|(?<=十){_DIGIT})?)|零|{_DIGIT})"
"""No `一两` (one or two) and no `三百五`, which may be 305 or 350."""
CHINESE_NUMBER = re.compile(f"{_NUMERALS}(?:点[零一二三四五六七八九]+)?(?={_CHINESE_UNIT}|[个张](?=圈))")
_APART = {(word[0], word[1:]): word for word in _COMMANDS if len(word) > 1}
CHINESE_APART = re.compile(
    rf"(?P<verb>{'|'.join(sorted({v for v, _ in _APART}))})(?:(?P<number>(?!一[下个张]){_NUMERALS})(?P<unit>[下次声张个])"
    rf"|一?(?P=verb)|一?[下个张])(?P<object>{'|'.join(sorted({o for _, o in _APART}, key=len, reverse=True))})(?!吗)"
)
"""A verb parted from its object by how often (点三下头), by its double (点点头), or by a softener (点一下头)."""
CHINESE_DIGITS = {c: i for i, c in enumerate("零一二三四五六七八九")} | {"两": 2}

NUMBERS: dict[str, float] = {word: float(value) for word, value in _WORDS["numbers"].items()}
COUNTS = {"once": 1.0, "twice": 2.0, "thrice": 3.0}

UNITS: dict[str, tuple[str, float]] = {
    word: (dimension, factor)
    for dimension, units in _WORDS["units"].items()
    for words, factor in units.items()
    for word in words.split()
}
"""Unit word to its dimension and the factor to the base unit: metre, degree, second, count, percent."""


def unit_name(dimension: str, factor: float = 1.0) -> str:
    """Return the usual name of a unit by its factor to the base unit, "" where there is none."""
    return next((word for word, unit in UNITS.items() if unit == (dimension, factor) and dimension != "count"), "")


def with_pieces(form: str, pieces: Mapping[str, str]) -> str:
    """Return a pattern in which words in capitals stand for these pieces, whose order is that of replacing them."""
    for word, piece in pieces.items():
        form = form.replace(word, piece)
    return form


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return a word without its English ending, the same for all its forms: waving and wave, nods and nod."""
    for ending in ("ing", "ed"):
        body = word[: -len(ending)]
        if word.endswith(ending) and len(body) >= 2 and re.search("[aeiouy]", body):
            if len(body) > 2 and body[-1] == body[-2] and body[-1] not in "sl":
                body = body[:-1]
            return body.rstrip("e") if len(body) > 3 else body
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


_STEMS = {stem(word): concept for word, concept in CONCEPT.items()}


@lru_cache(maxsize=8192)
def concept(word: str) -> str:
    """Return the group of meaning a word belongs to, else its stem."""
    return CONCEPT.get(word) or _STEMS.get(stem(word)) or stem(word)
