# SPDX-License-Identifier: Apache-2.0
"""Plans in steps: branches and their conditions, failures, cut answers, subtasks, the queue as others see it."""

from __future__ import annotations

from pathlib import Path

import pytest
from shell_kit import mapper
from step_kit import Asked, Plan

from bench.dry_run import AssumedConditions, DryRun, dry_run
from function_tokens.routines import Routine, RoutineStore
from function_tokens.scheduling.calls import Answer
from skill_kernel.codes import CallCode, Outcome, ParseCode
from skill_kernel.events import ProcessKind, StreamEvent, StreamKind


def planned(text: str, **given: bool | None) -> DryRun:
    """Return a dry run; conditions by name."""
    return dry_run(text, mapper(), conditions=AssumedConditions(given, None))


def shown(run: DryRun) -> list[tuple[str, str]]:
    return [(c.function, c.outcome) for c in run.calls]


# -- what a step is -----------------------------------------------------------------------------------------------------


def test_a_step_is_a_barrier_whose_children_run_as_they_arrive() -> None:
    run = planned('<step><walk s="2"/><nod s="1"/></step><step><swing s="1"/></step><subtask_complete/><nod s="1"/>')
    assert [(c.function, c.start_s, c.end_s) for c in run.calls] == [
        ("step", 0, 2),
        ("walk", 0, 2),
        ("nod", 0, 1),
        ("step", 2, 3),
        ("swing", 2, 3),
        ("subtask_complete", 3, 3),
        ("nod", 3, 4),
    ]
    plan = Plan()
    plan.write("<step><walk/>")
    assert plan.hand.started == ["walk"], "before </step> is read"


@pytest.mark.parametrize("stream", ['<step id="1" name="look"><walk/></step>', "<step><wait><walk/></wait></step>", "<step/>"])
def test_ways_to_write_a_step(stream: str) -> None:
    assert all(outcome == "DONE" for _, outcome in shown(planned(stream)))


def test_a_step_whose_attribute_may_be_a_condition_is_refused_with_everything_inside_and_ends_the_turn() -> None:
    run = planned('<step cond="raining"><walk/>Hi</step><turn/>')
    assert shown(run) == [("step", "REFUSED"), ("walk", "REFUSED"), ("text", "REFUSED"), ("turn", "DROPPED")]


# -- branches -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "ran"), [(True, True, "walk"), (True, False, "walk"), (False, True, "nod"), (False, False, "swing")]
)
def test_the_first_branch_that_holds_runs_and_no_other(a: bool, b: bool, ran: str) -> None:
    run = planned('<step><if cond="a"><walk/></if><if cond="b"><nod/></if><else><swing/></else></step><turn/>', a=a, b=b)
    outcomes = {c.function: c.outcome for c in run.calls if c.function in ("walk", "nod", "swing", "turn")}
    assert outcomes == {"walk": "DROPPED", "nod": "DROPPED", "swing": "DROPPED", "turn": "DONE", ran: "DONE"}
    assert not run.calls[0].message


def test_a_step_of_which_no_branch_held_is_done_and_says_so() -> None:
    run = planned('<step><if cond="a"><walk/></if></step><turn/>', a=False)
    assert shown(run) == [("step", "DONE"), ("if", "DROPPED"), ("walk", "DROPPED"), ("turn", "DONE")]
    assert run.calls[0].message == "no branch held"


@pytest.mark.parametrize("tag", ["elif cond='b'", "else_if cond='b'", "else if='b'", "else if cond='b'", "else condition='b'"])
def test_another_condition_is_another_branch_however_it_is_written(tag: str) -> None:
    end = tag.split()[0]
    stream = f'<step><if condition="a"><walk/></if><{tag}><nod/></{end}><else><turn/></else></step>'
    assert [c.function for c in planned(stream, a=False, b=True).calls if c.outcome == "DONE"] == ["step", "if", "nod"]
    calls = planned(stream, a=False, b=False).calls
    assert [c.function for c in calls if c.outcome == "DONE"] == ["step", "else", "turn"]


