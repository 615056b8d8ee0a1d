# SPDX-License-Identifier: Apache-2.0
"""The simulated model as judge, as System 3, and in the strategies that have no layers: other facts, another answer."""

from __future__ import annotations

import re

import pytest
from kalos_fake import config, registry
from layer_prompts import advised, baseline, call, judged, observed, planned, said, stream_planner, thing

from bench.baselines import PlanAndExecutePlanner, ReactPlanner
from bench.dry_run import dry_run
from function_tokens.mapper import Mapper
from planners.strategies.turns import Known, TurnResult

BALL_TASK = (
    "Look around for a sports ball. If you find one, walk up to it and bark twice. If you've checked the whole area and "
    "there's none, return to the start and sit down."
)
ROOM_TASK = BALL_TASK.replace("around for", "around this room for").replace("whole area", "whole room")
CHAIR_TASK = "Look for a chair in the hallway and take a picture of it."
FOUND = call("search", message="ball 1.8 m away, straight ahead", target="ball", where="here")
MISSED = call("search", "FAILED", "no ball to be seen here", target="ball", where="here")


# -- the judge and System 3 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "observation", "verdict"),
    [
        ("a person is in sight", observed(things=[thing("person")]), "yes"),
        ("a person is in sight", observed(), "no"),
        ("a person is in sight", observed(things=None), "unknown"),
        ("nobody is here", observed(), "yes"),
        ("a ball is closer than 2 m", observed(things=[thing("ball", 1.5)]), "yes"),
        ("a ball is closer than 2 m", observed(things=[thing("ball", 2.5)]), "no"),
        ("the battery is below 20 percent", observed(battery=12), "yes"),
        ("the robot is in the kitchen", observed("kitchen"), "yes"),
        ("the robot is in the kitchen", observed("lobby"), "no"),
        ("something is closer than 1 m in front", observed(obstacles={"front": 0.4, "left": "free"}), "yes"),
        ("something is closer than 1 m in front", observed(obstacles={"front": "free", "left": 0.4}), "no"),
        ("something is closer than 1 m", observed(obstacles={"stale_s": 0.8, "last": {"front": 0.4}}), "unknown"),
        ("it rains", observed(), "unknown"),
    ],
)
def test_the_judge_goes_by_the_observation(sentence: str, observation: dict[str, object], verdict: str) -> None:
    assert re.match(r"\w+", judged(sentence, observation)).group() == verdict  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("instruction", "relation"),
    [
        ("Stop, check what is on your left, then resume.", "return"),
        ("How many places have you explored?", "join"),
        ("Say hello.", "join"),
        ("Go to the kitchen.", "replace"),
    ],
)
def test_a_new_instruction_replaces_joins_or_returns(instruction: str, relation: str) -> None:
    assert advised(instruction) == f'<relation process="p1" is="{relation}"/>'


def test_a_guideline_fires_by_what_is_seen() -> None:
    guidelines = [{"name": "greet", "sentence": "You may pause a non-emergency task to engage a nearby person."}]
    assert advised(guidelines=guidelines, observation=observed()) == "<nothing/>"
    fired = advised(guidelines=guidelines, observation=observed(things=[thing("person", 1.0)]))
    assert fired == '<react guideline="greet">Go to the person and say hello</react>'


# -- the baselines and the stream -------------------------------------------------------------------------------------


def test_step_by_step_planning_takes_what_is_in_sight_where_it_is_greedy() -> None:
    kitchen = observed("kitchen", (0.9, 2.3), [thing("chair", at=(-0.85, 2.2))])
    request = baseline(ReactPlanner).begin(CHAIR_TASK, known=Known(kitchen))
    assert said(request, greedy=True).endswith("</think><take_pic/>")
    assert "<goto_waypoint" in said(request)
    nothing = baseline(ReactPlanner).begin(CHAIR_TASK, known=Known(observed("kitchen", (0.9, 2.3))))
    assert "<goto_waypoint" in said(nothing, greedy=True)


