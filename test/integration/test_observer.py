# SPDX-License-Identifier: Apache-2.0
"""The observer in a process of its own with Kalos's sensors around it: what comes is observed, what falls silent is stale."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tf2_msgs.msg", reason="needs tf2_msgs: run make setup")

from geometry_msgs.msg import TransformStamped
from ghostshell.msg import Detection, DetectionArray, KernelState, ProcessArray, ProcessState, Subsystem
from ghostshell.msg import Observation as ObservationMsg
from nav_msgs.msg import Odometry
from sensor_msgs.msg import BatteryState, CameraInfo, Image, LaserScan
from std_msgs.msg import Header, String
from tf2_msgs.msg import TFMessage

from function_tokens.mapper import Mapper
from function_tokens.routines import RoutineStore
from ghostshell_ros.nodes.observer.node import ObserverNode
from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.wire.images import to_message
from ghostshell_ros.wire.observation_messages import from_message, observation_message
from ghostshell_ros.wire.qos import IMAGES, LATCHED, OBSERVATION, SENSORS
from ros_support import Processes, spun, wait_until
from skill_kernel.observation.accessors import View, accessors_of
from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, Sector, SeenObject, StaleFieldError
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

OBSERVER = "observer"
KALOS = RobotConfig.load("kalos")
UP_S = 15.0
STALE_S = 5.0
"""Longer than any age allowed here, for a busy machine."""


class Sensors(RuntimeNode):
    """Kalos's sensors, each sent as often as a real one until it is put into `silent`; and what the observer says."""

    def __init__(self, namespace: str, robot: RobotConfig = KALOS) -> None:
        super().__init__("sensors", namespace=namespace)
        self._table = accessors_of(robot)
        self.observations: list[tuple[float, ObservationMsg]] = []
        self.as_at_first()
        made = self.create_publisher
        self._odom, self._scan = made(Odometry, "odom", SENSORS), made(LaserScan, "scan", SENSORS)
        self._seen = made(DetectionArray, "object_detections", SENSORS)
        self._battery, self._posture = made(BatteryState, "battery_state", SENSORS), made(String, "posture_state", LATCHED)
        self._kernel, self._processes = made(KernelState, "kernel_state", LATCHED), made(ProcessArray, "processes", LATCHED)
        self._tf = made(TFMessage, "/tf_static", LATCHED)
        self.create_subscription(ObservationMsg, "observation", self._on_observation, OBSERVATION)
        self.steady_timer(0.02, lambda: self._send("odom", self._send_odometry))
        self.steady_timer(0.1, lambda: self._send("scan", self._send_scan))
        self.steady_timer(0.2, lambda: self._send("detector", self._send_detections))
        self.steady_timer(1.0, lambda: self._send("battery", self._send_battery))
        self._posture.publish(String(data="stand"))
        self.hold(free=["sound"], busy=["movement"])
        self._processes.publish(ProcessArray())

    def as_at_first(self) -> None:
        """Have all sensors say what they say at the start."""
        self.silent: set[str] = set()
        self.x, self.ranges, self.things = 0.0, [3.0] * 360, [("person", 0.9, 0.0, 2.0)]

    def _send(self, sensor: str, send: Callable[[], None]) -> None:
        if sensor not in self.silent:
            send()

    def _send_odometry(self) -> None:
        odom = Odometry(child_frame_id="base_link")
        odom.header.stamp, odom.header.frame_id = self.get_clock().now().to_msg(), "odom"
        odom.pose.pose.position.x, odom.pose.pose.orientation.w = self.x, 1.0
        self._odom.publish(odom)

    def _send_scan(self) -> None:
        scan = LaserScan(angle_min=-math.pi, angle_increment=math.tau / 360, range_min=0.05, range_max=12.0)
        scan.header.stamp = self.get_clock().now().to_msg()
        scan.ranges = list(self.ranges)
        self._scan.publish(scan)

    def _send_detections(self) -> None:
        seen = DetectionArray(header=Header(stamp=self.get_clock().now().to_msg(), frame_id="base_link"))
        seen.detections = [Detection(label=n, confidence=c, bearing=b, distance=d) for n, c, b, d in self.things]
        self._seen.publish(seen)

    def _send_battery(self) -> None:
        self._battery.publish(BatteryState(percentage=0.5, power_supply_status=BatteryState.POWER_SUPPLY_STATUS_CHARGING))

    def hold(self, *, free: list[str], busy: list[str]) -> None:
        self._kernel.publish(
            KernelState(
                subsystems=[
                    *(Subsystem(name=n) for n in free),
                    *(Subsystem(name=n, process_id="p", call_ids=["c"]) for n in busy),
                ]
            )
        )

    def hear(self, text: str) -> None:
        said = ProcessState(instruction=text, source=ProcessState.USER, created=self.get_clock().now().to_msg())
        own = ProcessState(instruction="idle about", source=ProcessState.IDLE, created=self.get_clock().now().to_msg())
        self._processes.publish(ProcessArray(processes=[said, own]))

    def place_odom(self, namespace: str) -> None:
        found = TransformStamped(child_frame_id=f"{namespace.strip('/')}/odom")
        found.header.frame_id = f"{namespace.strip('/')}/map"
        found.transform.translation.x, found.transform.rotation.w = 1.0, 1.0
        other = TransformStamped(child_frame_id="another/odom")
        other.header.frame_id, other.transform.translation.x = "another/map", 50.0
        self._tf.publish(TFMessage(transforms=[other, found]))

    def _on_observation(self, message: ObservationMsg) -> None:
        self.observations.append((self.steady_now(), message))

    def view(self) -> View:
        """Return the newest observation through the accessors, now."""
        if not self.observations:
            return View(None, self._table, self.steady_now())
        at, message = self.observations[-1]
        return View(from_message(message, at), self._table, self.steady_now())

    def number(self, name: str) -> float:
        """Return what an accessor gives, nan for a stale field."""
        try:
            return float(self.view().call(name))
        except StaleFieldError:
            return math.nan

    def says(self, value: object, *call: str, timeout_s: float = STALE_S) -> None:
        """Wait until an accessor gives a value, `StaleFieldError` for none."""

        def now() -> object:
            try:
                return self.view().call(*call)
            except StaleFieldError:
                return StaleFieldError

        wait_until(
            lambda: now() == (pytest.approx(value) if isinstance(value, float) else value), timeout_s, f"{call} is {value}"
        )


