# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each node in turn while the robot walks: it comes to rest or finishes what it was doing, the call ends once,
the task ends with a reason, nothing starts by itself, and the robot walks again as it is meant to.

The kernel, and the planners in one process, are killed in test_pipeline_apart.py."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from ghostshell.msg import ProcessState

from kill_support import DRIVER_CODES, Walk, Way, came_back, ended, failed, killed
from pipeline_support import BroughtUp, Observer, brought_up
from ros_support import wait_until
from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.events import CallKind, NoticeKind

pytestmark = pytest.mark.faults

WAY = Way(
    "walk 60 cm forward",
    "spider_run_distance",
    lambda watch, since_s: bool(watch.set_points) and watch.set_points[-1][0] > since_s,
)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[BroughtUp]:
    folder = tmp_path_factory.mktemp("killed")
    with brought_up(folder, model="offline", composed="false", also_respawn=("sim",)) as up:
        yield up


def at_rest(watch: Observer, walk: Walk, within_s: float) -> None:
    """Check that the set-points stand still in time, and that no joint was ever sent beyond its limits."""
    assert watch.wait_still(0.4, within_s + 5.0) - walk.killed_s < within_s
    assert not watch.beyond_limits()


def test_without_the_drivers_it_halts_and_walks_again_once_the_halt_is_cleared(apart: BroughtUp) -> None:
    watch = apart.observer
    walk = killed(apart, WAY, "drivers")
    event = ended(watch, walk, 5.0, Outcome.FAILED, Outcome.INTERRUPTED)
    assert event.error_code in DRIVER_CODES
    wait_until(lambda: watch.halted, 3.0, "halted")
    at_rest(watch, walk, 1.5)
    told = watch.wait_event(NoticeKind.MESSAGE, node="lifecycle_manager", error_code=int(CallCode.DRIVER_LOST))
    assert "move_joints_driver" in told.error_msg and "clear" in told.error_msg
    assert failed(walk, 5.0).error_code == TaskCode.ROBOT_HALTED
    came_back(watch, walk, "move_joints_driver", "show_face_driver")
    wait_until(lambda: set(watch.drivers.values()) == {"unconfigured"}, 3.0, "they are up and left as they are")
    assert watch.halted


def test_without_the_lifecycle_manager_it_walks_on(apart: BroughtUp) -> None:
    walk = killed(apart, WAY, "lifecycle_manager")
    ended(apart.observer, walk, 15.0, Outcome.DONE)
    assert walk.task.result(5.0).status == ProcessState.SUCCESS and not apart.observer.halted
    came_back(apart.observer, walk, "lifecycle_manager")


def test_without_the_parser_what_was_parsed_is_done_once(apart: BroughtUp) -> None:
    walk = killed(apart, WAY, "token_parser")
    ended(apart.observer, walk, 15.0, Outcome.DONE, Outcome.INTERRUPTED)
    assert walk.task.result(10.0).status in (ProcessState.SUCCESS, ProcessState.FAILED)
    came_back(apart.observer, walk, "token_parser")


def test_without_the_planner_the_task_fails_and_is_not_planned_a_second_time(apart: BroughtUp) -> None:
    watch = apart.observer
    walk = killed(apart, WAY, "action_planner")
    ended(watch, walk, 15.0, Outcome.DONE, Outcome.INTERRUPTED)
    result = failed(walk, 10.0)
    assert result.error_code == TaskCode.NODE_UNAVAILABLE
    at_rest(watch, walk, 10.0)
    assert len([e for e in watch.of(walk.process_id, CallKind.STARTED) if e.function == WAY.function]) == 1
    came_back(watch, walk, "action_planner")


def test_without_the_channel_scheduler_it_stops_and_the_task_fails(apart: BroughtUp) -> None:
    watch = apart.observer
    walk = killed(apart, WAY, "channel_scheduler")
    wait_until(lambda: watch.kernel and walk.call_id not in watch.kernel.running, 3.0, "the kernel stops the call")
    at_rest(watch, walk, 2.5)
    assert failed(walk, 5.0).error_code == TaskCode.NODE_UNAVAILABLE
    assert len(walk.ends(watch)) <= 1
    came_back(watch, walk, "channel_scheduler")


def test_without_the_process_scheduler_it_stops_and_nothing_goes_on_by_itself(apart: BroughtUp) -> None:
    watch = apart.observer
    walk = killed(apart, WAY, "process_scheduler")
    ended(watch, walk, 6.0, Outcome.INTERRUPTED)
    at_rest(watch, walk, 2.5)
    since_s = time.monotonic()
    came_back(watch, walk, "process_scheduler")
    time.sleep(1.0)
    wait_until(lambda: watch.kernel and not watch.kernel.running, 12.0, "the kernel says that nothing runs")
    assert watch.still_since(since_s)


def test_without_a_measurement_of_the_joints_the_gate_halts(apart: BroughtUp) -> None:
    """The simulator stands for the robot's hardware."""
    watch = apart.observer
    walk = killed(apart, WAY, "sim")
    ended(watch, walk, 4.0, Outcome.FAILED, Outcome.INTERRUPTED)
    wait_until(lambda: watch.halted, 3.0, "halted")
    at_rest(watch, walk, 2.5)
    failed(walk, 5.0)
    came_back(watch, walk, "sim")


def test_without_the_gate_no_set_point_reaches_the_joints(apart: BroughtUp) -> None:
    """The launch ends then, and nothing is to be started anew (test_launcher_files.py)."""
    watch = apart.observer
    walk = killed(apart, WAY, "safety_gate")
    event = ended(watch, walk, 3.0, Outcome.FAILED)
    assert "gate" in event.error_msg
    assert not [at for at, _ in watch.set_points if at > walk.killed_s + 0.1], "a set-point without a gate"
    walk.task.result(10.0)
    last = {**watch.joints}
    time.sleep(0.5)
    assert all(abs(watch.joints[name] - at) < 0.02 for name, at in last.items()), "the servos hold where they are"
