# SPDX-License-Identifier: Apache-2.0
"""A base of one's own: launch/robot.launch.xml with the rover's files and its motor node, as docs/own_base.md says."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import pytest
from ghostshell.msg import ProcessState
from sensor_msgs.msg import Joy
from std_srvs.srv import Trigger

from ghostshell_ros import launcher
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.wire.qos import SENSORS
from pipeline_support import Observer
from ros_support import ROOT, Processes, launched, wait_until
from skill_kernel.events import NoticeKind, ProcessKind, RunEvent

EXAMPLE = ROOT / "examples" / "rover"
DRIVERS = {"base_driver", "speak_driver", "dock_driver"}
DEADMAN, RELEASE = 4, 0
"""Buttons of config/teleop.yaml."""


class Watcher(Observer):
    """Says instructions, and has a gamepad in its hands."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.pressed: set[int] | None = None
        """Buttons held down while the stick is pulled back; None = no gamepad there."""
        self.said = 0
        self._pad = self.create_publisher(Joy, "joy", SENSORS)
        self.steady_timer(0.05, self._say_pad)

    def _say_pad(self) -> None:
        if self.pressed is not None:
            buttons = [int(number in self.pressed) for number in range(8)]
            self.said += 1
            self._pad.publish(Joy(axes=[0.0, -0.5, 0.0, 0.0], buttons=buttons))

    def up(self) -> bool:
        active = {name.rpartition("/")[2] for name, state in self.drivers.items() if state == "active"}
        services = self.clear_halt.service_is_ready() and self._pad.get_subscription_count()
        return bool(self.halted is False and active >= DRIVERS and self.servers_ready and self.pose and services)

    def do(self, text: str) -> RunEvent:
        """Say an instruction and wait for the end of its process."""
        process_id = self.task(text).process_id
        return self.wait_event(ProcessKind.ENDED, 25.0, process_id=process_id)


@pytest.fixture(scope="module")
def rover(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watcher]:
    folder = tmp_path_factory.mktemp("own_base")
    name = f"rover{os.getpid()}"
    path = os.pathsep.join([str(EXAMPLE), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "GHOSTSHELL_DATA": str(folder / "data"), "ROS_HOME": str(folder)}
    arguments = {
        "robot": str(EXAMPLE / "rover.yaml"),
        "robot_name": name,
        "gamepad": "true",
        "config_dir": str(ROOT / "config"),
    }
    specs = launcher.describe(ROOT / "launch" / "robot.launch.xml", arguments, environment)
    heard, wheels = Watcher(f"/{name}"), Processes(f"/{name}")
    with NodeHost([heard]) as host:
        host.start()
        try:
            wheels.start("rover_robot.wheels", env={"PYTHONPATH": path})
            with launched(specs, folder / "log.txt") as said:
                wait_until(heard.up, 30.0, lambda: "\n".join(["the whole robot is up", *said]))
                yield heard
        finally:
            wheels.end()


def test_instructions_drive_it_to_places_and_say_what_is_in_the_way(rover: Watcher) -> None:
    ended = rover.do("drive 1 m forward")
    assert ended.status == "SUCCESS", ended.error_msg
    assert rover.pose is not None and rover.pose[0] == pytest.approx(1.0, abs=0.1)
    assert rover.do("go to the window").status == "SUCCESS"
    assert rover.pose[:2] == pytest.approx((1.5, 1.0), abs=0.25)
    blocked = rover.do("drive 5 m forward")
    assert blocked.status == "FAILED" and "blocks the way" in blocked.error_msg, blocked
    assert rover.pose[1] == pytest.approx(3.0 - 0.2 - 0.1, abs=0.15)


def test_a_driver_of_its_own_with_an_action_of_another_package_obeys_as_ours_do(rover: Watcher) -> None:
    """Its action, node, settings and interface stand in the robot's file and nowhere else."""
    far = rover.do("park")
    assert far.status == "FAILED" and "3 m: go nearer first" in far.error_msg, far
    assert rover.do("drive 1.5 m back").status == "SUCCESS"
    process_id = rover.task("park").process_id
    start = rover.pose
    wait_until(lambda: rover.pose and math.dist(rover.pose[:2], start[:2]) > 0.1, 10.0, "it backs up")
    rover.ask(rover.halt, Trigger.Request())
    assert rover.wait_event(ProcessKind.ENDED, 5.0, process_id=process_id).status != "SUCCESS"
    stands = rover.pose
    heard = len(rover.events)
    assert rover.ask(rover.clear_halt, Trigger.Request()).success
    rover.wait_event(NoticeKind.HALT_CLEARED, 5.0, heard)
    wait_until(rover.up, 5.0, "it may move again")
    again = rover.do("park")
    assert again.status == "SUCCESS", again
    assert math.dist(stands[:2], (0.0, 0.0)) > 0.2
    assert rover.pose[:2] == pytest.approx((0.0, 0.0), abs=0.1)
    assert rover.do("go to the window").status == "SUCCESS", "where the next test begins"


def test_the_gamepad_takes_it_in_mid_drive_and_gives_it_back(rover: Watcher) -> None:
    assert rover.pose is not None
    start = rover.pose
    process_id = rover.task("drive 1 m back").process_id
    wait_until(lambda: rover.pose and math.dist(rover.pose, start) > 0.2, 10.0, "it drives")
    rover.pressed = set()
    wait_until(lambda: rover.said > 3, 2.0, "the gamepad is there, its deadman up")
    rover.pressed = {DEADMAN}
    rover.wait_status(process_id, ProcessState.PAUSED, 3.0)
    taken = rover.pose
    wait_until(lambda: rover.pose and math.dist(rover.pose, taken) > 0.3, 5.0, "the stick pulls it back")
    rover.pressed = {DEADMAN, RELEASE}
    rover.wait_event(ProcessKind.ENDED, 20.0, process_id=process_id)
    assert rover.wait_status(process_id, ProcessState.SUCCESS, 1.0)
    assert 1.1 < math.dist(rover.pose, start) < 1.7, "its metre, and what the operator drove"
    assert rover.halted is False and rover.ask(rover.clear_halt, Trigger.Request()).message == "was not halted"
