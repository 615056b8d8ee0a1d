# SPDX-License-Identifier: Apache-2.0
"""CLEA's twelve trials can be done, and by their rules alone; what disturbs them is drawn from the seed."""

from __future__ import annotations

import pytest

from bench.clea.kitchen import AT, ATLAS, HEBE, OVER, REACH, Kitchen
from bench.clea.pictures import Cameras
from bench.clea.trials import KINDS, TRIALS, Trial, setting
from bench.evaluation.propositions import Moment, evaluate

pytestmark = pytest.mark.component


@pytest.fixture(scope="module")
def cameras() -> Cameras:
    return Cameras()


class Oracle:
    """Knows where everything lies and does what a trial asks for, one action after the other."""

    def __init__(self, trial: Trial, seed: int, cameras: Cameras) -> None:
        self.kitchen, self.cameras = setting(trial, seed).kitchen(), cameras
        self.kitchen.slips = frozenset()
        self.moments: list[Moment] = [cameras.moment(self.kitchen, 0.0)]

    def act(self, robot: str, skill: str, **arguments: str) -> None:
        assert not (why := self.kitchen.attempt(robot, skill, arguments)), (robot, skill, arguments, why)
        self.moments.append(self.cameras.moment(self.kitchen, float(len(self.moments))))

    def go(self, place: str) -> None:
        if self.kitchen.point != AT[place]:
            self.act(HEBE, "go_to", point=AT[place])

    def reach(self, robot: str, space: str) -> None:
        if robot == HEBE:
            self.go(space)
        if self.kitchen.doors.get(OVER.get(space, "")):
            self.act(robot, "close", what=OVER[space])
        if self.kitchen.shut(space):
            self.act(robot, "open", what=space)

    def look(self, thing: str) -> None:
        space = self.kitchen.things[thing]
        self.reach(HEBE if space in REACH[HEBE] else ATLAS, space)

    def bring(self, thing: str, to: str) -> None:
        space = self.kitchen.things[thing]
        robot = next((r for r in (ATLAS, HEBE) if space in REACH[r] and to in REACH[r]), "")
        if not robot:
            self.bring(thing, "table")
            space, robot = "table", HEBE if to in REACH[HEBE] else ATLAS
        for place in (to, space):
            self.reach(robot, place)
        self.act(robot, "pick_from", object=thing, space=space)
        if robot == HEBE:
            self.go(to)
        self.act(robot, "release_to", space=to)

    def roast(self, thing: str) -> None:
        if self.kitchen.things[thing] not in REACH[HEBE]:
            self.bring(thing, "table")
        self.bring(thing, "oven")
        self.act(HEBE, "close", what="oven")
        self.bring(thing, "table")


QUICK = ("S2", "S3", "M3", "I1", "I2")
"""One of each kind of deed: look for it, carry it, roast it."""


@pytest.mark.parametrize(
    "trial", [pytest.param(t, id=i, marks=() if i in QUICK else pytest.mark.slow) for i, t in TRIALS.items()]
)
def test_an_oracle_does_each_trial_and_idleness_none(trial: Trial, cameras: Cameras) -> None:
    oracle = Oracle(trial, 0, cameras)
    idle = evaluate(trial.criterion, oracle.moments)
    for p in (p for p in trial.criterion.propositions if not p.step):
        thing = p.arguments[0][0]
        if p.relation == "seen":
            oracle.look(thing)
        elif p.readings and p.relation == "shut":
            oracle.roast(p.name.removeprefix("the ").removesuffix(" roasts"))
        elif not p.readings:
            oracle.bring(thing, p.arguments[1][0])
    report = evaluate(trial.criterion, oracle.moments)
    assert report.success and report.complete > 0.8, report.reasons
    assert not idle.success and idle.complete < report.complete


