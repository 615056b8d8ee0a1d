# SPDX-License-Identifier: Apache-2.0
"""The clients of a mobile base and its senses against action servers and sensors of the test's own."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticArray
from driver_kit import DriverKit
from geometry_msgs.msg import TransformStamped
from ghostshell.action import Drive, NavigateTo, PlaySound, SetPosture, Speak
from nav_msgs.msg import Odometry
from sensor_msgs.msg import CameraInfo, Image, LaserScan
from tf2_msgs.msg import TFMessage

from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.images import to_message
from ghostshell_ros.wire.qos import DIAGNOSTICS, IMAGES, LATCHED, SENSORS
from ros_support import ROOT, Processes, wait_until
from skill_kernel.codes import CallCode
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.skills.drivers import Pose2D

SPEED = 0.5


class Base(RuntimeNode):
    """A base that drives as it is told: its servers, odometry at (1, 2) turned left, a scan, a camera with a ball."""

    def __init__(self, namespace: str) -> None:
        super().__init__("base", namespace=namespace)
        self.driving: Goal | None = None
        self.begun_s = 0.0
        self.refusal = 0
        self.ignores_cancel = False
        self.asked: list[Any] = []
        self.closed: list[str] = []
        GoalServer(self, Drive, "drive", on_goal=self._drive, on_cancel=self._cancel)
        GoalServer(self, NavigateTo, "navigate_to", on_goal=self._navigate, on_cancel=lambda goal: None)
        GoalServer(self, SetPosture, "set_posture", on_goal=self._posture, on_cancel=lambda goal: None)
        GoalServer(self, Speak, "speak", on_goal=lambda goal: goal.succeed(Speak.Result()), on_cancel=lambda goal: None)
        GoalServer(
            self, PlaySound, "play_sound", on_goal=lambda goal: goal.succeed(PlaySound.Result()), on_cancel=lambda goal: None
        )
        self._odom = self.create_publisher(Odometry, "odom", SENSORS)
        self._scan = self.create_publisher(LaserScan, "scan", SENSORS)
        self._image = self.create_publisher(Image, "camera/image_raw", IMAGES)
        self._info = self.create_publisher(CameraInfo, "camera/camera_info", IMAGES)
        self._static = self.create_publisher(TFMessage, "/tf_static", LATCHED)
        self.steady_timer(0.05, self._tick)
        self.steady_timer(0.1, self._picture)

    def _drive(self, goal: Goal) -> None:
        self.asked.append(goal.request)
        if self.refusal:
            goal.abort(Drive.Result(error_code=self.refusal, error_msg="the gate is latched"))
            return
        self.driving, self.begun_s = goal, self.steady_now()

    def _moved(self) -> float:
        return min(self.driving.request.distance, SPEED * (self.steady_now() - self.begun_s)) if self.driving else 0.0

    def _cancel(self, goal: Goal) -> None:
        if self.ignores_cancel:
            return
        goal.canceled(Drive.Result(distance=self._moved()))
        self.driving = None

    def _navigate(self, goal: Goal) -> None:
        self.asked.append(goal.request)
        result = NavigateTo.Result(distance_left=0.25)
        result.pose = goal.request.pose
        goal.succeed(result)

    def _posture(self, goal: Goal) -> None:
        self.asked.append(goal.request)
        goal.succeed(SetPosture.Result())

    def _tick(self) -> None:
        if self.driving is not None:
            self.driving.feedback(Drive.Feedback(distance=self._moved()))
            if self._moved() >= self.driving.request.distance:
                self.driving.succeed(Drive.Result(distance=self._moved()))
                self.driving = None
        odom = Odometry(child_frame_id="base_link")
        odom.pose.pose.position.x, odom.pose.pose.position.y = 1.0, 2.0
        odom.pose.pose.orientation.w = odom.pose.pose.orientation.z = math.sqrt(0.5)
        self._odom.publish(odom)
        scan = LaserScan(angle_min=-math.pi, angle_increment=math.tau / 360, range_min=0.1, range_max=10.0)
        scan.ranges = [3.0] * 180 + [20.0] * 180
        self._scan.publish(scan)

    def _picture(self) -> None:
        pixels = np.full((240, 320, 3), 140, np.uint8)
        pixels[150:180, 145:175] = (240, 120, 20)
        info = CameraInfo(width=320, height=240)
        info.k = [207.8, 0.0, 160.0, 0.0, 207.8, 120.0, 0.0, 0.0, 1.0]
        self._info.publish(info)
        self._image.publish(to_message(pixels, self.get_clock().now().to_msg(), "camera"))

    def matched(self) -> tuple[int, int]:
        """Return the readers of pictures and of what they say of the camera, as the middleware has matched them."""
        return self._image.get_subscription_count(), self._info.get_subscription_count()

    def publish_map(self) -> None:
        """Return where odom lies in the map: 10 m ahead, turned left."""
        found = TransformStamped(child_frame_id="odom")
        found.header.frame_id = "map"
        found.transform.translation.x = 10.0
        found.transform.rotation.w = found.transform.rotation.z = math.sqrt(0.5)
        self._static.publish(TFMessage(transforms=[found]))


class Kernel(RuntimeNode):
    """The kernel's place: the drivers as skills have them."""

    def __init__(self, namespace: str) -> None:
        super().__init__("kernel", namespace=namespace)
        self.lost: list[str] = []
        self.told_health: dict[str, str] = {}
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_health, DIAGNOSTICS)
        self.drivers = DriverKit(self, RobotConfig.load("kalos"), on_lost=self.lost.append)

    def _on_health(self, message: DiagnosticArray) -> None:
        self.told_health |= {status.name: status.message for status in message.status}


