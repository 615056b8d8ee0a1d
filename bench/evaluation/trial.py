# SPDX-License-Identifier: Apache-2.0
"""One trial: the world arranged, the task told, the second activity at its moment, everything until the end in a trace."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable

from bench.evaluation.faults import HungError, LostError
from bench.evaluation.robot import SETTLE_S, Robot
from bench.evaluation.tasks import AHEAD_M, PERSON_HOME, STANDS_S, Setting, Task
from bench.evaluation.trace import Trace
from bench.evaluation.truth import walks

AFTER_S = 0.6
"""For the last events and poses after the end."""


def run_trial(robot: Robot, task: Task, setting: Setting, strategy: str) -> Trace:
    """Run it to its end or its deadline. Raises HungError when the robot is not there or does not rest, LostError from when
    the task is told."""
    robot.quiet()
    robot.arrange(setting.arrangement(), anew=True)
    time.sleep(SETTLE_S)
    trace = robot.heard.begin()
    try:
        _perform(robot, task, setting, strategy, trace)
    except HungError as error:
        robot.heard.end()
        if math.isnan(trace.end):
            trace.end = robot.heard.ros_now()
        raise LostError(str(error), trace) from error
    return trace


def _perform(robot: Robot, task: Task, setting: Setting, strategy: str, trace: Trace) -> None:
    limit = time.monotonic() + task.deadline_s
    trace.process_id, ended = robot.tell(task.instruction, strategy)
    if (
        task.concurrent
        and _until(robot, lambda: bool(ended()) or walks(robot.heard.trace.poses, setting.robot), limit)
        and not ended()
    ):
        _add(robot, task, trace, strategy, limit, ended)
    _until(robot, lambda: bool(ended()), limit)
    trace.status = ended()
    time.sleep(AFTER_S)
    robot.heard.end()
    trace.close()
    robot.quiet()


def _add(robot: Robot, task: Task, trace: Trace, strategy: str, limit: float, ended: Callable[[], str]) -> None:
    """Wait for the second activity's end."""
    trace.added = robot.heard.ros_now()
    if task.person:
        _step_in(robot, trace, ended)
        return
    trace.added_id, added_ended = robot.tell(task.added, strategy)
    _until(robot, lambda: bool(added_ended()), limit)
    trace.added_status = added_ended()


def _step_in(robot: Robot, trace: Trace, ended: Callable[[], str]) -> None:
    pose = robot.heard.pose
    assert pose is not None
    spot = (pose.x + AHEAD_M * math.cos(pose.yaw), pose.y + AHEAD_M * math.sin(pose.yaw), pose.yaw + math.pi)
    robot.arrange(json.dumps({"person": spot}), anew=False)
    _until(robot, lambda: bool(ended()) or _reflex(trace), time.monotonic() + STANDS_S)
    time.sleep(0.2)
    robot.arrange(json.dumps({"person": PERSON_HOME}), anew=False)


def _reflex(trace: Trace) -> bool:
    return any(c.process_id.startswith("reflex-") for c in trace.calls)


def _until(robot: Robot, come: Callable[[], bool], limit: float) -> bool:
    """Return whether it has come in time. Raises HungError when a process of the robot ended."""
    try:
        robot.wait(come, max(0.0, limit - time.monotonic()), "in time")
    except HungError:
        if robot.exited:
            raise
        return False
    return True
