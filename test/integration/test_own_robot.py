# SPDX-License-Identifier: Apache-2.0
"""A robot of one's own: launch/robot.launch.xml with the example's files and its servo node, as docs/own_robot.md says."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger

from bench.clearing import Clearing
from ghostshell_ros import launcher
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.qos import INSTRUCTION, LATCHED, SENSORS, SET_POINTS
from ros_support import ROOT, Processes, ask, launched, wait_until
from skill_kernel.codes import TaskCode
from skill_kernel.events import NoticeKind, ProcessKind, RunEvent
from skill_kernel.robot import RobotConfig

EXAMPLE = ROOT / "examples" / "pan_tilt"
NODES = {
    "safety_gate",
    "skill_kernel",
    "process_scheduler",
    "action_planner",
    "token_parser",
    "channel_scheduler",
    "move_joints_driver",
    "speak_driver",
    "servos",
}
UP_S = 30.0


class Watcher(RuntimeNode):
    """Says instructions to the robot and sees what its joints do."""

    def __init__(self, namespace: str) -> None:
        super().__init__("watcher", namespace=namespace)
        self.joints: dict[str, float] = {}
        self.commands: list[dict[str, float]] = []
        self.events: list[RunEvent] = []
        self.ends: list[RunEvent] = []
        self.halted: bool | None = None
        self.drivers: dict[str, str] = {}
        self.create_subscription(JointState, "joint_states", self._on_joints, SENSORS)
        self.create_subscription(JointState, "joint_command", self._on_command, SET_POINTS)
        read_events(self, self._on_event)
        self.create_subscription(Bool, "halted", lambda m: setattr(self, "halted", m.data), LATCHED)
        self.create_subscription(DiagnosticArray, "driver_states", self._on_drivers, LATCHED)
        self.instruction = self.create_publisher(String, "instruction", INSTRUCTION)
        self.wish = self.create_publisher(JointState, "joint_command_in", SET_POINTS)
        self.halt = self.create_client(Trigger, "halt")
        self.clear_halt = Clearing(self)

    def _on_joints(self, message: JointState) -> None:
        self.joints = dict(zip(message.name, message.position, strict=True))

    def _on_command(self, message: JointState) -> None:
        self.commands.append(dict(zip(message.name, message.position, strict=True)))

    def _on_event(self, event: RunEvent) -> None:
        self.events.append(event)
        if event.kind == ProcessKind.ENDED:
            self.ends.append(event)

    def _on_drivers(self, message: DiagnosticArray) -> None:
        self.drivers = {status.name.rpartition("/")[2]: status.message for status in message.status}

    def missing(self) -> list[str]:
        """Return what is missing: nodes, readers of what is said here, services, the gate's word and its first command."""
        found = {node for node, ns in self.get_node_names_and_namespaces() if ns == self.get_namespace()}
        missing = sorted(NODES - found)
        unheard = [topic.topic for topic in (self.instruction, self.wish) if not topic.get_subscription_count()]
        missing += [f"a reader of {topic}" for topic in unheard]
        missing += [client.srv_name for client in (self.halt, self.clear_halt) if not client.service_is_ready()]
        if (writers := self.count_publishers("events/notices")) < 4:
            missing.append(f"writers of events ({writers} of 4)")
        drivers = [name for name in sorted(NODES) if name.endswith("_driver")]
        missing += [f"active {name}" for name in drivers if self.drivers.get(name) != "active"]
        if self.halted is not False:
            missing.append(f"halted is {self.halted}")
        if not self.joints:
            missing.append("joint_states")
        elif not missing and not self.commands:
            self.wish.publish(JointState(name=["pan"], position=[self.joints["pan"]]))
            missing.append("joint_command")
        return missing

    def at(self, pan_deg: float, tilt_deg: float) -> bool:
        """Return whether the head points there, within half a degree."""
        wanted = {"pan": math.radians(pan_deg), "tilt": math.radians(tilt_deg)}
        return all(abs(self.joints[name] - angle) < math.radians(0.5) for name, angle in wanted.items())

    def do(self, text: str) -> RunEvent:
        """Say an instruction and wait for the end of its process."""
        before = len(self.ends)
        self.instruction.publish(String(data=text))
        wait_until(lambda: len(self.ends) > before, 10.0, f"the end of '{text}'")
        return self.ends[before]


@pytest.fixture(scope="module")
def watcher(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watcher]:
    """Return the example brought up by the runner, its servo node beside it."""
    folder = tmp_path_factory.mktemp("own_robot")
    name = f"own{os.getpid()}"
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "GHOSTSHELL_DATA": str(folder / "data"), "ROS_HOME": str(folder)}
    arguments = {"robot": str(EXAMPLE / "pan_tilt.yaml"), "robot_name": name, "config_dir": str(ROOT / "config")}
    specs = launcher.describe(ROOT / "launch" / "robot.launch.xml", arguments, environment)
    heard, servos = Watcher(f"/{name}"), Processes(f"/{name}")
    with NodeHost([heard]) as host:
        host.start()
        try:
            servos.start("pan_tilt_robot.servos", env={"PYTHONPATH": os.pathsep.join([str(EXAMPLE), path])})
            with launched(specs, folder / "log.txt") as said:
                wait_until(lambda: not heard.missing(), UP_S, lambda: "\n".join([f"missing: {heard.missing()}", *said]))
                yield heard
        finally:
            servos.end()


