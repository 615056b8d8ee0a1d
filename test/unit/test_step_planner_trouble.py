# SPDX-License-Identifier: Apache-2.0
"""System 1 while its model is slow, wrong, silent or malformed, and while it is paused or planned anew."""

from __future__ import annotations

from dataclasses import replace

import pytest
from layered_kit import GOOD, Bench, Says, failing, script

from planners.prompts.blocks import Layer
from planners.strategy import Paused, Resumed
from skill_kernel.calls import CallResult
from skill_kernel.codes import CallCode, ModelCode, Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind


def hows(bench: Bench) -> list[str]:
    return [how for layer, how, _ in bench.of("degraded") if layer is Layer.S1]


# -- the model ----------------------------------------------------------------------------------------------------------

BAD = {
    "silent": Says(silent=True),
    "broken off": failing(),
    "late": Says(GOOD, delay_s=30.0),
    "prose": "I would walk.",
    "unknown function": "<step><fly/></step>",
    "wrong argument": "<step><walk s='fast'/></step>",
    "empty": "",
    "not xml": "{'steps': []}",
    "an empty step": "<step></step>",
}


@pytest.mark.parametrize("bad", BAD)
def test_one_bad_answer_is_asked_for_again_with_the_error_shown(bad: str) -> None:
    bench = Bench(script(BAD[bad], GOOD))
    bench.plan("nod")
    bench.run(60)
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")]
    first, second = bench.model.of()
    assert second.blocks["FAULTS"] and second.blocks["TASK"] == first.blocks["TASK"]
    assert hows(bench) == ["asks once more, with the error shown"]


@pytest.mark.parametrize("bad", BAD)
def test_a_model_that_stays_bad_leaves_the_direct_commands(bad: str) -> None:
    bench = Bench(script(then=BAD[bad]), commands={"nod twice": "<nod/><nod/>"})
    bench.plan("nod twice")
    bench.run(120)
    assert bench.calls() == ["nod", "nod"] and bench.ended == [(0, "")]
    assert hows(bench)[-1].startswith("follows the direct commands")
    assert len(bench.model.of()) == (2 if isinstance(BAD[bad], Says) else 3)


@pytest.mark.parametrize("bad", BAD)
def test_without_commands_it_stops_and_says_so_and_ends_with_the_models_code(bad: str) -> None:
    bench = Bench(script(then=BAD[bad]), commands={"something else": "<nod/>"})
    bench.plan("think about life")
    bench.run(120)
    ((code, why),) = bench.ended
    assert code in {int(c) for c in ModelCode} and why
    assert bench.calls() == ["text"]
    assert hows(bench)[-1] == "stops and says so"


def test_the_queue_is_used_up_before_anything_else_is_tried() -> None:
    two = '<step><walk s="9"/></step><step><walk s="8"/></step>'
    bench = Bench(script(two, then=failing()), commands={"walk": "<nod/>"})
    bench.plan("walk")
    bench.run(5)
    assert hows(bench) == ["asks once more, with the error shown", "goes on with the rest of the queue"]
    bench.run(8)
    assert bench.ended == [] and len(bench.model.of()) == 3
    bench.run(30)
    assert bench.calls() == ["walk", "walk", "nod"] and bench.ended == [(0, "")]
    assert len(bench.model.of()) == 4


def test_a_model_that_comes_back_is_used_again() -> None:
    bench = Bench(script('<step><walk s="4"/></step>', failing(), failing(), GOOD))
    bench.plan("walk")
    bench.run(30)
    assert bench.calls() == ["walk", "nod"] and bench.ended == [(0, "")]


def test_the_instruction_is_followed_when_the_subtask_is_not_understood_and_nothing_was_done() -> None:
    bench = Bench(script(then=failing()), instruction="nod", commands={"nod": "<nod/>"})
    bench.plan("express agreement", "be glad")
    bench.run(30)
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")]


def test_a_wrong_key_is_not_tried_twice() -> None:
    bench = Bench(script(then=failing(ModelCode.MODEL_AUTH)))
    bench.plan("nod")
    bench.run(30)
    assert len(bench.model.of()) == 1 and bench.ended[0][0] == ModelCode.MODEL_AUTH


def test_a_spent_budget_asks_nothing_and_says_so() -> None:
    bench = Bench(script(then=GOOD))
    bench.budget = (False, 0.0, "the process has used up its tokens")
    bench.plan("nod")
    bench.run(30)
    assert bench.model.of() == []
    assert bench.ended == [(TaskCode.BUDGET_SPENT, "the process has used up its tokens")]


