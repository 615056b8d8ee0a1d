# SPDX-License-Identifier: Apache-2.0
"""When idle behaviour begins, and when it does not."""

from __future__ import annotations

from process_desk import IDLE, REACTIVE, USER, Desk

from skill_kernel.calls import ProcessHoldState
from skill_kernel.codes import TaskCode
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.processes.scheduler import IDLE_RETRY_S


def test_idle_behaviour_runs_alone_once_and_not_against_the_users_will() -> None:
    desk = Desk(idle="wag")
    desk.core.tick()
    assert not desk.core.living
    desk.now_s += 5
    for _ in range(3):
        desk.core.tick()
        desk.now_s += 5
    (wag,) = desk.core.living
    assert (wag.instruction, wag.source, wag.door) == ("wag", IDLE, "idle")
    desk.core.stop(wag.process_id, "quiet")
    desk.now_s += 60
    desk.core.tick()
    assert not desk.core.living
    desk.finishes(desk.says())
    desk.core.tick()
    desk.now_s += 5
    desk.core.tick()
    (again,) = desk.core.living
    desk.core.fail(again.process_id, TaskCode.CALL_FAILED, "no legs")
    desk.now_s += IDLE_RETRY_S - 1
    desk.core.tick()
    assert not desk.core.living
    desk.now_s += 2
    desk.core.tick()
    assert len(desk.core.living) == 1


def test_a_guideline_does_not_bring_back_idle_behaviour_that_the_user_stopped() -> None:
    desk = Desk(idle="wag")
    desk.now_s += 5
    desk.core.tick()
    desk.core.stop(desk.core.living[0].process_id, "quiet")
    desk.finishes(desk.says("say hello", REACTIVE))
    for _ in range(3):
        desk.now_s += 60
        desk.core.tick()
    assert not desk.core.living


def test_idle_behaviour_that_the_user_paused_is_not_begun_a_second_time() -> None:
    desk = Desk(idle="wag")
    desk.now_s += 5
    desk.core.tick()
    (wag,) = desk.core.living
    desk.core.pause(wag.process_id)
    desk.now_s += 60
    desk.core.tick()
    assert len(desk.core.living) == 1


def test_a_user_who_paused_everything_does_not_keep_the_robot_from_idling() -> None:
    desk = Desk(idle="wag")
    desk.core.pause(desk.says())
    desk.now_s += 6
    desk.core.tick()
    assert [p.source for p in desk.core.living] == [USER, IDLE]


def test_idle_behaviour_that_is_soon_over_waits_its_time_again() -> None:
    desk = Desk(idle="wag")
    desk.now_s += 5
    desk.core.tick()
    (wag,) = desk.core.living
    desk.finishes(wag.process_id)
    desk.now_s += 0.25
    desk.core.tick()
    assert not desk.core.living
    desk.now_s += 5
    desk.core.tick()
    assert len(desk.core.living) == 1


def test_a_clock_that_is_set_back_delays_idle_behaviour_by_no_more_than_its_wait() -> None:
    desk = Desk(idle="wag")
    desk.core.tick()
    desk.now_s -= 3600
    desk.core.tick()
    desk.now_s += 5
    desk.core.tick()
    (wag,) = desk.core.living
    desk.core.fail(wag.process_id, TaskCode.CALL_FAILED, "no legs")
    desk.now_s -= 86_400
    desk.core.tick()
    desk.now_s += IDLE_RETRY_S
    desk.core.tick()
    assert len(desk.core.living) == 1


def test_idle_behaviour_gives_way_to_another_planner_and_stays_away_while_that_holds_something() -> None:
    desk = Desk(idle="wag")
    desk.now_s += 5
    desk.core.tick()
    (wag,) = desk.core.living
    desk.core.take(CallEvent(kind=CallKind.CONTENTION, process_id="kitchen-1", holder_id=wag.process_id))
    assert not desk.core.living and "process kitchen-1 of another planner needs" in desk.core.processes[-1].message
    desk.core.kernel_state([ProcessHoldState("kitchen-1", ("legs",))])
    for _ in range(3):
        desk.now_s += 60
        desk.core.tick()
    assert not desk.core.living
    desk.core.kernel_state([])
    desk.now_s += 4
    desk.core.tick()
    assert not desk.core.living, "it has been quiet for 4 s"
    desk.now_s += 1
    desk.core.tick()
    assert len(desk.core.living) == 1


def test_a_task_does_not_give_way_to_another_planner() -> None:
    desk = Desk()
    walk = desk.says()
    desk.core.take(CallEvent(kind=CallKind.CONTENTION, process_id="kitchen-1", holder_id=walk))
    assert [p.process_id for p in desk.core.living] == [walk]