@pytest.mark.parametrize("tag", ["else if='b'", "elif cond='b'", "elseif cond='b'"])
@pytest.mark.parametrize(("a", "b"), [(True, True), (True, False), (False, True)])
def test_another_branch_inside_the_if_it_belongs_behind_is_refused(tag: str, a: bool, b: bool) -> None:
    end = tag.split()[0]
    run = planned(f'<step><if cond="a"><walk/><{tag}><nod/></{end}><else><turn/></else></if></step>', a=a, b=b)
    assert not {"nod", "turn"} & {c.function for c in run.calls if c.outcome == "DONE"}
    refused = next(c for c in run.calls if c.outcome == "REFUSED")
    assert "close it with </if> first" in refused.error and run.calls[0].outcome != "DONE"


def test_an_else_that_names_no_condition_or_two_is_refused_and_so_is_what_it_holds() -> None:
    for tag in ("else if", "else unless='b'", "else if='b' cond='c'"):
        run = planned(f'<step><if cond="a"><walk/></if><{tag}><nod/></else></step>', a=False, b=True, c=True)
        assert "nod" not in [c.function for c in run.calls if c.outcome == "DONE"]


def test_the_condition_is_asked_when_the_turn_of_its_branch_has_come() -> None:
    asked = Asked()
    plan = Plan(conditions=asked)
    plan.write('<step><walk/></step><step><nod/><wait><if cond="a">')
    assert asked.open == [], "the step has not begun"
    plan.end("walk")
    assert asked.open == [], "what stands before it in the step still runs"
    plan.end("nod")
    assert [c for c, _ in asked.open] == ["a"], "its end tag need not have been read"
    plan.write("<swing/></if><else><turn/></else></wait></step><spin/>")
    assert "swing" not in plan.hand.started and "spin" not in plan.hand.started
    asked.say("a", True)
    assert plan.hand.started == ["walk", "nod", "swing"]
    assert plan.result("else").error == "another branch was taken"


def test_an_if_within_an_if_has_a_list_of_its_own() -> None:
    stream = (
        '<step><if cond="a"><if cond="b"><walk/></if><else><nod/></else></if><else><if cond="b"><swing/></if></else></step>'
    )
    ran = {
        (a, b): [c.function for c in planned(stream, a=a, b=b).calls if c.outcome == "DONE" and c.channels[0] != "main"]
        for a in (True, False)
        for b in (True, False)
    }
    assert ran == {(True, True): ["walk"], (True, False): ["nod"], (False, True): ["swing"], (False, False): []}


def test_text_and_calls_in_a_branch_that_is_not_taken_are_dropped_also_when_they_come_later() -> None:
    asked = Asked()
    plan = Plan(conditions=asked)
    plan.write('<step><if cond="a">')
    asked.say("a", False)
    plan.write("Hello there.<walk/><spin>Round<nod/></spin><save name='x'><walk/></save>")
    plan.write("</if><else>Bye.<walk/></else></step>")
    plan.run("text")
    assert plan.begun == ["step", "else", "text"]
    assert [o for f, o in plan.outcomes()].count("DROPPED") == 8, plan.outcomes()
    plan.end("text"), plan.end("walk")
    plan.close()
    assert plan.result("step").message == "" and plan.events[-1].kind is ProcessKind.DRAINED


@pytest.mark.parametrize("holds", [True, False])
@pytest.mark.parametrize(
    ("stream", "hint"),
    [
        ('<if cond="a"><walk/></if>', "inside a step"),
        ("<step><nod/></step><else><walk/></else>", "inside a step"),
        ("<step><else><walk/></else></step>", 'write <if cond="…">…</if> before it'),
        ('<step><if cond="a"><nod/><else><walk/></else></if></step>', "close it with </if> first"),
        ("<step><if><walk/></if><else><walk/></else></step>", 'cond="always"'),
        ('<step><if cond=" "><walk/></if><else><walk/></else></step>', "is empty"),
        ('<step><if test="a"><walk/></if><else><walk/></else></step>', "cond"),
        ('<step><if cond="a"></if><else unless="b"><walk/></else></step>', "unless"),
    ],
)
def test_a_branch_nobody_understands_is_refused_with_a_hint_and_nothing_planned_on_it_runs(
    stream: str, hint: str, holds: bool
) -> None:
    run = planned(f"{stream}<step><turn/></step>", a=holds)
    refused = next(c for c in run.calls if c.outcome == "REFUSED")
    assert hint in refused.error
    assert not [c for c in run.calls if c.function in ("walk", "turn") and c.start_s is not None]


