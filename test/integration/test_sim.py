# SPDX-License-Identifier: Apache-2.0
"""The simulation node behind the standard topics of a robot."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
from nav_msgs.msg import Odometry
from sensor_msgs.msg import CameraInfo, Image, Imu, JointState
from std_msgs.msg import String
from tf2_msgs.msg import TFMessage

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.sim.world import SimWorld, SimWorldError
from ghostshell_ros.wire.images import to_pixels
from ghostshell_ros.wire.qos import IMAGES, LATCHED, LATCHED_BY_ANY, MEASUREMENTS, SENSORS, SET_POINTS
from ros_support import spun, wait_until
from skill_kernel.robot import RobotConfig

pytest.importorskip("mujoco")


class Watcher(RuntimeNode):
    """Notes what the simulator publishes, as a reliable reader, which a best-effort publisher would not reach."""

    def __init__(self, namespace: str) -> None:
        super().__init__("watcher", namespace=namespace)
        self.joints: dict[str, float] = {}
        self.seen: dict[str, list[Any]] = {"joint_states": [], "odom": [], "imu": []}
        self.create_subscription(JointState, "joint_states", self._on_joints, MEASUREMENTS)
        self.create_subscription(Odometry, "odom", self.seen["odom"].append, MEASUREMENTS)
        self.create_subscription(Imu, "imu", self.seen["imu"].append, MEASUREMENTS)
        self.frames: set[tuple[str, str]] = set()
        self.create_subscription(TFMessage, "/tf", self._on_frames, SENSORS)
        self.create_subscription(TFMessage, "/tf_static", self._on_frames, LATCHED_BY_ANY)
        self.description: list[str] = []
        self.create_subscription(String, "robot_description", lambda m: self.description.append(m.data), LATCHED)
        self.command = self.create_publisher(JointState, "joint_command", SET_POINTS)

    def _on_frames(self, message: Any) -> None:
        self.frames |= {(frame.header.frame_id, frame.child_frame_id) for frame in message.transforms}

    def _on_joints(self, message: Any) -> None:
        self.joints = dict(zip(message.name, message.position, strict=True))
        self.seen["joint_states"].append((time.monotonic(), message))

    def subscribe_images(self) -> None:
        for topic, kind in (("film/image_raw", Image), ("camera/image_raw", Image), ("camera/camera_info", CameraInfo)):
            self.seen[topic] = []
            self.create_subscription(kind, topic, self.seen[topic].append, IMAGES)


@pytest.fixture(scope="module")
def watcher(ros: None) -> Iterator[Watcher]:
    namespace = f"/coco{os.getpid()}"
    made = Watcher(namespace)
    with spun(namespace, made) as processes:
        processes.start("sim", "robot:=coco")
        wait_until(lambda: made.joints and made.command.get_subscription_count(), 20.0, "the simulator is up")
        yield made


def test_the_robot_stands_in_real_time_and_its_servos_hold(watcher: Watcher) -> None:
    assert set(watcher.joints) == set(RobotConfig.load("coco").joints)
    for bad in (
        JointState(name=["no_such_joint"], position=[1.0]),
        JointState(name=["ear_left"], position=[]),
        JointState(name=["ear_left"], position=[float("nan")]),
    ):
        watcher.command.publish(bad)
    watcher.command.publish(JointState(name=["ear_left"], position=[0.5]))
    wait_until(lambda: abs(watcher.joints["ear_left"] - 0.5) < 0.05, 3.0, "the ear follows its set-point")
    watcher.seen["joint_states"].clear()
    wait_until(lambda: len(watcher.seen["joint_states"]) >= 50, 5.0, "50 joint states")
    first, last = watcher.seen["joint_states"][0], watcher.seen["joint_states"][-1]
    assert last[0] - first[0] == pytest.approx((len(watcher.seen["joint_states"]) - 1) * 0.02, rel=0.3)
    assert watcher.joints["ear_left"] == pytest.approx(0.5, abs=0.05)
    odom, imu = watcher.seen["odom"][-1], watcher.seen["imu"][-1]
    prefix = f"{watcher.get_namespace()[1:]}/"
    assert (odom.header.frame_id, odom.child_frame_id) == (f"{prefix}odom", f"{prefix}base_link")
    wait_until(lambda: (f"{prefix}neck", f"{prefix}head") in watcher.frames, 5.0, "the head's transform")
    assert {(f"{prefix}odom", f"{prefix}base_link"), (f"{prefix}head", f"{prefix}camera_link")} <= watcher.frames
    wait_until(lambda: watcher.description, 5.0, "the latched description")
    assert (
        '<link name="head">' in watcher.description[0] and '<joint name="ear_left" type="revolute">' in watcher.description[0]
    )
    assert odom.pose.pose.position.z > 0.04
    assert imu.linear_acceleration.z == pytest.approx(9.81, abs=1.0)


def test_images_come_once_somebody_subscribes(watcher: Watcher) -> None:
    try:
        SimWorld(RobotConfig.load("coco").model_path()).render("film", 64, 48)
    except SimWorldError as error:
        pytest.skip(str(error))
    watcher.subscribe_images()
    wait_until(lambda: all(watcher.seen[t] for t in watcher.seen), 15.0, "an image of each camera")
    film = to_pixels(watcher.seen["film/image_raw"][-1])
    assert film.shape == (360, 480, 3) and film.std() > 20
    assert to_pixels(watcher.seen["camera/image_raw"][-1]).shape == (240, 320, 3)
    info = watcher.seen["camera/camera_info"][-1]
    assert (info.width, info.height) == (320, 240) and info.k[0] > 100
