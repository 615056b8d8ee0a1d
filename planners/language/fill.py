# SPDX-License-Identifier: Apache-2.0
"""Fill a skill's parameters from directions, quantities and adverbs, and refuse what does not fit, with the range."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

from planners.language.lexicon import concept, stem
from planners.language.vocabulary import (
    PITCH,
    SIZE,
    SPEED,
    STANDARD,
    VOLUME,
    YAW,
    Entry,
    fraction,
    sets,
    sign_of,
    unit_of,
    written,
)
from planners.language.words import Word
from planners.prompts.declarations import Declared

_SHARES = {"slow": 0.25, "fast": 0.8, "small": 0.25, "large": 0.8}
_LOUD = {"loud": 0.8, "loudly": 0.8, "quiet": 0.25, "quietly": 0.25, "softly": 0.25}
_LEVELS = {"full": 1.0, "maximum": 1.0, "top": 1.0, "high": 0.8, "half": 0.5, "low": 0.25}
MAX_REPEATS = 20


class CannotDo(Exception):
    """A command is understood, but cannot be carried out; the text says why, with the range."""


class Filling:
    """The arguments of one call, collected word by word."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.attributes: dict[str, str] = {}
        self.count = 1
        self.open_for_s: float | None = None
        self.bounded = False
        self._signs: dict[str, int] = {}
        self._amounts: dict[str, float] = {}
        self._whole_turn = False

    def having(self, name: str, value: str) -> Filling:
        """Return a copy with one more argument."""
        other = copy.copy(self)
        other.attributes = {**self.attributes, name: value}
        return other

    def take(self, words: Sequence[Word]) -> list[Word]:
        """Use what fits this skill's parameters, after `take_named`; return the words it cannot use."""
        rest = list(words)
        for step in (self._take_direction, self._take_quantity, self._take_manner, self._take_text):
            rest = [w for w in rest if not step(w)]
        return [w for w in rest if not self._take_shape(w)]

    def complete(self) -> tuple[dict[str, str], int]:
        """Return the attributes to write and how often to call. Raises CannotDo."""
        out, count = dict(self.attributes), self.count
        for p in self.entry.parameters:
            amount = self._amounts.get(p.name)
            if amount is None and (p.name in self._signs or self._whole_turn and sets(p, YAW)):
                amount = self._standard(p)
            if amount is None and p.required and p.name not in out:
                amount = self._missing(p)
            if amount is None:
                continue
            if p.name in self._signs and amount < 0:
                raise CannotDo(f"{amount:g} and a direction contradict each other; leave out the minus sign")
            amount *= self._signs.get(p.name, 1)
            if self._whole_turn and sets(p, YAW) and not p.admits(amount) and p.name not in self._amounts:
                amount, count = amount / 2, count * 2
            out[p.name] = self._checked(p, amount)
        if count > MAX_REPEATS:
            raise CannotDo(f"{count} times are too many; at most {MAX_REPEATS} in one instruction")
        return out, count

    def _checked(self, p: Declared, amount: float) -> str:
        unit = unit_of(p, self.entry.skill)
        if not p.admits(amount):
            raise CannotDo(f"{p.name} {amount:g} is out of range; allowed is {p.range_text()}{_unit_text(p, unit)}")
        text = written(amount, p)
        if text is None:
            raise CannotDo(f"{p.name} must be a whole number, not {amount:g}")
        return text

    def _standard(self, p: Declared) -> float:
        """Return the amount meant when only a direction was named, in the parameter's unit."""
        if isinstance(p.default, (int, float)) and not isinstance(p.default, bool) and p.default and not self._whole_turn:
            return abs(float(p.default))
        unit = unit_of(p, self.entry.skill)
        if unit is None:
            raise CannotDo(f"it needs a number for {p.name}, because its unit is not declared")
        wanted = 360.0 if self._whole_turn else 30.0 if self.entry.aims else STANDARD.get(unit[0], 0.0)
        value = wanted / unit[1]
        bounds = [abs(b) for b in (p.lower, p.upper) if b]
        return value if self._whole_turn or not bounds else min(value, *bounds)

    def _missing(self, p: Declared) -> float:
        unit = unit_of(p, self.entry.skill)
        if p.is_number and unit is not None and unit[0] in STANDARD:
            return self._standard(p)
        if p.is_number and sets(p, SPEED | SIZE | VOLUME) and (middle := fraction(p, 0.5)) is not None:
            return middle
        raise CannotDo(
            f"it needs {p.name}"
            + (f", one of {', '.join(p.choices)}" if p.choices else f" ({p.range_text()})" if p.range_text() else "")
        )

    def take_named(self, words: list[Word]) -> list[Word]:
        """Use numbers beside names of parameters (`leg 2`, `speed 50`, `50 percent volume`, `half speed`); return the rest."""
        for p in self.entry.parameters:
            stems = {stem(part) for part in p.name.lower().split("_")} if p.is_number or p.choices else set()
            alike = [name for name, names in (("speed", SPEED), ("volume", VOLUME)) if sets(p, names)]
            for at, word in enumerate(words):
                if word.kind != "word" or not (stem(word.text) in stems or concept(word.text) in alike):
                    continue
                for near in (n for n in (at + 1, at - 1) if 0 <= n < len(words)):
                    if self._take_value(p, words[near]):
                        return self.take_named([w for i, w in enumerate(words) if i not in (at, near)])
        return words

    def _take_value(self, p: Declared, word: Word) -> bool:
        """Use a word beside the name of a parameter as its value."""
        if word.kind == "number" and f"{word.value:g}" in p.choices:
            self.attributes[p.name] = f"{word.value:g}"
            return True
        value = self._bare(p, word)
        if value is None or p.name in self._amounts:
            return False
        self._amounts[p.name] = value
        return True

    def _bare(self, p: Declared, word: Word) -> float | None:
        if word.kind == "number" and p.is_number:
            return word.value
        if word.kind == "word" and word.text in _LEVELS:
            return fraction(p, _LEVELS[word.text])
        if word.kind == "quantity" and word.dimension == "percent":
            unit = unit_of(p, self.entry.skill)
            return word.value if unit and unit[0] == "percent" else fraction(p, word.value / 100)
        return None

    def _take_direction(self, word: Word) -> bool:
        direction = concept(word.text) if word.kind == "word" else ""
        for p in self.entry.parameters:
            if not p.is_number or p.name in self._signs:
                continue
            sideways = sets(p, YAW) and direction in ("left", "right")
            along = direction in ("forward", "backward") and self._is_distance(p)
            if sideways or along or (sets(p, PITCH) and direction in ("up", "down")):
                sign = sign_of(direction, p, self.entry.skill)
                if sign < 0 and p.lower is not None and p.lower >= 0:
                    return False
                if sign:
                    self._signs[p.name] = sign
                return bool(sign)
        if direction == "forward" and self.entry.aims:
            self._amounts.update({p.name: 0.0 for p in self.entry.parameters if sets(p, YAW) or sets(p, PITCH)})
            return True
        return direction == "forward" and self.entry.means("walk")

    def _is_distance(self, p: Declared) -> bool:
        unit = unit_of(p, self.entry.skill)
        return unit is not None and unit[0] == "length"

    def _take_quantity(self, word: Word) -> bool:
        if word.kind == "number" and not self.entry.means("turn", "look"):
            return False
        if word.kind not in ("number", "quantity"):
            return False
        dimension = word.dimension or "angle"
        for p in self._candidates(dimension):
            unit = unit_of(p, self.entry.skill)
            if unit is not None and unit[0] == dimension and p.name not in self._amounts:
                self._amounts[p.name] = word.value / unit[1]
                self.bounded = True
                return True
        if dimension == "count" and word.value == math.floor(word.value) and word.value >= 1:
            self.count, self.bounded = int(word.value), True
            return True
        if dimension == "time" and self.entry.keeps_open and word.value > 0:
            self.open_for_s = word.value
            return True
        return False

    def _candidates(self, dimension: str) -> list[Declared]:
        """Return the parameters for a quantity, those a direction has picked first; an angle never goes to one that only
        shapes the motion."""
        ordered = sorted(self.entry.parameters, key=lambda p: p.name not in self._signs)
        if dimension == "angle":
            angles = [p for p in ordered if sets(p, YAW)]
            return [p for p in ordered if p.name in self._signs or (not self._signs and (p.required or angles == [p]))]
        return ordered

    def _take_manner(self, word: Word) -> bool:
        manner = concept(word.text) if word.kind == "word" else ""
        share = _SHARES.get(manner, _LOUD.get(word.text))
        if share is None:
            return False
        names = VOLUME if word.text in _LOUD else SPEED if manner in ("slow", "fast") else SIZE
        for p in self.entry.parameters:
            if sets(p, names) and p.name not in self._amounts and (value := fraction(p, share)) is not None:
                self._amounts[p.name] = value
                return True
        return False

    def _take_text(self, word: Word) -> bool:
        if word.kind != "quote":
            return False
        for p in self.entry.parameters:
            if p.kind == "text" and p.name not in self.attributes:
                self.attributes[p.name] = word.text
                return True
        return False

    def _take_shape(self, word: Word) -> bool:
        """Use words that say no more than the movement does: shaking goes from side to side, nodding up and down."""
        values = {concept(v) for v in self.attributes.values()} | {k.concept for k in self.entry.name}
        if word.text == "@sideways":
            return bool(values & {"shake", "wave"})
        if word.text == "both":
            return any(set(p.choices) == {"left", "right"} for p in self.entry.parameters)
        return word.text == "@updown" and bool(values & {"nod"})

    def whole_turn(self) -> None:
        """Turn once around, as `spin` says, unless an amount is named."""
        self._whole_turn = not self._amounts


def _unit_text(p: Declared, unit: tuple[str, float] | None) -> str:
    if unit is None or p.description:
        return f" ({p.description})" if p.description else ""
    names = {
        ("length", 1.0): " m",
        ("length", 0.01): " cm",
        ("angle", 1.0): " degrees",
        ("time", 1.0): " s",
        ("percent", 1.0): " percent",
    }
    return names.get(unit, "")
