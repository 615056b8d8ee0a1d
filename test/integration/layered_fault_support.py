# SPDX-License-Identifier: Apache-2.0
"""Kalos planned in layers by a model in a process of its own: to set out, to break something, and to judge what became of it
by commands, true pose and processes."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geometry_msgs.msg import Twist
from ghostshell.msg import ProcessArray, ProcessState
from ghostshell.srv import ControlProcess
from std_srvs.srv import SetBool, Trigger
from stuck import StuckDetector

from base_observer import REST_S, BaseObserver
from ghostshell_ros.wire.qos import LATCHED
from pipeline_support import KALOS_NODES, BroughtUp, Task, brought_up, config_dir
from ros_support import ROOT, wait_until
from skill_kernel.events import CallKind, ModelKind, RunEvent

MODULE = "bench.simulated_model"
LIVING = (ProcessState.WAITING, ProcessState.IN_PROGRESS, ProcessState.PAUSED)
AWAY = "Go to the office."
TWO_LEGS = "Walk 2 metres forward, then turn around."
ALL_NODES = KALOS_NODES | {"object_detector", "task_planner"}


class FaultObserver(BaseObserver):
    """Watches over the robot for the whole time."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.stuck = StuckDetector()
        self.reset = self.create_client(Trigger, "sim/reset")
        self.door = self.create_client(SetBool, "world/block_door")
        self.create_subscription(ProcessArray, "processes", self._on_processes, LATCHED)
        self.steady_timer(0.2, lambda: self.stuck.look(time.monotonic()))

    def _on_processes(self, message: ProcessArray) -> None:
        working = (ProcessState.WAITING, ProcessState.IN_PROGRESS)
        self.stuck.processes(time.monotonic(), [p.process_id for p in message.processes if p.status in working])

    def _on_velocity(self, message: Twist) -> None:
        super()._on_velocity(message)
        self.stuck.commanded(*self.velocities[-1])

    def _on_event(self, event: RunEvent) -> None:
        super()._on_event(event)
        now = time.monotonic()
        if event.kind in (CallKind.STARTED, CallKind.ENDED):
            self.stuck.sign(now)
        elif event.kind == ModelKind.ASKED:
            self.stuck.asked(now, event.process_id, event.layer)
        elif event.kind == ModelKind.ANSWERED:
            self.stuck.answered(now, event.process_id, event.layer)


class ModelProcess:
    """The simulated model, always at the same port."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self._process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        """Listen, anew if it was killed."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", MODULE, "--port", str(self.port)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        )
        assert self._process.stdout is not None
        self.url = json.loads(self._process.stdout.readline())["url"]
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])

    def signal(self, number: int) -> float:
        """Send a signal; gives the steady time."""
        assert self._process is not None
        self._process.send_signal(number)
        if number == signal.SIGKILL:
            self.end()
        return time.monotonic()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(5.0)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


@dataclass
class Robot:
    """The robot and its model."""

    up: BroughtUp
    model: ModelProcess

    @property
    def watch(self) -> FaultObserver:
        assert isinstance(self.up.observer, FaultObserver)
        return self.up.observer


@contextmanager
def planned_in_layers(folder: Path, *, composed: str) -> Iterator[Robot]:
    """Bring it up; deadlines are short, so that silence is noticed soon."""
    model = ModelProcess()
    entry = {
        "provider": "openai",
        "base_url": model.url,
        "connect_s": 2.0,
        "first_token_s": 2.5,
        "silence_s": 2.0,
        "retry": {"max_retries": 0, "first_wait_s": 0.1, "max_wait_s": 0.2},
    }
    models = {"planner": {**entry, "model": "planner"}, "fast": {**entry, "model": "fast"}}
    quick = {"action_planner": {"step_deadline_s": 4.0, "begin_directly": False}, "task_planner": {"deadline_s": 4.0}}
    try:
        with brought_up(
            folder,
            config_dir(folder, models, **quick),
            launch="kalos",
            nodes=ALL_NODES,
            observer_class=FaultObserver,
            model="planner",
            fast_model="fast",
            strategy="layered",
            composed=composed,
        ) as up:
            yield Robot(up, model)
    finally:
        model.end()


