# SPDX-License-Identifier: Apache-2.0
"""Read what a task in a kitchen asks for: things to find, to put somewhere, and to roast."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bench.simulated_model.team_belief import Believed

SPACES = {
    "trash_can": r"trash|bin\b|garbage",
    "sink": r"sink",
    "fridge": r"fridge|refrigerator",
    "drawer_top": r"top drawer",
    "drawer_middle": r"middle drawer",
    "table": r"table",
}
"""Words for spaces, other than the oven, which things are roasted in."""


@dataclass(frozen=True)
class Goal:
    """One thing, what is wanted of it, where it is to be, and where the task says that it is."""

    kind: Literal["find", "put", "roast"]
    thing: str
    space: str = ""
    source: str = ""

    def reached(self, believed: Believed) -> bool:
        """Return whether it is reached by what is believed."""
        if self.kind == "find":
            return self.thing in believed.found
        there = believed.things.get(self.thing) == self.space
        return there and (self.kind == "put" or self.thing in believed.roasted)

    def __str__(self) -> str:
        if self.kind == "find":
            return f"find the {self.thing}"
        return (
            f"{'roast the ' + self.thing + ' and put it' if self.kind == 'roast' else 'put the ' + self.thing} in {self.space}"
        )


def goals_of(instruction: str, things: Sequence[str]) -> list[Goal]:
    """Return what an instruction asks for, in order."""
    return [goal for sentence in re.split(r"[.!;]", instruction.lower()) for goal in _goals(sentence, things)]


def _goals(sentence: str, things: Sequence[str]) -> Iterator[Goal]:
    places = {thing: re.search(rf"\b{thing.replace('_', ' ')}s?\b", sentence) for thing in things}
    named = sorted((found.start(), thing) for thing, found in places.items() if found)
    sources = {thing: _space(found[1]) for _, thing in named if (found := _source(sentence, thing))}
    rest = re.sub(r"from the (?:\w+ )?\w+", "", sentence)
    roasts, to = "roast" in rest, _space(rest)
    for _, thing in named:
        source = sources.get(thing, "")
        if roasts:
            yield Goal("roast", thing, to or "table", source)
        elif to:
            yield Goal("put", thing, to, source)
        elif re.search(r"\b(find|search|look)\b", rest):
            yield Goal("find", thing)


def _source(sentence: str, thing: str) -> re.Match[str] | None:
    return re.search(rf"\b{thing.replace('_', ' ')}s? from the ((?:(?:top|middle|trash) )?\w+)", sentence)


def _space(text: str) -> str:
    return next((space for space, words in SPACES.items() if re.search(words, text)), "")