def test_an_instruction_points_the_head(watcher: Watcher) -> None:
    end = watcher.do("look 30 degrees to the right")
    assert end.status == "SUCCESS", [event for event in watcher.events if event.error_msg]
    wait_until(lambda: watcher.at(-30.0, 0.0), 5.0, "the head points 30 degrees to the right")
    assert watcher.do("look up 20 degrees, then nod").status == "SUCCESS"
    wait_until(lambda: watcher.at(0.0, 20.0), 5.0, "the head points up again after the nod")


def test_the_gate_keeps_limits_and_speed_whatever_is_wished(watcher: Watcher) -> None:
    joint = RobotConfig.load(EXAMPLE / "pan_tilt.yaml").joints["pan"]
    start = watcher.joints["pan"]
    watcher.commands.clear()

    def wish() -> bool:
        watcher.wish.publish(JointState(name=["pan"], position=[50.0]))
        return abs(watcher.joints["pan"] - joint.upper) < 0.01

    took_s = wait_until(wish, 5.0, "the joint is at its limit")
    assert took_s > 0.9 * (joint.upper - start) / joint.max_velocity
    assert max(command["pan"] for command in watcher.commands) <= joint.upper
    assert watcher.do("look straight ahead").status == "SUCCESS"


def test_a_halt_stops_the_head_on_its_way_and_holds_until_cleared(watcher: Watcher) -> None:
    watcher.instruction.publish(String(data="scan for 8 seconds"))
    wait_until(lambda: watcher.joints["pan"] > 0.3, 5.0, "it scans")
    assert ask(watcher, watcher.halt, Trigger.Request()).success
    wait_until(lambda: watcher.halted, 1.0, "halted")
    stopped_at = watcher.commands[-1]["pan"]
    wait_until(lambda: abs(watcher.joints["pan"] - stopped_at) < 0.01, 1.0, "the servo is where the gate left it")
    wait_until(lambda: watcher.ends and watcher.ends[-1].error_code == TaskCode.ROBOT_HALTED, 5.0, "the task ended")
    heard = len(watcher.events)
    watcher.instruction.publish(String(data="nod"))
    wait_until(lambda: any(e.error_code == TaskCode.ROBOT_HALTED for e in watcher.events[heard:]), 5.0, "a refusal")
    assert abs(watcher.joints["pan"] - stopped_at) < 0.01
    heard = len(watcher.events)
    assert ask(watcher, watcher.clear_halt, Trigger.Request()).success
    cleared = NoticeKind.HALT_CLEARED
    wait_until(lambda: any(e.kind is cleared for e in watcher.events[heard:]), 5.0, "it takes instructions again")
    assert watcher.do("look straight ahead").status == "SUCCESS"
    wait_until(lambda: watcher.at(0.0, 0.0), 5.0, "the head points straight ahead")


@pytest.mark.parametrize(
    ("wrong", "right", "sentence"),
    [
        ("text_skil:", "text_skill:", "key 'text_skil' is unknown; did you mean 'text_skill'?"),
        ("lowr:", "lower:", "key 'joints.pan.lower' is missing (is 'lowr' meant?)"),
        ("[pan_tilt_robot.skils]", "[pan_tilt_robot.skills]", "module 'pan_tilt_robot.skils' cannot be loaded"),
        ("body:PanTitlBody", "body:PanTiltBody", "has no class 'PanTitlBody'"),
    ],
)
def test_a_wrong_file_is_one_sentence_and_starts_nothing(tmp_path: Path, wrong: str, right: str, sentence: str) -> None:
    shutil.copytree(EXAMPLE / "pan_tilt_robot", tmp_path / "pan_tilt_robot")
    text = (EXAMPLE / "pan_tilt.yaml").read_text()
    assert right in text
    (tmp_path / "pan_tilt.yaml").write_text(text.replace(right, wrong))
    launch = [sys.executable, "-m", "ghostshell_ros.cli.main", "launch", str(ROOT / "launch" / "robot.launch.xml")]
    given = [f"robot:={tmp_path}/pan_tilt.yaml", "robot_name:=wrong"]
    ended = subprocess.run([*launch, *given], capture_output=True, text=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("\n") == 1 and sentence in ended.stderr, ended.stderr


def test_a_node_started_alone_says_it_too(tmp_path: Path, processes: Processes, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pan_tilt.yaml").write_text((EXAMPLE / "pan_tilt.yaml").read_text().replace("text_skill:", "text_skil:"))
    gate = processes.start("safety_gate", f"robot:={tmp_path}/pan_tilt.yaml")
    assert gate.wait(timeout=20) == os.EX_CONFIG
    said = capfd.readouterr().err
    assert "key 'text_skil' is unknown; did you mean 'text_skill'?" in said and "Traceback" not in said
