# SPDX-License-Identifier: Apache-2.0
"""Tell where the robot was, by its last seconds of odometry, and the nearest obstacle in each direction, by its lidar."""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from skill_kernel.observation.model import Pose, Sector
from skill_kernel.safety.obstacles import scan_points
from skill_kernel.skills.drivers import Scan

SEEN_SHARE = 0.5
"""Of a sector less measured than this nobody can say that it is free …"""
NEAR_M = 1.5
"""… but what is seen so near in it is there."""


def usable(scan: Scan) -> bool:
    """Return whether anything was measured: angles and limits are numbers, and not all ranges are nan."""
    if not (math.isfinite(scan.angle_min) and math.isfinite(scan.angle_step) and scan.angle_step != 0.0):
        return False
    limits = math.isfinite(scan.range_min) and scan.range_max > scan.range_min
    return limits and len(scan.ranges) > 0 and not bool(np.isnan(np.asarray(scan.ranges, dtype=np.float64)).all())


def nearest_by_sector(
    scan: Scan,
    sectors: Mapping[str, tuple[float, float]],
    *,
    laser: tuple[float, float, float] = (0.0, 0.0, 0.0),
    radius: float = 0.0,
) -> tuple[Sector, ...]:
    """Return the distance from the edge of a round robot to the nearest obstacle in each sector (degrees, see
    `NearestBySector`): inf when it is free, nan when too little of it was measured to know."""
    points = scan_points(scan, laser)
    free = np.maximum(np.hypot(points[:, 0], points[:, 1]) - radius, 0.0)
    bearing = np.degrees(np.arctan2(points[:, 1], points[:, 0]))
    ranges = np.asarray(scan.ranges, dtype=np.float64)
    ray = np.degrees(scan.angle_min + laser[2] + scan.angle_step * np.arange(ranges.size))
    measured = ray[~np.isnan(ranges) & ((ranges >= 0.0) | (ranges == -np.inf))]
    step = abs(math.degrees(scan.angle_step))
    found = []
    for name, (start, end) in sectors.items():
        width = end - start
        nearest = float(np.min(free[(bearing - start) % 360.0 <= width], initial=math.inf))
        seen = np.count_nonzero((measured - start) % 360.0 <= width) * step
        known = seen >= SEEN_SHARE * width or nearest <= NEAR_M
        found.append(Sector(name, nearest if known else math.nan))
    return tuple(found)


KEPT_S = 5.0
BEYOND_S = 0.3
"""A moment before the first or after the last odometry by more than this has no pose."""


@dataclass(frozen=True)
class Odometry:
    """Hold one measurement: pose in odom in m and rad, m/s over ground and rad/s, at a time of the holder's clock."""

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
    """Keep the odometry of the last five seconds, in the order of its times."""

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
