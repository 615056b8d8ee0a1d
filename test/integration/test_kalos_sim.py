# SPDX-License-Identifier: Apache-2.0
"""The simulation node with a robot that walks: its standard topics, its own time-out, the debug side."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("tf2_msgs.msg", reason="needs tf2_msgs: run make setup")

from geometry_msgs.msg import PoseStamped, Twist, Vector3
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from sensor_msgs.msg import BatteryState, CameraInfo, Image, Imu, JointState, LaserScan
from std_msgs.msg import String
from std_srvs.srv import SetBool, Trigger
from tf2_msgs.msg import TFMessage

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.sim.gait import JOINTS
from ghostshell_ros.sim.world import SimWorld, SimWorldError
from ghostshell_ros.wire.images import to_pixels
from ghostshell_ros.wire.qos import IMAGES, LATCHED, LATCHED_BY_ANY, MEASUREMENTS, SENSORS, SET_POINTS
from ros_support import ask, spun, wait_until

ROBOT = """
name: walker
skills: [nothing]
model: robots/kalos/kalos.xml
subsystems: {main: {exclusive_per_process: false, parallel: false}}
base: {subsystems: [main], max_forward: 0.5, max_backward: 0.4, max_lateral: 0.3, max_turn: 1.2, max_acceleration: 2.0,
       max_turn_acceleration: 4.0, cruise_linear: 0.4, cruise_turn: 0.8, radius: 0.35, laser: [0.28, 0.0, 0.0]}
