# SPDX-License-Identifier: Apache-2.0
"""System 2 comes to an end: failures without progress, revisions, budgets, and whoever waits for it is told."""

from __future__ import annotations

import pytest
from task_kit import OLD, PLAN, SILENT, Bench, planned

from planners.prompts.prompt import CallReport
from planners.strategies.layered.task_planner import GAP_S
from skill_kernel.codes import ModelCode


def lives_on_failures(bench: Bench, answer: str, gap_s: float = 4.0, most: int = 60) -> int:
    """Return how many failures a task survives whose every review is answered so."""
    for number in range(most):
        if bench.plans[-1].over:
            return number
        bench.fail(number)
        bench.run(gap_s)
        if bench.running:
            bench.reply(answer.replace("#", str(number)))
    return most


@pytest.mark.parametrize("answer", ["<keep/>", PLAN, '<subtask id="t1"/><subtask id="t2"/>'])
def test_the_same_plan_failing_again_and_again_is_given_up(answer: str) -> None:
    bench = planned()
    assert lives_on_failures(bench, answer) == OLD["max_repeats"]
    assert "same plan has failed 3 times" in bench.plans[-1].reason and "blocked" in bench.plans[-1].reason


def test_a_subtask_that_is_done_as_planned_is_no_reason_to_ask() -> None:
    bench = Bench(["<subtask>Step back</subtask><subtask>Turn left</subtask><subtask>If it is dark, nod</subtask>"])
    bench.run(3.0)
    bench.planner.subtask_done("t1")
    bench.run(10.0)
    assert len(bench.asked) == 1
    bench.planner.subtask_done("t2")
    bench.run(3.0)
    assert [q.blocks["WHY"] for q in bench.asked[1:]] == [["subtask t2 is done"]]


def test_a_failure_that_is_an_answer_makes_it_look_again_and_is_no_reason_to_give_up() -> None:
    bench = planned()
    asked = len(bench.asked)
    for number in range(20):
        report = CallReport("search", {"target": "ball"}, "FAILED", "no ball to be seen here")
        bench.planner.call_ended(f"s{number}", report, grave=False)
        bench.run(4.0)
        if bench.running:
            bench.reply("<keep/>")
    assert not bench.plans[-1].over and len(bench.asked) > asked


def test_plans_that_alternate_or_are_ever_new_are_given_up_too() -> None:
    bench = planned()
    assert lives_on_failures(bench, "<subtask>try way number #</subtask>") == OLD["max_failures"]
    assert "8 failures in a row" in bench.plans[-1].reason
    bench = planned()
    for number in range(20):
        if bench.plans[-1].over:
            break
        bench.fail(number)
        bench.run(4.0)
        if bench.running:
            bench.reply(f"<subtask>{'left' if number % 2 else 'right'}</subtask>")
    assert bench.plans[-1].given_up and number <= 8


def test_without_a_model_a_task_that_only_fails_is_given_up_as_well() -> None:
    bench = Bench([ModelCode.MODEL_CONNECTION] * 200)
    bench.run(3.0)
    for number in range(OLD["max_failures"]):
        assert not bench.plans[-1].over
        bench.fail(number)
        bench.run(4.0)
    assert bench.plans[-1].given_up and "blocked" in bench.plans[-1].reason


def test_progress_gives_new_patience_and_failures_at_one_moment_count_as_one() -> None:
    bench = planned("".join(f"<subtask>go {n}</subtask>" for n in range(9)))
    for number in range(9):
        for part in range(10):
            bench.fail(part)
        bench.run(2.0)
        bench.reply("<keep/>")
        bench.fail()
        bench.planner.subtask_done(f"t{number + 1}")
        bench.run(2.0)
        if bench.running:
            bench.reply("<keep/>")
    assert not bench.plans[-1].given_up


