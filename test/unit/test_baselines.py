# SPDX-License-Identifier: Apache-2.0
"""ReAct and plan-and-execute: when they ask, what they are told, and how a task ends."""

from __future__ import annotations

from typing import Any

import pytest
from layer_prompts import baseline, call, observed, thing

from bench.baselines import FAILED_TURNS, LOST_ANSWERS, STEPS_A_TURN, PlanAndExecutePlanner, ReactPlanner
from bench.performing import SETTINGS
from bench.reading import layer_of, read_blocks
from planners.models.base import ModelRequest
from planners.prompts.blocks import Layer
from planners.strategies.turns import Known, PlanEnded, TurnResult
from skill_kernel.codes import ModelCode, ParseCode, TaskCode

FAILED = call("goto_waypoint", "FAILED", "the way is blocked", waypoint="kitchen")


def react() -> Any:
    planner = baseline(ReactPlanner)
    planner.begin("Go to the kitchen.", sender="ann", known=Known(observed()))
    return planner


def blocks(request: ModelRequest | PlanEnded) -> dict[str, list[Any]]:
    assert isinstance(request, ModelRequest)
    return read_blocks(request.messages[-1].text)


@pytest.mark.parametrize(("kind", "layer"), [(ReactPlanner, Layer.REACT), (PlanAndExecutePlanner, Layer.PLAN_AND_EXECUTE)])
def test_nothing_is_performed_before_the_whole_answer_is_there(kind: Any, layer: Layer) -> None:
    planner = baseline(kind)
    request = planner.begin("Nod.", known=Known(observed()))
    assert planner.whole and planner.layer is layer is layer_of(request.system)
    assert request.system == planner.begin("Sit.", known=Known(observed("kitchen"))).system


def test_the_first_question_holds_the_task_where_it_began_and_what_is_observed() -> None:
    request = baseline(ReactPlanner).begin("Nod.", sender="ann", known=Known(observed("lobby", (7.0, -2.0), [thing("ball")])))
    told = blocks(request)
    start = {"pose": {"x_m": 7.0, "y_m": -2.0, "heading_deg": 0}, "room": "lobby", "object_detections": ["ball"]}
    assert told["TASK"] == [{"instruction": "Nod.", "from": "ann", "at_start": start}]
    assert "DONE" not in told and told["OBSERVATION"][0]["room"] == "lobby"


def test_each_turn_is_told_all_that_was_done_and_what_was_seen_then() -> None:
    planner = react()
    planner.follow(TurnResult("end", calls=[FAILED]), known=Known(observed("hallway")))
    request = planner.follow(TurnResult("end", calls=[call("nod", times=1)]), known=Known(observed("lobby")))
    done = blocks(request)["DONE"]
    assert [(d["function"], d["outcome"], d["then"]["room"]) for d in done] == [
        ("goto_waypoint", "FAILED", "hallway"),
        ("nod", "DONE", "lobby"),
    ]
    assert done[0]["message"] == "the way is blocked"


def test_what_was_done_before_a_plan_was_made_anew_is_told() -> None:
    for kind in (ReactPlanner, PlanAndExecutePlanner):
        request = baseline(kind).begin("Nod.", known=Known(observed()), done=[call("nod", times=2)])
        assert blocks(request)["DONE"][0]["function"] == "nod"


def test_react_ends_at_plan_done_and_tells_a_failure_that_nothing_made_good() -> None:
    assert react().follow(TurnResult("plan_done")) == PlanEnded()
    planner = react()
    planner.follow(TurnResult("failure", calls=[FAILED]), known=Known(observed()))
    planner.follow(TurnResult("end", calls=[call("text")]), known=Known(observed()))
    ended = planner.follow(TurnResult("plan_done"), known=Known(observed()))
    assert ended.code == TaskCode.CALL_FAILED and "the way is blocked" in ended.message
    planner.begin("Go to the kitchen.")
    planner.follow(TurnResult("failure", calls=[FAILED]))
    planner.follow(TurnResult("end", calls=[call("goto_waypoint", waypoint="kitchen")]))
    assert planner.follow(TurnResult("plan_done")) == PlanEnded()


def test_react_asks_again_for_a_lost_answer_and_gives_up_in_time() -> None:
    planner = react()
    for number in range(LOST_ANSWERS):
        request = planner.follow(TurnResult("error", int(ModelCode.MODEL_TIMEOUT), f"silent {number}"))
        assert blocks(request)["FAULTS"] == [f"silent {number}"]
    ended = planner.follow(TurnResult("error", int(ModelCode.MODEL_TIMEOUT), "silent"))
    assert ended == PlanEnded(int(ModelCode.MODEL_TIMEOUT), "silent")


def test_react_shows_the_model_what_was_wrong_with_its_answer() -> None:
    broken = react().follow(TurnResult("error", int(ParseCode.SYNTAX), "a tag is not closed"))
    mended = react().follow(TurnResult("end", calls=[call("nod")], repairs=["a stray <"]))
    assert blocks(broken)["FAULTS"] == ["a tag is not closed"]
    assert blocks(mended)["FAULTS"] == ["a stray <"]
    assert "held no call" in blocks(react().follow(TurnResult("end")))["FAULTS"][0]


def test_an_answer_counts_as_lost_only_in_a_row() -> None:
    planner = react()
    for _ in range(3 * LOST_ANSWERS):
        planner.follow(TurnResult("end"))
        assert isinstance(planner.follow(TurnResult("end", calls=[call("nod", times=1)])), ModelRequest)


@pytest.mark.parametrize("code", [ModelCode.MODEL_AUTH, ModelCode.MODEL_REFUSED, TaskCode.NODE_UNAVAILABLE])
def test_what_asking_again_cannot_mend_ends_the_task(code: int) -> None:
    assert react().follow(TurnResult("error", int(code), "why")) == PlanEnded(int(code), "why")


def test_react_ends_after_failures_in_a_row_and_after_too_many_calls() -> None:
    planner = react()
    steps = [planner.follow(TurnResult("failure", calls=[FAILED])) for _ in range(FAILED_TURNS)]
    assert [isinstance(s, PlanEnded) for s in steps] == [False] * (FAILED_TURNS - 1) + [True]
    planner.begin("Nod for ever.")
    turns = SETTINGS["max_turns"] * STEPS_A_TURN
    steps = [planner.follow(TurnResult("end", calls=[call("nod", times=1)])) for _ in range(turns)]
    assert all(isinstance(s, ModelRequest) for s in steps[:-1])
    assert steps[-1].code == TaskCode.TURN_LIMIT


def test_an_interrupt_ends_both() -> None:
    for kind in (ReactPlanner, PlanAndExecutePlanner):
        planner = baseline(kind)
        planner.begin("Nod.")
        assert planner.follow(TurnResult("interrupt", error="halt")) == PlanEnded(int(TaskCode.CANCELLED), "halt")


def test_plan_and_execute_asks_once_whatever_comes_of_it() -> None:
    planner = baseline(PlanAndExecutePlanner)
    planner.begin("Go to the kitchen.")
    assert planner.follow(TurnResult("end", calls=[call("nod")])) == PlanEnded()
    failed = planner.follow(TurnResult("failure", calls=[FAILED]))
    assert failed.code == TaskCode.CALL_FAILED and "blocked" in failed.message
    planner.begin("Go to the kitchen.")
    assert planner.follow(TurnResult("end")).code == TaskCode.CALL_FAILED
    lost = TurnResult("error", int(ModelCode.MODEL_TIMEOUT), "silent")
    assert planner.follow(lost) == PlanEnded(int(ModelCode.MODEL_TIMEOUT), "silent")
