# SPDX-License-Identifier: Apache-2.0
"""Connect a robot's observer to the topics and services that its fields come from."""

import math
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Any

from ghostshell.msg import DetectionArray, KernelState, ProcessArray, ProcessState
from nav_msgs.msg import Odometry as OdometryMsg
from sensor_msgs.msg import LaserScan

from ghostshell_ros.runtime.map_origin import follow_map
from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.codec import interface
from ghostshell_ros.wire.qos import EVENTS, LATCHED_BY_ANY, SENSORS
from ghostshell_ros.wire.sensing import pose_of
from ghostshell_ros.wire.values import seconds
from skill_kernel.config.observation import FieldConfig, MapPose, Take
from skill_kernel.observation.model import Pose
from skill_kernel.observation.observer import Observer
from skill_kernel.observation.odometry import Odometry
from skill_kernel.skills.drivers import Detection, Scan

QOS = {"sensor": SENSORS, "state": LATCHED_BY_ANY, "event": EVENTS}
LIVE_S = 1.0
"""Time between two looks whether states still have a publisher."""
ANSWER_S = 2.0
"""Time after which a service gives no value; it is asked again at its rate."""
LATE_S = 1.0
LATE_OFTEN = 10
"""Age and number in a row of stamps that are worth a warning: there are two clocks, or a source stands still."""