@pytest.fixture
def base(namespace: str, host: Callable[..., Any]) -> Base:
    made = Base(namespace)
    host(made)
    return made


@pytest.fixture
def kernel(namespace: str, host: Callable[..., Any], base: Base) -> Kernel:
    kernel = Kernel(namespace)
    host(kernel)
    seen = threading.Event()

    def look() -> None:
        if kernel.drivers.ready():
            seen.set()
        else:
            kernel.call_later(0.02, look)

    kernel.call_soon(look)
    assert seen.wait(15.0), "a robot with a base needs its own drivers only, and they are all there"
    return kernel


@pytest.fixture
def drivers(kernel: Kernel) -> DriverKit:
    return kernel.drivers


def test_a_way_is_driven_and_what_was_moved_comes_back(drivers: DriverKit, base: Base) -> None:
    result = drivers.drive(stop=threading.Event(), distance=0.2, max_linear=0.4)
    assert result.ok and result.values == {"distance": pytest.approx(0.2), "lateral": 0.0, "turn": 0.0}
    assert base.asked[0].max_linear == pytest.approx(0.4)
    result = drivers.navigate(stop=threading.Event(), waypoint="kitchen", pose=Pose2D(3.0, 0.0, math.pi))
    assert result.values["distance_left"] == 0.25 and result.values["pose"]["pose"]["position"]["x"] == 3.0
    assert (base.asked[1].waypoint, base.asked[1].pose.header.frame_id) == ("kitchen", "map")
    assert drivers.set_posture("sit", stop=threading.Event(), pitch=0.1).ok and base.asked[2].posture == "sit"


def test_a_body_that_asks_for_what_no_driver_serves_is_told_what_to_declare(drivers: DriverKit) -> None:
    class Armed:
        def __init__(self, *, drive: Any, move_joints: Any) -> None:
            pass

    with pytest.raises(RobotConfigError, match="body Armed of robot 'kalos' asks for 'move_joints'.*drivers:"):
        drivers.parts.body(Armed)


def test_a_stopped_way_ends_soon_and_says_how_far_it_came(drivers: DriverKit, base: Base) -> None:
    stop = threading.Event()
    threading.Timer(0.4, stop.set).start()
    started = time.monotonic()
    result = drivers.drive(stop=stop, distance=5.0)
    assert time.monotonic() - started < 0.4 + 0.25
    assert result.cancelled and 0.1 < result.values["distance"] < 0.3


def test_a_stop_that_the_driver_does_not_confirm_is_no_clean_one_and_is_told(kernel: Kernel, base: Base) -> None:
    base.ignores_cancel = True
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    started = time.monotonic()
    result = kernel.drivers.drive(stop=stop, distance=5.0)
    assert time.monotonic() - started < 0.3 + 0.7
    assert not result.cancelled and result.error_code == CallCode.STOP_UNCERTAIN, result
    assert "/drive" in result.error_msg and kernel.lost == [result.error_msg]


@pytest.mark.parametrize("code", [int(CallCode.DRIVER_INACTIVE), Drive.Goal.BLOCKED])
def test_why_a_driver_refuses_reaches_the_skill(drivers: DriverKit, base: Base, code: int) -> None:
    base.refusal = code
    result = drivers.drive(stop=threading.Event(), distance=1.0)
    assert (result.ok, result.cancelled, result.error_code) == (False, False, code) and "latched" in result.error_msg


def test_senses_give_what_arrived_last_and_a_detector_what_is_in_the_picture(
    drivers: DriverKit, base: Base, kernel: Kernel, processes: Processes
) -> None:
    parameters = ROOT / "config" / "object_detector.yaml"
    detector = processes.start("object_detector", "robot:=kalos", "detector:=colour", params_file=parameters)
    assert drivers.pose() is None
    base.call_soon(base.publish_map)
    wait_until(lambda: drivers.pose() is not None, 3.0, "the pose in the map")
    pose = drivers.pose()
    assert pose is not None and (pose.x, pose.y) == (pytest.approx(8.0), pytest.approx(1.0))
    assert abs(pose.yaw) == pytest.approx(math.pi)
    wait_until(drivers.scan, 5.0, "a scan")
    scan = drivers.scan()
    assert scan is not None and scan.ranges[0] == 3.0 and scan.ranges[-1] == math.inf
    wait_until(lambda: drivers.image() is not None, 5.0, "a picture")
    assert drivers.image()[160, 160].tolist() == [240, 120, 20]

    def missing() -> str:
        topics = ("camera/image_raw", "camera/camera_info", "scan", "object_detections")
        ends = {topic: (base.count_publishers(topic), base.count_subscribers(topic)) for topic in topics}
        heard = f"health: {kernel.told_health}, (publishers, subscribers): {ends}, images matched: {base.matched()}"
        return f"a detection; the detector's exit status is {detector.poll()}, {heard}"

    wait_until(lambda: drivers.detections(), 10.0, missing)
    (ball,) = drivers.detections() or ()
    assert ball.label == "ball" and abs(ball.bearing) < 0.05 and ball.distance == pytest.approx(1.876, abs=0.02)
    assert drivers.sights() == ("ball", "apple", "bottle", "person", "chair"), "all that it can see, by the robot's words"
