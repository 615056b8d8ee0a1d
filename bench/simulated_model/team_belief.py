# SPDX-License-Identifier: Apache-2.0
"""Write and read what a simulated model believes of a kitchen: the summarizer writes it, the others read it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

OVER = {"drawer_middle": "drawer_top"}
"""Drawers that are hidden below another that is open."""
BEFORE = ("table", "sink", "oven", "fridge")
"""Spaces that are seen well from the point before them alone: the camera above the table sees it past an arm."""
_ARGUMENT = re.compile(r"(\w+)=[\"']([^\"']*)[\"']")
_NOTHING = "nothing"


@dataclass(frozen=True)
class Act:
    """One action: robot, skill and arguments."""

    robot: str
    skill: str
    arguments: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> Act:
        """Return the action that a text spells."""
        given = dict(_ARGUMENT.findall(text))
        return cls(given.pop("robot", ""), text.partition("(")[0].strip(), given)

    def __str__(self) -> str:
        given = {"robot": self.robot, **self.arguments}
        written = ", ".join(f'{name}="{value}"' for name, value in given.items())
        return f"{self.skill}({written})"


def point_of(space: str) -> str:
    """Return the point before a space of the counter, or the table."""
    return f"in_front_of_{'refrigerator' if space == 'fridge' else space}"


@dataclass
class Believed:
    """`things`: the space or the robot that has a thing. `looked`: spaces that were looked into, the last one last. `found`:
    things that were in sight at some time."""

    things: dict[str, str] = field(default_factory=dict)
    doors: dict[str, str] = field(default_factory=dict)
    points: dict[str, str] = field(default_factory=dict)
    looked: list[str] = field(default_factory=list)
    roasted: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)
    steps: int = 0

    # -- as text ------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return it in the summarizer's words."""
        parts = [f"the {thing} is in {where}" for thing, where in self.things.items()]
        parts += [f"the {door} is {state}" for door, state in self.doors.items()]
        parts += [f"{robot} stands {point}" for robot, point in self.points.items()]
        named = {"looked into": self.looked, "roasted": sorted(self.roasted), "found": sorted(self.found)}
        parts += [f"{name} {', '.join(some)}" for name, some in named.items() if some]
        return "; ".join(parts) or "nothing is known"

    @classmethod
    def read(cls, text: str) -> Believed:
        """Return what a belief says; of other words it understands nothing."""
        believed = cls(steps=max(map(int, re.findall(r"\bstep (\d+):", text)), default=0))
        spatial = text.rpartition("Spatial:")[2]
        for part in spatial.split(";"):
            if found := re.search(r"the (\w+) is (in )?(\w+)", part):
                (believed.things if found[2] else believed.doors)[found[1]] = found[3]
            elif found := re.search(r"(\w+) stands (\w+)", part):
                believed.points[found[1]] = found[2]
            elif found := re.search(r"(looked into|roasted|found) (.*)", part):
                some = found[2].strip().split(", ")
                if found[1] == "looked into":
                    believed.looked = some
                else:
                    (believed.roasted if found[1] == "roasted" else believed.found).update(some)
        return believed

    # -- what was done and seen ---------------------------------------------------------------------------------------

    def held(self, robot: str) -> str:
        """Return what a robot holds, "" for nothing."""
        return next((thing for thing, where in self.things.items() if where == robot), "")

    def in_view(self, space: str) -> bool:
        """Return whether a camera sees into a space."""
        if self.doors.get(OVER.get(space, "")) == "open":
            return False
        if space in BEFORE and self.points.get("hebe") != point_of(space):
            return False
        return space in ("trash_can", "table", "sink") or self.doors.get(space) == "open"

    def suppose(self, act: Act) -> None:
        """Take it that an action has ended well."""
        given = act.arguments
        if act.skill == "go_to":
            self.points[act.robot] = given["point"]
        elif act.skill in ("open", "close"):
            self.doors[given["what"]] = "open" if act.skill == "open" else "shut"
            if act.skill == "close" and given["what"] == "oven":
                self.roasted |= {thing for thing, where in self.things.items() if where == "oven"}
        elif act.skill == "pick_from":
            self.things[given["object"]] = act.robot
            self.found.add(given["object"])
        elif act.skill == "release_to" and (thing := self.held(act.robot)):
            self.things[thing] = given["space"]
        for space in (*BEFORE, *self.doors):
            if act.skill in ("open", "go_to") and self.in_view(space):
                self.looked = [other for other in self.looked if other != space] + [space]

    def fail(self, act: Act, why: str) -> None:
        """Take note of why an action failed or was rejected, where the words are understood."""
        for pattern, learn in _LESSONS:
            for found in re.finditer(pattern, why):
                learn(self, act, found)

    def see(self, told: str) -> None:
        """Take in what an observer told; what is not where it ought to be in view is somewhere else."""
        if "In sight:" not in told:
            return
        shown = told.partition("In sight:")[2].partition(".")[0]
        seen = dict(re.findall(r"(\w+) in (\w+)", shown))
        for name, state in (("Open", "open"), ("Shut", "shut")):
            listed = re.search(rf"{name}: ([\w, ]+)\.", told)
            self.doors.update(dict.fromkeys(listed[1].split(", ") if listed else (), state))
        for robot, thing in re.findall(r"(\w+) holds (?:the )?(\w+)", told):
            self.hold(robot, "" if thing == _NOTHING else thing)
        if "cannot be made out" not in told and not told.endswith("…"):
            for thing, where in list(self.things.items()):
                if thing not in seen and self.in_view(where) and f"holds the {thing}" not in told:
                    del self.things[thing]
        self.things.update({thing: space for thing, space in seen.items() if space})
        self.found |= set(seen)

    def hold(self, robot: str, thing: str) -> None:
        """Take it that a robot holds a thing, or "" for nothing."""
        before = self.held(robot)
        if before and before != thing:
            del self.things[before]
        if thing:
            self.things[thing] = robot

    def sense(self, observation: Iterable[Mapping[str, Any]]) -> None:
        """Take in what the robots' own sensors tell of doors and hands."""
        for told in observation:
            if isinstance(doors := told.get("doors"), dict):
                self.doors.update({door: state for door, state in doors.items() if state in ("open", "shut")})
            if isinstance(hand := told.get("hand"), str):
                self.hold(str(told.get("robot", "")), hand)

    # -- lessons ------------------------------------------------------------------------------------------------------

    def _gone(self, act: Act, found: re.Match[str]) -> None:
        thing, space = found[1], found[2]
        if self.things.get(thing) == space:
            del self.things[thing]
        self.looked = [other for other in self.looked if other != space] + [space]

    def _elsewhere(self, act: Act, found: re.Match[str]) -> None:
        self.things[found[1]] = found[2]

    def _door(self, act: Act, found: re.Match[str]) -> None:
        self.doors[found[1]] = found[2]

    def _must_open(self, act: Act, found: re.Match[str]) -> None:
        self.doors[found[1]] = "shut"

    def _holds(self, act: Act, found: re.Match[str]) -> None:
        if act.robot:
            self.hold(act.robot, found[1])

    def _empty(self, act: Act, found: re.Match[str]) -> None:
        self.hold(act.robot, "")

    def _away(self, act: Act, found: re.Match[str]) -> None:
        self.points.pop(act.robot, None)


_LESSONS = (
    (r"the (\w+) is not in (\w+)", Believed._gone),
    (r"\b(\w+) is in (\w+), not in \w+", Believed._elsewhere),
    (r"\b(?:the )?(\w+) is (open|shut) already", Believed._door),
    (r"the door is shut: open (\w+) first", Believed._must_open),
    (r"\b(\w+) is shut; it must be opened first", Believed._must_open),
    (r"(?:it|hand of \w+) holds (?:the )?(\w+)", Believed._holds),
    (r"hand (?:of \w+ )?is empty", Believed._empty),
    (r"out of reach from", Believed._away),
)