@pytest.fixture
def sensors(namespace: str, processes: Processes, host: Callable[..., Any]) -> Sensors:
    """Kalos's sensors and its observer, which has said something."""
    made = Sensors(namespace)
    host(made)
    processes.start(OBSERVER, "robot:=kalos")
    wait_until(lambda: made.observations, UP_S, "the first observation")
    return made


@pytest.fixture(scope="module")
def kept(ros: None) -> Iterator[Sensors]:
    """Kalos's sensors and its observer for all tests that leave both as they were."""
    namespace = f"/observed{os.getpid()}"
    made = Sensors(namespace)
    with spun(namespace, made) as processes:
        processes.start(OBSERVER, "robot:=kalos")
        wait_until(lambda: made.observations, UP_S, "the first observation")
        yield made


@pytest.fixture
def shared(kept: Sensors) -> Sensors:
    kept.as_at_first()
    return kept


def test_all_that_the_sensors_say_is_observed(sensors: Sensors, namespace: str) -> None:
    sensors.says(StaleFieldError, "x_m")
    sensors.x = 4.25
    sensors.place_odom(namespace)
    sensors.says(5.25, "x_m")
    sensors.ranges[180] = 1.0
    for call, value in (
        (("room",), "hallway"),
        (("posture",), "stand"),
        (("battery_percent",), 50.0),
        (("charging",), True),
        (("moving",), False),
        (("subsystem_busy", "movement"), True),
        (("subsystem_busy", "sound"), False),
        (("visible", "person"), True),
        (("distance_to", "person"), 2.0),
        (("people_visible",), 1),
        (("heard",), ""),
    ):
        sensors.says(value, *call)
    wait_until(lambda: abs(sensors.number("front_distance_m") - 0.93) < 1e-3, STALE_S, "what is in front")
    sensors.hear("go to the kitchen")
    sensors.says("go to the kitchen", "heard")
    assert sensors.number("heard_age_s") < STALE_S

    def person() -> Any:
        return next(f for f in sensors.observations[-1][1].fields if f.name == "object_detections").objects[0]

    assert (person().track_id, person().label) == (1, "person")
    wait_until(lambda: (person().x, person().y) == pytest.approx((7.25, 0.0)), STALE_S, "where the person stands")


def test_the_detector_killed_makes_its_fields_stale_and_says_so_and_the_others_go_on(
    namespace: str, processes: Processes, host: Callable[..., Any]
) -> None:
    sensors = Sensors(namespace)
    sensors.silent.add("detector")  # a real one works instead
    cameras = Camera(namespace)
    host(sensors, cameras)
    detector = processes.start("object_detector", "detector:=colour", "looks:=['person 295 325, 0.6 1, 0.2 1']")
    processes.start(OBSERVER, "robot:=kalos")
    sensors.says(True, "visible", "person", timeout_s=UP_S)
    detector.kill()
    sensors.says(StaleFieldError, "visible", "person")
    with pytest.raises(StaleFieldError, match=r"'object_detections' is stale: .* does its source still send"):
        sensors.view().call("distance_to", "person")

    def told() -> Any:
        return next(f for f in sensors.observations[-1][1].fields if f.name == "object_detections")

    wait_until(lambda: told().stale, STALE_S, "the message says so too")
    assert told().age_s > 1.0 and [o.label for o in told().objects] == ["person"]
    assert sensors.view().call("stale", "visible_people") is True
    assert sensors.view().call("moving") is False


