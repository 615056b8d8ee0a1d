# SPDX-License-Identifier: Apache-2.0
"""System 1 holds a task for done; it ends when System 2 has looked again, and a mark counts when its criteria hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from layered_kit import GOOD, WIRE_S, Bench, Says, script

from planners.plan import FALLBACK, Plan, Subtask
from planners.prompts.prompt import CallReport
from planners.strategies.layered.criteria import PROOF_S, REFUSALS, trace_accessors
from planners.strategy import Observed, Paused, Resumed
from skill_kernel.calls import CallResult
from skill_kernel.codes import CallCode, ModelCode, Outcome
from skill_kernel.events import CallKind
from skill_kernel.guard.condition_text import holds, read_condition
from skill_kernel.observation.accessors import Accessor, View

WALK = '<step><walk s="3"/></step><subtask_complete/>'


def room(view: View) -> str:
    return str(view.fresh("room"))


ACCESSORS = {"room": Accessor("room", (), str, "The room.", room)}


def claims(bench: Bench) -> list[float]:
    return [t.time_s for t in bench.told if t.kind == "claimed"]


def test_the_second_look_is_asked_for_while_the_last_step_runs() -> None:
    bench = Bench(script(WALK))
    bench.plan("walk")
    bench.run(20)
    (asked_s,) = claims(bench)
    end_s = next(t.time_s for t in bench.told if t.kind == "ended")
    assert bench.of("claimed") == [('<step><walk s="3"/></step>',)]
    assert end_s - asked_s > 2.0 and bench.ended == [(0, "")]


def test_a_task_at_which_nobody_looks_again_ends_unverified() -> None:
    bench = Bench(script(WALK), agrees=False)
    bench.plan("walk")
    bench.run(30)
    assert bench.ended == [(0, "unverified: System 2 did not look again within 8 s")]


def test_without_a_system_2_the_end_is_unverified_at_once() -> None:
    bench = Bench(script(WALK), plans=False)
    bench.run(8)
    assert bench.ended == [(0, "unverified: no second layer plans here")] and claims(bench) == []


def test_what_was_missing_is_done_before_the_end() -> None:
    bench = Bench(script(WALK, then=GOOD), agrees=False)
    bench.plan("walk")
    bench.run(6)
    assert bench.of("done") == [("t1",)] and bench.ended == []
    bench.agrees = True
    bench.plan("walk", "nod", revision=2)
    bench.run(20)
    assert bench.calls() == ["walk", "nod"] and bench.ended == [(0, "")] and len(claims(bench)) == 2


def test_a_look_that_cannot_be_had_does_not_end_the_step_that_runs() -> None:
    bench = Bench(script(WALK), agrees=False)
    bench.plan("walk")
    while not claims(bench):
        bench.run(0.01)
    bench.hear(Plan(2, True, (Subtask("t1", "walk"),), reason="the model is gone", made_by=FALLBACK))
    bench.run(1)
    assert bench.ended == []
    bench.run(4)
    assert bench.ended == [(0, "unverified: the model is gone")] and bench.calls() == ["walk"]


def test_a_failed_last_step_is_held_for_done_anew() -> None:
    bench = Bench(script(WALK, then=GOOD))
    bench.body.fails = lambda call: "blocked" if call.function == "walk" else ""
    bench.plan("walk")
    bench.run(20)
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")] and len(claims(bench)) == 2


@pytest.mark.parametrize("outcome", [Outcome.DROPPED, Outcome.INTERRUPTED])
def test_a_mark_behind_a_call_that_was_never_done_does_not_count(outcome: Outcome) -> None:
    bench = Bench(script(WALK, then="<step><nod/></step><subtask_complete/>"))
    end, body = bench.body._end, bench.body

    def lose(call: Any, result: CallResult) -> None:
        lost = call.function == "walk" and result.outcome is Outcome.DONE
        end(call, CallResult(outcome, CallCode.STALE_EPOCH, "an interrupt ended all before") if lost else result)

    body._end = lose  # type: ignore[method-assign]
    bench.plan("walk")
    bench.run(20)
    assert bench.calls() == ["nod"] and bench.of("done") == [("t1",)] and bench.ended == [(0, "")]
    assert len(bench.model.of()) > 1 and len(claims(bench)) == 2


def test_a_branch_that_is_not_taken_loses_no_mark() -> None:
    branches = '<if cond="always"><walk s="1"/></if><else><nod/></else>'
    bench = Bench(script(f"<step>{branches}</step><subtask_complete/>"))
    bench.plan("walk or nod")
    bench.run(10)
    assert bench.calls() == ["walk"] and bench.of("done") == [("t1",)] and bench.ended == [(0, "")]


def test_a_pause_is_no_time_in_which_nobody_looks() -> None:
    bench = Bench(script(WALK), agrees=False)
    bench.plan("walk")
    bench.run(6)
    bench.hear(Paused())
    bench.run(60)
    assert bench.ended == []
    bench.hear(Resumed())
    bench.run(10)
    assert bench.ended[0][1].startswith("unverified")


# -- a plain command ------------------------------------------------------------------------------------------------------


def direct(then: str | Says = GOOD, *, first: str = "<nod/>", **more: Any) -> Bench:
    """Return a process whose instruction the parser of direct commands understands wholly."""
    settings = {"begin_directly": True}
    return Bench(script(then=then), instruction="nod", commands={"nod": first}, settings=settings, **more)


def test_a_plain_command_begins_before_any_model_is_asked_and_is_looked_at() -> None:
    bench = direct()
    bench.run(0.1)
    assert [e.function for e in bench.events if e.kind is CallKind.STARTED] == ["step", "nod"]
    assert bench.of("claimed") == [("<step><nod/></step>",)]
    bench.run(10)
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")] and bench.model.questions == []


def test_what_a_plain_command_left_out_is_planned() -> None:
    bench = direct(then='<step><walk s="1"/></step><subtask_complete/>', agrees=False)
    bench.run(0.3)
    bench.agrees = True
    bench.plan("walk a little", reopened=True)
    bench.run(10)
    assert bench.calls() == ["nod", "walk"] and bench.ended == [(0, "")] and bench.of("done") == [("task",), ("t1",)]


def test_a_plan_that_holds_what_is_being_done_does_it_no_second_time() -> None:
    bench = direct(then="<subtask_complete/>", agrees=False)
    bench.run(0.1)
    bench.agrees = True
    bench.plan("nod", reopened=True)
    bench.run(10)
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")]


@pytest.mark.parametrize("heard_s", [0.1, 0.5, 5.0])
@pytest.mark.parametrize("made_by", [FALLBACK, "a model"])
def test_no_plan_but_one_that_misses_something_has_a_plain_command_done_again(heard_s: float, made_by: str) -> None:
    bench = direct(then=Says(code=int(ModelCode.MODEL_CONNECTION), why="it is gone"), agrees=made_by != FALLBACK)
    bench.run(heard_s)
    bench.plan("nod", reason="the model is gone", made_by=made_by)
    bench.run(60)
    assert bench.calls() == ["nod"]
    ((code, why),) = bench.ended
    assert not code and why.startswith("unverified" if made_by == FALLBACK else "")


def test_a_plan_without_subtasks_takes_nothing_from_a_plain_command_that_fails() -> None:
    bench = direct(then='<step><walk s="1"/></step><subtask_complete/>', agrees=False)
    bench.body.fails = lambda call: "blocked" if call.function == "nod" else ""
    bench.plan(complete=False, reason="the model is gone", made_by=FALLBACK)
    bench.run(60)
    assert bench.calls() == ["walk"] and bench.ended[0][0] == 0


def test_a_plain_command_that_fails_is_handed_to_the_model() -> None:
    bench = direct(then='<step><walk s="1"/></step><subtask_complete/>')
    bench.body.fails = lambda call: "blocked" if call.function == "nod" else ""
    bench.run(20)
    assert bench.calls() == ["walk"] and bench.ended == [(0, "")]


def test_a_task_that_is_planned_anew_does_not_begin_again() -> None:
    bench = direct()
    bench.run(0.1)
    bench.interrupt()
    bench.run(20)
    assert bench.ended and len(bench.model.of()) >= 1


# -- criteria by code -----------------------------------------------------------------------------------------------------


def look(bench: Bench, seconds: float) -> None:
    """Let time pass while the robot observes."""
    for _ in range(round(seconds / 0.1)):
        bench.run(0.1)
        bench.hear(Observed())


def test_a_mark_whose_criteria_do_not_hold_is_refused_and_the_model_told() -> None:
    bench = Bench(script(WALK, then=GOOD))
    bench.plan("nod", criteria=["times_done('nod') >= 1"])
    bench.run(20)
    assert bench.calls() == ["walk", "nod"] and bench.of("done") == [("t1",)] and bench.ended == [(0, "")]
    (fault,) = bench.model.of()[1].blocks["FAULTS"]
    assert "t1" in fault and "times_done('nod') >= 1" in fault


def test_steps_behind_a_refused_mark_are_not_begun() -> None:
    far = '<step><nod/></step><subtask_complete/><step><walk s="3"/></step><step><walk s="2"/></step><subtask_complete/>'
    bench = Bench(script(far, then=GOOD), accessors=ACCESSORS, settings={"queue_steps": 5})
    bench.plan("go", "walk", criteria=["room() == 'office'", ""])
    bench.run(1.0)
    while not any("FAULTS" in q.blocks for q in bench.model.of()):
        look(bench, 0.1)
    walked = [e for e in bench.events if e.kind is CallKind.STARTED and e.function == "walk"]
    assert len(walked) <= 1 and bench.of("done") == []


def test_the_observation_may_come_a_little_later_than_the_mark() -> None:
    bench = Bench(script(WALK), accessors=ACCESSORS)
    bench.plan("go", criteria=["room() == 'office'"])
    while not bench.calls():
        look(bench, 0.1)
    look(bench, PROOF_S - 0.3)
    assert bench.of("done") == []
    bench.world.room = "office"
    look(bench, 0.2)
    assert bench.of("done") == [("t1",)]
    bench.run(1)
    assert bench.ended == [(0, "")] and len(bench.model.of()) == 1


@pytest.mark.parametrize("late", ["true", "stale"])
def test_what_becomes_true_or_stale_unobserved_keeps_nobody_waiting(late: str) -> None:
    bench = Bench(script(WALK), accessors=ACCESSORS, agrees=False)
    bench.plan("go", criteria=["room() == 'office'"])
    while not bench.calls():
        look(bench, 0.1)
    look(bench, 0.5)
    bench.world.room, bench.world.stale = ("office", False) if late == "true" else ("hall", True)
    bench.run(30)
    assert bench.of("done") == [("t1",)] and bench.ended[0][1].startswith("unverified")


def test_criteria_that_hold_all_the_time_do_not_hide_a_failed_step() -> None:
    bench = Bench(script(WALK, then=GOOD), accessors=ACCESSORS)
    bench.body.fails = lambda call: "blocked" if call.function == "walk" else ""
    bench.plan("go out and come back to the hall", "bow", criteria=["room() == 'hall'", ""])
    while not bench.calls(outcome="FAILED"):
        bench.run(0.01)
    asked = len(bench.model.of())
    bench.run(0.5)
    assert bench.of("done") == [] and bench.model.of()[asked].subtask["id"] == "t1"


@pytest.mark.parametrize("criteria", ["the ball is near", "room() == ", "fly('x')", "done('no such skill')", ""])
def test_criteria_that_are_no_expression_stop_nothing(criteria: str) -> None:
    bench = Bench(script(WALK), accessors=ACCESSORS)
    bench.plan("walk", criteria=[criteria])
    bench.run(10)
    assert bench.of("done") == [("t1",)] and bench.ended == [(0, "")]


def test_criteria_over_what_is_not_known_stop_nothing() -> None:
    bench = Bench(script(WALK), accessors=ACCESSORS)
    bench.world.stale = True
    bench.plan("walk", criteria=["room() == 'office'"])
    bench.run(10)
    assert bench.of("done") == [("t1",)] and bench.ended == [(0, "")]


def test_criteria_that_never_hold_lose_against_a_model_that_insists() -> None:
    bench = Bench(script(WALK, then="<subtask_complete/>"), accessors=ACCESSORS)
    bench.plan("walk", criteria=["room() == 'moon'"])
    look(bench, 20)
    assert bench.of("done") == [("t1",)] and bench.ended == [(0, "")]
    assert sum("does not hold" in f for q in bench.model.of() for f in q.blocks.get("FAULTS", [])) == REFUSALS


@pytest.mark.parametrize(
    ("calls", "expression", "expected"),
    [
        ([("nod", "DONE")], "done('nod')", True),
        ([("nod", "FAILED")], "done('nod')", False),
        ([("nod", "DONE"), ("nod", "DONE")], "times_done('nod') >= 2", True),
        ([("walk", "DONE"), ("nod", "DONE")], "done_after('nod', 'walk')", True),
        ([("nod", "DONE"), ("walk", "DONE")], "done_after('nod', 'walk')", False),
        ([("nod", "DONE"), ("walk", "DONE"), ("nod", "DONE")], "done_after('nod', 'walk')", True),
    ],
)
def test_what_was_done_can_be_asked(calls: list[tuple[str, str]], expression: str, expected: bool) -> None:
    assert _holds(expression, calls) is expected


def test_repetitions_within_one_call_count() -> None:
    assert _holds("times_done('nod') == 5", [("nod", "DONE", {"times": 4}), ("nod", "DONE")])


def _holds(expression: str, calls: Sequence[tuple[object, ...]]) -> bool | None:
    done = [CallReport(str(name), (more or [{}])[0], str(outcome)) for name, outcome, *more in calls]  # type: ignore[arg-type]
    table = trace_accessors(("nod", "walk"), lambda: done)
    condition = read_condition(expression, table).expression
    assert condition is not None
    return holds(condition, View(None, table, WIRE_S).call)[0]


def test_criteria_that_hold_when_the_robot_rests_need_no_mark() -> None:
    bench = Bench(script('<step><walk s="3"/></step>', "<nothing/>", then=GOOD))
    bench.plan("walk", "nod", criteria=["done('walk')", ""])
    bench.run(20)
    assert bench.of("done") == [("t1",), ("t2",)] and bench.ended == [(0, "")]
    assert [q.subtask["id"] for q in bench.model.of()][-1] == "t2"


def test_criteria_that_hold_before_anything_was_done_prove_nothing() -> None:
    bench = Bench(script(WALK), accessors=ACCESSORS)
    bench.plan("walk round the hall", criteria=["room() == 'hall'"])
    bench.run(20)
    assert bench.calls() == ["walk"] and bench.ended == [(0, "")]
