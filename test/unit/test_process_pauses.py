# SPDX-License-Identifier: Apache-2.0
"""Processes that are paused: by whom, what takes it back, and what comes back after it."""

from __future__ import annotations

import pytest
from process_desk import IDLE, PAUSED, REACTIVE, RUNS, Desk, EndProcess, PauseProcess, ReleaseProcess, ResumeProcess

from skill_kernel.calls import ProcessHoldState
from skill_kernel.codes import TaskCode
from skill_kernel.processes.process import ProcessError, ProcessStatus


def hold(process_id: str, *causes: str, subsystems: tuple[str, ...] = ()) -> ProcessHoldState:
    return ProcessHoldState(process_id, subsystems, causes)


def test_a_task_that_asks_for_a_return_displaces_and_gives_back() -> None:
    desk = Desk()
    patrol, look = desk.says("patrol"), desk.says("look left, then go on")
    assert desk.process(look).instruction == "look left"
    desk.wants_legs(patrol)
    assert desk.status(patrol) == [RUNS]
    desk.wants_legs(look)
    assert desk.status(patrol, look) == [PAUSED, RUNS]
    desk.finishes(look)
    assert desk.answer() == [ReleaseProcess(look), ResumeProcess(patrol, "s3")]
    assert desk.status(patrol) == [RUNS]


def test_stop_do_something_then_resume_pauses_everything_at_once() -> None:
    desk = Desk()
    patrol = desk.says("patrol")
    talk = desk.says("tell a story")
    look = desk.says("stop, look left, then resume")
    assert desk.asked == [PauseProcess(patrol, "s3"), PauseProcess(talk, "s3")]
    desk.answer()
    assert desk.status(patrol, talk, look) == [PAUSED, PAUSED, RUNS]
    desk.finishes(look)
    desk.answer()
    assert desk.status(patrol, talk) == [RUNS, RUNS]


def test_displaced_processes_come_back_in_turn() -> None:
    desk = Desk()
    names = [desk.says("patrol"), desk.says("stop, nod, then resume"), desk.says("stop, sit, then resume")]
    desk.answer()
    assert desk.status(*names) == [PAUSED, PAUSED, RUNS]
    assert [desk.process(n).displaced_by for n in names] == [names[1], names[2], ""]
    desk.finishes(names[2])
    desk.answer()
    assert desk.status(*names[:2]) == [PAUSED, RUNS]
    desk.finishes(names[1])
    desk.answer()
    assert desk.status(names[0]) == [RUNS]


def test_a_displaced_process_waits_for_whoever_took_its_place() -> None:
    desk = Desk()
    patrol, look = desk.says("patrol"), desk.says("stop, look left, then resume")
    desk.answer()
    kitchen = desk.says("go to the kitchen")
    desk.legs = kitchen
    desk.finishes(look)
    desk.answer()
    assert desk.process(patrol).displaced_by == kitchen and desk.status(patrol) == [PAUSED]
    desk.finishes(kitchen)
    desk.answer()
    assert desk.status(patrol) == [RUNS]


def test_subsystems_still_being_given_back_are_asked_for_again() -> None:
    desk = Desk()
    patrol, look = desk.says("patrol"), desk.says("stop, look left, then resume")
    desk.answer()
    desk.finishes(look)
    desk.asked.clear()
    desk.core.resumed(patrol, "s3", False, [look])
    assert desk.status(patrol) == [PAUSED] and not desk.asked
    desk.core.kernel_state([hold(patrol, "s3")])
    assert desk.asked == [ResumeProcess(patrol, "s3")]
    desk.answer()
    assert desk.status(patrol) == [RUNS]


