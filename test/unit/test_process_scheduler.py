# SPDX-License-Identifier: Apache-2.0
"""Several processes on one body: who runs, pauses, waits, ends and comes back, in the core alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

import pytest

from skill_kernel.codes import CallCode, TaskCode
from skill_kernel.process import CallRecord, Process, ProcessSource, ProcessStatus
from skill_kernel.process_commands import (
    Changed,
    Command,
    EndProcess,
    Held,
    InterruptPlan,
    PauseProcess,
    ProcessError,
    ReleaseProcess,
    ResumeProcess,
    SchedulerSettings,
)
from skill_kernel.process_scheduler import IDLE_RETRY_S, ProcessScheduler

USER, REACTIVE, IDLE = ProcessSource.USER, ProcessSource.REACTIVE, ProcessSource.IDLE
PAUSED, RUNS, WAITING = ProcessStatus.PAUSED, ProcessStatus.IN_PROGRESS, ProcessStatus.WAITING


class Desk:
    """A scheduler with what it asked for; a pause is answered at once, `legs` is the one exclusive subsystem."""

    def __init__(self, *, idle: str = "", unpausable: bool = False, restore: Iterable[Process] = ()) -> None:
        self.now_s = 100.0
        self.asked: list[Command] = []
        self.legs = ""
        self.unpausable = unpausable
        self.epoch = 0
        ids = count(1)
        self.core = ProcessScheduler(
            self._do, new_id=lambda: f"p{next(ids)}", now=lambda: self.now_s,
            settings=SchedulerSettings(idle=idle, idle_after_s=5.0, max_processes=4),
        )  # fmt: skip
        self.core.restore(restore)

    def _do(self, command: Command) -> None:
        if not isinstance(command, Changed):
            self.asked.append(command)

    def answer(self) -> list[Command]:
        """The kernel answers everything that was asked, in order; gives what was asked."""
        done: list[Command] = []
        while self.asked:
            command = self.asked.pop(0)
            done.append(command)
            name = command.process_id
            if isinstance(command, PauseProcess):
                held, self.legs = self.legs == name, "" if self.legs == name else self.legs
                self.core.paused(name, ["call"] if self.unpausable and held else [])
            elif isinstance(command, ResumeProcess):
                ok = self.legs in ("", name)
                self.core.resumed(name, command.cause, ok, () if ok else (self.legs,))
            elif isinstance(command, InterruptPlan):
                self.epoch += 1
                self.core.interrupted(name, self.epoch)
            elif isinstance(command, (EndProcess, ReleaseProcess)) and self.legs == name:
                self.legs = ""
        return done

    def says(self, text: str = "walk", source: ProcessSource = USER) -> str:
        return self.core.instruct(text, source=source).process_id

    def wants_legs(self, name: str) -> None:
        """A call on the legs: granted, or refused as often as the table lets somebody else keep them."""
        for _ in range(3):
            if self.legs in ("", name):
                self.legs = name
                self.core.call_started(name, CallRecord("c", "walk"))
                return
            self.core.contention(name, self.legs)
            self.answer()

    def finishes(self, name: str) -> None:
        self.core.plan_ended(name, self.process(name).epoch, 0, "")

    def process(self, name: str) -> Process:
        found = self.core.get(name)
        assert found is not None
        return found

    def status(self, *names: str) -> list[ProcessStatus]:
        return [self.process(n).status for n in names]


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
        (USER, USER, "replaced"), (USER, REACTIVE, "replaced"), (USER, IDLE, "paused"),
        (REACTIVE, USER, "paused"), (REACTIVE, REACTIVE, "waits"), (REACTIVE, IDLE, "paused"),
        (IDLE, USER, "waits"), (IDLE, REACTIVE, "waits"),
    ],
)  # fmt: skip
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
            assert (old.status, old.displaced_by, old.resumes, old.pause_causes) == (PAUSED, newer, True, {"s3"})
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


def test_stop_and_do_something_ends_what_ran() -> None:
    desk = Desk(idle="wag")
    patrol, look = desk.says("patrol"), desk.says("stop and look left")
    assert [type(c) for c in desk.answer()] == [EndProcess]
    assert desk.status(patrol, look) == [ProcessStatus.STOPPED, RUNS]


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
    desk.core.kernel_state({patrol: Held(pause_causes=frozenset({"s3"}))})
    assert desk.asked == [ResumeProcess(patrol, "s3")]
    desk.answer()
    assert desk.status(patrol) == [RUNS]


def test_no_resume_wakes_what_another_cause_holds() -> None:
    desk = Desk()
    patrol, look = desk.says("patrol"), desk.says("stop, look left, then resume")
    desk.core.pause(patrol)
    desk.core.kernel_state({patrol: Held((), frozenset({"s0", "s3", "user"}))})
    desk.answer()
    assert desk.process(patrol).pause_causes == {"user", "s3", "s0"}
    desk.finishes(look)
    desk.answer()
    assert desk.process(patrol).pause_causes == {"user", "s0"} and desk.status(patrol) == [PAUSED]
    assert desk.core.resume(patrol) == ""
    desk.answer()
    assert desk.status(patrol) == [PAUSED]
    desk.core.kernel_state({})
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


def test_a_call_that_could_not_pause_makes_the_plan_anew_when_it_goes_on() -> None:
    desk = Desk(unpausable=True)
    patrol = desk.says("patrol")
    desk.core.stream_started(patrol, "s1")
    desk.wants_legs(patrol)
    look = desk.says("stop, look left, then resume")
    stopped = CallRecord("c", "walk", outcome="INTERRUPTED", code=CallCode.PROCESS_PAUSED)
    desk.core.call_ended(patrol, "s1", stopped)
    # What the planner makes of it, before and after it was told, is no end of the process.
    desk.core.plan_ended(patrol, 0, TaskCode.CALL_FAILED, "walk INTERRUPTED")
    asked = desk.answer()
    assert [type(c) for c in asked] == [PauseProcess, InterruptPlan]
    desk.core.plan_ended(patrol, 0, TaskCode.CANCELLED, "interrupted")
    desk.core.drained(patrol)
    late = CallRecord("d", "walk", outcome="DROPPED", code=CallCode.STALE_EPOCH)
    desk.core.call_ended(patrol, "s1", late)
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
    desk.core.call_ended(name, "s", CallRecord("c", "walk", outcome="DROPPED", code=CallCode.STALE_EPOCH))
    assert desk.process(name).code == TaskCode.CANCELLED


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


def test_what_the_user_just_paused_is_not_ended_by_a_newcomer() -> None:
    desk = Desk()
    first = desk.says()
    desk.wants_legs(first)
    desk.core.pause(first)
    second = desk.says()
    desk.core.contention(second, first)
    assert desk.status(first, second) == [PAUSED, ProcessStatus.WAITING]


def test_go_on_after_nothing_is_part_of_the_task() -> None:
    desk = Desk()
    alone = desk.says("walk to the door, then keep going")
    assert desk.process(alone).instruction == "walk to the door, then keep going"


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


def test_a_late_refusal_of_a_paused_process_displaces_nobody() -> None:
    desk = Desk()
    idle, user = desk.says(source=IDLE), desk.says()
    desk.wants_legs(idle)
    desk.core.pause(user)
    desk.asked.clear()
    desk.core.contention(user, idle)
    assert not desk.asked and desk.status(idle, user) == [RUNS, PAUSED]


def test_a_halt_resumes_nobody_also_not_who_waits_for_an_older_one() -> None:
    desk = Desk()
    older, newer = desk.says(source=REACTIVE), desk.says(source=REACTIVE)
    desk.wants_legs(newer)
    desk.wants_legs(older)
    assert desk.process(newer).displaced_by == older
    desk.core.halted(True)
    assert [type(c) for c in desk.answer()] == [EndProcess, EndProcess]


def test_the_end_of_a_void_plan_does_not_end_the_one_made_anew() -> None:
    desk = Desk()
    name = desk.says()
    desk.core.call_ended(name, "s", CallRecord("c", "walk", outcome="INTERRUPTED", code=CallCode.PROCESS_PAUSED))
    (asked,) = desk.asked
    assert isinstance(asked, InterruptPlan), "a reflex has paused it, which is nobody's command here"
    desk.answer()
    desk.core.plan_ended(name, 0, TaskCode.CANCELLED, "interrupted")
    assert desk.status(name) == [RUNS] and desk.process(name).epoch == 1
    desk.core.plan_ended(name, 1, TaskCode.CALL_FAILED, "the new one failed")
    assert desk.process(name).code == TaskCode.CALL_FAILED


def test_a_plan_that_breaks_while_the_process_is_paused_is_made_anew_unless_the_model_failed() -> None:
    desk = Desk()
    first, second = desk.says(), desk.says()
    for name in (first, second):
        desk.core.pause(name)
    desk.core.plan_ended(first, 0, TaskCode.CALL_FAILED, "walk INTERRUPTED")
    desk.core.plan_ended(second, 0, 301, "rate limited")
    desk.answer()
    assert desk.status(first) == [PAUSED] and desk.process(first).plan == 1
    assert (desk.status(second), desk.process(second).code) == ([ProcessStatus.FAILED], 301)


def test_an_epoch_rises_also_when_the_kernel_is_silent() -> None:
    desk = Desk()
    name = desk.says()
    desk.core.paused(name, ["call"])
    desk.core.interrupted(name, 0)
    assert desk.process(name).epoch == 1


def test_what_the_user_asked_for_last_counts_as_the_newer_one() -> None:
    desk = Desk()
    patrol, kitchen = desk.says("patrol"), desk.says("go to the kitchen")
    desk.core.pause(patrol)
    desk.core.resume(patrol)
    desk.answer()
    desk.wants_legs(kitchen)
    desk.wants_legs(patrol)
    assert desk.process(kitchen).code == TaskCode.REPLACED and desk.status(patrol) == [RUNS]


def test_the_users_resume_of_a_displaced_process_leaves_it_displaced() -> None:
    desk = Desk()
    patrol, look = desk.says("patrol"), desk.says("stop, look left, then resume")
    desk.core.pause(patrol)
    desk.answer()
    assert look in desk.core.resume(patrol)
    desk.answer()
    old = desk.process(patrol)
    assert (old.pause_causes, old.displaced_by, old.resumes) == ({"s3"}, look, True)
    desk.finishes(look)
    desk.answer()
    assert desk.status(patrol) == [RUNS]


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


def test_lost_calls_end_what_runs_and_make_paused_plans_anew() -> None:
    desk = Desk()
    paused, runs = desk.says(), desk.says()
    desk.core.pause(paused)
    desk.core.calls_lost("the channel scheduler is silent")
    desk.answer()
    assert desk.process(runs).code == TaskCode.NODE_UNAVAILABLE and desk.status(runs) == [ProcessStatus.FAILED]
    assert desk.status(paused) == [PAUSED] and desk.process(paused).plan == 1
