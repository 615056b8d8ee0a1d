# SPDX-License-Identifier: Apache-2.0
"""What System 1 waits for, it waits for only while the process may go on, and never for ever."""

from __future__ import annotations

from layered_kit import GOOD, Bench, script

from planners.plan import FALLBACK
from planners.strategy import Interrupted, Paused, Restarted, Resumed
from skill_kernel.codes import TaskCode


def blocked(**more: object) -> Bench:
    """Return a process that has failed twice alike and waits for System 2 to change the plan."""
    bench = Bench(script(then='<step><walk s="1"/></step>'), **more)  # type: ignore[arg-type]
    bench.body.fails = lambda call: "the way is blocked" if call.function == "walk" else ""
    bench.plan("walk")
    bench.run(5)
    assert len(bench.calls(outcome="FAILED")) == 2 and bench.ended == []
    return bench


def pause(bench: Bench, seconds: float) -> None:
    bench.hear(Paused())
    bench.scheduler.pause(True)
    bench.run(seconds)
    bench.scheduler.pause(False)
    bench.hear(Resumed())


def test_a_review_that_came_due_while_everything_was_void_still_ends_the_process() -> None:
    bench = blocked()
    bench.hear(Interrupted("a reflex"))
    bench.scheduler.interrupt("a reflex")
    bench.run(9)
    bench.hear(Restarted(()))
    bench.run(bench.settings["review_wait_s"] - 1)
    assert bench.ended == []
    bench.run(20)
    ((code, why),) = bench.ended
    assert code == TaskCode.CALL_FAILED and "the way is blocked" in why


def test_a_changed_plan_is_followed_though_its_review_came_due_while_everything_was_void() -> None:
    bench = blocked()
    bench.hear(Interrupted("a reflex"))
    bench.scheduler.interrupt("a reflex")
    bench.run(9)
    bench.hear(Restarted(()))
    bench.model.answer = script(then=GOOD)
    bench.plan("nod", revision=2)
    bench.run(60)
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")]


def test_a_pause_is_no_time_in_which_system_2_has_failed_to_change_the_plan() -> None:
    bench = blocked()
    pause(bench, 30)
    assert bench.ended == []
    bench.run(bench.settings["review_wait_s"] - 1)
    assert bench.ended == []
    bench.model.answer = script(then=GOOD)
    bench.plan("nod", revision=2)
    bench.run(20)
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")]


def test_a_review_that_nobody_gives_after_a_pause_ends_the_process() -> None:
    bench = blocked()
    pause(bench, 30)
    bench.run(30)
    assert bench.ended[0][0] == TaskCode.CALL_FAILED


def test_a_failure_that_is_heard_of_in_a_pause_is_waited_for_after_it() -> None:
    bench = Bench(script(then='<step><walk s="1"/></step>'))
    bench.body.fails = lambda call: "the way is blocked" if call.function == "walk" else ""
    bench.plan("walk")
    while len(bench.calls(outcome="FAILED")) < 2:
        bench.run(0.004)
    bench.hear(Paused())
    bench.run(30)
    assert bench.ended == []
    bench.hear(Resumed())
    bench.run(30)
    assert bench.ended[0][0] == TaskCode.CALL_FAILED


def test_a_pause_before_the_first_plan_is_no_silence_of_system_2() -> None:
    bench = Bench(script(then=GOOD))
    pause(bench, 10)
    assert bench.of("degraded") == []
    bench.plan("nod")
    bench.run(20)
    assert bench.of("degraded") == [] and bench.ended == [(0, "")]


def test_a_system_2_that_stays_silent_after_a_pause_is_done_without() -> None:
    bench = Bench(script(then=GOOD), instruction="nod")
    pause(bench, 10)
    bench.run(20)
    assert len(bench.of("degraded")) == 1 and bench.planner._goals.plan.made_by == FALLBACK  # type: ignore[union-attr]
    assert bench.calls() == ["nod"] and bench.ended == [(0, "")]


def test_a_revision_that_is_never_finished_does_not_keep_the_process() -> None:
    bench = Bench(script('<step><walk s="9"/></step>', then="<subtask_complete/>"))
    bench.plan("walk")
    bench.run(5)
    bench.plan("walk", revision=2, complete=False)
    bench.run(30)
    assert bench.of("done") == [("t1",)] and bench.ended == [(0, "")]
    assert [how for _, how, _ in bench.of("degraded")] == ["what is planned so far is the plan"]


def test_a_plan_that_is_still_being_written_is_given_its_time_from_its_last_word_on() -> None:
    bench = Bench(script(then=GOOD))
    bench.plan("nod", complete=False)
    bench.run(3.5)
    bench.plan("nod", "nod", revision=2, complete=False)
    bench.run(2.5)
    assert bench.of("done") == [("t1",), ("t2",)] and bench.ended == []
    bench.plan("nod", "nod", "nod", revision=3)
    bench.run(20)
    assert bench.of("done") == [("t1",), ("t2",), ("t3",)] and bench.of("degraded") == []