"""
TOPICS: dict[str, tuple[Any, Any]] = {
    "odom": (Odometry, SENSORS),
    "imu": (Imu, SENSORS),
    "joint_states": (JointState, SENSORS),
    "scan": (LaserScan, SENSORS),
    "posture_state": (String, LATCHED),
    "battery_state": (BatteryState, MEASUREMENTS),
    "ground_truth/base_link": (PoseStamped, MEASUREMENTS),
    "ground_truth/person": (PoseStamped, SENSORS),
    "ground_truth/office_door": (PoseStamped, SENSORS),
}


class Walker(RuntimeNode):
    """Sends what the gate would send and notes what the simulator publishes."""

    def __init__(self, namespace: str) -> None:
        super().__init__("walker_watcher", namespace=namespace)
        self.last: dict[str, Any] = {}
        self.count: dict[str, int] = {}
        self.frames: dict[tuple[str, str], Any] = {}
        self.speed = (0.0, 0.0, 0.0)
        self.silent = False
        self.said = ""
        for topic, (kind, qos) in TOPICS.items():
            self.listen(topic, kind, qos)
        self.create_subscription(TFMessage, "/tf", self._on_frames, SENSORS)
        self.create_subscription(TFMessage, "/tf_static", self._on_frames, LATCHED_BY_ANY)
        self._velocity = self.create_publisher(Twist, "cmd_vel_gated", SET_POINTS)
        self.posture = self.create_publisher(String, "posture", SET_POINTS)
        self.attitude = self.create_publisher(Vector3, "attitude", SET_POINTS)
        self.movers = {name: self.create_client(SetBool, name) for name in ("world/person", "world/block_door")}
        self.parameters = self.create_client(SetParameters, "sim/set_parameters")
        self.triggers = {name: self.create_client(Trigger, f"sim/{name}") for name in ("reset", "arrange")}
        self.steady_timer(0.02, self._send)

    def listen(self, topic: str, kind: Any, qos: Any) -> None:
        def take(message: Any) -> None:
            self.last[topic] = message
            self.count[topic] = self.count.get(topic, 0) + 1

        self.create_subscription(kind, topic, take, qos)

    def _on_frames(self, message: Any) -> None:
        for frame in message.transforms:
            self.frames[frame.header.frame_id, frame.child_frame_id] = frame

    def _send(self) -> None:
        if self.said:
            self.posture.publish(String(data=self.said))
        if not self.silent:
            twist = Twist()
            twist.linear.x, twist.linear.y, twist.angular.z = self.speed
            self._velocity.publish(twist)

    @property
    def x(self) -> float:
        return float(self.last["odom"].pose.pose.position.x)

    @property
    def state(self) -> str:
        return str(self.last["posture_state"].data)

    def put(self, arrangement: str, how: str) -> Any:
        """Have the world arranged or reset to an arrangement."""
        value = ParameterValue(type=ParameterType.PARAMETER_STRING, string_value=arrangement)
        request = SetParameters.Request(parameters=[Parameter(name="arrangement", value=value)])
        assert all(r.successful for r in ask(self, self.parameters, request).results)
        return ask(self, self.triggers[how], Trigger.Request())

    @property
    def place(self) -> tuple[float, float, float]:
        """Return where it truly is: x, y [m] and heading [rad]."""
        pose = self.last["ground_truth/base_link"].pose
        return pose.position.x, pose.position.y, 2 * math.atan2(pose.orientation.z, pose.orientation.w)

    def reset(self) -> None:
        """Put all back as at the start, and command nothing but to stand."""
        self.speed, self.silent, self.said = (0.0, 0.0, 0.0), False, ""
        assert self.put("", "reset").success
        self.attitude.publish(Vector3())
        wait_until(lambda: self.place == pytest.approx((0.0, 0.0, 0.0), abs=0.05), 3.0, "it is where it began")
        wait_until(lambda: self.state == "stand" and abs(self.x) < 0.05, 6.0, "it stands")
        self.count.clear()
        moving = ("odom", "imu", "joint_states", "scan", "ground_truth/person")
        wait_until(lambda: all(self.count.get(topic, 0) > 1 for topic in moving), 3.0, "what is measured there")


@pytest.fixture(scope="module")
def sim(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walker]:
    robot = tmp_path_factory.mktemp("walker") / "walker.yaml"
    robot.write_text(ROBOT)
    namespace = f"/walker{os.getpid()}"
    made = Walker(namespace)
    with spun(namespace, made) as processes:
        processes.start("sim", f"robot:={robot}", "world:=building", "camera:=front_camera", "camera_rate_hz:=5.0")
        wait_until(lambda: set(TOPICS) <= set(made.last) and made._velocity.get_subscription_count(), 25.0, "the simulator")
        yield made


@pytest.fixture
def walker(sim: Walker) -> Walker:
    sim.reset()
    return sim


def test_it_walks_on_velocities_stands_on_silence_and_tells_its_sensors(walker: Walker) -> None:
    assert walker.state == "stand" and set(walker.last["joint_states"].name) == set(JOINTS)
    scan = walker.last["scan"]
    assert scan.header.frame_id == f"{walker.get_namespace()[1:]}/laser" and len(scan.ranges) == 360
    assert scan.ranges[180] == pytest.approx(11.2, abs=0.2) and min(scan.ranges) > 0.8, "walls, not its own legs"
    assert walker.last["imu"].linear_acceleration.z == pytest.approx(9.81, abs=1.0)

    walker.speed = (0.4, 0.0, 0.0)
    wait_until(lambda: walker.x > 0.5, 10.0, "it walks half a metre")
    assert walker.state == "moving" and walker.last["odom"].twist.twist.linear.x > 0.15
    walker.silent = True
    wait_until(lambda: walker.state == "stand", 5.0, "silence of cmd_vel_gated makes it stand")
    odom, truth = walker.last["odom"].pose.pose, walker.last["ground_truth/base_link"].pose
    assert odom.position.x == pytest.approx(truth.position.x, abs=0.05) and odom.position.z > 0.25

    prefix = f"{walker.get_namespace()[1:]}/"
    assert all(name.startswith(prefix) for pair in walker.frames for name in pair), "two robots on one /tf do not clash"
    told = {(parent.removeprefix(prefix), child.removeprefix(prefix)): f for (parent, child), f in walker.frames.items()}
    links = {("base_link", "fl_hip_link"), ("fl_hip_link", "fl_thigh_link"), ("fl_thigh_link", "fl_calf_link")}
    assert {("odom", "base_link"), ("base_link", "laser"), ("base_link", "camera_link"), *links} <= set(told)
    base = told["odom", "base_link"].transform.translation
    assert math.dist((base.x, base.y), (truth.position.x, truth.position.y)) < 0.05

    def apart() -> float:
        """Difference of a joint's angle and its frame [rad]; the two come one after the other, and its feet still settle."""
        joints, turned = walker.last["joint_states"], walker.frames[f"{prefix}fl_thigh_link", f"{prefix}fl_calf_link"].transform
        return abs(2 * math.atan2(turned.rotation.y, turned.rotation.w) - joints.position[joints.name.index("fl_calf")])

    wait_until(lambda: apart() < 0.05, 3.0, lambda: f"the frame is where the joint is, not {apart():.3f} rad apart")
    camera, optical = told["base_link", "camera_link"].transform, told["camera_link", "camera_optical_frame"].transform
    assert (camera.translation.x, camera.rotation.w) == (pytest.approx(0.352), pytest.approx(1.0))
    assert (optical.rotation.w, optical.rotation.x) == (0.5, -0.5)


