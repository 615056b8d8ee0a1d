# SPDX-License-Identifier: Apache-2.0
"""Build a robot's body with what its constructor names: clients of the declared drivers' actions, senses, memory."""

import inspect
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from ghostshell.action import AskHuman
from ghostshell.msg import DetectionArray
from ghostshell.srv import QueryMemory
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Image, JointState, LaserScan
from std_msgs.msg import String
from vision_msgs.msg import Detection3DArray

from ghostshell_ros.drivers.action_caller import STOP_LOOK_S, ActionCaller
from ghostshell_ros.navigation.motion import composed
from ghostshell_ros.perception.sights import Pose, Sights
from ghostshell_ros.runtime.lifecycle import DriverStates
from ghostshell_ros.runtime.map_origin import follow_map
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.recollection import MEMORY, asked_by
from ghostshell_ros.runtime.service_client import Request, ServiceClient
from ghostshell_ros.wire.codec import interface
from ghostshell_ros.wire.images import to_pixels
from ghostshell_ros.wire.qos import IMAGES, LATCHED, SENSORS
from ghostshell_ros.wire.sensing import measured, pose_of, scan_of, things_of
from ghostshell_ros.wire.values import ros_text
from skill_kernel.codes import MemoryCode
from skill_kernel.config.sections import nearest
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.skills.drivers import Detection, MemoryAnswer, Pose2D, Scan, StopEvent

LOOK_S = 0.2
"""Time between two looks for drivers that were not discovered yet."""
MEMORY_WAIT_S = 0.5
"""Time a question waits for the memory to be discovered."""
TELL_S = 0.2
"""Time between two looks at what a body tells of itself."""
ASK = "ask_human"
"""The action by which people are asked. No driver serves it, so nothing need be halted where it falls silent."""


class BodyParts:
    """Make what a body names. Built on the executor's thread or before spinning.

    An action that a driver of the robot serves is an `ActionCaller`; `senses` are `RosSenses`; `memory` is a `MemoryCaller`;
    `moveit` is whether the driver has MoveIt find ways of arms.
    `ask_human` is an `ActionCaller` of whoever owns the robot's processes.
    All names are relative to the node's namespace, but for the fleet's service `/query_memory`. What a body tells of itself, as
    functions without arguments by topic in its attribute `states`, is published as a latched std_msgs/String at each change.
    """

    def __init__(
        self, node: RuntimeNode, robot: RobotConfig, *, on_lost: Callable[[str], None] = lambda why: None, moveit: bool = False
    ) -> None:
        """Watch the drivers' states. `on_lost` is that of ActionCaller, for every driver."""
        self._node, self._robot, self._on_lost, self._moveit = node, robot, on_lost, moveit
        self._states = DriverStates(node)
        self._callers: dict[str, ActionCaller] = {}

    def body(self, body_class: Any) -> Any:
        """Return an instance of a body's class. Raises RobotConfigError for a parameter that names nothing of the robot."""
        given: dict[str, Any] = {}
        for parameter in inspect.signature(body_class).parameters.values():
            name = parameter.name
            if name == "senses":
                given[name] = RosSenses(self._node, self._robot)
            elif name == "robot":
                given[name] = self._robot
            elif name == "moveit":
                given[name] = self._moveit
            elif name == "memory":
                given[name] = MemoryCaller(self._node)
            elif name == ASK:
                given[name] = ActionCaller(self._node, AskHuman, ASK, self._states)
            elif name in self._robot.actions:
                given[name] = self.action(name)
            elif parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD:
                raise RobotConfigError(self._unknown(body_class, name))
        self._probe_drivers()
        body = body_class(**given)
        for topic, read in getattr(body, "states", {}).items():
            self._tell(topic, read)
        return body

    def _tell(self, topic: str, read: Callable[[], str]) -> None:
        publisher, told = self._node.create_publisher(String, topic, LATCHED), list[str]()

        def look() -> None:
            if (now := read()) not in told:
                told[:] = [now]
                publisher.publish(String(data=ros_text(now)))

        self._node.steady_timer(TELL_S, look)

    def action(self, name: str) -> ActionCaller:
        """Return the client of an action. Raises RobotConfigError when its interface is not installed."""
        if name not in self._callers:
            try:
                action_type = interface(self._robot.actions[name])
            except ImportError as error:
                raise RobotConfigError(f"robot '{self._robot.name}', drivers: action '{name}': {error}") from error
            self._callers[name] = ActionCaller(self._node, action_type, name, self._states, self._on_lost)
        return self._callers[name]

    def ready(self) -> bool:
        """Return whether all drivers that the body uses are there. On the executor's thread."""
        # Each is asked, because asking is what probes a driver.
        answers = [caller.ready() for caller in self._callers.values()]
        return all(answers)

    def _probe_drivers(self) -> None:
        """Notice the drivers as they come up, so that the first call need not wait for them to settle."""
        if not self.ready():
            self._node.call_later(LOOK_S, self._probe_drivers)

    def _unknown(self, body_class: Any, name: str) -> str:
        known = [*self._robot.actions, "senses", "memory", ASK]
        hint = nearest(name, known) or f"; declare under drivers: who serves it (known: {', '.join(known)})"
        return (
            f"the body {body_class.__name__} of robot '{self._robot.name}' asks for '{name}', and no driver in the robot's "
            f"file serves an action of that name{hint}"
        )