class Camera(RuntimeNode):
    """A camera that sees a person: a block of the shirt's colour."""

    def __init__(self, namespace: str) -> None:
        super().__init__("camera", namespace=namespace)
        pixels = np.full((240, 320, 3), 150, np.uint8)
        pixels[60:200, 130:190] = (184, 15, 158)
        images, infos = (
            self.create_publisher(Image, "camera/image_raw", IMAGES),
            self.create_publisher(CameraInfo, "camera/camera_info", IMAGES),
        )

        def send() -> None:
            stamp = self.get_clock().now().to_msg()
            infos.publish(CameraInfo(width=320, height=240, k=[200.0, 0.0, 160.0, 0.0, 200.0, 120.0, 0.0, 0.0, 1.0]))
            images.publish(to_message(pixels, stamp, "camera_optical_frame"))

        self.steady_timer(0.2, send)


@pytest.mark.parametrize("ranges", [[], [math.nan] * 360], ids=["no ranges", "all nan"])
def test_a_blind_lidar_is_stale_and_not_free(shared: Sensors, ranges: list[float]) -> None:
    wait_until(lambda: shared.number("front_distance_m") > 2.0, STALE_S, "the way in front")
    shared.ranges = ranges
    shared.says(StaleFieldError, "front_distance_m")
    shared.ranges = [math.inf] * 360
    shared.says(math.inf, "front_distance_m")
    shared.ranges = [math.nan] * 200 + [0.7] + [math.nan] * 159
    wait_until(lambda: shared.number("nearest_distance_m") < 1.0, STALE_S, "what is near beside the blind rays")


def test_silent_sensors_are_stale_each_by_itself_and_fresh_again_when_they_speak(shared: Sensors) -> None:
    for sensor, call in (("odom", ("speed_mps",)), ("scan", ("nearest_distance_m",)), ("detector", ("visible", "ball"))):
        shared.says(False, "stale", {"odom": "speed", "scan": "obstacles", "detector": "object_detections"}[sensor])
        shared.silent = {sensor}
        shared.says(StaleFieldError, *call)
        assert shared.view().call("stale", "posture") is False
        shared.silent = set()
        wait_until(lambda c=call: _answers(shared, c), STALE_S, f"{call} answers again")


def _answers(sensors: Sensors, call: tuple[str, ...]) -> bool:
    try:
        sensors.view().call(*call)
    except StaleFieldError:
        return False
    return True


def test_a_state_nobody_publishes_any_more_is_missing(namespace: str, processes: Processes, host: Callable[..., Any]) -> None:
    sensors, posture = Sensors(namespace), RuntimeNode("posture", namespace=namespace)
    sensors.destroy_publisher(sensors._posture)
    publisher = posture.create_publisher(String, "posture_state", LATCHED)
    publisher.publish(String(data="sit"))
    host(sensors, posture)
    processes.start(OBSERVER, "robot:=kalos")
    sensors.says("sit", "posture", timeout_s=UP_S)
    posture.call_soon(posture.destroy_publisher, publisher)
    sensors.says(StaleFieldError, "posture")
    with pytest.raises(StaleFieldError, match="nobody publishes 'posture_state'"):
        sensors.view().call("posture")


def test_a_scan_with_news_is_answered_at_once_and_a_quiet_robot_at_the_rate(
    namespace: str, processes: Processes, host: Callable[..., Any]
) -> None:
    sensors = Sensors(namespace)
    sensors.silent = {"odom", "scan", "detector", "battery"}
    host(sensors)
    processes.start(OBSERVER, "robot:=kalos", "rate_hz:=2.0")
    wait_until(lambda: len(sensors.observations) >= 5, UP_S, "five observations")
    times = [at for at, _ in sensors.observations[-4:]]
    assert all(0.3 < b - a < 1.0 for a, b in zip(times, times[1:], strict=False))
    took = []
    for nearer in range(10):
        sensors.ranges[180] = 2.0 - 0.1 * nearer
        heard, sent = len(sensors.observations), time.monotonic()
        sensors.call_soon(sensors._send_scan)
        wait_until(lambda n=heard: len(sensors.observations) > n, 1.0, "the observation of the scan")
        took.append(sensors.observations[heard][0] - sent)
    assert sorted(took)[5] < 0.1  # at the rate it would be 0.25 s on average


