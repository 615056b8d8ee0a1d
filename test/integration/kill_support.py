# SPDX-License-Identifier: Apache-2.0
"""Share among the tests that kill -9 a node while a robot is on its way: to begin, to kill, and how the way ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from ghostshell.msg import ProcessState
from std_srvs.srv import Trigger

from pipeline_support import BroughtUp, Observer, Task
from ros_support import wait_until
from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.events import CallKind, RunEvent

DRIVER_CODES = (CallCode.DRIVER_LOST, CallCode.DRIVER_UNAVAILABLE, CallCode.HALTED)
"""Between two goals of a walk a driver is not lost but missing, and the halt may come first."""


@dataclass(frozen=True)
class Way:
    """An order, the function that carries it out, and a look at whether the robot has moved since a steady time."""

    instruction: str
    function: str
    moved: Callable[[Any, float], bool]


@dataclass
class Walk:
    """A task in mid-stride."""

    task: Task
    process_id: str
    call_id: str
    killed_s: float = 0.0

    def ends(self, watch: Observer) -> list[RunEvent]:
        return [e for e in watch.of(self.process_id, CallKind.ENDED) if e.call_id == self.call_id]


def ready(robot: BroughtUp) -> None:
    """Clear a halt, and wait until the robot takes a task again."""
    watch = robot.observer
    if watch.halted:
        wait_until(lambda: watch.ask(watch.clear_halt, Trigger.Request()).success, 5.0, "the gate clears the halt")
    wait_until(lambda: watch.halted is False and watch.kernel and not watch.kernel.halted, 5.0, "no halt")
    wait_until(lambda: watch.kernel and not watch.kernel.running, 12.0, "nothing runs any more")
    wait_until(lambda: set(watch.drivers.values()) == {"active"}, 8.0, "the drivers are active")
    found: list[bool] = []
    watch.tasks.doubt()
    wait_until(
        lambda: (watch.call_soon(lambda: found.append(watch.tasks.server_is_ready())), found[-1:] == [True])[1],
        10.0,
        "run_task answers",
    )


def walking(robot: BroughtUp, way: Way) -> Walk:
    """Return a task in whose midst the robot moves."""
    ready(robot)
    for _ in range(3):
        walk = _begun(robot.observer, way)
        if walk is not None:
            return walk
    told = [e.error_msg for e in robot.observer.events if e.kind == CallKind.ENDED and e.function == way.function]
    pytest.fail(f"it does not begin to walk, three times: {told[-3:]}")


def _begun(watch: Observer, way: Way) -> Walk | None:
    """Return a walk under way, or None where it could not begin or was not seen: what is sent while the successor of a node
    that was killed is not yet known to the others is lost. The task says so, unless only its events were."""
    since, from_s = len(watch.events), time.monotonic()
    task = watch.task(way.instruction)

    def starts() -> list[RunEvent]:
        return [e for e in watch.events[since:] if e.kind == CallKind.STARTED and e.function == way.function]

    wait_until(lambda: starts() or task.ends, 15.0, "it begins, or says why not")
    if not starts():
        result = task.result()
        assert result.status == ProcessState.SUCCESS or result.error_code == TaskCode.NODE_UNAVAILABLE, result
        return None
    walk = Walk(task, starts()[0].process_id, starts()[0].call_id)
    wait_until(lambda: way.moved(watch, from_s) or walk.ends(watch), 5.0, "it walks")
    wait_until(lambda: walk.ends(watch) or (watch.kernel and walk.call_id in watch.kernel.running), 3.0, "the kernel says so")
    if ends := walk.ends(watch):
        assert ends[0].outcome == Outcome.FAILED and ends[0].error_msg, ends[0]
        task.result()
        return None
    return walk


def killed(robot: BroughtUp, way: Way, *names: str) -> Walk:
    """Return a walk, and in its midst the death of the processes of these executables, in this order."""
    walk = walking(robot, way)
    for name in names:
        walk.killed_s = robot.kill(name)
    return walk


def came_back(watch: Observer, walk: Walk, *nodes: str) -> None:
    """Wait until launch restarted the process: its nodes report themselves again, and are known to the others by then."""
    later_s = walk.killed_s + 0.3
    wait_until(lambda: all(watch.reported_s.get(node, 0.0) > later_s for node in nodes), 12.0, f"{nodes} are started anew")


def ended(watch: Observer, walk: Walk, timeout_s: float, *outcomes: Outcome) -> RunEvent:
    """Return the one end of the call."""
    wait_until(lambda: walk.ends(watch), timeout_s, "the call ends")
    (event,) = walk.ends(watch)
    assert event.outcome in outcomes, (event.outcome, event.error_msg)
    assert event.outcome == Outcome.DONE or event.error_msg, "without a reason"
    return event


def failed(walk: Walk, timeout_s: float) -> Any:
    """Return the task's one result, with a reason."""
    result = walk.task.result(timeout_s)
    assert result.status in (ProcessState.FAILED, ProcessState.STOPPED) and result.error_msg, result
    return result
