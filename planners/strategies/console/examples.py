# SPDX-License-Identifier: Apache-2.0
"""Choose the interactions that are most like the present one, by what people say in them (section 3.4)."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from planners.strategies.console.transcript import Entry, instructions, read

DECAY = 0.6
"""Weight of an utterance against that of the one after it (equation 6)."""
_WORD = re.compile(r"\w+")
_PART = 3
"""Characters of the parts of words that are compared, so that "blocks" is like "block"; one of Chinese."""

Vector = Mapping[int, float]
"""Components that are not 0."""
Embed = Callable[[str], Vector]
"""Maps a sentence to a vector of length 1; the nearer in meaning, the nearer in angle."""


@lru_cache(maxsize=4096)
def word_embedding(sentence: str) -> Vector:
    """Return a sentence as a vector of length 1 of its words and their parts, hashed (`Embed`). It knows no synonyms."""
    vector: dict[int, float] = {}
    for word in _WORD.findall(sentence.lower()):
        weight = 1.0 if len(word) > 2 or not word.isascii() else 0.3
        parts = [word[i : i + _PART] for i in range(len(word) - _PART + 1)] if word.isascii() else list(word)
        for feature, worth in [(f"={word}", weight), *((part, weight / len(parts)) for part in parts)]:
            component = zlib.crc32(feature.encode())
            vector[component] = vector.get(component, 0.0) + worth
    length = math.hypot(*vector.values())
    return {component: value / length for component, value in vector.items()}


@dataclass(frozen=True)
class Example:
    """Hold an interaction as a console shows it. `source`: where it is from."""

    text: str
    source: str = ""
    entries: tuple[Entry, ...] = field(init=False)
    said: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "entries", tuple(read(self.text)))
        object.__setattr__(self, "said", tuple(instructions(list(self.entries))))


def similarity(said: Sequence[str], example: Example, embed: Embed) -> float:
    """Return how like an example is to what was said, the oldest first (equations 6 and 7); minus infinity where nothing is."""
    if not said or not example.said:
        return float("-inf")
    now: dict[int, float] = {}
    for age, sentence in enumerate(reversed(said)):
        for component, value in embed(sentence).items():
            now[component] = now.get(component, 0.0) + DECAY**age * value
    return max(sum(now.get(c, 0.0) * value for c, value in embed(sentence).items()) for sentence in example.said)


def most_similar(said: Sequence[str], examples: Sequence[Example], count: int, embed: Embed = word_embedding) -> list[Example]:
    """Return the examples most like what was said, the most similar last; of equal ones the later one is nearer the end."""
    ranked = sorted(range(len(examples)), key=lambda i: (similarity(said, examples[i], embed), i))
    return [examples[i] for i in ranked[max(0, len(ranked) - count) :]]
