# SPDX-License-Identifier: Apache-2.0
"""Where the robot was when: the last seconds of odometry, and its place in the map."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

from skill_kernel.observation.model import Pose

KEPT_S = 5.0
BEYOND_S = 0.3
"""A moment before the first or after the last odometry by more than this has no pose."""


@dataclass(frozen=True)
class Odometry:
    """One measurement: pose in odom in m and rad, m/s over ground and rad/s, at a time of the holder's clock."""

    at: float
    x: float
    y: float
    yaw: float
    speed: float = 0.0
    turn: float = 0.0

    def usable(self) -> bool:
        """Return whether all of it is numbers."""
        return all(map(math.isfinite, (self.at, self.x, self.y, self.yaw, self.speed, self.turn)))


class Trail:
    """Odometry of the last five seconds, in the order of its times."""

    def __init__(self) -> None:
        self._kept: deque[Odometry] = deque()
        self.odom_in_map: Pose | None = None

    def add(self, odometry: Odometry) -> None:
        """Take one in; what is older than the newest is left out, and what is older than five seconds forgotten."""
        if self._kept and odometry.at <= self._kept[-1].at:
            return
        self._kept.append(odometry)
        while odometry.at - self._kept[0].at > KEPT_S:
            self._kept.popleft()

    @property
    def newest(self) -> Odometry | None:
        return self._kept[-1] if self._kept else None

    def at(self, time: float, frame: str) -> Pose | None:
        """Return the pose at a time, between the two measurements around it; None when there is none near it, or no map."""
        if not self._kept or (frame == "map" and self.odom_in_map is None):
            return None
        if not self._kept[0].at - BEYOND_S <= time <= self._kept[-1].at + BEYOND_S:
            return None
        after = bisect_left(self._kept, time, key=lambda o: o.at)
        first, second = self._kept[max(after - 1, 0)], self._kept[min(after, len(self._kept) - 1)]
        share = (time - first.at) / (second.at - first.at) if second.at > first.at else 0.0
        share = min(max(share, 0.0), 1.0)
        yaw = first.yaw + share * math.remainder(second.yaw - first.yaw, math.tau)
        pose = Pose(first.x + share * (second.x - first.x), first.y + share * (second.y - first.y), yaw, "odom")
        return pose if frame == "odom" else self._mapped(pose)

    def _mapped(self, pose: Pose) -> Pose:
        base = self.odom_in_map
        assert base is not None
        c, s = math.cos(base.yaw), math.sin(base.yaw)
        x, y = base.x + c * pose.x - s * pose.y, base.y + s * pose.x + c * pose.y
        return Pose(x, y, math.remainder(base.yaw + pose.yaw, math.tau), "map")
