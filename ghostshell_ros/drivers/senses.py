# SPDX-License-Identifier: Apache-2.0
"""The senses of a robot's body: the last message of each of its sensor topics."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ghostshell.msg import DetectionArray
from nav_msgs.msg import Odometry
from sensor_msgs.msg import Image, JointState, LaserScan

from ghostshell_ros.runtime.node_runtime import IMAGES, LATCHED_BY_ANY, SENSORS, RuntimeNode
from ghostshell_ros.wire.images import to_pixels
from ghostshell_ros.wire.values import yaw_of
from skill_kernel.skills.drivers import Detection, Pose2D, Scan

FIRST_MEASUREMENT_S = 3.0
"""How long a skill waits for the joints to be measured for the first time."""
STALE_S = 0.5
"""Odometry and lidar older than this are no measurement of now."""
UNSEEN_S = 1.0
"""So long after the last message of the detector nobody looks."""
IMAGE_WAIT_S = 2.0
"""How long a skill that wants a picture waits for the next one; pictures are subscribed only then."""


class RosSenses:
    """Implements `skill_kernel.skills.drivers.Senses`. Subscribes `joint_states` and `odom`; with a base also `scan`,
    `object_detections`, `tf` and `tf_static` for the place of odom in the map, and `camera/image_raw` while a picture is
    wanted. Its methods are called on other threads than the executor's."""

    def __init__(self, node: RuntimeNode, *, base: bool) -> None:
        self._node = node
        self._positions: dict[str, float] = {}
        self._measured = threading.Event()
        self._odometry: tuple[float, Pose2D] | None = None
        self._scan: tuple[float, Scan] | None = None
        self._seen: tuple[float, tuple[Detection, ...]] | None = None
        self._odom_in_map: Pose2D | None = None
        self._one_look = threading.Lock()
        node.create_subscription(JointState, "joint_states", self._on_joint_states, SENSORS)
        node.create_subscription(Odometry, "odom", self._on_odometry, SENSORS)
        self._base = base
        if not base:
            return
        # Built into the environment only where a robot has a base.
        from tf2_msgs.msg import TFMessage

        node.create_subscription(LaserScan, "scan", self._on_scan, SENSORS)
        node.create_subscription(DetectionArray, "object_detections", self._on_detections, SENSORS)
        node.create_subscription(TFMessage, "/tf", self._on_tf, SENSORS)
        node.create_subscription(TFMessage, "/tf_static", self._on_tf, LATCHED_BY_ANY)

    def joint_positions(self) -> Mapping[str, float]:
        # A call may come before the first measurement has: right after the start, or after a restart of this node.
        self._measured.wait(FIRST_MEASUREMENT_S)
        return dict(self._positions)

    def odometry(self) -> Pose2D | None:
        last = self._odometry
        return last[1] if last is not None and self._node.steady_now() - last[0] <= STALE_S else None

    def pose(self) -> Pose2D | None:
        base, odometry = self._odom_in_map, self.odometry()
        if base is None or odometry is None:
            return None
        c, s = math.cos(base.yaw), math.sin(base.yaw)
        x, y = base.x + c * odometry.x - s * odometry.y, base.y + s * odometry.x + c * odometry.y
        return Pose2D(x, y, math.remainder(base.yaw + odometry.yaw, math.tau))

    def scan(self) -> Scan | None:
        last = self._scan
        return last[1] if last is not None and self._node.steady_now() - last[0] <= STALE_S else None

    def detections(self) -> Sequence[Detection] | None:
        last = self._seen
        return last[1] if last is not None and self._node.steady_now() - last[0] <= UNSEEN_S else None

    def image(self) -> Any:
        if not self._base:
            return None
        arrived = threading.Event()
        found: list[Image] = []

        def take(message: Image) -> None:
            if not found:
                found.append(message)
                arrived.set()

        with self._one_look:
            made: list[Any] = []
            self._node.call_soon(lambda: made.append(self._node.create_subscription(Image, "camera/image_raw", take, IMAGES)))
            arrived.wait(IMAGE_WAIT_S)
            self._node.call_soon(lambda: [self._node.destroy_subscription(s) for s in made])
        try:
            return to_pixels(found[0]) if found else None
        except ValueError:
            return None

    def _on_joint_states(self, message: JointState) -> None:
        # A new dict each time: readers on other threads keep the one they have.
        self._positions = {**self._positions, **dict(zip(message.name, message.position, strict=False))}
        self._measured.set()

    def _on_odometry(self, message: Odometry) -> None:
        position, turned = message.pose.pose.position, message.pose.pose.orientation
        self._odometry = (self._node.steady_now(), Pose2D(position.x, position.y, yaw_of(turned)))

    def _on_scan(self, message: LaserScan) -> None:
        ranges = [r if message.range_min <= r <= message.range_max else math.inf for r in message.ranges]
        scan = Scan(float(message.angle_min), float(message.angle_increment), ranges)
        self._scan = (self._node.steady_now(), scan)

    def _on_detections(self, message: DetectionArray) -> None:
        seen = tuple(Detection(d.label, float(d.confidence), float(d.bearing), float(d.distance)) for d in message.detections)
        self._seen = (self._node.steady_now(), seen)

    def _on_tf(self, message: Any) -> None:
        namespace = self._node.get_namespace().strip("/")
        for found in message.transforms:
            if _frame(found.header.frame_id, namespace) == "map" and _frame(found.child_frame_id, namespace) == "odom":
                at = found.transform.translation
                self._odom_in_map = Pose2D(at.x, at.y, yaw_of(found.transform.rotation))


def _frame(name: str, namespace: str) -> str:
    """Return a frame without the robot's own prefix; another robot's keeps its prefix."""
    return name.strip("/").removeprefix(f"{namespace}/")
