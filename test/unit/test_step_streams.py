# SPDX-License-Identifier: Apache-2.0
"""Steps over several streams of a process: what a failure takes with it (C11), replacing, and the queue as it is shown."""

from __future__ import annotations

import pytest
from step_kit import Asked, Plan

from function_tokens.scheduling.queues import StepQueue
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import ProcessKind, StreamKind


def sources(queue: StepQueue) -> tuple[str, list[str]]:
    return queue.running, list(queue.queued)


# -- failures -----------------------------------------------------------------------------------------------------------


def test_a_failure_drops_the_queued_steps_of_later_streams_too_and_ends_those_streams() -> None:
    plan = Plan()
    plan.write("<step><walk/></step><step><turn/></step>", "a", turn=1)
    plan.write("<step><nod/></step><subtask_complete/><step><swing/>", "b", turn=1)
    plan.fail("walk")
    plan.write("<turn/></step><step><spin/></step>", "b")
    dropped = sorted(f for f, o in plan.outcomes() if o == "DROPPED")
    assert dropped == sorted(["turn", "step", "nod", "step", "subtask_complete", "swing", "step", "turn", "step", "spin"])
    assert plan.hand.started == ["walk"]
    step = next(c for c in plan.ended if c.function == "step" and c.start_s is not None)
    assert step.outcome is Outcome.FAILED
    assert step.code == CallCode.SKILL_FAILED and "'walk' failed" in step.error
    stopped = {e.stream_id for e in plan.reported(StreamKind.STOP_GENERATION)}
    assert stopped == {"a", "b"}
    assert {e.stream_id: e.end for e in plan.reported(StreamKind.TURN_ENDED)} == {"a": "failure", "b": "end"}
    assert plan.reported(ProcessKind.DRAINED)


def test_steps_planned_before_the_failure_was_known_do_not_run_when_they_arrive_after_it() -> None:
    plan = Plan()
    plan.write("<step><walk/></step>", "a", turn=3)
    plan.write(" ", "b", turn=4)
    plan.fail("walk")
    plan.write("<step><nod/></step>", "b")
    plan.write("<step><swing/></step>", "c", turn=4)
    plan.write("<subtask_complete/>", "d", turn=2)
    assert plan.hand.started == ["walk"]
    assert plan.result("subtask_complete").outcome is Outcome.DROPPED
    plan.write("<step><turn/></step>", "e", turn=5)
    assert plan.hand.started == ["walk", "turn"]
    plan.write("<step><ping/></step>", "f", turn=0, epoch=1)
    plan.end("turn")
    assert plan.hand.started == ["walk", "turn", "ping"], "another epoch begins anew"


def test_a_failure_outside_of_the_steps_leaves_the_step_that_runs() -> None:
    plan = Plan()
    plan.write("<turn/>", "first")
    plan.close("first")
    plan.write("<step><nod/>", "s", turn=1)
    plan.write("<step><swing/></step>", "s2", turn=1)
    plan.fail("turn")
    plan.write("<ping/></step><step><walk/></step>", "s")
    assert plan.hand.started == ["turn", "nod", "ping"]
    plan.end("nod"), plan.end("ping")
    assert [o for f, o in plan.outcomes() if f == "step"] == ["DROPPED", "DROPPED", "DONE"]
    assert plan.hand.started == ["turn", "nod", "ping"] and plan.reported(ProcessKind.DRAINED)


def test_a_failure_that_is_only_reported_takes_nothing_with_it() -> None:
    plan = Plan()
    plan.write("<step><music/></step><step><nod/></step>")
    plan.fail("music")
    assert plan.result("step").outcome is Outcome.DONE and plan.hand.started == ["music", "nod"]


def test_a_late_failure_of_an_interrupted_epoch_leaves_the_new_plan_alone() -> None:
    plan = Plan()
    plan.write("<step><walk/></step>", "old", turn=7)
    plan.run("walk")
    plan.scheduler.interrupt("enough")
    plan.write("<step><nod/></step><step><swing/></step>", "new", turn=0, epoch=1)
    plan.fail("walk")
    assert plan.hand.started == ["walk", "nod"]
    plan.end("nod")
    assert plan.hand.started == ["walk", "nod", "swing"]


# -- replacing ----------------------------------------------------------------------------------------------------------


