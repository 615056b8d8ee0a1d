# SPDX-License-Identifier: Apache-2.0
"""The first action of a process: one allowed call, at once, and never too late."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from layered_kit import Asked, Bench, Says

from planners.prompts.blocks import Layer
from planners.strategy import Interrupted, Paused

GOOD = "<step><nod/></step><subtask_complete/>"


def first(text: Says | str, then: Says | str = GOOD) -> Callable[[Asked], Says | str]:
    return lambda asked: text if asked.layer is Layer.S1P else then


def test_the_first_action_runs_before_there_is_a_plan() -> None:
    bench = Bench(first('<walk s="2"/>'))
    bench.run(1.5)
    assert [a["function"] for a in bench.planner._book.shown_running()[1:]] == ["walk"]
    bench.plan("walk and nod")
    bench.run(10)
    assert bench.calls() == ["walk", "nod"] and bench.ended == [(0, "")]
    assert bench.model.of()[0].blocks["RUNNING"][1]["function"] == "walk"


def test_a_first_action_that_comes_after_the_first_question_is_thrown_away() -> None:
    bench = Bench(first(Says('<walk s="2"/>', delay_s=1.0)))
    bench.plan("nod")
    bench.run(10)
    assert bench.calls() == ["nod"] and bench.model.of(Layer.S1P)[0].cancelled


@pytest.mark.parametrize("event", ["pause", "interrupt", "end"])
def test_a_first_action_is_thrown_away_when_the_process_stands_still(event: str) -> None:
    bench = Bench(first(Says("<nod/>", delay_s=1.0)))
    bench.run(0.2)
    if event == "end":
        bench.planner.close("the process has ended")
    else:
        bench.hear(Paused() if event == "pause" else Interrupted("a test"))
    bench.run(3)
    assert bench.calls() == []


@pytest.mark.parametrize("answer", ["<turn/>", "<nod>Hi</nod>", "Hello!", "<nod s='much'/>", "", "<step><nod/></step>"])
def test_only_one_allowed_call_may_be_the_first_action(answer: str) -> None:
    bench = Bench(first(answer), settings={"plan_wait_s": 60})
    bench.run(10)
    assert bench.calls() == [] and len(bench.model.of(Layer.S1P)) == 2
    assert bench.of("degraded")[0][0] is Layer.S1P


def test_no_first_action_is_no_fault() -> None:
    bench = Bench(first("<none/>"), settings={"plan_wait_s": 60})
    bench.run(10)
    assert bench.calls() == [] and bench.of("degraded") == []


def test_a_second_tag_in_the_answer_is_not_performed() -> None:
    bench = Bench(first("<nod/><walk/>"), settings={"plan_wait_s": 60})
    bench.run(10)
    assert bench.calls() == ["nod"]


def test_without_allowed_actions_nothing_is_asked() -> None:
    bench = Bench(first("<nod/>"), first_actions=(), settings={"plan_wait_s": 60})
    bench.run(10)
    assert bench.model.questions == []


@pytest.mark.parametrize(("seconds", "asked_early"), [(2, True), (9, False)])
def test_half_a_plan_is_no_question_while_a_long_first_action_keeps_the_robot_busy(seconds: int, asked_early: bool) -> None:
    bench = Bench(first(f'<walk s="{seconds}"/>'), settings={"plan_wait_s": 60})
    bench.run(1)
    bench.plan("nod", complete=False)
    bench.run(0.5)
    assert bool(bench.model.of()) is asked_early
    bench.plan("nod", revision=2)
    bench.run(20)
    assert len(bench.model.of()) == 1 and bench.ended == [(0, "")]


def test_half_a_plan_is_a_question_once_the_first_action_is_over() -> None:
    bench = Bench(first('<walk s="5"/>'), settings={"plan_wait_s": 60})
    bench.run(1)
    bench.plan("nod", complete=False)
    bench.run(8)
    assert [asked.time_s > 4.9 for asked in bench.model.of()][:1] == [True] and "nod" in bench.calls()