@pytest.mark.parametrize(
    ("robot", "skill", "arguments", "why"),
    [
        (HEBE, "pick_from", {"object": "tea", "space": "drawer_top"}, "hebe cannot reach drawer_top"),
        (HEBE, "release_to", {"space": "trash_can"}, "hebe cannot reach trash_can"),
        (ATLAS, "open", {"what": "fridge"}, "atlas cannot reach fridge"),
        (ATLAS, "go_to", {"point": "in_front_of_oven"}, "only hebe drives"),
        (HEBE, "open", {"what": "fridge"}, "out of reach from in_front_of_table"),
        (ATLAS, "pick_from", {"object": "tea", "space": "drawer_top"}, "the door is shut: open drawer_top first"),
        (ATLAS, "release_to", {"space": "table"}, "the hand is empty"),
        (ATLAS, "pick_from", {"object": "tea", "space": "table"}, "the tea is not in table"),
    ],
)
def test_a_call_beyond_what_a_robot_can_do_fails_and_changes_nothing(
    robot: str, skill: str, arguments: dict[str, str], why: str
) -> None:
    kitchen = Kitchen({"tea": "drawer_top", "apple": "table"})
    before = set(kitchen.facts())
    assert why in kitchen.attempt(robot, skill, arguments) and set(kitchen.facts()) == before


def test_a_hand_holds_one_thing() -> None:
    kitchen = Kitchen({"tea": "table", "apple": "table"})
    assert not kitchen.attempt(ATLAS, "pick_from", {"object": "tea", "space": "table"})
    for skill, arguments in (("pick_from", {"object": "apple", "space": "table"}), ("open", {"what": "drawer_top"})):
        assert "the hand is full: it holds the tea" in kitchen.attempt(ATLAS, skill, arguments)
    assert not kitchen.attempt(HEBE, "pick_from", {"object": "apple", "space": "table"})


def test_a_slip_leaves_the_thing_where_it_was() -> None:
    kitchen = Kitchen({"tea": "table"}, slips=frozenset({1}))
    pick = ATLAS, "pick_from", {"object": "tea", "space": "table"}
    assert "slipped" in kitchen.attempt(*pick) and kitchen.things["tea"] == "table"
    assert not kitchen.attempt(*pick) and kitchen.held(ATLAS) == "tea"


def test_what_is_behind_a_shut_door_is_in_no_picture(cameras: Cameras) -> None:
    kitchen = Kitchen({"tea": "fridge", "vitamins": "drawer_middle", "apple": "table", "cup": "trash_can"})
    assert cameras.view(kitchen, ATLAS).things == cameras.view(kitchen, HEBE).things | {"cup"} == {"apple", "cup"}
    kitchen.doors.update(fridge=True, drawer_middle=True)
    kitchen.point = AT["fridge"]
    seen = cameras.view(kitchen, HEBE)
    assert seen.things == {"tea"} and "fridge" in seen.doors
    assert cameras.view(kitchen, ATLAS).things == {"apple", "cup", "vitamins"}


def test_what_happens_is_drawn_from_the_seed_and_of_all_kinds() -> None:
    for trial in TRIALS.values():
        worlds = [setting(trial, seed) for seed in range(8)]
        assert worlds == [setting(trial, seed) for seed in range(8)]
        assert [w.disturbance.kind for w in worlds] == [*KINDS, *KINDS]
        assert len({tuple(sorted(w.things.items())) for w in worlds}) > 1
        assert all(set(trial.places) <= set(w.things) and len(w.things) == 10 for w in worlds)


def test_somebody_moves_a_thing_or_a_door_falls_shut() -> None:
    kitchen = Kitchen({"tea": "table", "apple": HEBE}, doors={"fridge": True, "oven": True})
    moved = setting(TRIALS["I1"], 1).disturbance
    assert moved.kind == "moved" and moved.thing == "tea" and moved.can(kitchen)
    assert moved.happen(kitchen) == "somebody moved the tea to sink" and kitchen.things["tea"] == "sink"
    shut = setting(TRIALS["I1"], 2).disturbance
    assert shut.can(kitchen) and shut.happen(kitchen) == "the fridge fell shut" and kitchen.doors["oven"]
    kitchen.put("tea", ATLAS)
    kitchen.doors["oven"] = False
    assert not moved.can(kitchen) and not shut.can(kitchen)
