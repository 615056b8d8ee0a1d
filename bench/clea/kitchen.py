# SPDX-License-Identifier: Apache-2.0
"""Keep a kitchen without physics: what lies where, what stands open, where hebe stands, and what skills change of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from bench.evaluation.propositions import Fact
from ghostshell_ros.arms.scenery import Scenery
from ghostshell_ros.sim.world import WORLDS

HEBE, ATLAS = ROBOTS = ("hebe", "atlas")
START = "in_front_of_table"
SURFACES = ("table",)
"""Spaces on which things lie; they are in all others."""
AT = {"table": START, "sink": "in_front_of_sink", "oven": "in_front_of_oven", "fridge": "in_front_of_refrigerator"}
"""Points from which hebe reaches a space or a door; she reaches no other."""
REACH: Mapping[str, tuple[str, ...]] = {HEBE: tuple(AT), ATLAS: ("table", "drawer_top", "drawer_middle", "trash_can")}
"""Spaces and doors that a robot reaches at all."""
OVER = {"drawer_middle": "drawer_top"}
"""Drawers that are hidden, and out of reach, below another that is open."""
NOMINAL_S = {"open": 16.0, "close": 16.0, "pick_from": 14.0, "release_to": 14.0}
DRIVE_MPS, TURN_S = 0.45, 4.0
"""Nominal times of the robots' own skills; speed of the base, and what turning takes in all."""
SLIPPED = "the {} slipped out of the fingers; it lies in {}; try again"


@cache
def scenery() -> Scenery:
    """Return the names of things, doors, spaces and points, which are the world's."""
    return Scenery.read(WORLDS / "kitchen.xml")


@dataclass
class Kitchen:
    """Hold the truth of one trial. `things`: the space a thing lies in, or the robot that holds it. `slots` keeps things of one
    space apart. `slips`: numbers of those attempts to pick, counted from 1, that slip."""

    things: dict[str, str]
    doors: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(scenery().doors, False))
    point: str = START
    slips: frozenset[int] = frozenset()
    slots: dict[str, int] = field(default_factory=dict)
    _picks: int = 0

    def __post_init__(self) -> None:
        for thing, space in list(self.things.items()):
            self.put(thing, space)

    def held(self, robot: str) -> str:
        """Return what a robot holds, "" for nothing."""
        return next((thing for thing, where in self.things.items() if where == robot), "")

    def put(self, thing: str, where: str) -> None:
        """Put a thing into a space, or into a robot's hand."""
        taken = {self.slots[t] for t, w in self.things.items() if w == where and t != thing and t in self.slots}
        self.slots[thing] = next(slot for slot in range(len(self.things) + 1) if slot not in taken)
        self.things[thing] = where

    def shut(self, space: str) -> bool:
        """Return whether a space is behind a shut door."""
        return not self.doors.get(scenery().spaces[space].door, True)

    def facts(self) -> Iterator[Fact]:
        """Yield what is true, but for what is seen."""
        for thing, where in self.things.items():
            relation = "held" if where in ROBOTS else "on_top" if where in SURFACES else "inside"
            yield relation, thing, where
        for door, is_open in self.doors.items():
            yield "open" if is_open else "shut", door
        yield "next_to", HEBE, self.point

    def takes_s(self, skill: str, arguments: Mapping[str, str]) -> float:
        """Return how long a skill takes [s]."""
        if skill != "go_to":
            return NOMINAL_S[skill]
        here, there = scenery().points[self.point], scenery().points[arguments["point"]]
        return TURN_S + math.hypot(there.x - here.x, there.y - here.y) / DRIVE_MPS

    def fault(self, robot: str, skill: str, arguments: Mapping[str, str]) -> str:
        """Return why a skill cannot be done now, "" when it can."""
        if skill == "go_to":
            return "" if robot == HEBE else f"{robot} is fixed on the table; only hebe drives"
        place = arguments["what"] if skill in ("open", "close") else arguments["space"]
        if place not in REACH[robot]:
            return f"{robot} cannot reach {place}; it reaches {', '.join(REACH[robot])}"
        if robot == HEBE and self.point != AT[place]:
            return f"the {place} is out of reach from {self.point}; go to {AT[place]}"
        held = self.held(robot)
        if skill in ("open", "close"):
            return f"the hand is full: it holds the {held}; release it first" if held else ""
        if self.shut(place):
            return f"the door is shut: open {scenery().spaces[place].door} first"
        if self.doors.get(over := OVER.get(place, ""), False):
            return f"blocked: the {over} is open above it; close {over} first"
        if skill == "release_to":
            return "" if held else "the hand is empty; pick something first"
        if held:
            return f"the hand is full: it holds the {held}; release it first"
        thing = arguments["object"]
        return "" if self.things[thing] == place else f"the {thing} is not in {place}"

    def attempt(self, robot: str, skill: str, arguments: Mapping[str, str]) -> str:
        """Do what a skill has led to at its end; return why it failed, "" when it is done."""
        if why := self.fault(robot, skill, arguments):
            return why
        if skill == "go_to":
            self.point = arguments["point"]
        elif skill in ("open", "close"):
            self.doors[arguments["what"]] = skill == "open"
        elif skill == "release_to":
            self.put(self.held(robot), arguments["space"])
        else:
            self._picks += 1
            if self._picks in self.slips:
                return SLIPPED.format(arguments["object"], arguments["space"])
            self.put(arguments["object"], robot)
        return ""
