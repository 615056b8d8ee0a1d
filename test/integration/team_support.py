# SPDX-License-Identifier: Apache-2.0
"""A team of two robots for tests, each a real kernel and a real gate, and a strategy from outside the tree."""

from __future__ import annotations

import math
import os
import queue
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml
from ghostshell.action import RunTask
from ghostshell.msg import ProcessArray, ProcessHeartbeat
from ghostshell.srv import ControlProcess
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger
from team_robot import ROBOT_YAML

from bench.clearing import Clearing
from ghostshell_ros.cli.follow import RobotClient
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, SENSORS
from ros_support import ROOT, Processes, ask, wait_until
from skill_kernel.events import CallEvent, CallKind, Notice
from skill_kernel.processes.process import ProcessStatus

UP_S = 30.0


class Gate(RuntimeNode):
    """One robot of the team, as somebody who stands beside it sees it."""

    def __init__(self, name: str) -> None:
        super().__init__("bystander", namespace=name)
        self.halted: bool | None = None
        self.beats: list[tuple[float, list[str]]] = []
        self.create_subscription(Bool, "halted", lambda m: setattr(self, "halted", m.data), LATCHED)
        self.create_subscription(
            ProcessHeartbeat, "process_heartbeat", lambda m: self.beats.append((time.monotonic(), list(m.process_ids))), SENSORS
        )
        self.halting, self.clearing = self.create_client(Trigger, "halt"), Clearing(self)

    def halt(self) -> None:
        ask(self, self.halting, Trigger.Request())
        wait_until(lambda: self.halted, 5.0, "the gate is halted")

    def clear(self) -> None:
        ask(self, self.clearing, Trigger.Request())
        wait_until(lambda: self.halted is False, 5.0, "the gate is not halted")


class Person(RobotClient):
    """Who gives the team tasks by what `ghostshell say` is made of."""

    def __init__(self, team: str) -> None:
        super().__init__(team, everything=True)
        self.events: list[Any] = []
        self.lines: list[str] = []
        self.ends: list[RunTask.Result] = []
        self.states: list[Any] = []
        self.instruction = self.create_publisher(String, "instruction", INSTRUCTION)
        self.control = self.create_client(ControlProcess, "control_process")
        self.halting = self.create_client(Trigger, "halt")
        self.create_subscription(ProcessArray, "processes", self.states.append, LATCHED)

    def hear(self) -> None:
        """Take what has come."""
        while True:
            try:
                kind, message = self.inbox.get_nowait()
            except queue.Empty:
                return
            if kind == "end":
                self.ends.append(message)
                continue
            if kind == "event":
                self.events.append(message)
            self.lines += self.view.hear(kind, message, self.now_s())

    def task(self, text: str) -> Sent:
        self.hear()
        self.ends.clear()
        self.events.clear()
        self.lines.clear()
        self.call_soon(self.send, text)
        return Sent(self)

    def of(self, kind: CallKind, function: str = "") -> list[CallEvent]:
        self.hear()
        calls = [e for e in self.events if isinstance(e, CallEvent) and e.kind is kind]
        return [call for call in calls if not function or call.function == function]

    def notices(self) -> str:
        self.hear()
        return "\n".join(e.told for e in self.events if isinstance(e, Notice))

    def command(self, name: str, *, again_s: float = math.inf) -> Any:
        """Control the newest process; a planner that has just come up may not know its client yet, and is asked again."""
        request = ControlProcess.Request(command=getattr(ControlProcess.Request, name))
        return ask(self, self.control, request, 10.0, again_s=again_s)


class Sent:
    """A task on its way."""

    def __init__(self, person: Person) -> None:
        self._person = person

    def runs(self, *functions: str, within_s: float = 5.0) -> None:
        """Wait until these functions have started."""

        def started() -> bool:
            return set(functions) <= {call.function for call in self._person.of(CallKind.STARTED)}

        wait_until(started, within_s, f"{', '.join(functions)} started")

    def end(self, within_s: float = 15.0) -> RunTask.Result:
        def ended() -> bool:
            self._person.hear()
            return bool(self._person.ends)

        wait_until(ended, within_s, lambda: f"the end of the task: {self._person.notices()}")
        return self._person.ends[0]


def relay_installed(folder: Path) -> dict[str, str]:
    """Return an environment in which strategy `relay` is found, and all is kept in this folder."""
    info = folder / "relay-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: relay\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ghostshell.strategies]\nrelay = relay_strategy:Relay\n")
    path = [str(folder), str(ROOT / "test" / "support"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "GHOSTSHELL_DATA": str(folder)}


class Team:
    """Two robots, `left` and `right`, and who plans for both. `file` adds to the team's file, `params` to the planner's."""

    def __init__(
        self, folder: Path, processes: Processes, number: str, file: Mapping[str, Any] = MappingProxyType({}), *params: str
    ) -> None:
        self.name, self.left, self.right = f"team{number}", f"left{number}", f"right{number}"
        robot = folder / "worker.yaml"
        robot.write_text(ROBOT_YAML)
        self._file = folder / "team.yaml"
        robots = {self.left: str(robot), self.right: str(robot)}
        self._file.write_text(yaml.safe_dump({"name": self.name, "robots": robots, "strategy": "relay", **file}))
        self._params = params
        self._env = relay_installed(folder)
        self._processes, self._robot = processes, robot
        self.kernels = {name: self.start_kernel(name) for name in (self.left, self.right)}
        self.gates = {name: self._start("safety_gate", name, f"robot:={robot}") for name in self.kernels}
        self.planner = self.start_planner()

    def start_kernel(self, name: str) -> subprocess.Popen[bytes]:
        return self._start("skill_kernel", name, f"robot:={self._robot}")

    def start_planner(self) -> subprocess.Popen[bytes]:
        return self._start("team_planner", self.name, f"team:={self._file}", "held_s:=1.5", *self._params)

    def _start(self, node: str, namespace: str, *params: str) -> subprocess.Popen[bytes]:
        return self._processes.start(node, *params, env=self._env, namespace=f"/{namespace}")

    def tasks(self, text: str) -> str:
        """Return a task with the robots' names in it."""
        return text.replace("left", self.left).replace("right", self.right)


@contextmanager
def team_up(
    folder: Path, number: str, file: Mapping[str, Any] = MappingProxyType({}), *params: str
) -> Iterator[tuple[Team, Person, Gate, Gate]]:
    """Bring a team up and wait until a person can give it tasks."""
    processes = Processes("/")
    team = Team(folder, processes, number, file, *params)
    person, left, right = Person(team.name), Gate(team.left), Gate(team.right)
    with NodeHost((person, left, right)) as host:
        host.start()
        try:
            lacking: Callable[[], list[str]] = lambda: [n for n in person.lacking() if n != "drivers"]  # noqa: E731
            wait_until(lambda: not lacking(), UP_S, lambda: f"the team lacks {person.lacking()}")
            wait_until(lambda: left.halted is False and right.halted is False, UP_S, "both gates say that they are not halted")
            yield team, person, left, right
        finally:
            processes.end()


def outcome(end: RunTask.Result) -> tuple[str, str]:
    return ProcessStatus(end.status).name, end.error_msg
