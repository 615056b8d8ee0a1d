# SPDX-License-Identifier: Apache-2.0
"""An observer that also hears the velocities which reach a simulated robot's base, and where that truly is."""

from __future__ import annotations

import math
import time

from geometry_msgs.msg import PoseStamped, Twist

from ghostshell_ros.wire.qos import SENSORS, SET_POINTS
from pipeline_support import Observer

REST_S = 0.4
SWAY_M = 0.06
SWAY_RAD = 0.1

Pose = tuple[float, float, float]


class BaseObserver(Observer):
    """Hears the velocities that reach the base, and where it truly is."""

    def __init__(self, namespace: str) -> None:
        super().__init__(namespace)
        self.velocities: list[tuple[float, float]] = []
        self.truth: list[tuple[float, Pose]] = []
        self.create_subscription(Twist, "cmd_vel_gated", self._on_velocity, SET_POINTS)
        self.create_subscription(PoseStamped, "ground_truth/base_link", self._on_truth, SENSORS)

    def _on_velocity(self, message: Twist) -> None:
        speed = abs(message.linear.x) + abs(message.linear.y) + abs(message.angular.z)
        self.velocities.append((time.monotonic(), speed))

    def _on_truth(self, message: PoseStamped) -> None:
        p, q = message.pose.position, message.pose.orientation
        yaw = math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))
        self.truth.append((time.monotonic(), (p.x, p.y, yaw)))

    def last_command_s(self) -> float:
        """Return when the base was last told to move."""
        return max((at for at, speed in self.velocities if speed > 0.0), default=0.0)

    def last_move_s(self) -> float:
        """Since when it has truly been where it is."""
        _, last = self.truth[-1]
        away = [at for at, pose in self.truth if apart(pose, last)]
        return max(away, default=0.0)


def apart(a: Pose, b: Pose) -> bool:
    """Return whether these are more than the sway of a standing body from one another."""
    return math.dist(a[:2], b[:2]) > SWAY_M or abs(math.remainder(a[2] - b[2], math.tau)) > SWAY_RAD
