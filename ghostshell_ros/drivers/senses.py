# SPDX-License-Identifier: Apache-2.0
"""Give a robot's body its senses: the last message of each of its sensor topics."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from ghostshell.msg import DetectionArray
from nav_msgs.msg import Odometry
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import Image, JointState, LaserScan

from ghostshell_ros.navigation.motion import composed
from ghostshell_ros.runtime.map_origin import follow_map
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.images import to_pixels
from ghostshell_ros.wire.qos import IMAGES, SENSORS
from ghostshell_ros.wire.sensing import pose_of, scan_of
from skill_kernel.skills.drivers import Detection, Pose2D, Scan

BASE_TOPICS = ((LaserScan, "scan"), (DetectionArray, "object_detections"))
FIRST_MEASUREMENT_S = 3.0
"""Time a skill waits for the joints to be measured for the first time."""
STALE_S = 0.5
"""Age from which on odometry and lidar are no measurement of now."""
UNSEEN_S = 1.0
"""Age of the detector's last message from which on it counts as not running."""
IMAGE_WAIT_S = 2.0
"""Time a skill waits for the next picture; pictures are subscribed only then."""


class RosSenses:
    """Implement `skill_kernel.skills.drivers.Senses`, whose methods are called on other threads than the executor's."""

    def __init__(self, node: RuntimeNode, *, base: bool) -> None:
        self._node = node
        self._positions: dict[str, float] = {}
        self._measured = threading.Event()
        self._last: dict[Any, tuple[float, bytes]] = {}
        """Steady time and bytes of the last message of each kind; most are never decoded."""
        self._odom_in_map: Pose2D | None = None
        self._one_look = threading.Lock()
        self._base = base
        node.create_subscription(JointState, "joint_states", self._on_joint_states, SENSORS)
        for kind, topic in ((Odometry, "odom"), *(BASE_TOPICS if base else ())):
            node.create_subscription(kind, topic, partial(self._keep, kind), SENSORS, raw=True)
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
        self._positions = {**self._positions, **dict(zip(message.name, message.position, strict=False))}
        self._measured.set()

    def _keep(self, kind: Any, raw: bytes) -> None:
        self._last[kind] = (self._node.steady_now(), raw)

    def _fresh(self, kind: Any, age_s: float) -> Any:
        """Return the last message of a kind, or None where it is older."""
        last = self._last.get(kind)
        fresh = last is not None and self._node.steady_now() - last[0] <= age_s
        return deserialize_message(last[1], kind) if last is not None and fresh else None

    def _on_map(self, x: float, y: float, yaw: float) -> None:
        self._odom_in_map = Pose2D(x, y, yaw)
