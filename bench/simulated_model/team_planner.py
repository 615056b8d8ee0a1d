# SPDX-License-Identifier: Apache-2.0
"""Plan for two robots in a kitchen as a competent model would, and make the mistakes that CLEA's critic met (table II)."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

from bench.simulated_model.robot import skills_in
from bench.simulated_model.team_belief import OVER, Act, Believed, point_of
from bench.simulated_model.team_goals import Goal
from planners.prompts.prompt import declared

Mistake = Literal["outdated", "redundant", "invalid", "wrong"]
MISTAKES: Mapping[Mistake, int] = {"outdated": 8, "redundant": 6, "invalid": 2, "wrong": 2}
"""Kinds as the paper's table II counts them: where a thing was supposed before, what has been done already, what is no call of
the interface, and a plan that lacks a step."""
MISTAKEN = 0.08
"""Share of the planned calls that are mistaken. The paper tells 18 rejections in 12 trials and not of how many calls; ours."""
LIKELY = ("fridge", "drawer_top", "oven", "drawer_middle", "sink", "table")
"""Spaces where a thing is supposed that nobody has seen, the likeliest first."""
CLOSED, MANY = 3, 40
"""Calls of a plan in the closed loop, and of a whole plan."""
_SECTION = re.compile(r"^# Functions of (\w+)$", re.MULTILINE)


@dataclass(frozen=True)
class Abilities:
    """Hold what one robot can reach and open, as its prompt says, and whether it drives."""

    spaces: tuple[str, ...]
    doors: tuple[str, ...]
    drives: bool


def abilities_in(system: str) -> dict[str, Abilities]:
    """Return what each robot can do, from the functions that a prompt shows."""
    parts = _SECTION.split(system)
    found = {}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        skills = {s.name: {p.name: p.choices for p in declared(s)} for s in skills_in(text)}
        spaces, doors = skills.get("pick_from", {}).get("space", ()), skills.get("open", {}).get("what", ())
        found[name] = Abilities(
            tuple(dict.fromkeys((*spaces, *skills.get("release_to", {}).get("space", ())))), doors, "go_to" in skills
        )
    return found


class FullError(Exception):
    """No further call may be planned: there is no room, or a result is awaited."""


class StuckError(Exception):
    """A goal cannot be reached; the message says why."""


class Planner:
    """Write the next calls towards some goals. `whole`: the plan is carried out without another look, so that a thing that
    nobody has seen is supposed where it is likeliest."""

    def __init__(self, believed: Believed, robots: Mapping[str, Abilities], *, whole: bool = False) -> None:
        self.believed, self.robots, self.whole = deepcopy(believed), robots, whole
        self.acts: list[Act] = []

    def plan(self, goals: Sequence[Goal]) -> list[Act]:
        """Return the next calls; none where all goals are reached. Raises StuckError."""
        for goal in goals:
            if goal.source and goal.thing not in self.believed.things and goal.source not in self.believed.looked:
                self.believed.things[goal.thing] = goal.source
        try:
            for goal in goals:
                self._reach(goal, goals)
        except FullError:
            pass
        return self.acts

    def _reach(self, goal: Goal, goals: Sequence[Goal]) -> None:
        if goal.reached(self.believed):
            return
        if goal.thing not in self.believed.things:
            missing = [g.thing for g in goals if g.thing not in self.believed.things and not g.reached(self.believed)]
            self._search(goal.thing, missing)
        if goal.kind == "roast" and goal.thing not in self.believed.roasted:
            if self.believed.things[goal.thing] != "oven":
                self._bring(goal.thing, "oven")
            self._go(self._driver(), "oven")
            self._act(self._driver(), "close", what="oven")
        if goal.kind != "find":
            self._bring(goal.thing, goal.space)

    # -- searching ----------------------------------------------------------------------------------------------------

    def _search(self, thing: str, missing: Sequence[str]) -> None:
        """Look where nobody has looked yet, then where it was longest ago, with every robot that can."""
        spaces = [space for space in LIKELY if self._looker(space)]
        order = [s for s in spaces if s not in self.believed.looked] + [s for s in self.believed.looked if s in spaces]
        order = [space for space in order if not self.believed.in_view(space)] or order
        if not order:
            raise StuckError(f"there is no place left where the {thing} may be")
        if self.whole:
            self._look(self._looker(order[0]), order[0])
            self.believed.things[thing] = order[0]
            self.believed.found.add(thing)
            return
        for robot in self.robots:
            if space := next((space for space in order if self._looker(space) == robot), ""):
                self._look(robot, space)
        raise FullError

    def _by(self, space: str) -> str:
        return next((name for name, robot in self.robots.items() if space in robot.spaces), "")

    def _looker(self, space: str) -> str:
        """Return who looks into a space: the one that goes there, where one does."""
        robots = [name for name, robot in self.robots.items() if space in robot.spaces]
        return next((name for name in robots if self.robots[name].drives), next(iter(robots), ""))

    def _look(self, robot: str, space: str) -> None:
        if space in self.robots[robot].doors and self.believed.doors.get(space) != "open":
            self._free(robot)
        self._open(robot, space)

    # -- bringing -----------------------------------------------------------------------------------------------------

    def _bring(self, thing: str, to: str) -> None:
        where = self.believed.things[thing]
        if where == to:
            return
        robot = self._between(where, to)
        if not robot:
            other = where if where in self.robots else self._by(where)
            if not other:
                raise StuckError(f"nobody reaches {where}")
            self._carry(other, thing, where, "table")
            where, robot = "table", self._by(to)
            if not robot:
                raise StuckError(f"nobody reaches {to}")
        self._carry(robot, thing, where, to)

    def _between(self, where: str, to: str) -> str:
        """Return who reaches both places, or holds the thing already and reaches the other."""
        return next((n for n, robot in self.robots.items() if to in robot.spaces and where in (n, *robot.spaces)), "")

    def _carry(self, robot: str, thing: str, where: str, to: str) -> None:
        if where != robot:
            self._free(robot)
            if not self._is_open(robot, to):
                self._open(robot, to)
            self._open(robot, where)
            self._act(robot, "pick_from", object=thing, space=where)
        if not self._is_open(robot, to):
            # Doors want an empty hand.
            self._go(robot, "table")
            self._act(robot, "release_to", space="table")
            self._carry(robot, thing, "table", to)
            return
        self._open(robot, to)
        self._act(robot, "release_to", space=to)

    def _free(self, robot: str) -> None:
        """Put down what a robot holds."""
        if self.believed.held(robot):
            self._go(robot, "table")
            self._act(robot, "release_to", space="table")

    def _is_open(self, robot: str, space: str) -> bool:
        return space not in self.robots[robot].doors or self.believed.doors.get(space) == "open"

    def _open(self, robot: str, space: str) -> None:
        """Have a robot stand before a space that is open."""
        self._go(robot, space)
        over = OVER.get(space, "")
        if self.believed.doors.get(over) == "open":
            self._act(robot, "close", what=over)
        if not self._is_open(robot, space):
            self._act(robot, "open", what=space)

    def _go(self, robot: str, space: str) -> None:
        if self.robots[robot].drives and self.believed.points.get(robot) != point_of(space):
            self._act(robot, "go_to", point=point_of(space))

    def _driver(self) -> str:
        return self._by("oven")

    def _act(self, robot: str, skill: str, **arguments: str) -> None:
        if len(self.acts) >= (MANY if self.whole else CLOSED):
            raise FullError
        self.acts.append(Act(robot, skill, arguments))
        self.believed.suppose(self.acts[-1])


def mistaken(acts: Sequence[Act], robots: Mapping[str, Abilities], chance: random.Random) -> tuple[list[str], list[Mistake]]:
    """Return the calls as they are written, some of them mistaken, and the mistakes."""
    written: list[str] = []
    made: list[Mistake] = []
    for act in acts:
        if chance.random() >= MISTAKEN:
            written.append(str(act))
            continue
        kind = chance.choices(list(MISTAKES), list(MISTAKES.values()))[0]
        made.append(kind)
        if kind == "outdated":
            written += _outdated(act, robots, chance)
        elif kind == "redundant":
            written += [str(act), str(act)]
        elif kind == "invalid":
            written.append(_invalid(act, chance))
        # A plan that lacks a step is wrong.
    return written or [str(act) for act in acts[:1]], made


def _outdated(act: Act, robots: Mapping[str, Abilities], chance: random.Random) -> list[str]:
    """Return a pick from where the thing is not supposed any more, or a drive to where there is nothing to do."""
    if act.skill == "pick_from":
        others = [space for space in robots[act.robot].spaces if space != act.arguments["space"] and space != "trash_can"]
        return [str(replace(act, arguments={**act.arguments, "space": chance.choice(others)}))]
    if act.skill == "go_to":
        others = [point_of(space) for space in robots[act.robot].spaces]
        others = [point for point in others if point != act.arguments["point"]]
        return [str(replace(act, arguments={"point": chance.choice(others)}))]
    other = "close" if act.skill == "open" else "open"
    return [str(replace(act, skill=other))] if act.skill in ("open", "close") else [str(act), str(act)]


def _invalid(act: Act, chance: random.Random) -> str:
    """Return what is no call of the interface: another name, or an argument that it does not know."""
    if chance.random() < 0.5:
        return str(replace(act, skill={"pick_from": "grasp", "release_to": "place"}.get(act.skill, f"do_{act.skill}")))
    return str(replace(act, arguments={**act.arguments, "speed": "fast"}))