def test_replace_steps_drops_what_has_not_begun_at_once_and_leaves_what_runs() -> None:
    plan = Plan()
    plan.write('<step><walk/><turn/><if cond="always"><nod/></if></step><step><swing/></step><subtask_complete/>', "a")
    plan.write("<replace_steps/><step><ping/></step>", "b", turn=1)
    assert sorted(plan.outcomes()) == [
        ("replace_steps", "DONE"),
        ("step", "DROPPED"),
        ("subtask_complete", "DROPPED"),
        ("swing", "DROPPED"),
    ]
    assert plan.result("replace_steps").message == "dropped: 2" and plan.hand.stops == []
    plan.end("walk"), plan.end("turn"), plan.end("nod")
    assert plan.hand.started == ["walk", "turn", "nod", "ping"]


@pytest.mark.parametrize("turn", [0, 1])
def test_after_replace_steps_the_running_step_is_read_to_its_end_and_nothing_behind_it(turn: int) -> None:
    plan = Plan()
    plan.write("<step><walk/>", "a")
    plan.write("<replace_steps/><step><nod/></step>", "b", turn=turn)
    plan.write("<ping/></step><step><swing/></step>", "a")
    assert plan.hand.started == ["walk", "ping"]
    plan.end("walk"), plan.end("ping"), plan.end("nod")
    assert plan.hand.started == ["walk", "ping", "nod"] and plan.result("swing").outcome is Outcome.DROPPED


def test_steps_of_a_turn_before_they_were_replaced_do_not_run_when_they_arrive_late() -> None:
    plan = Plan()
    plan.write("<replace_steps/><step><nod/></step>", "b", turn=4)
    plan.write("<step><turn/></step>", "late", turn=3)
    plan.write("<step><walk/></step>", "next", turn=4)
    plan.end("nod")
    assert plan.hand.started == ["nod", "walk"] and plan.result("turn").outcome is Outcome.DROPPED


@pytest.mark.parametrize("stream", ["<step><replace_steps/></step>", "<wait><replace_steps/></wait>"])
def test_replace_steps_inside_an_element_is_refused(stream: str) -> None:
    plan = Plan()
    plan.write("<step><walk/></step><step><nod/></step>", "a")
    plan.write(stream, "b", turn=1)
    assert plan.result("replace_steps").code == CallCode.RESERVED_NAME


def test_new_steps_may_stand_between_the_tags_of_replace_steps() -> None:
    plan = Plan()
    plan.write("<step><walk/></step><step><nod/></step>", "a")
    plan.write("<replace_steps><step><swing/></step></replace_steps>", "b", turn=1)
    plan.end("walk")
    assert plan.hand.started == ["walk", "swing"]


# -- the queue ----------------------------------------------------------------------------------------------------------


def test_the_queue_shows_each_step_as_it_is_written_and_where_it_stands() -> None:
    asked = Asked()
    plan = Plan(conditions=asked)
    plan.write("<step><walk s='2'/>", "a")
    assert sources(plan.queue) == ("<step></step>", []) and plan.queue.reading
    plan.write('</step><step><if cond="a < 5">Go & see<nod/>', "a")
    assert sources(plan.queue) == ('<step><walk s="2"/></step>', ["<step></step>"]) and plan.queue.reading
    plan.write("</if><else/></step>", "a")
    queued = sources(plan.queue)[1]
    assert queued == ['<step><if cond="a &lt; 5">Go &amp; see<nod/></if><else/></step>']
    assert not plan.queue.reading and plan.queue.queued_streams[0] == "a" and plan.queue.done == 0
    plan.end("walk")
    assert sources(plan.queue) == (queued[0], []) and plan.queue.done == 1
    asked.say("a < 5", False)
    assert sources(plan.queue) == ("", []) and plan.queue.done == 2


def test_a_step_that_is_dropped_leaves_the_queue_and_does_not_count_as_done() -> None:
    plan = Plan()
    plan.write("<step><walk/></step><step><nod/></step>")
    plan.fail("walk")
    assert plan.queue == StepQueue(done=1)


def test_the_queue_is_told_once_for_all_that_happens_at_an_instant() -> None:
    plan = Plan()
    plan.write("<step><walk/></step>")
    before = len(plan.queues)
    plan.write("<step><nod/></step>")
    told = [sources(q)[1] for q in plan.queues[before:]]
    assert told == [["<step></step>"], ["<step><nod/></step>"]]
    plan.end("walk")
    assert len(plan.queues) == before + 3