class MemoryCaller:
    """Implement `skill_kernel.skills.drivers.Memory`. Called on other threads than the executor's."""

    def __init__(self, node: RuntimeNode) -> None:
        self._node = node
        self._client = ServiceClient(node, QueryMemory, MEMORY)

    def __call__(self, question: str, *, stop: StopEvent, timeout_s: float = 5.0) -> MemoryAnswer:
        answer: Future[QueryMemory.Response | None] = Future()
        asked: list[Request] = []
        request = asked_by(self._node, question=ros_text(question))
        begun = self._node.steady_now()
        wait_s = min(timeout_s, MEMORY_WAIT_S)

        def ask() -> None:
            asked.append(self._client.ask(request, answer.set_result, deadline_s=timeout_s, wait_s=wait_s))

        self._node.call_soon(ask)
        while not answer.done() and not stop.is_set() and (left := begun + timeout_s - self._node.steady_now()) > 0:
            wait([answer], timeout=min(left, STOP_LOOK_S))
        self._node.call_soon(lambda: asked[0].cancel())
        response = answer.result() if answer.done() else None
        if response is not None:
            sources = tuple(record.text for record in response.records)
            why = response.error_code, response.error_msg
            return MemoryAnswer(response.success, response.answer, response.note, sources, *why)
        if stop.is_set():
            return MemoryAnswer(False, cancelled=True)
        what = "is not there" if answer.done() else f"did not answer within {timeout_s:g} s"
        text = f"the memory ({MEMORY}) {what}; is the node memory running on this ROS domain?"
        return MemoryAnswer(False, error_code=int(MemoryCode.MEMORY_UNAVAILABLE), error_msg=text)


BASE_TOPICS = ((LaserScan, "scan"), (DetectionArray, "object_detections"))
FIRST_MEASUREMENT_S = 3.0
"""Time a skill waits for the joints to be measured for the first time."""
STALE_S = 0.5
"""Age from which on odometry and lidar are no measurement of now."""
UNSEEN_S = 1.0
"""Age of the detector's last message from which on it counts as not running."""
IMAGE_WAIT_S = 2.0
"""Time a skill waits for the next picture; pictures are subscribed only then."""
LOOKS = 100
"""Messages of things that are kept until somebody asks."""


