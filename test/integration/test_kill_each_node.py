# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each node in turn while the robot walks: it comes to rest or finishes what it was doing, the call ends once,
the task ends with a reason, nothing starts by itself, and the robot walks again as it is meant to.

The kernel, and the planners in one process, are killed in test_pipeline_apart.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ghostshell.msg import ProcessState, SkillEvent
from std_srvs.srv import Trigger

from pipeline_support import BroughtUp, Observer, Task, brought_up
from ros_support import wait_until
from skill_kernel.codes import CallCode, TaskCode

WALK = "walk 60 cm forward"
STRIDE = "spider_run_distance"


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[BroughtUp]:
    folder = tmp_path_factory.mktemp("killed")
    with brought_up(folder, model="offline", composed="false", also_respawn=("sim",)) as up:
        yield up


@dataclass
class Walk:
    """A task in mid-stride."""

    task: Task
    process_id: str
    call_id: str
    killed_s: float = 0.0

    def ends(self, watch: Observer) -> list[SkillEvent]:
        return [e for e in watch.of(self.process_id, SkillEvent.CALL_ENDED) if e.call_id == self.call_id]


def ready(robot: BroughtUp) -> None:
    """Clear a halt, and wait until the robot takes a task again."""
    watch = robot.observer
    if watch.halted:
        watch.ask(watch.clear_halt, Trigger.Request())
    wait_until(lambda: watch.halted is False and watch.kernel and not watch.kernel.halted, 5.0, "no halt")
    wait_until(lambda: watch.kernel and not watch.kernel.running, 5.0, "nothing runs any more")
    wait_until(lambda: set(watch.drivers.values()) == {"active"}, 8.0, "the drivers are active")
    found: list[bool] = []
    watch.tasks.doubt()
    wait_until(lambda: (watch.call_soon(lambda: found.append(watch.tasks.server_is_ready())), found[-1:] == [True])[1],
               10.0, "run_task answers")  # fmt: skip


def walking(robot: BroughtUp) -> Walk:
    """A task in whose midst the robot moves."""
    watch = robot.observer
    ready(robot)
    for _ in range(3):
        walk = begun(watch)
        if walk is not None:
            return walk
    pytest.fail("it does not begin to walk, three times")


def begun(watch: Observer) -> Walk | None:
    """A walk under way, or None where it could not begin: what is sent while the successor of a node that was killed is
    not yet known to the others is lost, and the task says so."""
    since, from_s = len(watch.events), time.monotonic()
    task = watch.task(WALK)

    def starts() -> list[SkillEvent]:
        return [e for e in watch.events[since:] if e.type == SkillEvent.CALL_STARTED and e.function == STRIDE]

    wait_until(lambda: starts() or task.ends, 15.0, "it begins, or says why not")
    if not starts():
        assert task.result().error_code == TaskCode.NODE_UNAVAILABLE, task.result()
        return None
    walk = Walk(task, starts()[0].process_id, starts()[0].call_id)
    moves = lambda: bool(watch.set_points) and watch.set_points[-1][0] > from_s  # noqa: E731
    wait_until(lambda: moves() or walk.ends(watch), 5.0, "it walks")
    wait_until(
        lambda: walk.ends(watch) or (watch.kernel and walk.call_id in watch.kernel.running), 3.0, "the kernel says so"
    )
    if ends := walk.ends(watch):
        assert ends[0].outcome == SkillEvent.FAILED and ends[0].error_msg, ends[0]
        task.result()
        return None
    return walk


def killed(robot: BroughtUp, name: str) -> Walk:
    walk = walking(robot)
    walk.killed_s = robot.kill(name)
    return walk


def came_back(watch: Observer, walk: Walk, *nodes: str) -> None:
    """The launch started the process anew: its nodes report themselves again, and are known to the others by then."""
    later_s = walk.killed_s + 0.3
    wait_until(lambda: all(watch.reported_s.get(node, 0.0) > later_s for node in nodes), 12.0, f"{nodes} are started anew")


def at_rest(watch: Observer, walk: Walk, within_s: float) -> None:
    """The set-points stand still in time, and no joint was ever sent beyond its limits."""
    assert watch.wait_still(0.4, within_s + 5.0) - walk.killed_s < within_s
    assert not watch.beyond_limits()


def ended(watch: Observer, walk: Walk, timeout_s: float, *outcomes: int) -> SkillEvent:
    """The one end of the call."""
    wait_until(lambda: walk.ends(watch), timeout_s, "the call ends")
    (event,) = walk.ends(watch)
    assert event.outcome in outcomes, (event.outcome, event.error_msg)
    assert event.outcome == SkillEvent.DONE or event.error_msg, "without a reason"
    return event


def failed(walk: Walk, timeout_s: float) -> Any:
    """The task's one result, with a reason."""
    result = walk.task.result(timeout_s)
    assert result.status in (ProcessState.FAILED, ProcessState.STOPPED) and result.error_msg, result
    return result


