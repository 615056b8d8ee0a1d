# SPDX-License-Identifier: Apache-2.0
"""The simulated model as observer, summarizer, planner and critic: what it reads, sees, plans, and gets wrong."""

from __future__ import annotations

import io
import random
from collections import Counter

import pytest
from PIL import Image

from bench.clea.kitchen import AT, ATLAS, HEBE, REACH, ROBOTS, Kitchen
from bench.clea.pictures import Cameras
from bench.clea.trials import TRIALS, setting
from bench.simulated_model.team_belief import Act, Believed
from bench.simulated_model.team_goals import Goal, goals_of
from bench.simulated_model.team_planner import MISTAKEN, MISTAKES, Abilities, Planner, StuckError, mistaken
from bench.simulated_model.team_sight import LOOKS, shows_anything, things_in

THINGS = tuple(look.split()[0] for look in LOOKS)
ABLE = {
    ATLAS: Abilities(REACH[ATLAS], ("drawer_top", "drawer_middle"), False),
    HEBE: Abilities(REACH[HEBE], ("oven", "fridge"), True),
}


@pytest.mark.parametrize(
    ("asked", "goals"),
    [
        ("Find the tea and the hamburger.", [Goal("find", "tea"), Goal("find", "hamburger")]),
        ("Find an apple, roast it and put it on the table.", [Goal("roast", "apple", "table")]),
        (
            "Throw the vitamins from the middle drawer into the trash can.",
            [Goal("put", "vitamins", "trash_can", "drawer_middle")],
        ),
        (
            "Put the tea from the fridge on the table. Then roast the hamburger from the table and put it back on the table.",
            [Goal("put", "tea", "table", "fridge"), Goal("roast", "hamburger", "table", "table")],
        ),
        ("Put the green medication in the sink.", [Goal("put", "green_medication", "sink")]),
        ("Tell me a story.", []),
    ],
)
def test_reads_what_is_asked_for(asked: str, goals: list[Goal]) -> None:
    assert goals_of(asked, THINGS) == goals


def test_understands_what_every_trial_is_about() -> None:
    for trial in TRIALS.values():
        assert {goal.thing for goal in goals_of(trial.instruction, THINGS)} == set(trial.places), trial.id


def test_a_belief_is_read_back_as_it_was_written() -> None:
    believed = Believed({"tea": "fridge", "cup": "hebe"}, {"fridge": "open"}, {"hebe": AT["fridge"]})
    believed.looked, believed.roasted, believed.found = ["oven", "fridge"], {"apple"}, {"cup", "tea"}
    assert Believed.read(f"Trajectory:\nstep 3: x: DONE\nSpatial: {believed.text()}") == Believed(
        believed.things, believed.doors, believed.points, believed.looked, believed.roasted, believed.found, 3
    )


def test_what_is_not_where_it_was_in_plain_view_is_believed_there_no_more() -> None:
    believed = Believed({"tea": "fridge", "apple": "table"}, {"fridge": "open"}, {"hebe": AT["fridge"]})
    believed.see("In sight: cup in fridge. hebe holds nothing. Open: fridge.")
    assert believed.things == {"apple": "table", "cup": "fridge"}, "the table is seen past an arm, the fridge is not"
    believed.things["tea"] = "fridge"
    believed.see("In sight: nothing. In the picture of hebe nothing can be made out: it cannot be made out.")
    assert believed.things["tea"] == "fridge"
    believed.fail(Act.read('pick_from(robot="hebe", object="tea", space="fridge")'), "FAILED: the tea is not in fridge")
    assert "tea" not in believed.things and believed.looked == ["fridge"]


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_without_mistakes_is_what_the_kitchen_allows(seed: int) -> None:
    for trial in TRIALS.values():
        kitchen = Kitchen(dict(setting(trial, seed).things))
        believed = Believed(dict(kitchen.things), {}, {HEBE: kitchen.point}, [], set(), set(kitchen.things))
        goals = goals_of(trial.instruction, THINGS)
        for act in Planner(believed, ABLE, whole=True).plan(goals):
            assert not (why := kitchen.attempt(act.robot, act.skill, act.arguments)), (trial.id, str(act), why)
        for goal in goals:
            assert goal.kind == "find" or kitchen.things[goal.thing] == goal.space


def test_what_nobody_has_seen_is_looked_for_by_both_robots_and_supposed_nowhere_in_the_loop() -> None:
    acts = Planner(Believed(points={HEBE: AT["table"]}), ABLE).plan([Goal("put", "tea", "trash_can")])
    assert [str(act) for act in acts] == [
        'open(robot="atlas", what="drawer_top")',
        'go_to(robot="hebe", point="in_front_of_refrigerator")',
        'open(robot="hebe", what="fridge")',
    ]
    whole = Planner(Believed(points={HEBE: AT["table"]}), ABLE, whole=True).plan([Goal("put", "tea", "trash_can")])
    assert 'pick_from(robot="hebe", object="tea", space="fridge")' in map(str, whole)
    with pytest.raises(StuckError):
        Planner(Believed(), {}).plan([Goal("put", "tea", "trash_can")])


def test_mistakes_come_as_often_and_in_such_shares_as_stated() -> None:
    acts = [Act(ATLAS, "pick_from", {"object": "tea", "space": "table"}), Act(HEBE, "go_to", {"point": AT["oven"]})]
    chance, made, planned = random.Random(3), Counter[str](), 0
    for _ in range(6000):
        _, kinds = mistaken(acts, ABLE, chance)
        made.update(kinds)
        planned += len(acts)
    assert made.total() / planned == pytest.approx(MISTAKEN, abs=0.01)
    for kind, count in MISTAKES.items():
        assert made[kind] / made.total() == pytest.approx(count / sum(MISTAKES.values()), abs=0.05)


def test_sees_by_colour_what_is_in_the_picture_and_nothing_in_a_black_one() -> None:
    cameras, right, wrong = Cameras(), 0, []
    for seed in range(3):
        kitchen = setting(TRIALS["J1"], seed).kitchen()
        kitchen.doors.update(fridge=True, oven=True, drawer_top=True)
        for point in (AT["fridge"], AT["sink"]):
            kitchen.point = point
            for robot in ROBOTS:
                view = cameras.view(kitchen, robot)
                found = set(things_in(view.png))
                right += len(found & view.things)
                wrong += [(seed, point, robot, thing) for thing in found ^ view.things]
    assert right > 20 and len(wrong) <= right / 20, wrong
    written = io.BytesIO()
    Image.new("RGB", (320, 240)).save(written, "PNG")
    assert not things_in(written.getvalue()) and not shows_anything(written.getvalue()) and shows_anything(view.png)
