# SPDX-License-Identifier: Apache-2.0
"""Set-points of the gate reach a controller of ros2_control, all of its joints at once and in its own order."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray
from std_srvs.srv import Trigger

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import LATCHED, SENSORS, SET_POINTS
from ros_support import Processes, ask, wait_until

ORDER = ["neck", "hip", "knee"]


class Arm(RuntimeNode):
    """What ros2_control does: a broadcaster of joint states over hardware that is at once where it is told to be. It is the
    driver, too, which wishes."""

    def __init__(self, namespace: str) -> None:
        super().__init__("arm", namespace=namespace)
        self.positions = {"knee": 0.2, "hip": 0.0, "neck": -0.4}
        self.wishes: dict[str, float] = {}
        self.halted: bool | None = None
        self._states = self.create_publisher(JointState, "joint_states", SENSORS)
        self._wish = self.create_publisher(JointState, "joint_command_in", SET_POINTS)
        self.gate = self.create_client(Trigger, "halt")
        self.create_subscription(Bool, "halted", lambda message: setattr(self, "halted", message.data), LATCHED)
        self.steady_timer(0.02, self._tick)

    def _tick(self) -> None:
        self._states.publish(JointState(name=list(self.positions), position=list(self.positions.values())))
        if self.wishes:
            self._wish.publish(JointState(name=list(self.wishes), position=list(self.wishes.values())))


class Controller(RuntimeNode):
    """A forward_command_controller: it takes one number for each of its parameter `joints`."""

    def __init__(self, namespace: str, arm: Arm) -> None:
        super().__init__("joint_position_controller", namespace=namespace)
        self.declare("joints", ORDER, "the joints that it moves")
        self.arm, self.commands = arm, list[list[float]]()
        self.create_subscription(Float64MultiArray, "~/commands", self._on_command, SET_POINTS)

    def _on_command(self, message: Float64MultiArray) -> None:
        self.commands.append(list(message.data))
        self.arm.positions.update(zip(ORDER, message.data, strict=True))


def test_set_points_reach_the_controller_in_its_own_order_and_the_other_joints_stay(
    namespace: str, robot_file: str, processes: Processes, host: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    arm = Arm(namespace)
    host(arm)
    processes.start("safety_gate", f"robot:={robot_file}")
    processes.start("joint_forwarder")
    wait_until(lambda: arm.halted is False, 15.0, "the gate is up")
    arm.wishes = {"hip": 0.3}
    said: list[str] = []

    def told() -> bool:
        said.append(capfd.readouterr().err)
        return f"{namespace}/joint_position_controller does not tell its joints" in "".join(said)

    wait_until(told, 10.0, "the missing controller is told")
    assert arm.positions["hip"] == 0.0
    arm.wishes = {}
    controller = Controller(namespace, arm)
    host(controller)
    wait_until(lambda: told() and "set-points go to" in "".join(said), 10.0, "the controller has told its joints")
    arm.wishes = {"hip": -0.3}
    wait_until(lambda: abs(arm.positions["hip"] + 0.3) < 1e-3, 5.0, "the hip is there")
    assert arm.positions == pytest.approx({"knee": 0.2, "hip": -0.3, "neck": -0.4}, abs=1e-3)
    way = [command[1] for command in controller.commands]
    assert max(abs(b - a) for a, b in pairwise(way)) < 0.15, "it moved as fast as the gate lets it"
    arm.wishes = {}
    time.sleep(1.0)  # the gate holds for a moment and falls silent
    arm.positions["knee"] = 0.3  # pushed by hand: it is no joint that was commanded
    arm.wishes = {"neck": 0.1}
    wait_until(lambda: abs(arm.positions["neck"] - 0.1) < 1e-3, 5.0, "the neck is there")
    assert arm.positions["knee"] == pytest.approx(0.3, abs=1e-3) and arm.positions["hip"] == pytest.approx(-0.3, abs=1e-3)
    ask(arm, arm.gate, Trigger.Request())
    wait_until(lambda: arm.halted, 2.0, "it is halted")
    arm.wishes = {"neck": -0.5}
    before = dict(arm.positions)
    time.sleep(0.5)
    assert arm.positions == pytest.approx(before, abs=1e-3), "a halted gate lets nothing through"
