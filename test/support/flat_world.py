# SPDX-License-Identifier: Apache-2.0
"""A flat world of walls and a round base in it that follows its velocity: what a lidar sees, where odometry says it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Wall = tuple[float, float, float, float]
"""From x, y to x, y [m]."""

BEAMS = 180
RANGE_MAX = 8.0


def box(x: float, y: float, width: float, depth: float) -> list[Wall]:
    """Return the four walls of a box by its middle and size [m]."""
    x1, x2, y1, y2 = x - width / 2, x + width / 2, y - depth / 2, y + depth / 2
    return [(x1, y1, x2, y1), (x2, y1, x2, y2), (x2, y2, x1, y2), (x1, y2, x1, y1)]


class FlatWorld:
    """`step` moves the base; `holonomic` or not, a differential one slips nowhere and ignores lateral velocity."""

    def __init__(self, walls: Sequence[Wall], *, holonomic: bool = True, radius: float = 0.25) -> None:
        self.walls = list(walls)
        self.holonomic = holonomic
        self.radius = radius
        self.x = self.y = self.yaw = 0.0

    def step(self, forward: float, lateral: float, turn: float, seconds: float) -> None:
        lateral = lateral if self.holonomic else 0.0
        middle = self.yaw + turn * seconds / 2
        self.x += (forward * math.cos(middle) - lateral * math.sin(middle)) * seconds
        self.y += (forward * math.sin(middle) + lateral * math.cos(middle)) * seconds
        self.yaw += turn * seconds

    def scan(self) -> np.ndarray:
        """Ranges of BEAMS beams from -pi on, equally spaced, inf where nothing is within RANGE_MAX."""
        angles = self.yaw - math.pi + np.arange(BEAMS) * 2 * math.pi / BEAMS
        direction = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        best = np.full(BEAMS, np.inf)
        for x1, y1, x2, y2 in self.walls:
            wall = np.array([x2 - x1, y2 - y1])
            start = np.array([x1 - self.x, y1 - self.y])
            cross = direction[:, 0] * wall[1] - direction[:, 1] * wall[0]
            with np.errstate(divide="ignore", invalid="ignore"):
                along = (start[0] * wall[1] - start[1] * wall[0]) / cross
                share = (start[0] * direction[:, 1] - start[1] * direction[:, 0]) / cross
            hit = (np.abs(cross) > 1e-12) & (along > 0) & (share >= 0) & (share <= 1)
            best = np.minimum(best, np.where(hit, along, np.inf))
        return np.where(best <= RANGE_MAX, best, np.inf)

    def clearance(self) -> float:
        """From the base's edge to the nearest wall [m]."""
        nearest = math.inf
        for x1, y1, x2, y2 in self.walls:
            wall = np.array([x2 - x1, y2 - y1])
            to = np.array([self.x - x1, self.y - y1])
            share = min(max(float(to @ wall) / float(wall @ wall), 0.0), 1.0)
            nearest = min(nearest, float(np.hypot(*(to - share * wall))))
        return nearest - self.radius