@dataclass
class Journey:
    """A task in whose midst the robot walks, and what was broken when."""

    task: Task
    process_id: str
    since: int
    broken_s: float = 0.0

    def state(self, robot: Robot) -> ProcessState | None:
        return robot.watch.process(self.process_id)

    def degraded(self, robot: Robot) -> list[RunEvent]:
        return robot.watch.of(self.process_id, ModelKind.DEGRADED)


def ready(robot: Robot) -> None:
    """Nothing lives or runs, no halt, the world is at its start, and a task is taken."""
    watch = robot.watch
    wait_until(watch.control.service_is_ready, 15.0, "control_process")
    for process in list(watch.processes):
        if process.status in LIVING:
            stop = ControlProcess.Request(process_id=process.process_id, command=ControlProcess.Request.STOP)
            watch.ask(watch.control, stop)
    wait_until(lambda: not [p for p in watch.processes if p.status in LIVING], 10.0, "no process lives")
    if watch.halted:
        watch.ask(watch.clear_halt, Trigger.Request())
    wait_until(lambda: watch.kernel and not watch.kernel.running and not watch.kernel.halted, 5.0, "nothing runs")
    wait_until(lambda: set(watch.drivers.values()) == {"active"}, 8.0, "the drivers are active")
    assert watch.ask(watch.reset, Trigger.Request()).success
    watch.tasks.doubt()
    found: list[bool] = []
    wait_until(
        lambda: (watch.call_soon(lambda: found.append(watch.tasks.server_is_ready())), found[-1:] == [True])[1],
        10.0,
        "run_task answers",
    )


def walking(robot: Robot, instruction: str = AWAY) -> Journey:
    """Set out and wait until the base has walked for a while."""
    ready(robot)
    watch = robot.watch
    since = len(watch.events)
    task = watch.task(instruction)
    journey = Journey(task, task.process_id, since)
    wait_until(lambda: task.ends or walks(robot, journey), 20.0, "it walks")
    assert not task.ends, task.result()
    return journey


def walks(robot: Robot, journey: Journey) -> bool:
    """Return whether the base moves by a call of this task."""
    watch = robot.watch
    began = [
        watch.heard_s[i]
        for i, e in enumerate(watch.events)
        if e.process_id == journey.process_id and e.kind == CallKind.STARTED and "movement" in e.channels
    ]
    return bool(began) and watch.last_command_s() > began[0] + 0.3


def at_rest(robot: Robot, journey: Journey, within_s: float) -> float:
    """No command comes any more and the body stands; gives the seconds from the break to the last command."""
    watch = robot.watch
    wait_until(lambda: time.monotonic() - watch.last_command_s() > REST_S, within_s + 3.0, "no command any more")
    took_s = watch.last_command_s() - journey.broken_s
    assert took_s < within_s, f"the last command came {took_s:.1f} s after the fault"
    wait_until(lambda: time.monotonic() - watch.last_move_s() > REST_S, 5.0, "it stands")
    return took_s


def ended(robot: Robot, journey: Journey, within_s: float, *statuses: int) -> Any:
    """Check that the task has one of these ends, in time and, unless it succeeded, with a reason."""
    result = journey.task.result(within_s)
    assert result.status in statuses, (result.status, result.error_code, result.error_msg)
    assert result.status == ProcessState.SUCCESS or result.error_msg, "without a reason"
    return result


def truthful(robot: Robot, journey: Journey, within_s: float, done: Callable[[], bool]) -> Any:
    """Check that the task ends in success only if what it asked for is true, else with a reason."""
    result = ended(robot, journey, within_s, ProcessState.SUCCESS, ProcessState.FAILED)
    assert result.status != ProcessState.SUCCESS or done(), robot.watch.truth[-1]
    return result


def turned_around(robot: Robot, yaw_before: float) -> bool:
    """Return whether it looks the other way now."""
    return abs(math.remainder(robot.watch.truth[-1][1][2] - yaw_before - math.pi, math.tau)) < 0.6


def told_degraded(robot: Robot, journey: Journey, *layers: str) -> None:
    """DEGRADED said which layer goes on without its model, how and why."""
    told = journey.degraded(robot)
    assert set(layers) <= {e.layer for e in told}, [(e.layer, e.fallback) for e in told]
    assert all(e.fallback and e.error_msg for e in told)


def not_stuck(robot: Robot) -> Iterator[None]:
    """Body of a fixture: what its test does never leaves a process in progress with nothing moving and nobody thinking."""
    robot.watch.stuck.complaints.clear()
    yield
    assert not robot.watch.stuck.complaints