def test_without_the_drivers_it_halts_and_walks_again_once_the_halt_is_cleared(apart: BroughtUp) -> None:
    watch = apart.observer
    walk = killed(apart, "drivers")
    # Between two goals of a walk the driver is not lost but missing, and the halt may come first.
    event = ended(watch, walk, 5.0, SkillEvent.FAILED, SkillEvent.OUTCOME_INTERRUPTED)
    assert event.error_code in (CallCode.DRIVER_LOST, CallCode.DRIVER_UNAVAILABLE, CallCode.HALTED)
    wait_until(lambda: watch.halted, 3.0, "halted")
    at_rest(watch, walk, 1.5)
    told = watch.wait_event(SkillEvent.NOTICE, node="lifecycle_manager", error_code=int(CallCode.DRIVER_LOST))
    assert "move_joints_driver" in told.error_msg and "clear" in told.error_msg
    assert failed(walk, 5.0).error_code == TaskCode.ROBOT_HALTED
    came_back(watch, walk, "move_joints_driver", "show_face_driver")
    assert watch.halted and set(watch.drivers.values()) == {"unconfigured"}


def test_without_the_lifecycle_manager_it_walks_on(apart: BroughtUp) -> None:
    walk = killed(apart, "lifecycle_manager")
    ended(apart.observer, walk, 15.0, SkillEvent.DONE)
    assert walk.task.result(5.0).status == ProcessState.SUCCESS and not apart.observer.halted
    came_back(apart.observer, walk, "lifecycle_manager")


def test_without_the_parser_what_was_parsed_is_done_once(apart: BroughtUp) -> None:
    walk = killed(apart, "token_parser")
    ended(apart.observer, walk, 15.0, SkillEvent.DONE, SkillEvent.OUTCOME_INTERRUPTED)
    assert walk.task.result(10.0).status in (ProcessState.SUCCESS, ProcessState.FAILED)
    came_back(apart.observer, walk, "token_parser")


def test_without_the_planner_the_task_fails_and_is_not_planned_a_second_time(apart: BroughtUp) -> None:
    watch = apart.observer
    walk = killed(apart, "action_planner")
    ended(watch, walk, 15.0, SkillEvent.DONE, SkillEvent.OUTCOME_INTERRUPTED)
    result = failed(walk, 10.0)
    assert result.error_code == TaskCode.NODE_UNAVAILABLE
    at_rest(watch, walk, 10.0)
    assert len([e for e in watch.of(walk.process_id, SkillEvent.CALL_STARTED) if e.function == STRIDE]) == 1
    came_back(watch, walk, "action_planner")


def test_without_the_channel_scheduler_it_stops_and_the_task_fails(apart: BroughtUp) -> None:
    watch = apart.observer
    walk = killed(apart, "channel_scheduler")
    wait_until(lambda: watch.kernel and walk.call_id not in watch.kernel.running, 3.0, "the kernel stops the call")
    at_rest(watch, walk, 2.5)
    assert failed(walk, 5.0).error_code == TaskCode.NODE_UNAVAILABLE
    assert len(walk.ends(watch)) <= 1
    came_back(watch, walk, "channel_scheduler")


def test_without_the_process_scheduler_it_stops_and_nothing_goes_on_by_itself(apart: BroughtUp) -> None:
    watch = apart.observer
    walk = killed(apart, "process_scheduler")
    ended(watch, walk, 6.0, SkillEvent.OUTCOME_INTERRUPTED)
    at_rest(watch, walk, 2.5)
    since_s = time.monotonic()
    came_back(watch, walk, "process_scheduler")
    time.sleep(1.0)
    assert watch.still_since(since_s) and watch.kernel is not None and not watch.kernel.running


def test_without_a_measurement_of_the_joints_the_gate_halts(apart: BroughtUp) -> None:
    """The simulator stands for the robot's hardware."""
    watch = apart.observer
    walk = killed(apart, "sim")
    ended(watch, walk, 4.0, SkillEvent.FAILED, SkillEvent.OUTCOME_INTERRUPTED)
    wait_until(lambda: watch.halted, 3.0, "halted")
    at_rest(watch, walk, 2.5)
    failed(walk, 5.0)
    came_back(watch, walk, "sim")


def test_without_the_gate_no_set_point_reaches_the_joints(apart: BroughtUp) -> None:
    """The launch ends then, and nothing is to be started anew (test_launcher_files.py)."""
    watch = apart.observer
    walk = killed(apart, "safety_gate")
    event = ended(watch, walk, 3.0, SkillEvent.FAILED)
    assert "gate" in event.error_msg
    assert not [at for at, _ in watch.set_points if at > walk.killed_s + 0.1], "a set-point without a gate"
    walk.task.result(10.0)
    last = {**watch.joints}
    time.sleep(0.5)
    assert all(abs(watch.joints[name] - at) < 0.02 for name, at in last.items()), "the servos hold where they are"