def test_postures_and_attitudes_are_taken_and_told(walker: Walker) -> None:
    standing = walker.last["odom"].pose.pose.position.z
    walker.posture.publish(String(data="fly"))
    for how in ("hold", ""):
        walker.said = "lie" if how else "sit"
        wait_until(lambda: walker.state == "moving", 3.0, "it begins to go down")
        time.sleep(0.5)
        walker.said = how  # the gate's halt, or nothing because it has died
        time.sleep(0.4)
        joints = [*walker.last["joint_states"].position]
        time.sleep(1.2)
        assert walker.state == "moving" and walker.last["joint_states"].position.tolist() == pytest.approx(joints, abs=0.03)
    walker.said = "sit"
    wait_until(lambda: walker.state == "sit", 6.0, "it sits")
    wait_until(lambda: walker.last["odom"].pose.pose.position.z < standing - 0.04, 3.0, "sitting is lower")
    walker.said = "stand"
    wait_until(lambda: walker.state == "stand", 6.0, "it stands up")
    walker.attitude.publish(Vector3(x=0.0, y=0.3, z=0.0))
    wait_until(lambda: walker.last["imu"].orientation.y > 0.1, 4.0, "it nods, nose down")


def test_the_debug_side_moves_person_and_door_and_the_camera_gives_pictures(walker: Walker) -> None:
    start = walker.last["ground_truth/person"].pose.position.y
    for client in walker.movers.values():
        assert client.wait_for_service(5.0)
        walker.call_soon(client.call_async, SetBool.Request(data=True))
    wait_until(lambda: walker.last["ground_truth/office_door"].pose.position.x < 5.3, 10.0, "the door slides shut")
    wait_until(lambda: walker.last["ground_truth/person"].pose.position.y > -0.4 > start, 12.0, "the person walks in")

    try:
        SimWorld("robots/kalos/kalos.xml", world="building").render("front_camera", 64, 48)
    except SimWorldError:
        return  # nothing can be rendered here
    for topic, kind in (("camera/image_raw", Image), ("camera/camera_info", CameraInfo)):
        walker.call_soon(walker.listen, topic, kind, IMAGES)
    wait_until(lambda: walker.count.get("camera/image_raw", 0) >= 3, 15.0, "three pictures")
    pixels = to_pixels(walker.last["camera/image_raw"])
    assert pixels.shape == (240, 320, 3) and pixels.std() > 15
    assert walker.last["camera/camera_info"].k[0] == pytest.approx(207.8, abs=0.5)


def test_the_world_is_arranged_for_a_task_and_put_back_while_the_node_runs(walker: Walker) -> None:
    walker.said = "sit"
    wait_until(lambda: walker.state == "sit", 6.0, "it sits")
    walker.said = ""
    assert walker.put('{"robot": [9.5, 2.0, 1.2], "office_door": "shut"}', "reset").success
    wait_until(lambda: walker.place == pytest.approx((9.5, 2.0, 1.2), abs=0.05), 3.0, "it stands where it was put")
    wait_until(lambda: walker.state == "stand", 3.0, "it stands")
    wait_until(lambda: walker.x == pytest.approx(9.5, abs=0.05), 3.0, "odometry says so too")
    wait_until(lambda: walker.last["ground_truth/office_door"].pose.position.x < 5.3, 3.0, "the door is shut")

    assert walker.put('{"person": [9.5, 3.2, 0.0]}', "arrange").success
    wait_until(lambda: walker.last["ground_truth/person"].pose.position.y == pytest.approx(3.2), 3.0, "somebody stands there")
    assert walker.place == pytest.approx((9.5, 2.0, 1.2), abs=0.08)

    refused = walker.put('{"moon": [1, 2]}', "reset")
    assert not refused.success and "no 'moon'" in refused.message
    told = walker.count["ground_truth/person"]
    wait_until(lambda: walker.count["ground_truth/person"] > told + 1, 3.0, "two more true poses")
    assert walker.last["ground_truth/person"].pose.position.y == pytest.approx(3.2), "nothing was moved"
    assert walker.put("", "reset").success
    wait_until(lambda: walker.place == pytest.approx((0.0, 0.0, 0.0), abs=0.05), 3.0, "all is as at the start")
