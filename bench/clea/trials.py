# SPDX-License-Identifier: Apache-2.0
"""Define CLEA's twelve trials: what is asked, where things lie, when it counts as done, and what happens meanwhile.

The paper names the objects; places, steps and disturbances are ours. All of it is drawn from the trial and a seed alone, so it
is the same for every variant.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from bench.clea.kitchen import ATLAS, HEBE, ROBOTS, Kitchen, scenery
from bench.evaluation.propositions import AtEnd, Criterion, Proposition, Reading, When

Kind = Literal["nothing", "moved", "shut", "slip"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Each happens in a quarter of the trials."""
TYPES = ("search", "manipulation", "integration 1", "integration 2")
DEADLINE_S = 1200.0
LATE_S, SOON_S = 0.5, 0.05
"""A thing is moved so long before the end of an action; a door falls shut so soon after one."""
LATEST = 5
"""It happens with one of so many first actions, or with the first one after it where it can."""
MOVED_TO = ("table", "sink")
"""Spaces into which somebody moves things: they can be taken again there."""
ROOM = {"table": 5, "sink": 2, "fridge": 4, "oven": 2, "drawer_top": 2, "drawer_middle": 2}
"""Number of other things that a space may hold."""


@dataclass(frozen=True)
class Disturbance:
    """Let something happen at action number `action`, counted from 1 over both robots as they begin: `moved`, `thing` is taken
    from where it lies to the first of `to` that is elsewhere, `LATE_S` before the action's end; `shut`, the first door that
    stands open falls shut `SOON_S` after its end; `slip`, the attempt to pick of that number slips."""

    kind: Kind
    action: int = 0
    thing: str = ""
    to: tuple[str, ...] = ()

    def can(self, kitchen: Kitchen) -> bool:
        """Return whether there is anything to move or to shut now."""
        if self.kind == "moved":
            return kitchen.things[self.thing] not in (*ROBOTS, "trash_can")
        return self.kind == "shut" and any(kitchen.doors.values())

    def happen(self, kitchen: Kitchen) -> str:
        """Change the kitchen; return what happened."""
        if self.kind == "moved":
            to = next(space for space in self.to if space != kitchen.things[self.thing])
            kitchen.put(self.thing, to)
            return f"somebody moved the {self.thing} to {to}"
        door = next(door for door, is_open in kitchen.doors.items() if is_open)
        kitchen.doors[door] = False
        return f"the {door} fell shut"


@dataclass(frozen=True)
class Trial:
    """Describe a trial. `places`: where each thing that it is about may lie at its start."""

    id: str
    type: str
    instruction: str
    places: Mapping[str, tuple[str, ...]]
    criterion: Criterion


@dataclass(frozen=True)
class Setting:
    """The world of one run, and what happens in it."""

    things: Mapping[str, str]
    disturbance: Disturbance

    def kitchen(self) -> Kitchen:
        """Return the kitchen as it is at the start."""
        slip = frozenset({self.disturbance.action}) if self.disturbance.kind == "slip" else frozenset()
        return Kitchen(dict(self.things), slips=slip)


def setting(trial: Trial, seed: int) -> Setting:
    """Return the world of a run."""
    r = random.Random(f"clea {trial.id} {seed}")
    things = {thing: r.choice(spaces) for thing, spaces in trial.places.items()}
    room = dict(ROOM)
    for thing in r.sample(sorted(scenery().things), len(scenery().things)):
        if thing not in things:
            space = r.choices(list(room), list(room.values()))[0]
            things[thing] = space
            room[space] -= 1
    kind = KINDS[seed % len(KINDS)]
    if kind == "nothing":
        return Setting(things, Disturbance(kind))
    if kind == "slip":
        return Setting(things, Disturbance(kind, r.randint(1, 2)))
    to = tuple(r.sample(MOVED_TO, len(MOVED_TO)))
    return Setting(things, Disturbance(kind, r.randint(1, LATEST), r.choice(list(trial.places)), to))


# -- when it counts as done ---------------------------------------------------------------------------------------------------


