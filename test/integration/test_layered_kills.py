# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each planning node in turn, each in a process of its own, while Kalos walks by strategy `layered`: the task ends
with a reason, waits for its user or goes on at work, and the next one sets out (each test begins with that). The detector's
process is killed, too."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ghostshell.msg import ProcessState
from ghostshell.srv import ControlProcess

from layered_fault_support import (
    TWO_LEGS,
    Robot,
    at_rest,
    ended,
    not_stuck,
    planned_in_layers,
    truthful,
    turned_around,
    walking,
)
from ros_support import wait_until
from skill_kernel.codes import Outcome, TaskCode
from skill_kernel.events import CallKind

pytestmark = pytest.mark.faults


@pytest.fixture(scope="module")
def kalos(tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[Robot]:
    with planned_in_layers(tmp_path_factory.mktemp("kills"), composed="false") as robot:
        yield robot


@pytest.fixture(autouse=True)
def never_stuck(kalos: Robot) -> Iterator[None]:
    yield from not_stuck(kalos)


def back(robot: Robot, since_s: float, node: str) -> None:
    wait_until(lambda: robot.watch.reported_s.get(node, 0.0) > since_s + 0.3, 15.0, f"{node} is started anew")


def test_without_its_process_scheduler_the_task_waits_for_its_user(kalos: Robot) -> None:
    watch = kalos.watch
    journey = walking(kalos)
    journey.broken_s = kalos.up.kill("process_scheduler")
    watch.stuck.forget_questions()
    wait_until(lambda: (s := journey.state(kalos)) is not None and s.status == ProcessState.PAUSED, 15.0, "paused")
    at_rest(kalos, journey, 12.0)
    state = journey.state(kalos)
    assert state is not None and "user" in state.pause_causes
    wait_until(watch.control.service_is_ready, 5.0, "control_process")
    resume = ControlProcess.Request(process_id=journey.process_id, command=ControlProcess.Request.RESUME)
    told_s = time.monotonic()
    assert watch.ask(watch.control, resume).success
    wait_until(lambda: watch.last_command_s() > told_s + 0.3, 20.0, lambda: f"it walks on: {journey.state(kalos)}")


def test_without_its_task_planner_the_plan_that_there_is_goes_on(kalos: Robot) -> None:
    journey = walking(kalos, TWO_LEGS)
    yaw = kalos.watch.truth[-1][1][2]
    journey.broken_s = kalos.up.kill("task_planner")
    kalos.watch.stuck.forget_questions()
    truthful(kalos, journey, 40.0, lambda: turned_around(kalos, yaw))
    at_rest(kalos, journey, 40.0)
    back(kalos, journey.broken_s, "task_planner")


def test_without_its_parser_what_was_parsed_is_done(kalos: Robot) -> None:
    journey = walking(kalos, TWO_LEGS)
    yaw = kalos.watch.truth[-1][1][2]
    journey.broken_s = kalos.up.kill("token_parser")
    truthful(kalos, journey, 40.0, lambda: turned_around(kalos, yaw))
    at_rest(kalos, journey, 40.0)
    back(kalos, journey.broken_s, "token_parser")


@pytest.mark.parametrize("node", ["action_planner", "channel_scheduler"])
def test_without_a_node_that_carries_it_out_the_task_fails_and_says_so(kalos: Robot, node: str) -> None:
    journey = walking(kalos)
    journey.broken_s = kalos.up.kill(node)
    kalos.watch.stuck.forget_questions()
    result = ended(kalos, journey, 25.0, ProcessState.FAILED)
    assert result.error_code == TaskCode.NODE_UNAVAILABLE, result
    at_rest(kalos, journey, 10.0)
    back(kalos, journey.broken_s, node)


def test_after_all_this_a_task_is_done_to_its_end(kalos: Robot) -> None:
    for _ in range(3):
        journey = walking(kalos, "Walk 1 metre forward.")
        journey.broken_s = time.monotonic()
        result = ended(kalos, journey, 20.0, ProcessState.SUCCESS, ProcessState.FAILED)
        if "repeat the instruction" not in result.error_msg:
            break  # else a text went to a killed node that the middleware still lists: what it says is what is done
    assert result.status == ProcessState.SUCCESS, result.error_msg
    at_rest(kalos, journey, 20.0)


@contextmanager
def blinded(robot: Robot) -> Iterator[None]:
    """Kill the detector as often as it is started anew."""
    sees = threading.Event()

    def kill() -> None:
        killed = 0
        while not sees.wait(0.05):
            if (pid := robot.up.pid("object_detector")) != killed:
                os.kill(pid, signal.SIGKILL)
                killed = pid

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        sees.set()
        thread.join()


def test_a_blind_robot_does_not_claim_to_have_found_anything(kalos: Robot) -> None:
    journey = walking(kalos, "Walk 1 metre forward, then look around this room for a ball and bark at it.")
    journey.broken_s = time.monotonic()
    with blinded(kalos):
        ended(kalos, journey, 60.0, ProcessState.FAILED)
    at_rest(kalos, journey, 60.0)
    done = {e.function for e in kalos.watch.of(journey.process_id, CallKind.ENDED) if e.outcome == Outcome.DONE}
    assert not done & {"bark", "approach"}
