# SPDX-License-Identifier: Apache-2.0
"""The words of one robot, as its prompt shows them: skills, things it can recognise, named places."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.simulated_model.goals import Act, Ask, Goal, Unknown
from planners.language import CommandParser
from planners.prompts.declarations import Declared, declared
from skill_kernel.skills.skill import Skill

ALSO = {
    "person": (
        "person",
        "people",
        "somebody",
        "someone",
        "anybody",
        "anyone",
        "man",
        "woman",
        "human",
        "visitor",
        "me",
        "user",
        "us",
    ),
    "ball": ("ball", "balls", "football", "basketball"),
    "chair": ("chair", "chairs", "seat", "stool", "armchair"),
    "bottle": ("bottle", "bottles", "flask"),
}
"""Other words for a thing."""
_PLAINER = {
    "western": "west",
    "eastern": "east",
    "northern": "north",
    "southern": "south",
    "center": "middle",
    "centre": "middle",
    "corridor": "hallway",
    "hall": "hallway",
}
ALL_PLACES = re.compile(
    r"\b(?:everywhere|anywhere|(?:whole|entire) (?:building|area|house|floor|place)"
    r"|(?:every|each|all)(?: the)? (?:rooms?|places?)|the building)\b"
)


@dataclass(frozen=True)
class Place:
    """A named place; its coordinates are None where the prompt does not tell them."""

    name: str
    x: float | None = None
    y: float | None = None
    description: str = ""

    def away(self, point: tuple[float, float] | None) -> float:
        """Metres from a point of the map; inf where one of them is unknown."""
        if self.x is None or self.y is None or point is None:
            return math.inf
        return math.dist((self.x, self.y), point)


class Vocabulary:
    """What can be named and done."""

    def __init__(self, skills: Sequence[Skill], places: Sequence[Mapping[str, Any]] = (), robot: str = "") -> None:
        self.skills: dict[str, Skill] = {s.name: s for s in skills}
        self.robot = robot
        self._told = {str(p.get("name", "")): p for p in places}

    @cached_property
    def places(self) -> dict[str, Place]:
        """By name: those the skill that goes there takes, else those the prompt lists."""
        names = self.choices("goto_waypoint", "waypoint") or tuple(self._told)
        return {n: _place(n, self._told.get(n, {})) for n in names}

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Things it can look for or go up to."""
        return tuple(dict.fromkeys((*self.choices("search", "target"), *self.choices("approach", "target"))))

    @cached_property
    def parser(self) -> CommandParser:
        """Reads direct commands against these skills."""
        return CommandParser(list(self.skills.values()), (), None, self.robot)

    def parameters(self, skill: str) -> dict[str, Declared]:
        """The parameters of a skill, by name."""
        return {p.name: p for p in declared(self.skills[skill])} if skill in self.skills else {}

    def choices(self, skill: str, parameter: str) -> tuple[str, ...]:
        """The values that a parameter allows."""
        found = self.parameters(skill).get(parameter)
        return found.choices if found is not None else ()

    def label_in(self, text: str) -> str:
        """The first thing that a text names; empty when it names none."""
        words = re.findall(r"[a-z]+", text.lower())
        for word in words:
            for label in self.labels:
                if word in (label, f"{label}s", *ALSO.get(label, ())):
                    return label
        return ""

    def group(self, text: str) -> tuple[str, tuple[str, ...]]:
        """The place that a text names, in its words, and the waypoints that are there; empty when it names none."""
        words = {_PLAINER.get(w, w) for w in re.findall(r"[a-z0-9]+", text.lower())}
        exact = [n for n in self.places if set(n.lower().split("_")) <= words]
        if exact:
            best = max(exact, key=lambda n: len(n.split("_")))
            return best.replace("_", " "), (best,)
        for name in self.places:
            head = name.lower().split("_")[0]
            if head in words or f"{head}s" in words:
                return head, tuple(n for n in self.places if n.lower().split("_")[0] == head)
        return "", ()

    def groups(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Several places joined by or / and."""
        named = [self.group(part) for part in re.split(r"\b(?:or|and)\b|,", text)]
        named = [(name, points) for name, points in named if points]
        return " or the ".join(n for n, _ in named), tuple(dict.fromkeys(p for _, points in named for p in points))

    def near(self, point: tuple[float, float] | None, within: float = math.inf) -> str:
        """The place nearest to a point, if one is near enough."""
        best = min(self.places.values(), key=lambda p: p.away(point), default=None)
        return best.name if best is not None and best.away(point) < within else ""

    def ask(self, question: str) -> Goal:
        """A question for the memory, where the robot has one."""
        if "query_memory" not in self.skills:
            return Unknown(question, "I have no memory that could answer that")
        return Ask(question[:1].upper() + question[1:])

    def complete(self, act: Act) -> dict[str, Any]:
        """Its arguments with the defaults, numbers as numbers, for comparison."""
        return normal(act.arguments, self.parameters(act.function))


def normal(arguments: Mapping[str, Any], parameters: Mapping[str, Declared]) -> dict[str, Any]:
    """Arguments as they are compared: defaults filled in, numbers as floats, the rest as text."""
    filled = {n: p.default for n, p in parameters.items() if not p.required and p.default is not None} | dict(arguments)
    return {name: _value(value) for name, value in filled.items() if name != "sync"}


def _value(value: Any) -> Any:
    try:
        return round(float(value), 3)
    except (TypeError, ValueError):
        return str(value).strip().lower()


def _place(name: str, told: Mapping[str, Any]) -> Place:
    x, y = told.get("x_m"), told.get("y_m")
    known = isinstance(x, (int, float)) and isinstance(y, (int, float))
    return Place(name, x if known else None, y if known else None, str(told.get("description", "")))