def test_the_budgets_gap_delays_the_question() -> None:
    bench = Bench(script(GOOD))
    bench.budget = (True, 3.0, "")
    bench.plan("nod")
    bench.run(2.5)
    assert bench.model.of() == []
    bench.budget = (True, 0.0, "")
    bench.run(1.0)
    assert len(bench.model.of()) == 1


# -- pauses and new epochs ----------------------------------------------------------------------------------------------


def test_while_it_is_paused_nothing_is_asked() -> None:
    bench = Bench(script('<step><walk s="2"/></step>', then=GOOD))
    bench.plan("walk and nod")
    bench.run(0.4)
    bench.hear(Paused())
    bench.run(20)
    assert len(bench.model.of()) == 1
    bench.hear(Resumed())
    bench.run(20)
    assert bench.ended == [(0, "")]


def test_a_queue_whose_ground_still_holds_goes_on_after_a_pause() -> None:
    bench = Bench(script('<step><walk s="4"/></step><step><nod/></step><step><turn/></step><subtask_complete/>'))
    bench.plan("walk")
    bench.run(2)
    bench.hear(Paused())
    bench.run(5)
    bench.hear(Resumed())
    bench.run(20)
    assert bench.calls() == ["walk", "nod", "turn"] and len(bench.model.of()) == 1


def test_a_queue_whose_ground_has_gone_is_written_anew() -> None:
    bench = Bench(script('<step><walk s="8"/></step><step><nod/></step><step><turn/></step><subtask_complete/>', then=GOOD))
    bench.plan("walk")
    bench.run(2)
    bench.hear(Paused())
    bench.world.room = "kitchen"
    bench.run(2)
    bench.hear(Resumed())
    bench.run(20)
    assert bench.calls() == ["walk", "nod"] and len(bench.model.of()) == 2


def test_after_an_interrupt_the_plan_and_what_was_done_of_it_are_known() -> None:
    bench = Bench(script(GOOD, '<step><walk s="9"/></step><subtask_complete/>', then=GOOD))
    bench.plan("nod", "walk")
    bench.run(4)
    bench.interrupt()
    bench.run(20)
    assert bench.of("done") == [("t1",), ("t2",)] and bench.ended == [(0, "")]
    assert bench.model.of()[-1].subtask["id"] == "t2"


def test_moved_away_meanwhile_it_walks_back_while_the_model_plans() -> None:
    bench = Bench(script('<step><walk s="9"/></step>', then=Says(GOOD, delay_s=2.0)), way_back='<turn s="1"/>')
    bench.plan("walk")
    bench.run(2)
    bench.hear(Paused())
    bench.world.x = 3.0
    bench.interrupt()
    bench.run(0.5)
    assert "turn" in [c["function"] for c in bench.planner._book.shown_running()[1:]]
    bench.world.x = 0.0
    bench.run(20)
    assert bench.calls() == ["turn", "nod"] and bench.ended == [(0, "")]


def test_an_answer_that_was_begun_for_another_scene_is_not_performed_after_a_pause() -> None:
    bench = Bench(script(Says('<step><walk s="1"/></step><subtask_complete/>', delay_s=6.0), then=GOOD))
    bench.plan("walk")
    bench.run(2)
    bench.hear(Paused())
    bench.world.room = "kitchen"
    bench.run(1)
    bench.hear(Resumed())
    bench.run(30)
    assert bench.model.of()[0].cancelled and bench.calls() == ["nod"] and bench.ended == [(0, "")]
    assert "<replace_steps/>" not in [s.text_written for s in bench.streams.values()]


def test_an_answer_whose_ground_still_holds_is_performed_after_a_pause() -> None:
    bench = Bench(script(Says('<step><walk s="1"/></step><subtask_complete/>', delay_s=6.0)))
    bench.plan("walk")
    bench.run(2)
    bench.hear(Paused())
    bench.run(1)
    bench.hear(Resumed())
    bench.run(30)
    assert len(bench.model.of()) == 1 and bench.calls() == ["walk"] and bench.ended == [(0, "")]


# -- what was done before -----------------------------------------------------------------------------------------------


