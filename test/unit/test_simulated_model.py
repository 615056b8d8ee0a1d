# SPDX-License-Identifier: Apache-2.0
"""The simulated model answers each layer's real prompt from the facts in it: other facts, another answer."""

from __future__ import annotations

import pytest
from kalos_fake import registry
from layer_prompts import OPTIONS, S1, S2, call, first_action, observed, plan_for, planned, running, steps, thing

from bench.simulated_model.robot import skills_in
from planners.plan import GlobalEvent, Plan, Subtask
from planners.prompts.prompt import line

BALL_TASK = (
    "Look around for a sports ball. If you find one, walk up to it and bark twice. If you've checked the whole area and "
    "there's none, return to the start and sit down."
)
ROOM_TASK = BALL_TASK.replace("around for", "around this room for").replace("whole area", "whole room")
CHAIR_TASK = "Look for a chair in the hallway and take a picture of it."
FOUND = call("search", message="ball 1.8 m away, straight ahead", target="ball", where="here")
MISSED = call("search", "FAILED", "no ball to be seen here", target="ball", where="here")
SEARCHING = '<step><search target="ball"/></step>'


def test_it_reads_every_skill_back_from_the_prompt() -> None:
    shown = {s.name: line(s) for s in skills_in(S1)}
    assert shown == {s.name: line(s, OPTIONS.limits) for s in registry()}
    assert set(shown) == {s.name for s in skills_in(S2)}


# -- System 1's first action ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("Turn around and face the person.", '<rotate angle_deg="180"/>'),
        (BALL_TASK, '<search target="ball"/>'),
        ("Check what is on your left.", '<rotate angle_deg="90"/>'),
        ("Check what is on your right.", '<rotate angle_deg="-90"/>'),
        ("Go to the hallway.", '<nod times="1"/>'),
        ("How many places have you explored?", "<none/>"),
    ],
)
def test_the_first_action_fits_the_task_and_is_one_of_those_shown(instruction: str, expected: str) -> None:
    assert first_action(instruction, observed()) == expected


def test_the_first_action_is_no_nod_where_nods_are_counted() -> None:
    assert "nod" not in first_action("Go to the kitchen and nod three times.", observed())


def test_the_first_action_looks_around_only_where_the_thing_was_to_be_looked_for() -> None:
    assert first_action(CHAIR_TASK, observed("hallway")) == '<search target="chair"/>'
    assert first_action(CHAIR_TASK, observed("kitchen", (0.9, 2.3))) == '<nod times="1"/>'


# -- System 2 ---------------------------------------------------------------------------------------------------------


def test_the_plan_goes_to_the_room_first_unless_it_is_there() -> None:
    away = planned(CHAIR_TASK, observed("kitchen", (0.9, 2.3)))
    there = planned(CHAIR_TASK, observed("hallway"))
    assert away.index("Go to the hallway") < away.index("Look for a chair in the hallway")
    assert "Go to" not in there


def test_the_plan_keeps_where_the_task_began() -> None:
    assert "return to the start at x 9.5, y 2.5" in planned(BALL_TASK, observed("lounge", (9.5, 2.5)))
    assert "return to the start at x 0, y 0" in planned(BALL_TASK, observed())


def test_what_is_to_be_done_whenever_something_is_seen_is_an_event() -> None:
    text = planned("Patrol the hallway and take a picture whenever you see a bottle.", observed())
    assert "<event cond=\"visible('bottle')\">Take a picture</event>" in text
    assert "visible('ball')" in planned("Patrol the hallway until you see a ball.", observed())


def test_a_plan_that_fits_stays_and_one_that_lacks_something_is_mended() -> None:
    plan = plan_for(BALL_TASK, observed())
    assert planned(BALL_TASK, observed(at=(3.0, 0.0)), plan) == "<keep/>"
    short = Plan(1, True, plan.subtasks[:1])
    mended = planned(BALL_TASK, observed(), short)
    assert '<subtask id="t1"/>' in mended
    assert "bark twice" in mended