@pytest.mark.parametrize("tag", ["<observe/>", "<plan_done/>", '<save name="x"><walk/></save>'])
def test_what_acts_when_it_is_read_cannot_stand_under_a_condition(tag: str) -> None:
    run = planned(f'<step><if cond="a"><nod/>{tag}</if></step><turn/>', a=True)
    refused = next(c for c in run.calls if c.outcome == "REFUSED")
    assert "under a condition" in refused.error and run.reason == "failure"
    assert [c.function for c in run.calls if c.start_s is not None] == ["step", "if", "nod"]


def test_code_with_a_fault_is_refused_when_it_is_read() -> None:
    asked = Asked()
    asked.faults["visible('aple')"] = "visible knows no label 'aple'; did you mean 'apple'?"
    plan = Plan(conditions=asked)
    plan.write("<step><walk/></step><step><if cond=\"visible('aple')\"><nod/></if><else><turn/></else></step>")
    assert plan.result("if").code == CallCode.INVALID_ARGUMENT and "'apple'" in plan.result("if").error
    plan.end("walk")
    plan.close()
    assert plan.hand.started == ["walk"]


# -- unknown, late, interrupted -----------------------------------------------------------------------------------------


def test_an_unknown_condition_runs_nothing_and_fails_the_step() -> None:
    run = planned('<step><if cond="a"><walk/></if><else><nod/></else></step><step><turn/></step><subtask_complete/>')
    assert [c.function for c in run.calls if c.start_s is not None] == ["step"]
    step = run.calls[0]
    assert (step.outcome, step.code) == ("FAILED", CallCode.CONDITION_UNKNOWN) and "'a'" in step.error
    assert run.reason == "failure"


def test_a_condition_whose_source_raises_is_unknown_and_ends_the_step_at_once() -> None:
    class Broken(Asked):
        def ask(self, condition: str, answer: Answer, process_id: str) -> None:
            raise ZeroDivisionError("integer modulo by zero")

    plan = Plan(conditions=Broken())
    plan.write('<step><if cond="7 % people_visible()"><nod/></if><else><turn/></else></step>')
    plan.close()
    assert plan.begun == ["step"]
    step = plan.result("step")
    assert step.code == CallCode.CONDITION_UNKNOWN and "ZeroDivisionError: integer modulo by zero" in step.error
    assert not plan.scheduler.live_calls


def test_a_judge_does_not_hold_up_what_runs_and_has_a_deadline() -> None:
    plan = Plan(manual=False, settings={"condition_timeout_s": 4.0})
    plan.write('<walk s="9"/><step><if cond="it is dark"><nod/></if></step><step><turn/></step>')
    plan.clock.run(until_s=3.9)
    assert [c.function for c in plan.scheduler.live_calls][:2] == ["walk", "step"]
    plan.clock.run(until_s=4.0)
    assert plan.result("step").code == CallCode.CONDITION_UNKNOWN and "within 4 s" in plan.result("step").error
    assert isinstance(plan.conditions, Asked)
    plan.conditions.say("it is dark", True)
    plan.clock.run()
    assert plan.begun == ["walk", "step"], "the late answer changes nothing"


def test_an_interrupt_while_a_judge_is_asked_ends_it_at_once() -> None:
    asked = Asked()
    plan = Plan(conditions=asked)
    plan.write('<step><if cond="a"><walk/></if></step><step><turn/></step>')
    stopped = plan.scheduler.interrupt("enough")
    assert plan.events[-1].kind is ProcessKind.DRAINED
    assert {c.function: c.outcome_name for c in plan.ended} == {
        "step": "INTERRUPTED",
        "if": "DROPPED",
        "walk": "DROPPED",
        "turn": "DROPPED",
    }
    asked.say("a", True)
    assert plan.hand.started == [] and len(stopped) == 1, "only the step had begun"


