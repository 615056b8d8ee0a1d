# SPDX-License-Identifier: Apache-2.0
"""Several processes on one body: who runs, waits, ends and takes over, in the core alone."""

from __future__ import annotations

import pytest
from process_desk import (
    IDLE,
    PAUSED,
    REACTIVE,
    RUNS,
    USER,
    WAITING,
    Desk,
    EndProcess,
    InterruptPlan,
    PauseProcess,
    ReleaseProcess,
    ResumeProcess,
)

from skill_kernel.codes import Outcome, TaskCode
from skill_kernel.events import StreamKind
from skill_kernel.processes.process import ProcessError, ProcessSource, ProcessStatus
from skill_kernel.processes.scheduler import DEBTOR_TICKS, PLANNER, SCHEDULER, SENDER


def test_two_run_together_until_they_contend() -> None:
    desk = Desk()
    first, second = desk.says(), desk.says("how many places have you seen?")
    desk.wants_legs(first)
    assert desk.status(first, second) == [RUNS, RUNS] and not desk.asked
    desk.finishes(second)
    assert desk.status(first, second) == [RUNS, ProcessStatus.SUCCESS]
    assert desk.answer() == [ReleaseProcess(second)]


@pytest.mark.parametrize(
    ("new", "running", "outcome"),
    [
        (USER, USER, "replaced"),
        (USER, REACTIVE, "replaced"),
        (USER, IDLE, "paused"),
        (REACTIVE, USER, "paused"),
        (REACTIVE, REACTIVE, "waits"),
        (REACTIVE, IDLE, "paused"),
        (IDLE, USER, "waits"),
        (IDLE, REACTIVE, "waits"),
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["the new one wants it", "the old one wants it later"])
def test_a_contention_goes_by_the_table(new: ProcessSource, running: ProcessSource, outcome: str, late: bool) -> None:
    desk = Desk()
    older, newer = desk.says(source=running), desk.says(source=new)
    desk.wants_legs(newer if late else older)
    desk.wants_legs(older if late else newer)
    if outcome == "waits":
        assert desk.legs == older
        assert desk.status(older, newer) == [RUNS, PAUSED if late else WAITING]
        desk.finishes(older)
        desk.answer()
        desk.wants_legs(newer)
    else:
        assert desk.legs == newer
        old = desk.process(older)
        if outcome == "paused":
            assert (old.status, old.displaced_by, old.pause_causes) == (PAUSED, newer, {"s3"})
            desk.finishes(newer)
            desk.answer()
            assert desk.status(older) == [RUNS] and not desk.process(older).displaced_by
        else:
            assert (old.status, old.code) == (ProcessStatus.STOPPED, TaskCode.REPLACED)
            return
    assert desk.status(older, newer).count(ProcessStatus.SUCCESS) == 1


def test_a_repeated_contention_decides_once() -> None:
    desk = Desk()
    idle, user = desk.says(source=IDLE), desk.says()
    desk.wants_legs(idle)
    for _ in range(3):
        desk.core.contention(user, idle)
    assert desk.asked == [PauseProcess(idle, "s3")]


def test_stop_and_do_something_ends_what_ran() -> None:
    desk = Desk(idle="wag")
    patrol, look = desk.says("patrol"), desk.says("stop and look left")
    assert [type(c) for c in desk.answer()] == [EndProcess]
    assert desk.status(patrol, look) == [ProcessStatus.STOPPED, RUNS]


def test_who_replaces_a_displacer_has_to_do_with_what_it_displaced() -> None:
    desk = Desk()
    wag, patrol, look = desk.says("wag", IDLE), desk.says("patrol"), desk.says("stop, look left, then resume")
    desk.answer()
    desk.wants_legs(look)
    new = desk.says("go to the kitchen")
    desk.wants_legs(new)
    assert desk.process(look).code == desk.process(patrol).code == TaskCode.REPLACED
    assert desk.process(wag).displaced_by == new and desk.status(wag) == [PAUSED]
    desk.finishes(new)
    desk.answer()
    assert desk.status(wag) == [RUNS]


def test_too_many_processes_are_refused_with_a_way_out() -> None:
    desk = Desk()
    for _ in range(4):
        desk.says()
    with pytest.raises(ProcessError, match="ghostshell stop"):
        desk.says()


def test_a_stop_stops_also_when_there_are_too_many() -> None:
    desk = Desk()
    ids = [desk.says() for _ in range(4)]
    desk.wants_legs(ids[0])
    with pytest.raises(ProcessError):
        desk.says("stop, look left, then resume")
    assert all(desk.process(i).pause_causes == {"user"} for i in ids)


def test_a_reaction_that_is_refused_pauses_nobody_however_it_begins() -> None:
    desk = Desk()
    ids = [desk.says() for _ in range(4)]
    desk.wants_legs(ids[0])
    with pytest.raises(ProcessError):
        desk.says("Stop and say hello", REACTIVE)
    assert not any(desk.process(i).pause_causes for i in ids) and desk.status(*ids) == [RUNS] * 4


def test_go_on_after_nothing_is_part_of_the_task() -> None:
    desk = Desk()
    alone = desk.says("walk to the door, then keep going")
    assert desk.process(alone).instruction == "walk to the door, then keep going"


def test_a_late_refusal_of_a_paused_process_displaces_nobody() -> None:
    desk = Desk()
    idle, user = desk.says(source=IDLE), desk.says()
    desk.wants_legs(idle)
    desk.core.pause(user)
    desk.asked.clear()
    desk.core.contention(user, idle)
    assert not desk.asked and desk.status(idle, user) == [RUNS, PAUSED]


def test_what_the_user_asked_for_last_counts_as_the_newer_one() -> None:
    desk = Desk()
    patrol, kitchen = desk.says("patrol"), desk.says("go to the kitchen")
    desk.core.pause(patrol)
    desk.core.resume(patrol)
    desk.answer()
    desk.wants_legs(kitchen)
    desk.wants_legs(patrol)
    assert desk.process(kitchen).code == TaskCode.REPLACED and desk.status(patrol) == [RUNS]


def test_a_restart_shows_every_process_and_runs_none() -> None:
    before = Desk(idle="wag")
    done, walking, paused = before.says(), before.says(), before.says()
    before.finishes(done)
    before.wants_legs(walking)
    before.core.pause(paused)
    desk = Desk(idle="wag", restore=before.core.processes)
    assert [p.process_id for p in desk.core.processes] == [done, walking, paused]
    assert desk.status(done, walking, paused) == [ProcessStatus.SUCCESS, PAUSED, PAUSED]
    assert desk.process(walking).pause_causes == {"user"} and not desk.asked
    assert [(c.function, c.outcome) for c in desk.process(walking).history] == [("walk", "INTERRUPTED")]
    desk.now_s += 100
    desk.core.tick()
    assert len(desk.core.living) == 2
    desk.core.resume(walking)
    assert not desk.asked, "it waits until what is left of the earlier run is void"
    desk.core.reach()
    asked = desk.answer()
    assert [type(c) for c in asked if c.process_id == walking] == [PauseProcess, InterruptPlan, ResumeProcess]
    assert desk.status(walking, paused) == [RUNS, PAUSED]
    assert desk.process(walking).plan == 1 and desk.process(walking).epoch > 0


def test_nothing_is_told_anew_of_processes_that_had_ended_before_a_restart() -> None:
    before = Desk()
    done, walking = before.says(), before.says()
    before.finishes(done)
    desk = Desk(restore=before.core.processes)
    assert [p.process_id for p in desk.blocks] == [walking]


def ticks(desk: Desk, count: int, *alive: str) -> None:
    """Let time pass in which these nodes answer for every process."""
    for _ in range(count):
        for node in alive:
            desk.core.alive(node, [p.process_id for p in desk.core.processes])
        desk.core.tick()


def test_a_process_that_nobody_plans_ends_and_says_which_node_owed_an_answer() -> None:
    desk = Desk()
    name = desk.says()
    ticks(desk, 50, PLANNER)
    assert desk.status(name) == [RUNS]
    ticks(desk, DEBTOR_TICKS - 1, SCHEDULER)
    assert desk.status(name) == [RUNS], "a node that owes nothing does not help, but the time is not over"
    ticks(desk, 1, SCHEDULER)
    process = desk.process(name)
    assert (process.status, process.code) == (ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE) and PLANNER in process.message
    assert desk.answer() == [EndProcess(name, process.message)]


@pytest.mark.parametrize("planned", [True, False], ids=["a call runs", "the plan has ended before its calls"])
def test_a_process_whose_calls_nobody_schedules_ends(planned: bool) -> None:
    desk = Desk()
    name = desk.says()
    desk.tell(StreamKind.STARTED, name, stream_id="s")
    if planned:
        desk.wants_legs(name)
    else:
        desk.finishes(name)
    ticks(desk, 50, PLANNER, SCHEDULER)
    assert desk.status(name) == [RUNS]
    ticks(desk, DEBTOR_TICKS + 2, PLANNER)
    assert desk.status(name) == [ProcessStatus.FAILED] and SCHEDULER in desk.process(name).message


def test_nobody_owes_anything_while_a_process_is_paused_or_planned_anew() -> None:
    desk = Desk(unpausable=True)
    name = desk.says()
    desk.wants_legs(name)
    desk.core.pause(name)
    desk.answer()
    ticks(desk, 50)
    assert desk.status(name) == [PAUSED]
    desk.core.resume(name)
    ticks(desk, 4, PLANNER)
    assert desk.status(name) == [PAUSED], "the kernel has not answered"
    desk.answer()
    assert desk.status(name) == [RUNS]
    desk.call_ends(name, Outcome.INTERRUPTED, 0)
    ticks(desk, 50, PLANNER)
    assert desk.status(name) == [RUNS]
    ticks(desk, DEBTOR_TICKS + 2)
    assert desk.status(name) == [ProcessStatus.FAILED]


def test_a_process_ends_with_whoever_follows_it_and_goes_on_where_nobody_ever_did() -> None:
    desk = Desk()
    followed, left = desk.says(), desk.says()
    desk.core.alive(SENDER, [followed])
    desk.core.pause(followed)
    ticks(desk, DEBTOR_TICKS, PLANNER)
    desk.core.alive(SENDER, [followed])
    ticks(desk, DEBTOR_TICKS, PLANNER)
    assert desk.status(followed, left) == [PAUSED, RUNS]
    ticks(desk, 1, PLANNER)
    assert desk.status(followed, left) == [ProcessStatus.STOPPED, RUNS]
    assert desk.process(followed).code == TaskCode.CANCELLED and "gone" in desk.process(followed).message


@pytest.mark.parametrize(
    ("cause", "told"), [("halt was called by safety: “a child”", ": halt was called by safety: “a child”"), ("", "")]
)
def test_a_task_that_a_halt_ends_tells_who_halted_and_why(cause: str, told: str) -> None:
    desk = Desk()
    name = desk.says()
    desk.core.halted(True, cause)
    assert desk.process(name).message == f"the robot was halted{told}"