def test_the_task_is_given_up_when_every_way_has_failed_and_not_before() -> None:
    office = observed("office", (5.0, 2.4))
    plan = plan_for("Go to the hallway.", office)
    first = call("goto_waypoint", "FAILED", "the way is blocked", waypoint="hallway_middle")
    second = call("goto_waypoint", "FAILED", "the door is shut", waypoint="hallway_west")
    assert planned("Go to the hallway.", office, plan, [first]) == "<keep/>"
    given_up = planned("Go to the hallway.", office, plan, [first, second])
    assert given_up.startswith("<give_up>I cannot get to the hallway")
    assert "the door is shut" in given_up


def test_a_plan_whose_subtasks_are_done_is_achieved() -> None:
    plan = plan_for("Go to the kitchen.", observed(), done=1)
    done = [call("goto_waypoint", waypoint="kitchen")]
    assert planned("Go to the kitchen.", observed("kitchen"), plan, done) == "<achieved/>"


def test_what_it_does_not_understand_it_says() -> None:
    assert planned("Dance the tango.", observed()) == "<give_up>I do not know how to do this: Dance the tango.</give_up>"
    assert "I cannot recognise 'unicorn'" in planned("Find a unicorn.", observed())


# -- System 1 ---------------------------------------------------------------------------------------------------------


def test_steps_fill_the_room_that_there_is() -> None:
    plan = plan_for("Step back, turn left twice, and nod three times.", observed())
    for room in (1, 2, 3):
        assert steps("", plan, 0, observed(), room=room).count("<step>") == room
    assert steps("", plan, 0, observed(), room=3).endswith("</step>\n<subtask_complete/>"), "else it is asked for that alone"


def test_steps_go_on_after_what_is_done_runs_and_is_queued() -> None:
    task = "Step back, turn left twice, and nod three times."
    plan = plan_for(task, observed())
    text = steps(
        task,
        plan,
        0,
        observed(),
        done=[call("move_back", distance_m=0.5)],
        now=running('<step><rotate angle_deg="90"/></step>', call("rotate", angle_deg=90.0)),
        queue=['<step><rotate angle_deg="90"/></step>'],
    )
    assert text.split() == '<subtask_complete/> <subtask_complete/> <step><nod times="3"/></step> <subtask_complete/>'.split()


def test_what_depends_on_a_search_that_still_runs_stands_in_branches() -> None:
    plan = plan_for(ROOM_TASK, observed("lounge", (9.5, 2.5)))
    now = running(SEARCHING, call("search", target="ball"))
    text = steps(ROOM_TASK, plan, 0, observed("lounge", (9.5, 2.5)), now=now)
    assert text == '<step><if cond="visible(\'ball\')"><approach target="ball"/></if><else><sit/></else></step>'


def test_a_branch_that_runs_is_decided() -> None:
    lounge, plan = observed("lounge", (9.5, 2.5)), plan_for(ROOM_TASK, observed("lounge", (9.5, 2.5)))
    branches = '<step><if cond="visible(\'ball\')"><approach target="ball"/></if><else><sit/></else></step>'
    text = steps(ROOM_TASK, plan, 0, lounge, done=[FOUND], now=running(branches, call("approach", target="ball")))
    assert '<bark times="2"/>' in text and "approach" not in text
    text = steps(ROOM_TASK, plan, 0, lounge, done=[MISSED], now=running(branches, call("sit")))
    assert "<sit/>" not in text and text.count("<subtask_complete/>") == 3


def test_of_a_step_that_runs_only_what_is_still_to_come_counts_as_such() -> None:
    task = "Turn left three times."
    now = running('<step><rotate angle_deg="90"/><rotate angle_deg="90"/></step>', call("rotate", angle_deg=90.0))
    text = steps(task, plan_for(task, observed()), 0, observed(), now=now, room=3)
    assert text.count("<rotate") == 1


def test_a_thing_in_sight_of_the_place_is_not_in_the_place() -> None:
    plan = plan_for(CHAIR_TASK, observed())
    there = observed("hallway", (1.5, 0.0), [thing("chair", at=(4.8, 0.5))])
    through_the_door = observed("hallway", (1.5, 0.0), [thing("chair", at=(1.5, 3.0))])
    assert steps(CHAIR_TASK, plan, 0, there).startswith("<subtask_complete/>")
    assert steps(CHAIR_TASK, plan, 0, through_the_door).startswith('<step><search target="chair"/>')