def test_no_resume_wakes_what_another_cause_holds() -> None:
    desk = Desk()
    patrol, look = desk.says("patrol"), desk.says("stop, look left, then resume")
    desk.core.pause(patrol)
    desk.core.kernel_state([hold(patrol, "s0", "s3", "user")])
    desk.answer()
    assert desk.process(patrol).pause_causes == {"user", "s3", "s0"}
    desk.finishes(look)
    desk.answer()
    assert desk.process(patrol).pause_causes == {"user", "s0"} and desk.status(patrol) == [PAUSED]
    assert desk.core.resume(patrol) == ""
    desk.answer()
    assert desk.status(patrol) == [PAUSED]
    desk.core.kernel_state(())
    assert desk.status(patrol) == [RUNS]


def test_the_user_pauses_resumes_and_stops_and_is_told_what_does_not_fit() -> None:
    desk = Desk()
    name = desk.says()
    with pytest.raises(ProcessError, match="only what the user paused"):
        desk.core.resume(name)
    desk.core.pause(name)
    with pytest.raises(ProcessError, match="paused already"):
        desk.core.pause(name)
    desk.core.resume(name)
    assert desk.answer() == [PauseProcess(name, "user"), ResumeProcess(name, "user")]
    desk.core.stop(name, "enough")
    with pytest.raises(ProcessError, match="STOPPED"):
        desk.core.stop(name, "again")
    with pytest.raises(KeyError, match="nothing runs"):
        desk.core.chosen("", "stop")
    with pytest.raises(KeyError, match="no process 'x'"):
        desk.core.chosen("x", "stop")


def test_a_command_without_a_name_means_the_newest_it_fits() -> None:
    desk = Desk()
    first, second = desk.says(), desk.says()
    desk.core.pause(second)
    assert [desk.core.chosen("", c).process_id for c in ("stop", "pause", "resume")] == [second, first, second]


def test_everything_ends_and_nothing_is_resumed_when_the_robot_is_halted() -> None:
    desk = Desk(idle="wag")
    names = [desk.says("patrol"), desk.says("stop, look left, then resume")]
    desk.answer()
    desk.core.halted(True)
    assert {type(c) for c in desk.asked} == {EndProcess}
    assert [desk.process(n).code for n in names] == [TaskCode.ROBOT_HALTED] * 2
    desk.now_s += 100
    desk.core.tick()
    assert not desk.core.living
    desk.core.halted(False)
    desk.now_s += 6
    desk.core.tick()
    assert [p.source for p in desk.core.living] == [IDLE]


def test_what_the_user_just_paused_is_not_ended_by_a_newcomer() -> None:
    desk = Desk()
    first = desk.says()
    desk.wants_legs(first)
    desk.core.pause(first)
    second = desk.says()
    desk.core.contention(second, first)
    assert desk.status(first, second) == [PAUSED, ProcessStatus.WAITING]


def test_a_halt_resumes_nobody_also_not_who_waits_for_an_older_one() -> None:
    desk = Desk()
    older, newer = desk.says(source=REACTIVE), desk.says(source=REACTIVE)
    desk.wants_legs(newer)
    desk.wants_legs(older)
    assert desk.process(newer).displaced_by == older
    desk.core.halted(True)
    assert [type(c) for c in desk.answer()] == [EndProcess, EndProcess]


def test_the_users_resume_of_a_displaced_process_leaves_it_displaced() -> None:
    desk = Desk()
    patrol, look = desk.says("patrol"), desk.says("stop, look left, then resume")
    desk.core.pause(patrol)
    desk.answer()
    assert "“look left” runs in its place" in desk.core.resume(patrol)
    desk.answer()
    old = desk.process(patrol)
    assert (old.pause_causes, old.displaced_by) == ({"s3"}, look)
    desk.finishes(look)
    desk.answer()
    assert desk.status(patrol) == [RUNS]