def test_in_a_paused_process_no_step_begins_and_what_was_asked_is_asked_anew() -> None:
    asked = Asked()
    plan = Plan(conditions=asked)
    plan.write('<step><if cond="a"><walk/></if></step><step><turn/></step>')
    plan.scheduler.pause(True)
    asked.say("a", True)
    assert plan.hand.started == [] and asked.open == []
    plan.scheduler.pause(False)
    asked.say("a", False)
    assert plan.hand.started == ["turn"]
    plan.scheduler.pause(True)
    plan.write("<step><nod/></step>")
    plan.end("turn")
    assert plan.hand.started == ["turn"]
    plan.scheduler.pause(False)
    assert plan.hand.started == ["turn", "nod"]


def test_no_step_begins_between_a_call_that_a_pause_ended_and_the_pause_itself() -> None:
    plan = Plan()
    plan.write("<step><walk/></step><step><nod/></step>")
    plan.end("walk", Outcome.INTERRUPTED, CallCode.PROCESS_PAUSED)
    plan.clock.run(until_s=0.1)
    plan.scheduler.pause(True)
    plan.clock.run(until_s=9.0)
    assert plan.hand.started == ["walk"]
    plan.scheduler.pause(False)
    assert plan.hand.started == ["walk", "nod"]


def test_what_was_to_follow_a_call_that_somebody_else_cut_off_does_not_count_as_done() -> None:
    plan = Plan()
    plan.write("<step><walk/></step><subtask_complete/><step><turn/></step>")
    plan.end("walk", Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY)
    plan.clock.run(until_s=2.0)
    assert plan.hand.started == ["walk"]
    assert dict(plan.outcomes())["subtask_complete"] == "DROPPED"


# -- cut answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["end", "code", "silence"])
def test_of_a_step_that_was_cut_what_has_begun_goes_on_and_the_rest_does_not(how: str) -> None:
    plan = Plan(settings={"silence_s": 3.0})
    plan.write('<step><walk/><nod/><turn/><if cond="always"><swing/></if>')
    plan.run("walk", "nod")
    if how == "silence":
        plan.clock.run(until_s=3.1)
    else:
        plan.close(code=300 if how == "code" else 0)
    assert sorted(f for f, o in plan.outcomes() if o == "DROPPED") == ["if", "swing", "turn"]
    assert plan.hand.stops == []
    plan.end("walk"), plan.end("nod")
    assert plan.result("step").outcome.value == "DONE" and "answer ended" in plan.result("step").message
    assert plan.hand.started == ["walk", "nod"]


def test_a_queued_step_that_was_cut_does_not_begin_but_those_before_it_do() -> None:
    plan = Plan()
    plan.write("<step><walk/></step><step><nod/></step><step><turn/><sw")
    plan.close()
    assert sorted(plan.outcomes()) == [("step", "DROPPED"), ("turn", "DROPPED")]
    plan.end("walk"), plan.end("nod")
    assert plan.hand.started == ["walk", "nod"] and plan.events[-1].kind is ProcessKind.DRAINED


def test_an_element_around_the_step_that_was_closed_makes_it_whole() -> None:
    run = planned('<response><step><walk s="1"/><turn s="1"/></response><nod s="1"/>')
    assert [c.outcome for c in run.calls] == ["DONE"] * 4 and run.repairs


def test_observe_in_a_step_ends_the_answer_and_leaves_nothing_out() -> None:
    run = planned('<step><walk s="1"/><turn s="1"/><observe/></step><nod/>')
    assert shown(run) == [("step", "DONE"), ("walk", "DONE"), ("turn", "DONE"), ("observe", "DONE"), ("nod", "DROPPED")]
    assert run.reason == "observe"


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("tag", ['<if cond=" ">', "<step cond='raining'>"])
def test_a_refused_branch_ends_the_turn_even_if_its_end_tag_never_comes(tag: str, silent: bool) -> None:
    plan = Plan(settings={"silence_s": 3.0})
    plan.write(f"<walk/><walk/><step>{tag}<nod/>")
    if silent:
        plan.clock.run(until_s=3.1)
    else:
        plan.scheduler.end_stream("s", int(ParseCode.SEQUENCE_GAP), "a token is missing")
    (closed,) = plan.reported(StreamKind.ENDED)
    assert isinstance(closed, StreamEvent) and closed.end == "failure"
    assert closed.error_code == (ParseCode.SILENCE if silent else ParseCode.SEQUENCE_GAP)
    assert "was refused" in closed.error_msg
    plan.end("walk")
    plan.clock.run(until_s=60.0)
    assert plan.hand.started == ["walk"] and plan.events[-1].kind is ProcessKind.DRAINED


