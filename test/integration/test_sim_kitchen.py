# SPDX-License-Identifier: Apache-2.0
"""One simulator holds two robots in a kitchen, each behind its own topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from geometry_msgs.msg import PoseStamped, Twist
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from sensor_msgs.msg import Image, JointState, LaserScan
from std_msgs.msg import Bool, String
from std_srvs.srv import Trigger
from vision_msgs.msg import Detection3DArray

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import IMAGES, LATCHED, MEASUREMENTS, SENSORS, SET_POINTS
from ghostshell_ros.wire.sensing import things_of
from ros_support import ask, spun, wait_until
from skill_kernel.robot import RobotConfig

pytest.importorskip("mujoco")

WAIT_S = 10.0
SENSED: dict[str, tuple[Any, Any]] = {
    "atlas/joint_states": (JointState, MEASUREMENTS),
    "hebe/joint_states": (JointState, MEASUREMENTS),
    "atlas/odom": (Odometry, MEASUREMENTS),
    "hebe/odom": (Odometry, MEASUREMENTS),
    "hebe/scan": (LaserScan, SENSORS),
    "atlas/things": (Detection3DArray, SENSORS),
    "hebe/things": (Detection3DArray, SENSORS),
    "atlas/robot_description": (String, LATCHED),
    "hebe/robot_description": (String, LATCHED),
    "kitchen/ground_truth/fridge_handle": (PoseStamped, MEASUREMENTS),
}


class Kitchen(RuntimeNode):
    """Hears both robots, and commands them as their gates would."""

    def __init__(self) -> None:
        super().__init__("watcher", namespace="/kitchen")
        self.last: dict[str, Any] = {}
        for topic, (kind, qos) in SENSED.items():
            self.listen(topic, kind, qos)
        self.joints = {
            robot: self.create_publisher(JointState, f"/{robot}/joint_command", SET_POINTS) for robot in ("atlas", "hebe")
        }
        self.halted = self.create_publisher(Bool, "/hebe/halted", LATCHED)
        self.velocity = self.create_publisher(Twist, "/hebe/cmd_vel_gated", SET_POINTS)
        self.parameters = self.create_client(SetParameters, "sim/set_parameters")
        self.arranging = self.create_client(Trigger, "sim/arrange")
        self.speed = 0.0
        self.steady_timer(0.05, self._drive)

    def listen(self, topic: str, kind: Any, qos: Any) -> None:
        def take(message: Any) -> None:
            self.last[topic] = message

        self.create_subscription(kind, f"/{topic}", take, qos)

    def _drive(self) -> None:
        if self.speed:
            wish = Twist()
            wish.linear.x = self.speed
            self.velocity.publish(wish)

    def arrange(self, text: str) -> Any:
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=text)
        ask(self, self.parameters, SetParameters.Request(parameters=[Parameter(name="arrangement", value=value)]))
        return ask(self, self.arranging, Trigger.Request())

    def at(self, robot: str, joint: str) -> float:
        state = self.last[f"{robot}/joint_states"]
        return float(dict(zip(state.name, state.position, strict=True))[joint])

    def place(self, robot: str) -> tuple[float, float]:
        at = self.last[f"{robot}/odom"].pose.pose.position
        return at.x, at.y

    def sees(self, robot: str) -> dict[str, Any]:
        message = self.last.get(f"{robot}/things")
        return dict(things_of(message)) if message is not None else {}


def comes(condition: Callable[[], object], what: str) -> None:
    wait_until(condition, WAIT_S, what)


@pytest.fixture(scope="module")
def kitchen(ros: None) -> Iterator[Kitchen]:
    made = Kitchen()
    with spun("/kitchen", made) as processes:
        options = ("robots:=atlas hebe", "world:=kitchen", "start:=''", "film:=overview", "atlas.camera:=table_camera")
        processes.start("sim", *options)
        wait_until(lambda: all(topic in made.last for topic in SENSED), 20.0, "both robots are up")
        yield made


def test_each_robot_has_its_own_joints_frames_and_place(kitchen: Kitchen) -> None:
    for robot in ("atlas", "hebe"):
        config = RobotConfig.load(robot)
        assert set(kitchen.last[f"{robot}/joint_states"].name) == set(config.joints)
        for joint, limits in config.joints.items():
            assert kitchen.at(robot, joint) == pytest.approx(limits.rest, abs=0.03)
        odom = kitchen.last[f"{robot}/odom"]
        assert (odom.header.frame_id, odom.child_frame_id) == (f"{robot}/odom", f"{robot}/base_link")
        assert f'<robot name="{robot}">' in kitchen.last[f"{robot}/robot_description"].data
    assert kitchen.place("atlas") == (0.0, 0.0) and kitchen.last["hebe/scan"].header.frame_id == "hebe/laser"


def test_a_command_moves_its_own_robot_and_none_that_is_halted(kitchen: Kitchen) -> None:
    before = kitchen.at("hebe", "left_joint7")
    kitchen.joints["atlas"].publish(JointState(name=["joint7"], position=[0.5]))
    comes(lambda: abs(kitchen.at("atlas", "joint7") - 0.5) < 0.03, "Atlas turns its wrist")
    assert kitchen.at("hebe", "left_joint7") == pytest.approx(before, abs=0.01)
    _, y = kitchen.place("hebe")
    kitchen.speed = 0.3
    comes(lambda: kitchen.place("hebe")[1] > y + 0.2, "Hebe drives ahead, to the counter")
    kitchen.halted.publish(Bool(data=True))
    comes(lambda: abs(kitchen.last["hebe/odom"].twist.twist.linear.x) < 0.01, "it stops, though it is told to go on")
    _, y = kitchen.place("hebe")
    kitchen.joints["hebe"].publish(JointState(name=["left_joint7"], position=[0.5]))
    kitchen.joints["atlas"].publish(JointState(name=["joint7"], position=[0.0]))
    comes(lambda: abs(kitchen.at("atlas", "joint7")) < 0.03, "Atlas, which nobody has halted, turns back")
    assert kitchen.place("hebe")[1] == pytest.approx(y, abs=0.03) and kitchen.at("hebe", "left_joint7") < 0.1
    kitchen.halted.publish(Bool(data=False))
    comes(lambda: kitchen.place("hebe")[1] > y + 0.05, "it goes on once it is released")
    kitchen.speed = 0.0
    comes(lambda: abs(kitchen.last["hebe/odom"].twist.twist.linear.x) < 0.01, "it stops when nothing is said")


def test_each_sees_what_is_before_its_cameras_and_nothing_behind_a_shut_door(kitchen: Kitchen) -> None:
    assert kitchen.arrange('{"hebe": [2.1, 1.05, 1.5708]}').success
    comes(lambda: {"apple", "cup", "drawer_top_handle"} <= set(kitchen.sees("atlas")), "Atlas sees its table")
    comes(lambda: "fridge_handle" in kitchen.sees("hebe"), "Hebe sees the fridge")
    assert not {"tea", "milk", "water", "vitamins"} & {*kitchen.sees("atlas"), *kitchen.sees("hebe")}
    shut = kitchen.last["kitchen/ground_truth/fridge_handle"].pose.position.y
    assert kitchen.arrange('{"fridge": "open", "drawer_middle": "open"}').success
    comes(lambda: {"tea", "milk"} <= set(kitchen.sees("hebe")), "the open fridge shows its things")
    comes(lambda: "vitamins" in kitchen.sees("atlas"), "the open drawer shows what lies in it")
    handle = lambda: kitchen.last["kitchen/ground_truth/fridge_handle"].pose.position  # noqa: E731
    comes(lambda: handle().y < shut - 0.2, "the handle is told where it is now")
    (x, y, z), _ = kitchen.sees("hebe")["tea"]
    assert (x, y, z) == pytest.approx((2.30, 2.15, 0.81), abs=0.02)
    assert kitchen.last["hebe/things"].header.frame_id == "hebe/map"
    refused = kitchen.arrange('{"atlas": [1, 1]}')
    assert not refused.success and "stands fast" in refused.message


def test_both_cameras_and_the_film_show_the_kitchen(kitchen: Kitchen) -> None:
    pictures = ("atlas/camera/image_raw", "hebe/camera/image_raw", "kitchen/film/image_raw")
    for topic in pictures:
        kitchen.listen(topic, Image, IMAGES)
    wait_until(lambda: all(topic in kitchen.last for topic in pictures), 20.0, "a picture of each")
    shapes = {topic: (kitchen.last[topic].height, kitchen.last[topic].width) for topic in pictures}
    assert shapes == dict(zip(pictures, ((240, 320), (240, 320), (360, 480)), strict=True))
