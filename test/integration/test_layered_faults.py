# SPDX-License-Identifier: Apache-2.0
"""Faults while Kalos walks by strategy `layered`: its model dies, falls silent or talks nonsense, it is blind, a door shuts in
its way, instructions pour in, its mind dies. Each task ends truthfully with a reason or goes on at work, and the next one sets
out (each test begins with that)."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest
from ghostshell.msg import ProcessState, SkillEvent
from ghostshell.srv import ControlProcess
from std_srvs.srv import SetBool

from ghostshell_ros.testing.model_server import ModelServer
from layered_fault_support import (
    AWAY,
    LIVING,
    TWO_LEGS,
    Journey,
    Robot,
    at_rest,
    ended,
    planned_in_layers,
    ready,
    told_degraded,
    truthful,
    turned_around,
    walking,
)
from ros_support import wait_until


@pytest.fixture(scope="module")
def kalos(tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[Robot]:
    with planned_in_layers(tmp_path_factory.mktemp("faults"), composed="true") as robot:
        yield robot


@pytest.fixture(autouse=True)
def never_stuck(kalos: Robot) -> Iterator[None]:
    stuck = kalos.watch.stuck
    stuck.complaints.clear()
    stuck.longest_s = 0.0
    yield
    print(f"  longest without a sign of life {stuck.longest_s:.1f} s", flush=True)
    assert not stuck.complaints


def in_office(robot: Robot) -> bool:
    _, (x, y, _) = robot.watch.truth[-1]
    return 3.0 < x < 7.5 and y > 1.05


def test_a_model_that_dies_leaves_the_walk_and_the_direct_commands(kalos: Robot) -> None:
    journey = walking(kalos, TWO_LEGS)
    yaw = kalos.watch.truth[-1][1][2]
    journey.broken_s = kalos.model.signal(signal.SIGKILL)
    try:
        truthful(kalos, journey, 40.0, lambda: turned_around(kalos, yaw))
        at_rest(kalos, journey, 40.0)
        unknown = kalos.watch.task("Look for the meaning of life.")
        result = unknown.result(30.0)
        assert result.status == ProcessState.FAILED and result.error_msg
        told_degraded(kalos, Journey(unknown, unknown.process_id, 0), "s1", "s2")
    finally:
        kalos.model.start()


def test_a_model_that_freezes_is_not_waited_for_for_ever(kalos: Robot) -> None:
    journey = walking(kalos, TWO_LEGS)
    yaw = kalos.watch.truth[-1][1][2]
    journey.broken_s = kalos.model.signal(signal.SIGSTOP)
    try:
        truthful(kalos, journey, 40.0, lambda: turned_around(kalos, yaw))
        at_rest(kalos, journey, 40.0)
        waits = kalos.watch.task("Find a chair and take a picture of it.")
        result = waits.result(40.0)
        assert result.status == ProcessState.FAILED and result.error_msg
        told_degraded(kalos, Journey(waits, waits.process_id, 0), "s1", "s2")
    finally:
        kalos.model.signal(signal.SIGCONT)


def test_a_model_that_talks_nonsense_moves_nothing(kalos: Robot) -> None:
    journey = walking(kalos)
    kalos.model.end()
    nonsense = "<step><fly to='moon'><step></if><subtask_complete></step>{]" * 20
    with ModelServer(nonsense, port=kalos.model.port):
        journey.broken_s = time.monotonic()
        truthful(kalos, journey, 60.0, lambda: in_office(kalos))
        at_rest(kalos, journey, 60.0)
        task = kalos.watch.task("Find a chair and take a picture of it.")
        since_s = time.monotonic()
        result = task.result(40.0)
        assert result.status == ProcessState.FAILED and result.error_msg
        assert kalos.watch.last_command_s() < since_s
        told_degraded(kalos, Journey(task, task.process_id, 0), "s1")
    kalos.model.start()


def test_a_blind_robot_does_not_claim_to_have_seen_anything(kalos: Robot) -> None:
    """The detector is killed again and again, so that nothing is seen."""
    journey = walking(kalos, "Go to the hallway middle, then take a picture of a chair.")
    journey.broken_s = kalos.up.kill("object_detector")
    result = ended(kalos, journey, 60.0, ProcessState.SUCCESS, ProcessState.FAILED)
    at_rest(kalos, journey, 60.0)
    print(result.error_msg)


def test_a_door_that_shuts_in_its_way_ends_the_task_with_the_reason(kalos: Robot) -> None:
    watch = kalos.watch
    journey = walking(kalos)
    assert watch.ask(watch.door, SetBool.Request(data=True)).success
    journey.broken_s = time.monotonic()
    truthful(kalos, journey, 60.0, lambda: in_office(kalos))
    at_rest(kalos, journey, 60.0)


def test_a_flood_of_instructions_ends_in_as_many_truthful_ends(kalos: Robot) -> None:
    watch = kalos.watch
    journey = walking(kalos, "Go to the lounge.")
    before = len([e for e in watch.events if e.type == SkillEvent.PROCESS_ENDED])
    journey.broken_s = time.monotonic()
    for number in range(200):
        watch.say(f"Walk {1 + number % 2} metres forward." if number % 2 else f"Say number {number}.")
    wait_until(lambda: [e for e in watch.events[journey.since :] if e.type == SkillEvent.PROCESS_STARTED][1:], 10.0, "taken")
    wait_until(lambda: not [p for p in watch.processes if p.status in LIVING], 90.0, "all have ended")
    ends = [e for e in watch.events if e.type == SkillEvent.PROCESS_ENDED][before:]
    print(f"  {len(ends)} ended after {time.monotonic() - journey.broken_s:.1f} s", flush=True)
    at_rest(kalos, journey, 90.0)


def test_without_its_mind_it_stops_and_goes_on_when_the_user_says_so(kalos: Robot) -> None:
    watch = kalos.watch
    journey = walking(kalos)
    journey.broken_s = kalos.up.kill("mind")
    at_rest(kalos, journey, 2.0)
    state = watch.wait_status(journey.process_id, ProcessState.PAUSED, 15.0)
    assert "user" in state.pause_causes and not watch.halted
    wait_until(watch.control.service_is_ready, 5.0, "control_process")
    told_s = time.monotonic()
    resume = ControlProcess.Request(process_id=journey.process_id, command=ControlProcess.Request.RESUME)
    assert watch.ask(watch.control, resume).success
    wait_until(lambda: watch.last_command_s() > told_s + 0.3, 20.0, "it walks on")
    wait_until(lambda: in_office(kalos), 30.0, "it arrives")
    watch.wait_status(journey.process_id, ProcessState.SUCCESS, 15.0)
    ready(kalos)
    assert AWAY