def test_step_by_step_planning_goes_by_the_trace() -> None:
    planner = baseline(ReactPlanner)
    assert said(planner.begin(ROOM_TASK, known=Known(observed("lounge", (9.5, 2.5))))).endswith('<search target="ball"/>')
    lounge = observed("lounge", (9.5, 2.5), [thing("ball")])
    assert said(planner.follow(TurnResult("end", calls=[FOUND]), known=Known(lounge))).endswith('<approach target="ball"/>')
    planner.begin(ROOM_TASK, known=Known(observed("lounge", (9.5, 2.5))))
    after = planner.follow(TurnResult("end", calls=[MISSED]), known=Known(observed("lounge", (9.5, 2.5))))
    assert said(after).endswith("<sit/>")


def test_a_place_where_it_is_already_is_not_gone_to() -> None:
    task = "Go to the kitchen, then to the office, then to the kitchen."
    planner = baseline(ReactPlanner)
    kitchen, office = observed("kitchen", (1.5, 2.4)), observed("office", (5.2, 2.3))
    went = [call("goto_waypoint", waypoint="office"), call("goto_waypoint", waypoint="kitchen")]
    assert 'waypoint="office"' in said(planner.begin(task, known=Known(kitchen)))
    assert 'waypoint="kitchen"' in said(planner.follow(TurnResult("end", calls=went[:1]), known=Known(office)))
    assert "<plan_done/>" in said(planner.follow(TurnResult("end", calls=went[1:]), known=Known(kitchen)))
    assert 'waypoint="kitchen"' in said(baseline(ReactPlanner).begin(task, known=Known(office)))


def test_a_room_that_is_gone_to_anyway_is_no_subtask_twice() -> None:
    text = planned("Go to the lounge and look for a ball there.", observed())
    assert text.count("Go to the lounge") == 1 and "Look for a ball in the lounge" in text


def test_a_whole_plan_is_made_as_if_all_went_well() -> None:
    request = baseline(PlanAndExecutePlanner).begin(BALL_TASK, known=Known(observed()))
    calls = re.findall(r"<(\w+) ?[^>]*/>", said(request))
    assert calls == ["search", "approach", "bark"]
    back = baseline(PlanAndExecutePlanner).begin("Go to the kitchen, then come back.", known=Known(observed()))
    assert re.findall(r'waypoint="(\w+)"', said(back)) == ["kitchen", "hallway_west"]


def test_a_stream_stops_where_a_result_is_needed_and_goes_on_from_it() -> None:
    planner = stream_planner()
    first = said(planner.begin(ROOM_TASK, known=Known(observed("lounge", (9.5, 2.5)))))
    assert first == '<search target="ball"/><observe/>'
    planner.wrote(first)
    lounge = observed("lounge", (9.5, 2.5), [thing("ball")])
    second = said(planner.follow(TurnResult("observe", calls=[FOUND]), known=Known(lounge)))
    assert second == '<wait><approach target="ball"/></wait><bark times="2"/>'


@pytest.mark.parametrize(
    "instruction",
    [
        BALL_TASK,
        CHAIR_TASK,
        "Turn around and face the person.",
        "Step back, turn left twice, and nod three times.",
        "Go to the lounge, take a picture, then sit down and say hello.",
        "Find an apple in the kitchen or the office and report.",
        "Go to the kitchen, the office and the lobby, then come back.",
        "Follow the person for 20 seconds.",
    ],
)
def test_whatever_it_plans_the_robot_can_do(instruction: str) -> None:
    mapper = Mapper(config(), registry())
    for request in (
        baseline(PlanAndExecutePlanner).begin(instruction, known=Known(observed())),
        stream_planner().begin(instruction, known=Known(observed())),
    ):
        run = dry_run(said(request), mapper, mode="strict")
        assert run.error is None
        assert all(c.outcome == "DONE" for c in run.calls)
