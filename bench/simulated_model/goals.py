# SPDX-License-Identifier: Apache-2.0
"""What an instruction comes to: goals in order, each with the words that say it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from planners.language.compose import tag

TEXT = "text"


@dataclass(frozen=True)
class Act:
    """One call, or one sentence that is said."""

    function: str
    arguments: Mapping[str, str] = field(default_factory=dict)
    text: str = ""

    @property
    def source(self) -> str:
        """As function tokens."""
        return escape(self.text) if self.function == TEXT else tag(self.function, self.arguments)


@dataclass(frozen=True)
class Do:
    """Certain calls, in order."""

    acts: tuple[Act, ...]
    said: str

    def words(self) -> str:
        return self.said


@dataclass(frozen=True)
class GoTo:
    """Be at one of these places."""

    waypoints: tuple[str, ...]
    name: str

    def words(self) -> str:
        return f"go to the {self.name}"


@dataclass(frozen=True)
class Find:
    """Know where a thing is; without places, wherever in the building. `here`: only where it is now."""

    label: str
    waypoints: tuple[str, ...] = ()
    name: str = ""
    here: bool = False

    def words(self) -> str:
        where = "here in this room" if self.here else f"in the {self.name}" if self.name else "in every place"
        return f"look for {a(self.label)} {where}"


@dataclass(frozen=True)
class Face:
    """Stand turned to a thing."""

    label: str

    def words(self) -> str:
        return f"face the {self.label}"


@dataclass(frozen=True)
class Approach:
    """Stand before a thing."""

    label: str

    def words(self) -> str:
        return f"walk up to the {self.label}"


@dataclass(frozen=True)
class Picture:
    """Have a picture, of a thing where one is named."""

    label: str = ""

    def words(self) -> str:
        return f"take a picture of the {self.label}" if self.label else "take a picture"


@dataclass(frozen=True)
class Return:
    """Be where the task began; `at` is that point of the map in metres, where it is known."""

    at: tuple[float, float] | None = None

    def words(self) -> str:
        return "return to the start" + (f" at x {self.at[0]:g}, y {self.at[1]:g}" if self.at else "")


@dataclass(frozen=True)
class Look:
    """Know what is on one side."""

    side: str

    def words(self) -> str:
        others = {"around": "look around you", "behind": "check what is behind you", "front": "check what is in front of you"}
        return others.get(self.side, f"check what is on your {self.side}")


@dataclass(frozen=True)
class Report:
    """Say what came of looking for a thing, or what is in sight; `count`: how many of them."""

    label: str = ""
    count: bool = False

    def words(self) -> str:
        if self.count:
            return f"report how many {self.label}s you see"
        return f"report where the {self.label} is" if self.label else "report what you see"


@dataclass(frozen=True)
class Ask:
    """Have a question answered by the memory."""

    question: str

    def words(self) -> str:
        return self.question


@dataclass(frozen=True)
class If:
    """Goals for when a thing was found, or was not."""

    label: str
    found: bool
    goals: tuple[Goal, ...]

    def words(self) -> str:
        rest = " and ".join(g.words() for g in self.goals)
        return f"if {a(self.label) if self.found else 'no ' + self.label} was found, {rest}"


@dataclass(frozen=True)
class Unknown:
    """Words that mean nothing here, and why."""

    said: str
    why: str = ""

    def words(self) -> str:
        return self.said


Goal = Do | GoTo | Find | Face | Approach | Picture | Return | Look | Report | Ask | If | Unknown


@dataclass(frozen=True)
class Watch:
    """What is to be done whenever a thing is seen; with `ends`, what was being done ends then."""

    label: str
    goals: tuple[Goal, ...]
    ends: bool = False


@dataclass(frozen=True)
class Meaning:
    """An instruction understood: `resumes` when what was interrupted is to go on after it."""

    goals: tuple[Goal, ...]
    watches: tuple[Watch, ...] = ()
    resumes: bool = False

    @property
    def understood(self) -> bool:
        """Whether any part of it means something here."""
        return bool(self.watches) or any(not isinstance(g, Unknown) for g in self.goals)


def a(label: str) -> str:
    """The word with its article."""
    return f"an {label}" if label[:1] in "aeiou" else f"a {label}"


def flat(goals: tuple[Goal, ...]) -> Iterator[Goal]:
    """All goals, those below a condition too."""
    for goal in goals:
        yield goal
        if isinstance(goal, If):
            yield from flat(goal.goals)