class ObservationSources:
    """Feed the node `observer` on its executor's thread. `at_once` is called after each message for a field marked so."""

    def __init__(
        self, node: RuntimeNode, observer: Observer, fields: dict[str, FieldConfig], at_once: Callable[[], None]
    ) -> None:
        """Subscribe and ask. Raises NodeStartError for a field whose interface does not exist or lacks the path."""
        self._node, self._observer, self._at_once = node, observer, at_once
        self._states: dict[str, str] = {}
        self._odometry_topics: set[str] = set()
        self._late: dict[str, int] = {}
        self._warned: set[str] = set()
        mapped = False
        for name, config in fields.items():
            if config.source.service:
                self._ask(name, config)
            elif config.source.topic:
                self._subscribe(name, config)
                mapped = mapped or (isinstance(config.process, MapPose) and config.process.frame == "map")
            if config.source.topic and config.source.qos == "state":
                self._states[name] = config.source.topic
        if self._states:
            node.steady_timer(LIVE_S, self._look_for_publishers)
        if mapped:
            follow_map(node, lambda x, y, yaw: observer.odom_in_map(Pose(x, y, yaw)))

    def _subscribe(self, name: str, config: FieldConfig) -> None:
        process, topic, qos = config.process, config.source.topic, QOS[config.source.qos]
        if process.function in ("pose", "speed", "moving"):
            if topic not in self._odometry_topics:
                self._odometry_topics.add(topic)
                self._node.create_subscription(OdometryMsg, topic, partial(self._on_odometry, topic), qos)
            return
        kinds: dict[str, tuple[Any, Callable[..., None]]] = {
            "nearest_by_sector": (LaserScan, self._on_scan),
            "track": (DetectionArray, self._on_detections),
            "subsystems": (KernelState, self._on_kernel_state),
            "heard": (ProcessArray, self._on_processes),
        }
        if process.function in kinds:
            message_type, take_in = kinds[process.function]
        else:
            assert isinstance(process, Take)
            message_type = self._interface(name, config.source.type)
            take_in = partial(self._on_value, self._reader(name, process, message_type))

        def heard(message: Any) -> None:
            take_in(name, config, message)
            if config.at_once:
                self._at_once()

        self._node.create_subscription(message_type, topic, heard, qos)

    def _interface(self, name: str, interface_name: str) -> Any:
        try:
            return interface(interface_name)
        except ImportError as error:
            raise NodeStartError(f"field '{name}': {error}") from error

    def _reader(self, name: str, process: Take, message_type: Any) -> Callable[[Any], Any]:
        """Return a function that reads the value at the path. Raises NodeStartError for a path that an empty message lacks."""
        parts = process.path.split(".")
        at = message_type()
        for part in takewhile(lambda part: not part.isdigit(), parts):
            if not hasattr(at, part):
                known = ", ".join(message_type.get_fields_and_field_types())
                raise NodeStartError(f"field '{name}': {message_type.__name__} has no '{process.path}' (it has {known})")
            at = getattr(at, part)
        if process.entry and not hasattr(message_type, "name"):
            raise NodeStartError(f"field '{name}': {message_type.__name__} has no list of names; leave entry out")

        def read(message: Any) -> Any:
            value = message
            for part in parts:
                value = value[int(part)] if part.isdigit() else getattr(value, part)
            return value[message.name.index(process.entry)] if process.entry else value

        return read

    def _measured_at(self, topic: str, message: Any) -> float:
        """Return when it was measured on the steady clock, by the message's stamp where it has one."""
        now = self._node.steady_now()
        stamp = getattr(message, "stamp", None) or getattr(getattr(message, "header", None), "stamp", None)
        if stamp is None or not (stamp.sec or stamp.nanosec):
            return now
        ros_now = self._node.get_clock().now().nanoseconds
        if not ros_now:
            return now
        late = (ros_now - stamp.sec * 1_000_000_000 - stamp.nanosec) * 1e-9
        self._late[topic] = self._late.get(topic, 0) + 1 if late > LATE_S else 0
        if self._late[topic] == LATE_OFTEN:
            self._node.get_logger().warning(
                f"{topic} is {late:.1f} s old by its stamp and counts as that old; is use_sim_time the same everywhere?"
            )
        return now - max(0.0, late)

    def _on_odometry(self, topic: str, message: OdometryMsg) -> None:
        at, twist = pose_of(message.pose.pose), message.twist.twist
        speed = math.hypot(twist.linear.x, twist.linear.y)
        measured = self._measured_at(topic, message)
        self._observer.odometry(topic, Odometry(measured, at.x, at.y, at.yaw, speed, twist.angular.z))

    def _on_scan(self, name: str, config: FieldConfig, message: LaserScan) -> None:
        turn = Scan(message.angle_min, message.angle_increment, message.ranges, message.range_min, message.range_max)
        measured = self._observer.scan(name, turn, self._measured_at(config.source.topic, message))
        if not measured and name not in self._warned:
            self._warned.add(name)
            text = "a scan without measured ranges, angles or limits counts as silence: is the laser covered or broken?"
            self._node.get_logger().warning(f"field '{name}': {text}")

    def _on_detections(self, name: str, config: FieldConfig, message: DetectionArray) -> None:
        things = [Detection(d.label, d.confidence, d.bearing, d.distance) for d in message.detections]
        self._observer.sightings(name, things, self._measured_at(config.source.topic, message))

    def _on_kernel_state(self, name: str, config: FieldConfig, message: KernelState) -> None:
        rows = {s.name: "busy" if s.call_ids else "held" if s.process_id else "free" for s in message.subsystems}
        self._observer.take(name, rows, self._node.steady_now())

    def _on_processes(self, name: str, config: FieldConfig, message: ProcessArray) -> None:
        said = [p for p in message.processes if p.source == ProcessState.USER]
        if not said:
            self._observer.take(name, "", -math.inf)
            return
        last = max(said, key=lambda p: (p.created.sec, p.created.nanosec))
        ago = self._node.now_s() - seconds(last.created)
        self._observer.take(name, last.instruction, self._node.steady_now() - max(0.0, ago))

    def _on_value(self, read: Callable[[Any], Any], name: str, config: FieldConfig, message: Any) -> None:
        # A value that holds until it changes was measured when it came, however old its stamp is.
        ages = config.max_age_s is not None
        at = self._measured_at(config.source.topic, message) if ages else self._node.steady_now()
        self._take(name, read, message, at)

    def _take(self, name: str, read: Callable[[Any], Any], message: Any, at: float) -> None:
        try:
            value = read(message)
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            self._observer.miss(name, f"its source has nothing at the path ({type(error).__name__}); look at the source")
        else:
            self._observer.take(name, value, at)

    def _look_for_publishers(self) -> None:
        for name, topic in self._states.items():
            if not self._node.count_publishers(topic):
                self._observer.miss(name, f"nobody publishes '{topic}'; is its node running?")

    def _ask(self, name: str, config: FieldConfig) -> None:
        process, source = config.process, config.source
        assert isinstance(process, Take)
        service = self._interface(name, source.type)
        read = self._reader(name, process, service.Response)
        client = ServiceClient(self._node, service, source.service)
        waiting: list[float] = []

        def answered(response: Any) -> None:
            asked_at = waiting.pop()
            if response is None:
                self._observer.miss(name, f"service '{source.service}' does not answer within {ANSWER_S:g} s")
                return
            self._take(name, read, response, asked_at)

        def ask() -> None:
            if waiting:
                return
            if not client.discovered():
                self._observer.miss(name, f"there is no service '{source.service}'; is its node running?")
                return
            waiting.append(self._node.steady_now())
            client.ask(service.Request(), answered, deadline_s=ANSWER_S)

        self._node.steady_timer(1.0 / config.rate_hz, ask)