def test_a_refused_branch_of_a_plan_that_was_replaced_does_not_end_the_new_one() -> None:
    plan = Plan()
    plan.write('<step><walk/></step><if cond="a"><walk/>', "old", turn=0)
    plan.write("<replace_steps/><step><nod/></step>", "new", turn=1)
    plan.close("new")
    plan.end("walk")
    assert plan.hand.started == ["walk", "nod"]


# -- subtasks and routines ----------------------------------------------------------------------------------------------


def test_a_subtask_is_complete_when_everything_before_it_has_ended() -> None:
    plan = Plan()
    plan.write("<step><walk/></step><subtask_complete/><step><nod/></step>")
    assert ("subtask_complete", "DONE") not in plan.outcomes()
    plan.end("walk")
    assert plan.outcomes() == [("walk", "DONE"), ("step", "DONE"), ("subtask_complete", "DONE")]
    assert plan.hand.started == ["walk", "nod"]


def test_a_subtask_may_be_complete_under_a_condition() -> None:
    stream = '<step><if cond="a"><walk s="2"/><subtask_complete/></if><else><nod s="1"/></else></step>'
    done = [(c.function, c.start_s) for c in planned(stream, a=True).calls if c.outcome == "DONE"]
    assert done == [("step", 0), ("if", 0), ("walk", 0), ("subtask_complete", 2)]
    assert "subtask_complete" not in [c.function for c in planned(stream, a=False).calls if c.outcome == "DONE"]


def test_a_routine_that_is_removed_while_it_begins_is_performed_whole(tmp_path: Path) -> None:
    class Removed(RoutineStore):
        def get(self, name: str) -> Routine | None:
            found = super().get(name)
            (tmp_path / "routines.json").unlink(missing_ok=True)
            return found

    store = Removed(tmp_path / "routines.json", clock=lambda: 0.0)
    store.save("bow", "", "<nod s='1'/>")
    run = dry_run('<run name="bow"/><run name="bow"/>', mapper(), routines=store)
    assert shown(run) == [("run", "DONE"), ("nod", "DONE"), ("run", "REFUSED")]
    assert run.calls[2].code == CallCode.ROUTINE_UNKNOWN


def test_a_routine_that_a_person_revoked_is_not_performed(tmp_path: Path) -> None:
    store = RoutineStore(tmp_path / "routines.json", clock=lambda: 0.0)
    store.save("bow", "", "<nod s='1'/>")
    store.revoke("bow", "page (operator)")
    run = dry_run('<run name="bow"/>', mapper(), routines=store)
    assert shown(run) == [("run", "REFUSED")]
    assert run.calls[0].error == "routine 'bow' was revoked by page (operator); a person has to approve it"


def test_no_robot_without_a_routine_store_is_told_to_save_one() -> None:
    run = planned('<run name="bow"/>')
    assert run.calls[0].code == CallCode.ROUTINE_UNKNOWN and run.calls[0].error == "this robot has no routine store"


def test_a_routine_may_hold_steps_but_nothing_that_speaks_of_the_plan(tmp_path: Path) -> None:
    store = RoutineStore(tmp_path / "routines.json", clock=lambda: 0.0)
    text = (
        '<save name="look"><step><if cond="a"><nod s="1"/></if><else><swing s="1"/></else></step></save>'
        '<save name="plan"><subtask_complete/></save><step><run name="look"/></step>'
    )
    run = dry_run(text, mapper(), routines=store, conditions=AssumedConditions({"a": False}))
    assert [c.function for c in run.calls if c.outcome == "REFUSED"] == ["save"]
    assert [c.function for c in run.calls if c.outcome == "DONE" and c.start_s is not None] == [
        "save",
        "step",
        "run",
        "step",
        "else",
        "swing",
    ]
