# SPDX-License-Identifier: Apache-2.0
"""Plans that cannot go on: void everywhere first, then made anew; and what ends a process."""

from __future__ import annotations

from typing import Any

import pytest
from process_desk import PAUSED, RUNS, Amended, Desk, InterruptPlan, PauseProcess, ReleaseProcess

from skill_kernel.codes import CallCode, ModelCode, Outcome, TaskCode
from skill_kernel.events import ModelEvent, ModelKind, ProcessKind, StreamKind
from skill_kernel.processes.process import FIRED, ProcessError, ProcessStatus


def answer(name: str, layer: str, prompt: int = 0, completion: int = 0, **more: Any) -> ModelEvent:
    tokens = {"prompt_tokens": prompt, "completion_tokens": completion}
    return ModelEvent(kind=ModelKind.ANSWERED, process_id=name, layer=layer, model="m", **tokens, **more)


def test_a_call_that_could_not_pause_makes_the_plan_anew_when_it_goes_on() -> None:
    desk = Desk(unpausable=True)
    patrol = desk.says("patrol")
    desk.tell(StreamKind.STARTED, patrol, stream_id="s1")
    desk.wants_legs(patrol)
    look = desk.says("stop, look left, then resume")
    desk.call_ends(patrol, Outcome.INTERRUPTED, CallCode.PROCESS_PAUSED, "s1")
    # What the planner makes of it, before and after it was told, is no end of the process.
    desk.plan_ends(patrol, 0, TaskCode.CALL_FAILED, "walk INTERRUPTED")
    asked = desk.answer()
    assert [type(c) for c in asked] == [PauseProcess, InterruptPlan]
    desk.plan_ends(patrol, 0, TaskCode.CANCELLED, "interrupted")
    desk.tell(ProcessKind.DRAINED, patrol)
    desk.call_ends(patrol, Outcome.DROPPED, CallCode.STALE_EPOCH, "s1", "d")
    assert desk.status(patrol) == [PAUSED] and (desk.process(patrol).epoch, desk.process(patrol).plan) == (1, 1)
    desk.finishes(look)
    desk.answer()
    assert desk.status(patrol) == [RUNS]
    assert [c.outcome for c in desk.process(patrol).history] == ["INTERRUPTED", "DROPPED"]
    desk.finishes(patrol)
    assert desk.status(patrol) == [ProcessStatus.SUCCESS]


def test_it_does_not_go_on_before_its_old_plan_is_void() -> None:
    desk = Desk()
    patrol, look = desk.says("patrol"), desk.says("stop, look left, then resume")
    desk.asked.clear()
    desk.core.paused(patrol, ["call"])
    desk.finishes(look)
    assert desk.asked == [InterruptPlan(patrol, desk.asked[0].cause), ReleaseProcess(look)]
    desk.answer()
    assert desk.status(patrol) == [RUNS] and desk.process(patrol).plan == 1


def test_an_interrupt_by_somebody_else_ends_it() -> None:
    desk = Desk()
    name = desk.says()
    desk.call_ends(name, Outcome.DROPPED, CallCode.STALE_EPOCH)
    assert desk.process(name).code == TaskCode.CANCELLED


def test_the_end_of_a_void_plan_does_not_end_the_one_made_anew() -> None:
    desk = Desk()
    name = desk.says()
    desk.call_ends(name, Outcome.INTERRUPTED, CallCode.PROCESS_PAUSED)
    (asked,) = desk.asked
    assert isinstance(asked, InterruptPlan), "a reflex has paused it, which is nobody's command here"
    desk.answer()
    desk.plan_ends(name, 0, TaskCode.CANCELLED, "interrupted")
    assert desk.status(name) == [RUNS] and desk.process(name).epoch == 1
    desk.plan_ends(name, 1, TaskCode.CALL_FAILED, "the new one failed")
    assert desk.process(name).code == TaskCode.CALL_FAILED


def test_a_plan_that_breaks_while_the_process_is_paused_is_made_anew_unless_the_model_failed() -> None:
    desk = Desk()
    first, second = desk.says(), desk.says()
    for name in (first, second):
        desk.core.pause(name)
    desk.plan_ends(first, 0, TaskCode.CALL_FAILED, "walk INTERRUPTED")
    desk.plan_ends(second, 0, 301, "rate limited")
    desk.answer()
    assert desk.status(first) == [PAUSED] and desk.process(first).plan == 1
    assert (desk.status(second), desk.process(second).code) == ([ProcessStatus.FAILED], 301)


