# SPDX-License-Identifier: Apache-2.0
"""Share among the integration tests: nodes as processes, a stand-in for the robot, and waiting for events."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from ghostshell_ros import launcher
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import LATCHED, SENSORS, SET_POINTS

ROOT = Path(__file__).resolve().parents[2]
JOINTS = ("knee", "hip", "neck")
ROBOT = """
name: stub
skills: [nothing]
subsystems: {main: {exclusive_per_process: false, parallel: false}}
drivers:
  move_joints_driver:
    node: ghostshell_ros.drivers.move_joints_driver:MoveJointsDriver
    actions: {move_joints: ghostshell/action/MoveJoints}
  speak_driver:
    node: ghostshell_ros.drivers.speak_driver:SpeakDriver
    actions: {speak: ghostshell/action/Speak}
  play_sound_driver:
    node: ghostshell_ros.drivers.play_sound_driver:PlaySoundDriver
    actions: {play_sound: ghostshell/action/PlaySound}
  show_face_driver:
    node: ghostshell_ros.drivers.show_face_driver:ShowFaceDriver
    actions: {show_face: ghostshell/action/ShowFace}
joints:
  knee: {lower: -1.0, upper: 1.0, max_velocity: 2.0}
  hip: {lower: -0.5, upper: 0.5, max_velocity: 2.0}
  neck: {lower: -1.0, upper: 1.0, max_velocity: 2.0}
"""


def wait_until(condition: Callable[[], object], timeout_s: float, what: str | Callable[[], str]) -> float:
    """Wait for a condition; gives the seconds it took, fails the test after `timeout_s` (`what` may look when it is asked)."""
    started = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - started
        if waited_s > timeout_s:
            pytest.fail(f"not within {timeout_s} s: {what if isinstance(what, str) else what()}")
        # Looking has its price, and it is the robot under test that pays: the longer the wait, the less often.
        time.sleep(min(max(0.002, waited_s / 20), 0.02))
    return time.monotonic() - started


def ask(node: RuntimeNode, client: Any, request: Any, timeout_s: float = 5.0, *, again_s: float = 2.0) -> Any:
    """Call a service from the test's thread and wait for its answer. A server that does not know its client yet answers nobody:
    it is asked anew every `again_s`, which is `math.inf` for what must not be asked twice."""
    answers: list[Any] = []
    asked_s = -math.inf

    def answered() -> bool:
        nonlocal asked_s
        if client.service_is_ready() and (asked_s == -math.inf or time.monotonic() - asked_s > again_s):
            asked_s = time.monotonic()
            node.call_soon(lambda: client.call_async(request).add_done_callback(lambda f: answers.append(f.result())))
        return bool(answers)

    wait_until(answered, timeout_s, f"answer of {client.srv_name}")
    return answers[0]


@contextmanager
def launched(specs: list[launcher.ProcessSpec], log: Path) -> Iterator[list[str]]:
    """Launch for a test; yield the lines that its nodes say. None may be of a traceback or of a node that cannot start."""
    said: list[str] = []

    def heard(event: launcher.Event) -> None:
        if not event.level:
            said.append(event.text)

    try:
        with launcher.LaunchRun(specs, listener=heard) as run:
            run.start()
            yield said
    finally:
        log.write_text("\n".join(said))
    assert not [line for line in said if "Traceback" in line or "FATAL" in line], "\n".join(said)


class Processes:
    """Starts nodes as processes in the test's namespace and ends them all with it."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        module: str,
        *params: str,
        env: dict[str, str] | None = None,
        params_file: Path | None = None,
        launcher: Sequence[str] = (),
        namespace: str = "",
    ) -> subprocess.Popen[bytes]:
        """Start a node, or `python -m module` where that has a dot, with parameters written as `name:=value`; `launcher` is the
        command line of a program that starts it, `namespace` another one than the test's."""
        arguments = ["--ros-args", "-r", f"__ns:={namespace or self._namespace}"]
        if params_file is not None:
            arguments += ["--params-file", str(params_file)]
        for param in params:
            arguments += ["-p", param]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            [*launcher, sys.executable, "-m", *([] if "." in module else ["ghostshell_ros.executables"]), module, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            process.send_signal(signal.SIGINT)
        for process in self._started:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def spun(namespace: str, *nodes: RuntimeNode) -> Iterator[Processes]:
    """Spin nodes of the test's own process, for the tests of a whole file; yield what starts others beside them."""
    processes = Processes(namespace)
    with NodeHost(nodes) as host:
        host.start()
        try:
            yield processes
        finally:
            processes.end()


class Stranger(RuntimeNode):
    """Says 100 times a second on a topic that the robot shall go ahead at 3 m/s, or that it is somewhere else."""

    def __init__(self, namespace: str, topic: str, kind: type = Twist) -> None:
        super().__init__("stranger", namespace=namespace)
        self._says, self._message = self.create_publisher(kind, topic, SET_POINTS), kind()
        if kind is not Odometry:
            getattr(self._message, "twist", self._message).linear.x = 3.0
        self.steady_timer(0.01, lambda: self._says.publish(self._message))


@contextmanager
def saying(stranger: Stranger) -> Iterator[None]:
    with NodeHost([stranger]) as host:
        host.start()
        yield


class Plant(RuntimeNode):
    """A robot whose joints are at once where joint_command says, unless `blocked`; it remembers every command."""

    def __init__(self, namespace: str) -> None:
        super().__init__("plant", namespace=namespace)
        self.positions = dict.fromkeys(JOINTS, 0.0)
        self.blocked = threading.Event()
        self.silent = threading.Event()
        self.commands: list[tuple[float, dict[str, float]]] = []
        self.halted: bool | None = None
        self._states = self.create_publisher(JointState, "joint_states", SENSORS)
        self.create_subscription(JointState, "joint_command", self._on_command, SET_POINTS)
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        self.steady_timer(0.02, self._publish)

    def _on_command(self, message: Any) -> None:
        command = dict(zip(message.name, message.position, strict=True))
        self.commands.append((time.monotonic(), command))
        if not self.blocked.is_set():
            self.positions.update(command)

    def _on_halted(self, message: Any) -> None:
        self.halted = message.data

    def _publish(self) -> None:
        if not self.silent.is_set():
            self._states.publish(JointState(name=list(self.positions), position=list(self.positions.values())))