def test_a_plan_is_changed_a_bounded_number_of_times() -> None:
    bench = planned(settings=OLD | {"max_revisions": 4})
    for number in range(20):
        bench.planner.paused(True)
        bench.planner.paused(False)
        bench.run(4.0)
        if bench.running:
            bench.reply(f"<subtask>way {number}</subtask>")
    assert len(bench.asked) == 5 and ("skipped", "the plan was changed 4 times already, and stays now as it is") in bench.told


def kept(bench: Bench) -> int:
    return sum(p.reason == "kept" for p in bench.plans)


def test_whoever_waits_because_of_a_failure_hears_that_the_question_is_put_off() -> None:
    bench = planned()
    bench.allowed = (True, 16.0, "90% used")
    bench.fail()
    bench.run(1.0)
    assert kept(bench) == 1 and len(bench.asked) == 1, "the plan stays for the time being"
    bench.allowed, bench.answers = (True, 0.0, ""), ["<subtask>another way</subtask>"]
    bench.run(18.0)
    assert len(bench.asked) == 2 and bench.shown == [("t3", "another way", "ACTIVE")] and kept(bench) == 1


def test_whoever_waits_because_of_a_failure_hears_that_nothing_may_be_asked() -> None:
    bench = planned()
    bench.allowed = (False, 0.0, "spent")
    bench.fail()
    bench.run(60.0)
    assert kept(bench) == 1 and len(bench.asked) == 1
    bench.fail(1)
    bench.run(9.0)
    assert kept(bench) == 2, "the next failure is waited for, too"


def test_whoever_waits_because_of_a_failure_hears_that_no_usable_answer_came() -> None:
    bench = planned()
    bench.answers = [SILENT]
    bench.fail()
    bench.run(0.2 + GAP_S + OLD["deadline_s"] + 0.1)
    assert kept(bench) == 1
    faulty = planned()
    faulty.answers = [ModelCode.MODEL_SERVER] * 5
    faulty.planner.paused(True)
    faulty.planner.paused(False)
    faulty.run(25.0)
    asked = len(faulty.asked)
    assert kept(faulty) == 0, "nobody waits"
    faulty.fail()
    faulty.run(0.5)
    assert len(faulty.asked) == asked and kept(faulty) == 1, "the next question is half a minute away"


def test_whoever_waits_because_of_a_failure_hears_that_the_plan_is_not_changed_any_more() -> None:
    bench = planned(settings=OLD | {"max_revisions": 0})
    bench.fail()
    bench.run(2.0)
    assert kept(bench) == 1 and len(bench.asked) == 1
    assert bench.shown[0][1] == "Find the ball", "the first plan is no change"


def test_a_spent_budget_leaves_the_plan_as_it_is_or_makes_the_instruction_the_plan() -> None:
    bench = planned()
    bench.allowed = (False, 0.0, "spent: raise process_tokens")
    bench.fail()
    bench.run(60.0)
    assert len(bench.asked) == 1 and bench.told == [("skipped", "spent: raise process_tokens")]
    bench.allowed = (True, 0.0, "")
    bench.run(11.0)
    assert len(bench.asked) == 2
    poor = Bench()
    poor.allowed = (False, 0.0, "spent")
    poor.run(30.0)
    assert poor.asked == [] and poor.shown == [("t1", poor.instruction, "ACTIVE")] and len(poor.plans) == 1


def test_a_spent_budget_replaces_no_plan_that_somebody_may_still_have() -> None:
    bench = Bench(adopted=40)
    bench.allowed = (False, 0.0, "spent")
    bench.run(30.0)
    assert bench.plans == [] and bench.asked == []


def test_a_scarce_budget_makes_it_wait_between_questions() -> None:
    bench = planned()
    bench.allowed = (True, 7.0, "90 % are used")
    bench.fail()
    bench.run(1.0)
    bench.allowed = (True, 0.0, "")
    bench.run(5.0)
    assert len(bench.asked) == 1
    bench.run(2.0)
    assert len(bench.asked) == 2