def test_an_epoch_rises_also_when_the_kernel_is_silent() -> None:
    desk = Desk()
    name = desk.says()
    desk.core.paused(name, ["call"])
    desk.core.interrupted(name, 0)
    assert desk.process(name).epoch == 1


def test_lost_calls_end_what_runs_and_make_paused_plans_anew() -> None:
    desk = Desk()
    paused, runs = desk.says(), desk.says()
    desk.core.pause(paused)
    desk.core.calls_lost("the channel scheduler is silent")
    desk.answer()
    assert desk.process(runs).code == TaskCode.NODE_UNAVAILABLE and desk.status(runs) == [ProcessStatus.FAILED]
    assert desk.status(paused) == [PAUSED] and desk.process(paused).plan == 1


def test_a_global_event_is_kept_and_the_process_planned_anew_once_for_events_at_one_moment() -> None:
    desk = Desk()
    name = desk.says()
    desk.tell(ProcessKind.PLAN_EVENT, name, plan_item_id="e1", plan_item="wave")
    desk.tell(ProcessKind.PLAN_EVENT, name, plan_item_id="e2", plan_item="bark")
    assert [type(c) for c in desk.answer()] == [InterruptPlan]
    process = desk.process(name)
    assert process.fired_events == ("e1: wave", "e2: bark") and (process.epoch, process.plan) == (1, 1)
    assert desk.status(name) == [RUNS]
    for number in range(FIRED + 5):
        desk.tell(ProcessKind.PLAN_EVENT, name, plan_item_id=f"e{number}", plan_item="wave")
    assert len(desk.process(name).fired_events) == FIRED and desk.process(name).fired_events[-1] == f"e{FIRED + 4}: wave"
    desk.tell(ProcessKind.PLAN_EVENT, "nobody", plan_item_id="e1")


def test_what_models_use_is_summed_by_layer_and_a_layer_that_was_answered_is_well_again() -> None:
    desk = Desk()
    name = desk.says()
    desk.tell(ModelKind.DEGRADED, name, layer="s2", fallback="the plan stays")
    desk.tell(ModelKind.DEGRADED, name, layer="s1", fallback="from the queue")
    desk.tell(ModelKind.DEGRADED, name, layer="s2", fallback="the instruction is the plan")
    desk.core.take(
        answer(name, "s1", 100, 10, cached_tokens=50, cost_usd=0.5, end_s=1.0, error_code=int(ModelCode.MODEL_TIMEOUT))
    )
    assert desk.process(name).degraded == (("s1", "from the queue"), ("s2", "the instruction is the plan"))
    desk.core.take(answer(name, "s2", 1000, 20, end_s=2.0))
    desk.tell(ModelKind.SKIPPED, name, layer="s2")
    desk.tell(StreamKind.ENDED, name, node="action_planner")
    process = desk.process(name)
    assert process.degraded == (("s1", "from the queue"),) and process.turn == 1
    assert (process.prompt_tokens, process.completion_tokens, process.cost_usd) == (1100, 30, 0.5)
    assert {u.layer: (u.calls, u.failures, u.skipped) for u in process.usage} == {"s1": (1, 1, 0), "s2": (1, 0, 1)}


def test_what_a_model_used_is_counted_also_when_it_is_told_after_the_end_and_the_end_is_told_once() -> None:
    desk = Desk()
    name = desk.says()
    desk.plan_ends(name)
    desk.answer()
    ends = [p for p in desk.blocks if p.status.ended]
    desk.core.take(answer(name, "s2", 70, 5))
    desk.tell(ModelKind.SKIPPED, name, layer="s2")
    assert [p for p in desk.blocks if p.status.ended] == ends and desk.process(name).prompt_tokens == 70
    (amended,) = desk.asked
    assert isinstance(amended, Amended) and amended.process.usage[0].prompt_tokens == 70
    desk.core.take(answer("nobody", "s2"))


def test_a_task_names_its_strategy_or_is_refused_with_those_there_are() -> None:
    desk = Desk()
    assert desk.core.instruct("walk").strategy == "stream"
    assert desk.core.instruct("walk", strategy="layered").strategy == "layered"
    with pytest.raises(ProcessError, match="'dream' is unknown; use one of stream, layered") as refused:
        desk.core.instruct("walk", strategy="dream")
    assert refused.value.code is TaskCode.UNKNOWN_STRATEGY and len(desk.core.living) == 2