def test_what_was_interrupted_and_then_done_is_no_failure() -> None:
    speech = "<step>Hello there my friend, how are you today, fine I hope</step><subtask_complete/>"
    bench = Bench(script(speech, "<step>Hello there</step><subtask_complete/>"))
    bench.plan("say hello")
    bench.run(0.9)
    bench.interrupt()
    assert bench.calls(outcome="INTERRUPTED") == ["text"]
    bench.run(60)
    assert bench.of("done") == [("t1",)] and bench.ended == [(0, "")]


def test_what_a_step_stopped_by_itself_is_no_failure() -> None:
    bench = Bench(script('<step><walk s="30"/><sleep seconds="2"/><stop channel="legs"/></step><subtask_complete/>'))
    bench.plan("walk for two seconds")
    bench.run(60)
    assert bench.calls(outcome="INTERRUPTED") == ["walk"] and bench.ended == [(0, "")]


def broken_off(then: str) -> Bench:
    """Return a process whose walk somebody else broke off."""
    bench = Bench(script('<step><walk s="9"/></step><subtask_complete/>', then=then))
    bench.plan("walk")
    bench.run(2)
    (walk,) = (call for call in bench.scheduler.live_calls if call.function == "walk")
    bench.scheduler.ended(walk.call_id, CallResult(Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY, message="somebody else"))
    bench.run(60)
    return bench


def test_what_somebody_else_broke_off_and_nothing_followed_is_a_failure() -> None:
    bench = broken_off("<step>Well</step><subtask_complete/>")
    assert bench.ended == [(TaskCode.CALL_FAILED, "'walk' INTERRUPTED: somebody else")]


def test_what_somebody_else_broke_off_and_was_done_anew_is_no_failure() -> None:
    assert broken_off('<step><walk s="1"/></step><subtask_complete/>').ended == [(0, "")]


def test_what_failed_before_everything_was_void_is_no_failure_of_what_is_planned_anew() -> None:
    bench = Bench(script('<step><walk s="1"/></step>', then="<step>I am here</step><subtask_complete/>"))
    bench.body.fails = lambda call: "the way is blocked" if call.function == "walk" else ""
    bench.plan("say where you are")
    while not bench.calls(outcome="FAILED"):
        bench.run(0.02)
    bench.interrupt()
    bench.run(30)
    assert bench.ended == [(0, "")]


def test_a_failure_that_is_heard_of_too_late_is_none_of_what_is_planned_anew() -> None:
    bench = Bench(script('<step><walk s="9"/></step>', then="<step>I am here</step><subtask_complete/>"))
    bench.plan("say where you are")
    bench.run(2)
    bench.interrupt()
    late = CallEvent(kind=CallKind.ENDED, stream_id="s0", call_id="late", function="walk", outcome=Outcome.FAILED)
    bench.hear(replace(late, message="the way is blocked"))
    bench.run(30)
    assert bench.ended == [(0, "")]


def test_what_failed_last_is_a_failure_whatever_is_said_after_it() -> None:
    bench = Bench(script('<step><walk s="1"/></step>', then="<step>I am here</step><subtask_complete/>"))
    bench.body.fails = lambda call: "the way is blocked" if call.function == "walk" else ""
    bench.plan("walk")
    bench.run(30)
    assert bench.ended == [(TaskCode.CALL_FAILED, "'walk' FAILED: the way is blocked")]


def test_without_its_model_nothing_that_was_done_of_a_subtask_is_done_again() -> None:
    bench = Bench(script('<step><walk s="2"/></step>', then=failing()), commands={"walk": '<walk s="2"/>'})
    bench.plan("walk")
    bench.run(60)
    assert bench.calls() == ["walk", "text"] and bench.ended[0][0] == ModelCode.MODEL_CONNECTION


def test_without_its_model_the_rest_of_a_subtask_is_done() -> None:
    bench = Bench(script('<step><walk s="2"/></step>', then=failing()), commands={"walk and nod": '<walk s="2"/><nod/>'})
    bench.plan("walk and nod")
    bench.run(60)
    assert bench.calls() == ["walk", "nod"] and bench.ended == [(0, "")]


def test_without_its_model_what_was_done_for_an_earlier_subtask_is_done_for_this_one() -> None:
    bench = Bench(script('<step><walk s="2"/></step><subtask_complete/>', then=failing()), commands={"walk": '<walk s="2"/>'})
    bench.plan("walk there", "walk")
    bench.run(60)
    assert bench.calls() == ["walk", "walk"] and bench.ended == [(0, "")]