def test_a_robots_own_field_comes_from_any_topic(
    namespace: str, processes: Processes, host: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("""
name: own
skills: [nothing]
subsystems: {main: {exclusive_per_process: false, parallel: false}}
observation:
  height_m: {role: Height above the ground., kind: number, source: {topic: odom, type: nav_msgs/msg/Odometry},
             process: {function: take, path: pose.pose.position.z}, max_age_s: 1}
  weather: {role: What the weather station says., kind: text, source: {topic: weather, type: std_msgs/msg/String},
            process: {function: take, path: data}, max_age_s: 2}
""")
    sensors = Sensors(namespace, RobotConfig.load(file))
    host(sensors)
    weather = sensors.create_publisher(String, "weather", SENSORS)
    processes.start(OBSERVER, f"robot:={file}")
    sensors.says(0.0, "height_m", timeout_s=UP_S)
    for told in ("it rains", "<drive distance='5'/>"):
        wait_until(lambda: weather.get_subscription_count() > 0, UP_S, "the observer listens")
        sensors.call_soon(weather.publish, String(data=told))
        sensors.says(told, "weather")
    sensors.says(StaleFieldError, "weather")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("{topic: t, type: sensor_msgs/msg/Nothing}", "there is no interface sensor_msgs/msg/Nothing"),
        ("{topic: t, type: nothing_msgs/msg/Nothing}", "there is no interface nothing_msgs/msg/Nothing"),
        ("{topic: t, type: sensor_msgs/msg/BatteryState}", "BatteryState has no 'no_such_part'"),
    ],
)
def test_an_observer_of_an_impossible_field_does_not_start_and_says_why(
    ros: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, says: str
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(f"""
name: own
skills: [nothing]
subsystems: {{main: {{exclusive_per_process: false, parallel: false}}}}
observation:
  odd: {{role: Nothing., kind: number, source: {source}, process: {{function: take, path: no_such_part}}, max_age_s: 1}}
""")
    robot = RobotConfig.load(file)
    monkeypatch.setattr(RobotConfig, "load", lambda _: robot)
    with pytest.raises(NodeStartError, match=f"field 'odd': {says}"):
        ObserverNode()


def test_the_planners_prompt_has_the_observation_while_there_is_an_observer(
    namespace: str, host: Callable[..., Any], tmp_path: Path
) -> None:
    planner, observer = RuntimeNode("planner", namespace=namespace), RuntimeNode("observer", namespace=namespace)
    registry = SkillRegistry.from_modules(KALOS.skills, text_skill=KALOS.text_skill)
    routines = RoutineStore(tmp_path / "routines.json", clock=time.time)
    scene = Scene(planner, RobotSetup(KALOS, registry, Mapper(KALOS, registry), routines))
    told = observer.create_publisher(ObservationMsg, "observation", OBSERVATION)
    host(planner, observer)
    assert scene.observed() is None
    field = FieldValue("battery", Kind.NUMBER, 42.0, 97.0, 5.0)
    message = observation_message(Observation(100.0, 1, planner.now_s(), {"battery": field}))

    def heard() -> dict[str, Any] | None:
        observer.call_soon(told.publish, message)
        return scene.observed()

    wait_until(heard, UP_S, "the observation")
    assert scene.observed() == {"battery": 42.0}
    wait_until(lambda: scene.observed() is None, STALE_S, "the observer's silence")


def test_an_observation_comes_back_equal_from_the_wire() -> None:
    fields = {
        "pose": FieldValue("pose", Kind.POSE, Pose(1.0, 2.0, 0.5), 99.0, 0.5),
        "battery": FieldValue("battery", Kind.NUMBER, 42.0, 97.0, 5.0),
        "moving": FieldValue("moving", Kind.BOOLEAN, True, 100.0, 0.5),
        "posture": FieldValue("posture", Kind.TEXT, "sit", 10.0, None),
        "obstacles": FieldValue("obstacles", Kind.SECTORS, (Sector("front", 0.5), Sector("back", math.inf)), 99.9, 0.5),
        "object_detections": FieldValue(
            "object_detections", Kind.OBJECTS, (SeenObject(3, "ball", 0.5, 0.25, 1.5, 2.0, 3.0, 0.125),), 99.5, 1.0
        ),
        "subsystems": FieldValue("subsystems", Kind.TABLE, {"movement": "busy"}, 50.0, None),
        "last_heard": FieldValue("last_heard", Kind.TEXT, None, -math.inf, None, "nobody speaks"),
    }
    sent = Observation(100.0, 7, 1234.5, fields)
    back = from_message(observation_message(sent), 100.0)
    assert back == sent
    assert from_message(observation_message(sent), 300.0, ros_now_s=1235.0).stamp == pytest.approx(299.5)
    assert from_message(observation_message(sent), 300.0, ros_now_s=1000.0).stamp == 300.0
