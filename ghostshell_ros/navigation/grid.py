# SPDX-License-Identifier: Apache-2.0
"""A rolling occupancy grid built from scans: what is free, what is occupied, what was not seen yet."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skill_kernel.skills.drivers import Pose2D

HIT, MISS, SURE = 40, 12, 100
"""Evidence a beam brings for a cell it ends in, or passes, and where evidence is cut off."""


class OccupancyGrid:
    """`evidence[row, column]` is above 0 where a cell is occupied, below where it is free, 0 where nothing is known.

    The grid is a square of `size` cells of `resolution` m whose corner (row 0, column 0) lies at `origin` cells of the
    map frame; it follows the robot by whole cells, and what leaves it is forgotten.
    """

    def __init__(self, *, resolution: float = 0.05, size: int = 480) -> None:
        self.resolution = resolution
        self.size = size
        self.origin = (-size // 2, -size // 2)
        self.evidence: NDArray[np.int16] = np.zeros((size, size), dtype=np.int16)
        self.updates = 0

    def copy(self) -> OccupancyGrid:
        """Return a snapshot, for a planner on another thread."""
        made = OccupancyGrid.__new__(OccupancyGrid)
        made.resolution, made.size, made.origin, made.updates = self.resolution, self.size, self.origin, self.updates
        made.evidence = self.evidence.copy()
        return made

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Row and column of a place; they may lie outside the grid."""
        return (math.floor(y / self.resolution) - self.origin[1], math.floor(x / self.resolution) - self.origin[0])

    def place(self, row: int, column: int) -> tuple[float, float]:
        """x, y in m of a cell's middle."""
        return (column + self.origin[0] + 0.5) * self.resolution, (row + self.origin[1] + 0.5) * self.resolution

    def inside(self, row: int, column: int) -> bool:
        return 0 <= row < self.size and 0 <= column < self.size

    def follow(self, x: float, y: float) -> None:
        """Keep the robot within the middle half of the grid."""
        row, column = self.cell(x, y)
        quarter = self.size // 4
        if quarter <= row < self.size - quarter and quarter <= column < self.size - quarter:
            return
        down, right = row - self.size // 2, column - self.size // 2
        kept = np.zeros_like(self.evidence)
        n = self.size
        if abs(down) < n and abs(right) < n:
            kept[max(-down, 0) : n - max(down, 0), max(-right, 0) : n - max(right, 0)] = self.evidence[
                max(down, 0) : n - max(-down, 0), max(right, 0) : n - max(-right, 0)
            ]
        self.evidence = kept
        self.origin = (self.origin[0] + right, self.origin[1] + down)

    def add_scan(
        self,
        laser: Pose2D,
        angle_min: float,
        angle_step: float,
        ranges: Sequence[float],
        *,
        range_min: float = 0.0,
        range_max: float = 10.0,
    ) -> None:
        """Take in a scan made from `laser`, a pose in the map frame. A beam that hit nothing frees its whole way."""
        distance = np.asarray(ranges, dtype=np.float64)
        angle = laser.yaw + angle_min + angle_step * np.arange(distance.size)
        hit = np.isfinite(distance) & (distance >= range_min) & (distance < range_max)
        reach = np.where(hit, distance, np.where(distance == np.inf, range_max, 0.0))
        cos, sin = np.cos(angle), np.sin(angle)
        along = np.arange(range_min, max(float(reach.max(initial=0.0)), range_min) + 1e-9, self.resolution)
        passed = along[None, :] < reach[:, None] - 0.5 * self.resolution
        free = self._inside(laser.x + (cos[:, None] * along)[passed], laser.y + (sin[:, None] * along)[passed])
        ends = self._inside(laser.x + (cos * distance)[hit], laser.y + (sin * distance)[hit])
        change = np.zeros(self.size * self.size, dtype=np.int16)
        change[free] = -MISS
        change[ends] = HIT
        flat = self.evidence.reshape(-1)
        np.clip(flat + change, -SURE, SURE, out=flat)
        self.updates += 1

    def _inside(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
        """Flat indices of those places that lie in the grid."""
        column = np.floor(x / self.resolution).astype(np.int64) - self.origin[0]
        row = np.floor(y / self.resolution).astype(np.int64) - self.origin[1]
        ok = (row >= 0) & (row < self.size) & (column >= 0) & (column < self.size)
        return row[ok] * self.size + column[ok]

    def occupancy(self) -> NDArray[np.int8]:
        """As nav_msgs/OccupancyGrid has it: 0 free to 100 occupied, -1 unknown."""
        percent = ((self.evidence.astype(np.int32) + SURE) * 100) // (2 * SURE)
        return np.where(self.evidence == 0, -1, percent).astype(np.int8)


def distance_to(occupied: NDArray[np.bool_], most: int) -> NDArray[np.float64]:
    """For each cell the distance in cells to the nearest occupied one, at most `most`."""
    far = float(most)
    columns = np.arange(occupied.shape[1])
    left = np.maximum.accumulate(np.where(occupied, columns, -(10**6)), axis=1)
    right = np.minimum.accumulate(np.where(occupied, columns, 10**6)[:, ::-1], axis=1)[:, ::-1]
    row = np.minimum(np.minimum(columns - left, right - columns), most).astype(np.float64) ** 2
    best = row.copy()
    for shift in range(1, most + 1):
        best[shift:] = np.minimum(best[shift:], row[:-shift] + shift * shift)
        best[:-shift] = np.minimum(best[:-shift], row[shift:] + shift * shift)
    nearest: NDArray[np.float64] = np.minimum(np.sqrt(best), far)
    return nearest
