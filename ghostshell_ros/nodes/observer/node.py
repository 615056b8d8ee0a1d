# SPDX-License-Identifier: Apache-2.0
"""Node `observer`: publish what the robot knows of itself and its surroundings as one typed observation (TypeGo 4)."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import takewhile
from typing import Any

from ghostshell.msg import DetectionArray, KernelState, ProcessArray, ProcessState
from ghostshell.msg import Observation as ObservationMsg
from nav_msgs.msg import Odometry as OdometryMsg
from sensor_msgs.msg import LaserScan
from vision_msgs.msg import Detection3DArray

from ghostshell_ros.arms.scenery import Scenery, SceneryError
from ghostshell_ros.perception.sights import Sights
from ghostshell_ros.runtime.map_origin import follow_map
from ghostshell_ros.runtime.node import Health, Level, NodeStartError, RuntimeNode
from ghostshell_ros.wire.codec import interface
from ghostshell_ros.wire.observation_messages import observation_message
from ghostshell_ros.wire.qos import EVENTS, LATCHED_BY_ANY, OBSERVATION, SENSORS
from ghostshell_ros.wire.sensing import pose_of, things_of
from ghostshell_ros.wire.values import seconds
from skill_kernel.config.observation import FieldConfig, MapPose, Take
from skill_kernel.observation.model import FieldValue, Pose, alike
from skill_kernel.observation.observer import Observer
from skill_kernel.observation.odometry import Odometry
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.skills.drivers import Detection, Scan

BURST = 5.0
"""Observations sent in a row without waiting: a scan must not wait because a detection came just before."""
QOS = {"sensor": SENSORS, "state": LATCHED_BY_ANY, "event": EVENTS}
LIVE_S = 1.0
"""Time between two looks whether states still have a publisher."""
LATE_S = 1.0
LATE_OFTEN = 10
"""Age and number in a row of stamps that are worth a warning: there are two clocks, or a source stands still."""


class ObserverNode(RuntimeNode):
    """Publish `observation` (ghostshell/Observation) while something changes at `rate_hz`, and at once when a field marked
    `at_once` has changed, but no more than `max_rate_hz` on average; otherwise at `rest_rate_hz`. Subscribes what the
    fields in the robot's file name, and for a pose in the map also `/tf` and `/tf_static`.
    """

    own_thread = True

    def __init__(self) -> None:
        super().__init__("observer")
        name = self.declare("robot", "coco", "robot, a name in config/robots or the path of a YAML file")
        rate = self.declare("rate_hz", 10.0, "observations a second while something changes [Hz]", 2.0, 100.0)
        rest = self.declare("rest_rate_hz", 5.0, "the same while nothing changes [Hz]", 2.0, 100.0)
        most = self.declare("max_rate_hz", 50.0, "observations a second at most [Hz]", 2.0, 200.0)
        robot = RobotConfig.load(name)
        self._observer = Observer(robot)
        self._scenery = _scenery(robot)
        self._sights: dict[str, Sights] = {}
        self._period_s, self._rest_s, self._most = 1.0 / rate, 1.0 / rest, most
        self._published: Mapping[str, FieldValue] = {}
        self._free = BURST
        self._published_at = 0.0
        self._due = False
        self._stale: list[str] = []
        self._publisher = self.create_publisher(ObservationMsg, "observation", OBSERVATION)
        self._states: dict[str, str] = {}
        self._odometry_topics: set[str] = set()
        self._late: dict[str, int] = {}
        self._warned: set[str] = set()
        self._listen(robot.observation)
        self.steady_timer(self._period_s, self._at_rate)

    def _at_rate(self) -> None:
        # An observation sent at once counts; half a period, or a source of the same rate would be doubled by its jitter.
        since_s = self.steady_now() - self._published_at
        if since_s >= self._period_s / 2 and (since_s >= self._rest_s - self._period_s / 2 or self._changed()):
            self._publish()

    def _changed(self) -> bool:
        now = self._observer.fields(self.steady_now())
        return not self._published or any(not alike(field, self._published[name]) for name, field in now.items())

    def _publish_at_once(self) -> None:
        if not self._changed():
            return
        free = min(BURST, self._free + (self.steady_now() - self._published_at) * self._most)
        if free >= 1.0:
            self._publish()
        elif not self._due:
            self._due = True
            self.call_later((1.0 - free) / self._most, self._publish)

    def _publish(self) -> None:
        self._due, now = False, self.steady_now()
        self._free = max(0.0, min(BURST, self._free + (now - self._published_at) * self._most) - 1.0)
        self._published_at = now
        observation = self._observer.observation(now, self.now_s())
        self._published = observation.fields
        self._stale = [name for name, field in observation.fields.items() if field.stale(now)]
        self._publisher.publish(observation_message(observation))

    def health(self) -> Health:
        """Return which fields are stale or missing."""
        if self._stale:
            return Health(f"stale: {', '.join(self._stale)}", Level.WARN)
        return Health("observing")

    # -- sources ------------------------------------------------------------------------------------------------------

    def _listen(self, fields: Mapping[str, FieldConfig]) -> None:
        """Subscribe. Raises NodeStartError for a field whose interface does not exist or lacks the path."""
        mapped = False
        for name, config in fields.items():
            if config.source.topic:
                self._subscribe(name, config)
                mapped = mapped or (isinstance(config.process, MapPose) and config.process.frame == "map")
            if config.source.topic and config.source.qos == "state":
                self._states[name] = config.source.topic
        if self._states:
            self.steady_timer(LIVE_S, self._look_for_publishers)
        if mapped:
            follow_map(self, lambda x, y, yaw: self._observer.odom_in_map(Pose(x, y, yaw)))

    def _subscribe(self, name: str, config: FieldConfig) -> None:
        process, topic, qos = config.process, config.source.topic, QOS[config.source.qos]
        if process.function in ("pose", "speed", "moving"):
            if topic not in self._odometry_topics:
                self._odometry_topics.add(topic)
                self.create_subscription(OdometryMsg, topic, partial(self._on_odometry, topic), qos)
            return
        kinds: dict[str, tuple[Any, Callable[..., None]]] = {
            "nearest_by_sector": (LaserScan, self._on_scan),
            "track": (DetectionArray, self._on_detections),
            "subsystems": (KernelState, self._on_kernel_state),
            "heard": (ProcessArray, self._on_processes),
            "things": (Detection3DArray, self._on_things),
            "doors": (Detection3DArray, self._on_things),
        }
        if process.function in kinds:
            message_type, take_in = kinds[process.function]
        else:
            assert isinstance(process, Take)
            try:
                message_type = interface(config.source.type)
            except ImportError as error:
                raise NodeStartError(f"field '{name}': {error}") from error
            take_in = partial(self._on_value, self._reader(name, process, message_type))

        def heard(message: Any) -> None:
            take_in(name, config, message)
            if config.at_once:
                self._publish_at_once()

        self.create_subscription(message_type, topic, heard, qos)

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
        now = self.steady_now()
        stamp = getattr(message, "stamp", None) or getattr(getattr(message, "header", None), "stamp", None)
        if stamp is None or not (stamp.sec or stamp.nanosec):
            return now
        ros_now = self.get_clock().now().nanoseconds
        if not ros_now:
            return now
        late = (ros_now - stamp.sec * 1_000_000_000 - stamp.nanosec) * 1e-9
        self._late[topic] = self._late.get(topic, 0) + 1 if late > LATE_S else 0
        if self._late[topic] == LATE_OFTEN:
            self.get_logger().warning(
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
            self.get_logger().warning(f"field '{name}': {text}")

    def _on_detections(self, name: str, config: FieldConfig, message: DetectionArray) -> None:
        things = [Detection(d.label, d.confidence, d.bearing, d.distance) for d in message.detections]
        self._observer.sightings(name, things, self._measured_at(config.source.topic, message))

    def _on_things(self, name: str, config: FieldConfig, message: Detection3DArray) -> None:
        sights, now = self._sights.setdefault(name, Sights()), self.steady_now()
        measured = self._measured_at(config.source.topic, message)
        sights.take(things_of(message), measured)
        seen = {thing: position for thing, (position, _) in sights.seen(now).items()}
        tell = self._scenery.things_seen if config.process.function == "things" else self._scenery.doors_seen
        self._observer.take(name, tell(seen), measured)

    def _on_kernel_state(self, name: str, config: FieldConfig, message: KernelState) -> None:
        rows = {s.name: "busy" if s.call_ids else "held" if s.process_id else "free" for s in message.subsystems}
        self._observer.take(name, rows, self.steady_now())

    def _on_processes(self, name: str, config: FieldConfig, message: ProcessArray) -> None:
        said = [p for p in message.processes if p.source == ProcessState.USER]
        if not said:
            self._observer.take(name, "", -math.inf)
            return
        last = max(said, key=lambda p: (p.created.sec, p.created.nanosec))
        ago = self.now_s() - seconds(last.created)
        self._observer.take(name, last.instruction, self.steady_now() - max(0.0, ago))

    def _on_value(self, read: Callable[[Any], Any], name: str, config: FieldConfig, message: Any) -> None:
        # A value that holds until it changes was measured when it came, however old its stamp is.
        ages = config.max_age_s is not None
        at = self._measured_at(config.source.topic, message) if ages else self.steady_now()
        try:
            value = read(message)
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            self._observer.miss(name, f"its source has nothing at the path ({type(error).__name__}); look at the source")
        else:
            self._observer.take(name, value, at)

    def _look_for_publishers(self) -> None:
        for name, topic in self._states.items():
            if not self.count_publishers(topic):
                self._observer.miss(name, f"nobody publishes '{topic}'; is its node running?")


def _scenery(robot: RobotConfig) -> Scenery:
    """Return what stands around the robot's arms. Raises NodeStartError where a field needs it and it cannot be read."""
    file = next((arm.surroundings for arm in robot.arms.values() if arm.surroundings), "")
    needs = [name for name, field in robot.observation.items() if field.process.function in ("things", "doors")]
    if not needs:
        return Scenery()
    if not file:
        raise NodeStartError(f"field '{needs[0]}' needs surroundings: of an arm under arms:")
    try:
        return Scenery.read(robot.file(file, "surroundings"))
    except (RobotConfigError, SceneryError) as error:
        raise NodeStartError(f"field '{needs[0]}': {error}") from error
