# SPDX-License-Identifier: Apache-2.0
"""Faults while Kalos walks by strategy `layered`: its model dies, falls silent or talks nonsense, it is blind, a door shuts in
its way, instructions pour in, its mind dies. Each task ends truthfully with a reason or goes on at work, and the next one sets
out (each test begins with that)."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
from ghostshell.msg import ProcessState
from ghostshell.srv import ControlProcess
from std_srvs.srv import SetBool

from bench.simulated_model.model_server import ModelServer
from layered_fault_support import (
    TWO_LEGS,
    FaultObserver,
    Journey,
    Robot,
    at_rest,
    ended,
    not_stuck,
    planned_in_layers,
    told_degraded,
    truthful,
    turned_around,
    walking,
)
from ros_support import wait_until
from skill_kernel.codes import TaskCode
from skill_kernel.events import EventKind, NoticeKind, ProcessKind, RunEvent

pytestmark = pytest.mark.faults

FLOOD = 200
UNKNOWN = "Make the world a better place."
NONSENSE = "<step><fly to='moon'><step></if><subtask_complete></step>{]" * 20


@pytest.fixture(scope="module")
def kalos(tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[Robot]:
    with planned_in_layers(tmp_path_factory.mktemp("faults"), composed="true") as robot:
        yield robot


@pytest.fixture(autouse=True)
def never_stuck(kalos: Robot) -> Iterator[None]:
    yield from not_stuck(kalos)


def in_office(robot: Robot) -> bool:
    _, (x, y, _) = robot.watch.truth[-1]
    return 3.0 < x < 7.5 and y > 1.05


def told(robot: Robot, instruction: str) -> Journey:
    """Return a task that is given without waiting for anything."""
    task = robot.watch.task(instruction)
    return Journey(task, task.process_id, 0, time.monotonic())


def test_a_model_that_dies_leaves_the_walk_and_the_direct_commands(kalos: Robot) -> None:
    journey = walking(kalos, TWO_LEGS)
    yaw = kalos.watch.truth[-1][1][2]
    journey.broken_s = kalos.model.signal(signal.SIGKILL)
    try:
        truthful(kalos, journey, 30.0, lambda: turned_around(kalos, yaw))
        at_rest(kalos, journey, 30.0)
        told_degraded(kalos, journey, "s1")
        unknown = told(kalos, UNKNOWN)
        ended(kalos, unknown, 15.0, ProcessState.FAILED)
        told_degraded(kalos, unknown, "s1", "s2")  # a first action is dropped where System 1 has ended before it failed
    finally:
        kalos.model.start()


def test_a_model_that_freezes_is_not_waited_for_for_ever(kalos: Robot) -> None:
    journey = walking(kalos, TWO_LEGS)
    yaw = kalos.watch.truth[-1][1][2]
    journey.broken_s = kalos.model.signal(signal.SIGSTOP)
    try:
        truthful(kalos, journey, 40.0, lambda: turned_around(kalos, yaw))
        at_rest(kalos, journey, 40.0)
        told_degraded(kalos, journey, "s1")
    finally:
        kalos.model.signal(signal.SIGCONT)


def test_a_model_that_talks_nonsense_moves_nothing(kalos: Robot) -> None:
    journey = walking(kalos, TWO_LEGS)
    yaw = kalos.watch.truth[-1][1][2]
    kalos.model.end()
    try:
        with ModelServer(NONSENSE, port=kalos.model.port):
            journey.broken_s = time.monotonic()
            truthful(kalos, journey, 30.0, lambda: turned_around(kalos, yaw))
            at_rest(kalos, journey, 30.0)
            told_degraded(kalos, journey, "s1")
            unknown = told(kalos, UNKNOWN)
            ended(kalos, unknown, 15.0, ProcessState.FAILED)
            told_degraded(kalos, unknown, "s1", "s2")
            assert kalos.watch.last_command_s() < unknown.broken_s, "nonsense moved it"
    finally:
        kalos.model.start()


def test_a_flood_of_instructions_ends_in_as_many_truthful_ends(kalos: Robot) -> None:
    watch = kalos.watch
    journey = walking(kalos, "Go to the lounge.")
    since = len(watch.events)
    journey.broken_s = time.monotonic()
    for number in range(FLOOD):
        watch.say("Walk 1 metre forward." if number % 2 else f"Say number {number}.")

    def refused() -> list[RunEvent]:
        return [e for e in of_kind(watch, since, NoticeKind.MESSAGE) if e.error_code == TaskCode.TOO_MANY_PROCESSES]

    def ends() -> list[RunEvent]:
        return of_kind(watch, since, ProcessKind.ENDED)

    def begun() -> int:
        return len(of_kind(watch, since, ProcessKind.STARTED))

    wait_until(lambda: begun() + len(refused()) == FLOOD, 20.0, "each is taken or refused")
    wait_until(lambda: len(ends()) == begun() + 1, 60.0, "all that were taken have ended, and what ran before")
    assert all(e.error_msg for e in (*refused(), *ends()) if e.error_code)
    result = ended(kalos, journey, 1.0, ProcessState.FAILED, ProcessState.STOPPED)
    assert result.error_msg
    at_rest(kalos, journey, 60.0)


def of_kind(watch: FaultObserver, since: int, kind: EventKind) -> list[RunEvent]:
    return [e for e in watch.events[since:] if e.kind == kind]


def test_without_its_mind_it_stops_and_goes_on_when_the_user_says_so(kalos: Robot) -> None:
    watch = kalos.watch
    journey = walking(kalos, "Go to the lounge.")
    journey.broken_s = kalos.up.kill("mind")
    at_rest(kalos, journey, 2.0)
    state = watch.wait_status(journey.process_id, ProcessState.PAUSED, 15.0)
    assert "user" in state.pause_causes and not watch.halted
    wait_until(watch.control.service_is_ready, 5.0, "control_process")
    told_s = time.monotonic()
    resume = ControlProcess.Request(process_id=journey.process_id, command=ControlProcess.Request.RESUME)
    assert watch.ask(watch.control, resume).success
    wait_until(lambda: watch.last_command_s() > told_s + 0.3, 20.0, "it walks on")


def test_a_door_that_shuts_in_its_way_ends_the_task_with_the_reason(kalos: Robot) -> None:
    watch = kalos.watch
    journey = walking(kalos)
    assert watch.ask(watch.door, SetBool.Request(data=True)).success
    journey.broken_s = time.monotonic()
    truthful(kalos, journey, 60.0, lambda: in_office(kalos))
    at_rest(kalos, journey, 60.0)


def test_after_all_this_a_task_is_done_to_its_end(kalos: Robot) -> None:
    journey = walking(kalos, "Walk 1 metre forward.")
    journey.broken_s = time.monotonic()
    ended(kalos, journey, 20.0, ProcessState.SUCCESS)
    at_rest(kalos, journey, 20.0)