def test_a_command_that_failed_twice_is_not_tried_again() -> None:
    plan, failed = plan_for("Sit down.", observed()), call("sit", "FAILED", "a leg is stuck")
    assert "<sit/>" in steps("Sit down.", plan, 0, observed(), done=[failed])
    assert steps("Sit down.", plan, 0, observed(), done=[failed, failed]) == "<nothing/>"
    assert planned("Sit down.", observed(), plan, [failed, failed]) == "<give_up>A leg is stuck</give_up>"


def test_what_a_search_found_decides_what_follows() -> None:
    lounge, plan = observed("lounge", (9.5, 2.5)), plan_for(ROOM_TASK, observed("lounge", (9.5, 2.5)))
    found = steps(ROOM_TASK, plan, 0, lounge, done=[FOUND])
    missed = steps(ROOM_TASK, plan, 0, lounge, done=[MISSED])
    assert '<approach target="ball"/>' in found and '<bark times="2"/>' in found and "<sit/>" not in found
    assert "<sit/>" in missed and "approach" not in missed
    away = steps(ROOM_TASK, plan, 0, observed("lounge", (8.0, 2.5)), done=[MISSED])
    assert '<nav x_m="9.5" y_m="2.5"/>' in away or '<goto_waypoint waypoint="lounge"/>' in away


def test_the_next_place_to_look_is_the_nearest_that_was_not_checked() -> None:
    plan = plan_for(BALL_TASK, observed())
    first = steps(BALL_TASK, plan, 0, observed(), done=[MISSED], room=1)
    went = [MISSED, call("goto_waypoint", waypoint="kitchen"), MISSED]
    second = steps(BALL_TASK, plan, 0, observed("kitchen", (1.5, 2.4)), done=went, room=1)
    assert first == '<step><goto_waypoint waypoint="kitchen"/></step>'
    assert second == '<step><goto_waypoint waypoint="office"/></step>'


def test_a_call_that_was_interrupted_goes_on_with_the_rest() -> None:
    plan = plan_for("Turn left.", observed())
    cut = call("rotate", "INTERRUPTED", "turned 43 of 90 degrees", angle_deg=90.0)
    assert '<rotate angle_deg="47"/>' in steps("Turn left.", plan, 0, observed(), done=[cut])


def test_what_was_fired_is_answered_before_the_subtask() -> None:
    task = "Patrol the hallway and take a picture whenever you see a bottle."
    event = GlobalEvent("e1", "visible('bottle')", "Take a picture")
    text = steps(task, plan_for(task, observed()), 0, observed(), fired=[event])
    assert text.index("<take_pic/>") < text.index("<patrol")


def test_what_it_says_it_sees_is_what_is_in_sight() -> None:
    task = "Check what is on your left."
    plan, done = plan_for(task, observed()), [call("rotate", message="turned 90 of 90 degrees", angle_deg=90.0)]
    assert "a chair 2.5 metres away" in steps(task, plan, 0, observed(things=[thing("chair", 2.5)]), done=done)
    assert "nothing that I know" in steps(task, plan, 0, observed(), done=done)
    assert "cannot see" in steps(task, plan, 0, observed(things=None), done=done)
    turning = running('<step><rotate angle_deg="90"/></step>', call("rotate", angle_deg=90.0))
    assert steps(task, plan, 0, observed(), now=turning) == "<nothing/>"


def test_a_subtask_that_names_a_place_is_done_there_and_not_where_the_thing_is_in_sight() -> None:
    kitchen = observed("kitchen", (0.9, 2.3), [thing("chair", at=(-0.85, 2.2))])
    text = steps(CHAIR_TASK, plan_for(CHAIR_TASK, kitchen), 0, kitchen)
    assert text.startswith('<step><goto_waypoint waypoint="hallway_')
    whole = Plan(1, True, (Subtask("t1", CHAIR_TASK),))
    assert steps(CHAIR_TASK, whole, 0, kitchen).startswith("<step><goto_waypoint")
    assert steps(CHAIR_TASK, whole, 0, kitchen, greedy=True).startswith("<step><take_pic/>")