class RosSenses:
    """Implement `skill_kernel.skills.drivers.Senses`, whose methods are called on other threads than the executor's."""

    def __init__(self, node: RuntimeNode, robot: RobotConfig) -> None:
        self._node, base = node, robot.base is not None
        self._positions: dict[str, float] = {}
        self._measured = threading.Event()
        self._last: dict[Any, tuple[float, bytes]] = {}
        """Steady time and bytes of the last message of each kind; most are never decoded."""
        self._odom_in_map: Pose2D | None = None
        self._one_look = threading.Lock()
        self._base = base
        if robot.joints:
            node.create_subscription(JointState, "joint_states", self._on_joint_states, SENSORS)
        else:
            self._measured.set()
        for kind, topic in ((Odometry, "odom"), *(BASE_TOPICS if base else ())):
            node.create_subscription(kind, topic, partial(self._keep, kind), SENSORS, raw=True)
        self._looks: deque[tuple[float, bytes]] = deque(maxlen=LOOKS)
        """Steady time and bytes of messages of things that nobody has asked for yet."""
        self._sights, self._one_reader = Sights(), threading.Lock()
        if robot.arms:
            node.create_subscription(Detection3DArray, "things", self._on_things, SENSORS, raw=True)
        if base:
            follow_map(node, self._on_map)

    def joint_positions(self) -> Mapping[str, float]:
        # A call may come before the first measurement has: right after the start, or after a restart of this node.
        self._measured.wait(FIRST_MEASUREMENT_S)
        return dict(self._positions)

    def odometry(self) -> Pose2D | None:
        message = self._fresh(Odometry, STALE_S)
        return None if message is None else pose_of(message.pose.pose)

    def pose(self) -> Pose2D | None:
        base, odometry = self._odom_in_map, self.odometry()
        return None if base is None or odometry is None else composed(base, odometry)

    def scan(self) -> Scan | None:
        message = self._fresh(LaserScan, STALE_S)
        return None if message is None else scan_of(message)

    def detections(self) -> Sequence[Detection] | None:
        message = self._fresh(DetectionArray, UNSEEN_S)
        if message is None:
            return None
        seen = message.detections
        return tuple(Detection(d.label, float(d.confidence), float(d.bearing), float(d.distance)) for d in seen)

    def sights(self) -> Sequence[str]:
        message = self._fresh(DetectionArray, UNSEEN_S)
        return () if message is None else tuple(message.labels)

    def things(self) -> Mapping[str, Pose]:
        with self._one_reader:
            while self._looks:
                at, raw = self._looks.popleft()
                self._sights.take(things_of(deserialize_message(raw, Detection3DArray)), at)
            return self._sights.seen(self._node.steady_now())

    def image(self) -> Any:
        if not self._base:
            return None
        picture: Future[Image] = Future()

        def take(message: Image) -> None:
            if not picture.done():
                picture.set_result(message)

        with self._one_look:
            made: list[Any] = []
            self._node.call_soon(lambda: made.append(self._node.create_subscription(Image, "camera/image_raw", take, IMAGES)))
            wait([picture], IMAGE_WAIT_S)
            self._node.call_soon(lambda: [self._node.destroy_subscription(s) for s in made])
        try:
            return to_pixels(picture.result()) if picture.done() else None
        except ValueError:
            return None

    def _on_joint_states(self, message: JointState) -> None:
        # A new dict each time: readers on other threads keep the one they have.
        self._positions = {**self._positions, **measured(message.name, message.position)}
        self._measured.set()

    def _on_things(self, raw: bytes) -> None:
        self._looks.append((self._node.steady_now(), raw))

    def _keep(self, kind: Any, raw: bytes) -> None:
        self._last[kind] = (self._node.steady_now(), raw)

    def _fresh(self, kind: Any, age_s: float) -> Any:
        """Return the last message of a kind, or None where it is older."""
        last = self._last.get(kind)
        fresh = last is not None and self._node.steady_now() - last[0] <= age_s
        return deserialize_message(last[1], kind) if last is not None and fresh else None

    def _on_map(self, x: float, y: float, yaw: float) -> None:
        self._odom_in_map = Pose2D(x, y, yaw)
