# SPDX-License-Identifier: Apache-2.0
"""Name what the base's driver asks of those who find the way: its own planner, or Nav2."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from nav_msgs.msg import Odometry
from sensor_msgs.msg import LaserScan

from skill_kernel.safety.base_gate import Velocity
from skill_kernel.skills.drivers import Pose2D


@dataclass(frozen=True)
class Destination:
    """Where to go, in the map frame: m and rad; `yaw` None leaves the heading open. Within `tolerance` m it is there."""

    x: float
    y: float
    yaw: float | None
    tolerance: float


class Navigator:
    """Carries out one destination at a time. All calls come on the executor's thread; times are steady."""

    @abstractmethod
    def begin(self, destination: Destination, map_frame: str) -> None:
        """Start. Raises DriverRefusal."""

    @abstractmethod
    def step(self, now: float) -> Velocity | None:
        """Return the velocity to wish for, or None at the destination. Raises DriverRefusal when it cannot be reached."""

    @abstractmethod
    def where(self) -> tuple[Pose2D | None, float]:
        """Return the pose in the map frame, None while unknown, and the m that are left."""

    @abstractmethod
    def ended(self) -> None:
        """Come to rest and let nothing go on: the destination is reached or given up."""

    def located(self, pose: Pose2D, message: Odometry, map_frame: str) -> None:
        """Called with each odometry."""

    def scanned(self, pose: Pose2D | None, message: LaserScan) -> None:
        """Called with each scan; `pose` is the last odometry's."""

    def complaint(self) -> str:
        """Return why it cannot work now; empty when it can."""
        return ""

    def close(self) -> None:
        """Release threads."""
