# SPDX-License-Identifier: Apache-2.0
"""Say in English what a skill is to do: a paraphrase of words/*.yaml with the call that it asks for, drawn from the skill's
signature. Every fifth paraphrase is held out for validation."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from function_tokens.mapper import Mapped
from function_tokens.markup import attribute
from planners.prompts.prompt import Declared, declared
from training.robots import Robot, words_of, words_of_invented

HELD_OUT_OF = 5
_SLOT = re.compile(r"\{(\w+)\}")
_UNITS = "zero one two three four five six seven eight nine ten eleven twelve".split()
_TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 90: "ninety", 100: "a hundred"}
_TIMES = {1: ("once", "one time"), 2: ("twice", "two times", "2 times"), 3: ("three times", "3 times")}


@dataclass(frozen=True)
class Deed:
    """Hold one call with the words that ask for it; `keeps`: it may stand open around others. `also` are calls that do as
    well."""

    name: str
    attributes: Mapping[str, str]
    words: str
    channels: frozenset[str]
    keeps: bool
    also: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def start(self) -> str:
        """Return what its tag begins with."""
        return f"<{self.name}" + "".join(f" {attribute(name, value)}" for name, value in self.attributes.items())

    @property
    def tag(self) -> str:
        """Return the call by itself."""
        return f"{self.start}/>"

    def around(self, inner: str) -> str:
        """Return the call as long as what it holds."""
        return f"{self.start}>{inner}</{self.name}>"


def held_out(phrase: str) -> bool:
    """Return whether a paraphrase is kept for validation; the choice depends on its text alone."""
    return int.from_bytes(hashlib.sha256(phrase.encode()).digest()[:4], "big") % HELD_OUT_OF == 0


def part(sayings: Sequence[str], validation: bool) -> list[str]:
    """Return the paraphrases of a list to train on or to validate with; those to train on where the list has no others."""
    chosen = [one for one in sayings if held_out(one) == validation]
    return chosen or [one for one in sayings if not held_out(one)] or list(sayings)


@lru_cache(maxsize=1)
def _entries() -> dict[str, list[dict[str, Any]]]:
    invented = {name: spec["phrases"] for group in words_of_invented().values() for name, spec in group.items()}
    return {**words_of("shipped"), **invented}


@lru_cache(maxsize=1)
def _called() -> dict[str, list[str]]:
    return dict(words_of("called"))


def spoken_number(value: float, chance: random.Random) -> str:
    """Return a number as people say or write it."""
    if value == int(value) and chance.random() < 0.3:
        if 0 <= value < len(_UNITS):
            return _UNITS[int(value)]
        if value in _TENS:
            return _TENS[int(value)]
    return f"{value:g}"


def spoken_times(n: int, chance: random.Random) -> str:
    """Return how often, in words."""
    return chance.choice(_TIMES.get(n, (f"{spoken_number(n, chance)} times", f"{n} times")))


def deed(robot: Robot, chance: random.Random, *, validation: bool = False, apart: frozenset[str] = frozenset()) -> Deed | None:
    """Draw a call of a skill with a paraphrase; None where no skill is left that uses none of the channels in `apart`."""
    names = [name for name, entry in robot.entries.items() if any(one["say"] for one in _entries().get(entry, ()))]
    chance.shuffle(names)
    for name in names:
        drawn = of_skill(robot, name, chance, validation=validation)
        if drawn is not None and not drawn.channels & apart:
            return drawn
    return None


def of_skill(robot: Robot, name: str, chance: random.Random, *, validation: bool = False) -> Deed | None:
    """Draw a call of one skill with a paraphrase; None where its words do not fit this robot."""
    entry = chance.choice([one for one in _entries()[robot.entries[name]] if one["say"]])
    saying = chance.choice(part(entry["say"], validation))
    skill = robot.skills.get(name)
    assert skill is not None
    names = robot.renamed.get(name, {})
    parameters = {p.name: p for p in declared(skill, robot.facts.options.limits)}
    values, words = dict[str, str](), dict[str, str]()
    for slot in _SLOT.findall(saying):
        drawn = _draw(parameters[names.get(slot, slot)], slot, entry, chance)
        if drawn is None:
            return None
        values[slot], words[slot] = drawn
    given = {names.get(key, key): text for key, text in _filled(entry.get("with", {}), values).items()}
    given |= {names.get(slot, slot): value for slot, value in values.items() if names.get(slot, slot) not in given}
    attributes = {p: given[p] for p in parameters if p in given}
    mapped = robot.mapper.map(name, attributes, strict=True)
    if not isinstance(mapped, Mapped) or mapped.clamped:
        return None
    also = [_filled(one, values) for one in entry.get("also", ())]
    return Deed(name, attributes, saying.format(**words), mapped.channels, "until_reset" in skill.injected, also)


def _draw(parameter: Declared, slot: str, entry: Mapping[str, Any], chance: random.Random) -> tuple[str, str] | None:
    """Return a value of a slot and how it is said."""
    if slot in entry.get("range", {}):
        least, most, step = entry["range"][slot]
        value = least + step * chance.randrange(int((most - least) / step) + 1)
        if not parameter.admits(value):
            return None
        return f"{value:g}", spoken_number(value, chance)
    choices = [c for c in parameter.choices if c in entry.get("only", {}).get(slot, parameter.choices)]
    if not choices:
        return None
    choice = chance.choice(choices)
    return choice, chance.choice([choice.replace("_", " "), *_called().get(choice, ())])


def _filled(templates: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, str]:
    return {key: _SLOT.sub(lambda slot: values.get(slot[1], slot[0]), str(text)) for key, text in templates.items()}
