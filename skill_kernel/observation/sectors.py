# SPDX-License-Identifier: Apache-2.0
"""The nearest obstacle in each direction, from one turn of a planar lidar."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from skill_kernel.observation.model import Sector
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
    points = scan_points(
        scan.angle_min, scan.angle_step, scan.ranges, range_min=scan.range_min, range_max=scan.range_max, laser=laser
    )
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
