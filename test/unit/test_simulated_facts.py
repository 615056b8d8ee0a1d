# SPDX-License-Identifier: Apache-2.0
"""The simulated model knows nothing but the prompt: one fact in it is changed, and another answer is expected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from layer_prompts import S1, Observation, advised, baseline, call, observed, plan_for, planned, running, said, steps, thing

from bench.baselines import PlanAndExecutePlanner, ReactPlanner
from bench.simulated_model.layers import answer
from bench.simulated_model.prompt import Question
from planners.plan import Plan, Subtask
from planners.prompts.prompt import CallReport
from planners.strategies.layered.prompts import background_of, step_message
from planners.strategies.turns import Known, TurnResult
from planners.strategy import Task

LOUNGE = observed("lounge", (9.5, 2.5))
BALL = "Look for a ball in the lounge. If you find one, walk up to it and bark twice."


def first_step(instruction: str, observation: Observation, *done: CallReport, system: str = S1) -> str:
    """Return the first step of System 1 for a plan that is the instruction itself, as one subtask."""
    subtask = Subtask("t1", instruction)
    text = step_message(
        background_of(Task("p1", instruction)), plan=(subtask,), subtask=subtask, observation=observation, room=1, done=done
    )
    found = re.search(r"<step>(.*?)</step>", answer(Question(system, (text,))))
    return found[1] if found else ""


def react(instruction: str, observation: Observation, *done: CallReport) -> str:
    """Return the call of ReAct after some calls."""
    planner = baseline(ReactPlanner)
    request = planner.begin(instruction, known=Known(observation))
    if done:
        request = planner.follow(TurnResult("end", calls=list(done)), known=Known(observation))
    return said(request).partition("</think>")[2]


@pytest.mark.parametrize(
    ("at", "expected"),
    [((9.0, 3.0), '<approach target="ball"/>'), ((5.2, 2.0), '<search target="ball"/>')],
    ids=["in the lounge", "in the office, through the door"],
)
def test_in_which_room_the_ball_lies(at: tuple[float, float], expected: str) -> None:
    seen = {**LOUNGE, "object_detections": [thing("ball", at=at)]}
    assert first_step(BALL, seen) == expected
    assert react(BALL, seen) == expected


def test_how_far_the_chair_is() -> None:
    near, far = (observed(things=[thing("chair", metres)]) for metres in (2.5, 4.5))
    assert first_step("Take a picture of the chair.", near) == "<take_pic/>"
    assert first_step("Take a picture of the chair.", far) == '<approach target="chair" distance_m="2"/>'


def test_on_which_side_something_was_to_be_seen() -> None:
    sides = {"left": "90", "right": "-90"}
    for side, angle in sides.items():
        task, rotate = f"Check what is on your {side}.", f'<rotate angle_deg="{angle}"/>'
        assert first_step(task, observed()) == rotate
        assert said(baseline(PlanAndExecutePlanner).begin(task, known=Known(observed()))).endswith(rotate)


def test_whether_a_door_is_shut() -> None:
    office = observed("office", (5.0, 2.4))
    plan = plan_for("Go to the hallway.", office)
    went = call("goto_waypoint", waypoint="hallway_middle")
    shut = [call("goto_waypoint", "FAILED", "the door is shut", waypoint=f"hallway_{end}") for end in ("middle", "west")]
    assert planned("Go to the hallway.", observed(), plan, [went]) == "<keep/>"
    assert (
        planned("Go to the hallway.", office, plan, shut) == "<give_up>I cannot get to the hallway: the door is shut</give_up>"
    )
    assert "I could not do it: I cannot get to the hallway: the door is shut." in react("Go to the hallway.", office, *shut)


@pytest.mark.parametrize(
    ("outcome", "expected"), [("DONE", "<plan_done/>"), ("FAILED", "I could not do it: I do not see a person.")]
)
def test_whether_a_person_is_there(outcome: str, expected: str) -> None:
    done = (call("rotate", angle_deg=180.0), call("search", outcome, target="person", where="here"))
    assert react("Turn around and face the person.", observed(), *done) == expected


def test_what_was_done_already() -> None:
    task, chair = "Take a picture of the chair, then sit down.", observed(things=[thing("chair", 1.5)])
    assert react(task, chair) == "<take_pic/>"
    assert react(task, chair, call("take_pic")) == "<sit/>"
    assert react(task, chair, call("take_pic"), call("sit")) == "<plan_done/>"


@pytest.mark.parametrize(("word", "times"), [("three times", "3"), ("once", "1"), ("five times", "5")])
def test_how_often_it_was_asked_for(word: str, times: str) -> None:
    assert first_step(f"Nod {word}.", observed()) == f'<nod times="{times}"/>'


@pytest.mark.parametrize(("task", "expected"), [("Sit down.", "<sit/>"), ("坐下", "<sit/>"), ("Setz dich hin.", None)])
def test_the_language_of_the_task(task: str, expected: str | None) -> None:
    refused = "I do not know how to do this"
    assert first_step(task, observed()) == expected if expected else first_step(task, observed()).startswith(refused)


@pytest.mark.parametrize(("charge", "expected"), [(12, '<react guideline="rest">Sit down</react>'), (80, "<nothing/>")])
def test_the_charge_of_the_battery(charge: int, expected: str) -> None:
    guideline = {"name": "rest", "sentence": "If the battery is below 20 percent, sit down."}
    assert advised(guidelines=[guideline], observation=observed(battery=charge)) == expected


def test_the_names_of_the_places() -> None:
    elsewhere = S1.replace("kitchen", "library")
    assert first_step("Go to the library.", observed(), system=elsewhere) == '<goto_waypoint waypoint="library"/>'
    assert first_step("Go to the library.", observed()).startswith("I know no “library”")
    assert first_step("Go to the kitchen.", observed(), system=elsewhere).startswith("I know no “kitchen”")


def test_the_order_of_the_words() -> None:
    calls = ['<move_back distance_m="0.5"/>', '<rotate angle_deg="90"/>', '<nod times="3"/>']
    orders: Mapping[str, tuple[int, ...]] = {
        "Step back 0.5 metres, turn left, and nod three times.": (0, 1, 2),
        "Nod three times, turn left, and step back 0.5 metres.": (2, 1, 0),
    }
    for task, order in orders.items():
        text = steps(task, Plan(1, True, (Subtask("t1", task),)), 0, observed())
        assert re.findall(r"<step>(.*?)</step>", text) == [calls[i] for i in order]


@pytest.mark.parametrize(("place", "at"), [("kitchen", (1.5, 2.4)), ("lounge", (9.5, 2.5))])
def test_where_the_task_began(place: str, at: tuple[float, float]) -> None:
    planner = baseline(ReactPlanner)
    planner.begin("Go to the lobby, then come back.", known=Known(observed(place, at)))
    done = call("goto_waypoint", waypoint="lobby")
    text = said(planner.follow(TurnResult("end", calls=[done]), known=Known(observed("lobby", (7.0, -2.2)))))
    assert text.endswith(f'<goto_waypoint waypoint="{place}"/>')


def test_how_many_are_in_sight() -> None:
    chairs: list[dict[str, Any]] = [thing("chair", 1.0), thing("chair", 2.0)]
    assert first_step("Tell me how many chairs you see.", observed(things=chairs)) == "I see 2 chairs."
    assert first_step("Tell me how many chairs you see.", observed(things=chairs[:1])) == "I see 1 chair."


def test_which_skills_there_are() -> None:
    without = re.sub(r"^take_pic\(.*\n", "", S1, flags=re.MULTILINE)
    chair = observed(things=[thing("chair", 1.5)])
    assert first_step("Take a picture of the chair.", chair, system=without).startswith("I do not know how to do this")


def test_what_runs_and_what_is_queued() -> None:
    task = "Turn left, then sit down."
    plan = Plan(1, True, (Subtask("t1", task),))
    turning = running('<step><rotate angle_deg="90"/></step>', call("rotate", angle_deg=90.0))
    assert steps(task, plan, 0, observed(), now=turning).startswith("<step><sit/></step>")
    assert steps(task, plan, 0, observed(), now=turning, queue=["<step><sit/></step>"]) == "<subtask_complete/>"