def test_what_a_reflex_pauses_shows_as_paused_and_is_the_reflexes_to_take_back() -> None:
    desk = Desk()
    patrol, kitchen = desk.says("patrol"), desk.says("go to the kitchen")
    desk.wants_legs(patrol)
    for causes in ({"s0"}, {"waiting"}):
        desk.core.kernel_state([hold(patrol, *causes), hold("reflex", subsystems=("legs",))])
        assert desk.status(patrol) == [PAUSED] and desk.process(patrol).pause_causes == causes
        desk.core.contention(kitchen, "reflex")
        desk.core.contention(patrol, kitchen)
        desk.now_s += 10
        desk.core.tick()
        with pytest.raises(ProcessError, match=f"paused by {causes.pop()}; only what the user paused"):
            desk.core.resume(patrol)
    assert not desk.asked, "nobody is displaced, replaced or resumed for it"
    desk.core.kernel_state([hold(patrol, subsystems=("legs",))])
    assert desk.status(patrol, kitchen) == [RUNS, RUNS] and not desk.asked


def test_the_users_pause_outlasts_the_reflex_and_the_reflexes_pause_the_user() -> None:
    desk = Desk()
    patrol = desk.says("patrol")
    desk.core.kernel_state([hold(patrol, "s0")])
    desk.core.pause(patrol)
    desk.answer()
    desk.core.kernel_state([hold(patrol, "user")])
    assert desk.process(patrol).pause_causes == {"user"}
    desk.core.kernel_state([hold(patrol, "s0", "user")])
    desk.core.resume(patrol)
    assert desk.asked == [ResumeProcess(patrol, "user")]
    desk.asked.clear()
    desk.core.resumed(patrol, "user", False)
    assert desk.process(patrol).pause_causes == {"s0"} and not desk.asked


def test_a_resume_that_waits_is_taken_back_by_a_pause() -> None:
    desk = Desk()
    patrol = desk.says("patrol")
    desk.core.pause(patrol)
    desk.answer()
    kitchen = desk.says("go to the kitchen")
    desk.legs = kitchen
    assert desk.core.resume(patrol) == ""
    desk.answer()
    assert desk.process(patrol).displaced_by == kitchen
    desk.core.pause(patrol)
    desk.finishes(kitchen)
    assert ResumeProcess(patrol, "user") not in desk.answer()
    assert desk.status(patrol) == [PAUSED] and desk.process(patrol).displaced_by == ""
    with pytest.raises(ProcessError, match="paused already"):
        desk.core.pause(patrol)
    desk.core.resume(patrol)
    desk.answer()
    assert desk.status(patrol) == [RUNS]


def test_a_pause_that_overtakes_the_answer_to_a_resume_stands() -> None:
    desk = Desk()
    patrol = desk.says("patrol")
    desk.core.pause(patrol)
    desk.answer()
    desk.core.resume(patrol)
    desk.core.pause(patrol)
    assert desk.answer() == [ResumeProcess(patrol, "user"), PauseProcess(patrol, "user")]
    assert desk.status(patrol) == [PAUSED]
    desk.core.resume(patrol)
    desk.answer()
    assert desk.status(patrol) == [RUNS]


def test_the_kernel_alone_knows_what_is_paused() -> None:
    desk = Desk()
    patrol, look = desk.says("patrol"), desk.says("stop, look left, then resume")
    desk.finishes(look)
    desk.answer()
    assert desk.status(patrol) == [RUNS]
    desk.core.kernel_state([hold(patrol, "s3")])
    assert desk.status(patrol) == [PAUSED] and desk.asked == [ResumeProcess(patrol, "s3")], "its answer was lost"
    desk.core.kernel_state([hold(patrol, "s3")])
    assert desk.answer() == [ResumeProcess(patrol, "s3")] and desk.status(patrol) == [RUNS]


def test_a_pause_of_an_earlier_run_that_the_kernel_still_has_is_taken_back() -> None:
    before = Desk()
    patrol = before.says("patrol")
    before.says("stop, look left, then resume")
    desk = Desk(restore=before.core.processes)
    desk.core.reach()
    desk.core.kernel_state([hold(patrol, "s3", "user")])
    desk.core.resume(patrol)
    desk.answer()
    assert desk.status(patrol) == [RUNS]