@dataclass
class _Milestones:
    """Steps and goals of a trial. A correctly executed action is worth a point (AS): a door opened, a thing in the hand, a
    thing put where it belongs, a door shut on what roasts."""

    found: list[Proposition] = field(default_factory=list)
    last: list[str] = field(default_factory=list)

    def step(self, name: str, relation: str, *arguments: Sequence[str]) -> None:
        self.found.append(Proposition(name, relation, tuple(map(tuple, arguments)), step=True))

    def goal(self, name: str, relation: str, *arguments: Sequence[str], when: Reading | None = None, last: bool = True) -> None:
        readings = () if when is None else (when,)
        self.found.append(Proposition(name, relation, tuple(map(tuple, arguments)), readings=readings))
        if last:
            self.last.append(name)

    def seen(self, thing: str) -> None:
        self.goal(f"the {thing} is found", "seen", (thing,), ROBOTS, last=False)

    def moved(self, thing: str, by: str, to: str, out_of: str = "") -> None:
        if out_of:
            self.step(f"the {out_of} is open", "open", (out_of,))
        self.step(f"{by} has the {thing}", "held", (thing,), (by,))
        self.goal(f"the {thing} is in {to}", "on_top" if to == "table" else "inside", (thing,), (to,))

    def roasted(self, thing: str) -> None:
        self.step(f"{HEBE} has the {thing}", "held", (thing,), (HEBE,))
        inside, roasts = f"the {thing} is in the oven", f"the {thing} roasts"
        self.step(inside, "inside", (thing,), ("oven",))
        self.goal(roasts, "shut", ("oven",), when=Reading(When.WHILE, (inside,)), last=False)
        self.goal(f"the {thing} is on the table", "on_top", (thing,), ("table",), when=Reading(When.AFTER, (roasts,)))

    def criterion(self) -> Criterion:
        return Criterion(tuple(self.found), (AtEnd(tuple(self.last)),) if self.last else ())


def _search(*things: str) -> Criterion:
    m = _Milestones()
    for thing in things:
        m.seen(thing)
    return m.criterion()


def _trials() -> Iterator[Trial]:
    far = ("fridge", "drawer_top", "drawer_middle", "oven")
    yield Trial("S1", "search", "Find the tea and the hamburger.", {"tea": far, "hamburger": far}, _search("tea", "hamburger"))
    yield Trial(
        "S2",
        "search",
        "Find the vitamins and the hamburger.",
        {"vitamins": far, "hamburger": far},
        _search("vitamins", "hamburger"),
    )
    yield Trial(
        "S3",
        "search",
        "Find the apple and the green medication.",
        {"apple": (*far, "sink"), "green_medication": far},
        _search("apple", "green_medication"),
    )

    m = _Milestones()
    m.moved("tea", HEBE, "table", out_of="fridge")
    m.roasted("hamburger")
    yield Trial(
        "M1",
        "manipulation",
        "Put the tea from the fridge on the table. Then roast the hamburger from the table and put it back on the table.",
        {"tea": ("fridge",), "hamburger": ("table",)},
        m.criterion(),
    )
    m = _Milestones()
    m.roasted("apple")
    m.moved("green_medication", ATLAS, "table", out_of="drawer_top")
    yield Trial(
        "M2",
        "manipulation",
        "Roast the apple from the table and put it back on the table. Then put the green medication from the top drawer on the "
        "table.",
        {"apple": ("table",), "green_medication": ("drawer_top",)},
        m.criterion(),
    )
    m = _Milestones()
    m.moved("orange", HEBE, "sink")
    m.moved("vitamins", ATLAS, "trash_can", out_of="drawer_middle")
    yield Trial(
        "M3",
        "manipulation",
        "Put the orange from the table in the sink. Throw the vitamins from the middle drawer into the trash can.",
        {"orange": ("table",), "vitamins": ("drawer_middle",)},
        m.criterion(),
    )

    anywhere = ("table", "sink", "fridge", "drawer_top", "drawer_middle")

    def binned(m: _Milestones, *things: str) -> None:
        for thing in things:
            m.seen(thing)
            m.moved(thing, ATLAS, "trash_can")

    def found_and_roasted(m: _Milestones, *things: str) -> None:
        for thing in things:
            m.seen(thing)
            m.roasted(thing)

    m = _Milestones()
    binned(m, "tea")
    yield Trial("I1", "integration 1", "Find the tea and throw it into the trash can.", {"tea": anywhere}, m.criterion())
    m = _Milestones()
    found_and_roasted(m, "apple")
    yield Trial("I2", "integration 1", "Find the apple, roast it and put it on the table.", {"apple": anywhere}, m.criterion())
    m = _Milestones()
    binned(m, "vitamins")
    yield Trial(
        "I3", "integration 1", "Find the vitamins and throw them into the trash can.", {"vitamins": anywhere}, m.criterion()
    )
    m = _Milestones()
    found_and_roasted(m, "apple", "hamburger")
    yield Trial(
        "J1",
        "integration 2",
        "Find the apple and the hamburger, roast them and put them on the table.",
        {"apple": anywhere, "hamburger": anywhere},
        m.criterion(),
    )
    m = _Milestones()
    binned(m, "tea", "vitamins")
    yield Trial(
        "J2",
        "integration 2",
        "Find the tea and the vitamins and throw them into the trash can.",
        {"tea": anywhere, "vitamins": anywhere},
        m.criterion(),
    )
    m = _Milestones()
    binned(m, "orange")
    found_and_roasted(m, "hamburger")
    yield Trial(
        "J3",
        "integration 2",
        "Find the orange and throw it into the trash can. Then find the hamburger, roast it and put it on the table.",
        {"orange": anywhere, "hamburger": anywhere},
        m.criterion(),
    )


TRIALS = {trial.id: trial for trial in _trials()}
