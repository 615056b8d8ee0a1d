# SPDX-License-Identifier: Apache-2.0
"""Read a planar scan for the way of a round base: its points, and how far the base may go in a direction."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skill_kernel.skills.drivers import Scan

Points = NDArray[np.float64]
"""Obstacles in the base's frame: shape (n, 2), metres."""


@dataclass(frozen=True)
class Obstacle:
    """Describe what a base meets first: `free` m of way until its edge touches; where it is, seen from the base's centre."""

    free: float
    distance: float
    bearing: float

    def described(self) -> str:
        """Return distance and direction in words, for messages."""
        degrees = round(math.degrees(self.bearing))
        side = "ahead" if abs(degrees) < 15 else "behind" if abs(degrees) > 165 else "left" if degrees > 0 else "right"
        return f"{self.distance:.2f} m away, {side} ({degrees:+d} degrees)"


def scan_points(scan: Scan, laser: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Points:
    """Return the points that a scan has hit, moved from the laser's frame to the base's by the laser's pose (m, rad).

    As REP 117 has it: -inf is an obstacle too near to measure (taken at `range_min`, as is what a laser gives below it),
    +inf and NaN are none; 0 is what some lasers give for none.
    """
    distance = np.asarray(scan.ranges, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        near = (distance == -np.inf) | ((distance > 0.0) & (distance < scan.range_min))
        distance = np.where(near, scan.range_min, distance)
        hit = np.isfinite(distance) & (distance >= scan.range_min) & (distance < scan.range_max)
    angle = scan.angle_min + laser[2] + scan.angle_step * np.arange(distance.size)
    distance, angle = distance[hit], angle[hit]
    return np.stack([laser[0] + distance * np.cos(angle), laser[1] + distance * np.sin(angle)], axis=1)


def first_obstacle(points: Points, radius: float, direction: float) -> Obstacle | None:
    """Return the point that a disc of `radius` m around the origin touches first on its way in `direction` rad; None if none.

    A point within the disc is in the way when the disc moves towards it; the way is then 0.
    """
    if not points.size:
        return None
    heading = np.array([math.cos(direction), math.sin(direction)])
    along = points @ heading
    aside = points @ np.array([-heading[1], heading[0]])
    in_way = (along > 0.0) & (np.abs(aside) < radius)
    if not in_way.any():
        return None
    free = np.where(in_way, along - np.sqrt(np.maximum(radius * radius - aside * aside, 0.0)), np.inf)
    first = int(np.argmin(free))
    x, y = (float(value) for value in points[first])
    return Obstacle(max(float(free[first]), 0.0), math.hypot(x, y), math.atan2(y, x))
