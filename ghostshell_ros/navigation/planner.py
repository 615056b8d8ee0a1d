# SPDX-License-Identifier: Apache-2.0
"""Build a rolling occupancy grid from scans, and find paths by A*: cells cost more near obstacles, and where unseen."""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skill_kernel.skills.drivers import Pose2D

Place = tuple[float, float]

HIT, MISS, SURE = 40, 12, 100
"""Evidence of a beam for a cell it ends in and one it passes, and the bound of evidence."""


class OccupancyGrid:
    """Map what a lidar sees: `evidence[row, column]` is above 0 where a cell is occupied, below where free, 0 where unknown.

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
        made = copy(self)
        made.evidence = self.evidence.copy()
        return made

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Return row and column of a place; they may lie outside the grid."""
        return (math.floor(y / self.resolution) - self.origin[1], math.floor(x / self.resolution) - self.origin[0])

    def place(self, row: int, column: int) -> tuple[float, float]:
        """Return x, y in m of a cell's middle."""
        return (column + self.origin[0] + 0.5) * self.resolution, (row + self.origin[1] + 0.5) * self.resolution

    def inside(self, row: int, column: int) -> bool:
        """Return whether the grid has this cell."""
        return 0 <= row < self.size and 0 <= column < self.size

    def follow(self, x: float, y: float) -> None:
        """Keep the robot within the middle half of the grid."""
        row, column = self.cell(x, y)
        quarter = self.size // 4
        if quarter <= row < self.size - quarter and quarter <= column < self.size - quarter:
            return
        n, down, right = self.size, row - self.size // 2, column - self.size // 2
        top, left = (n + max(-n, min(cells, n)) for cells in (down, right))
        self.evidence = np.pad(self.evidence, n)[top : top + n, left : left + n].copy()
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

    def line(self, start: Place, end: Place) -> NDArray[np.int64]:
        """Return the flat indices of the grid's cells on a straight line."""
        share = np.linspace(0.0, 1.0, max(2, math.ceil(2.0 * math.dist(start, end) / self.resolution)))
        return self._inside(start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1]))

    def _inside(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the flat indices of those places that lie in the grid."""
        column = np.floor(x / self.resolution).astype(np.int64) - self.origin[0]
        row = np.floor(y / self.resolution).astype(np.int64) - self.origin[1]
        ok = (row >= 0) & (row < self.size) & (column >= 0) & (column < self.size)
        return row[ok] * self.size + column[ok]

    def occupancy(self) -> NDArray[np.int8]:
        """Return the cells as nav_msgs/OccupancyGrid has them: 0 free to 100 occupied, -1 unknown."""
        percent = ((self.evidence.astype(np.int32) + SURE) * 100) // (2 * SURE)
        return np.where(self.evidence == 0, -1, percent).astype(np.int8)


def distance_to(occupied: NDArray[np.bool_], most: int) -> NDArray[np.float64]:
    """Return for each cell the distance in cells to the nearest occupied one, at most `most`."""
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


LETHAL = math.inf
ESCAPE_COST = 30.0
"""Cost of a cell too near to an obstacle, where the robot already stands in such a cell and has to leave it."""
MARGIN_M = 0.05
"""Distance kept between the base's edge and an obstacle: nearer cells are not entered."""
COMFORT_M, NEAR_COST = 0.3, 4.0
"""Distance beyond the margin within which a cell costs more, and by how much at most, as multiples of the way."""
UNKNOWN_COST = 1.0
"""Additional cost of a cell never seen, which is passable."""


@dataclass(frozen=True)
class Plan:
    """Hold places from the robot to the goal, in m of the map frame, each visible from the one before.

    The goal may have been moved out of an obstacle's reach.
    """

    places: tuple[Place, ...]
    length: float


class CostMap:
    """Hold the cost of each cell of a snapshot, for one planning."""

    def __init__(self, grid: OccupancyGrid, radius: float) -> None:
        self.grid = grid
        wall, ring = (radius + MARGIN_M) / grid.resolution, COMFORT_M / grid.resolution
        self.distance = distance_to(grid.evidence > 0, math.ceil(wall + ring))
        cost = 1.0 + NEAR_COST * np.clip((wall + ring - self.distance) / ring, 0.0, 1.0) ** 2
        cost[grid.evidence == 0] += UNKNOWN_COST
        cost[self.distance < wall] = LETHAL
        self.cost: NDArray[np.float64] = cost

    def clear(self, start: Place, end: Place, most: float) -> bool:
        """Return whether every cell on the straight line between two places of the grid costs less than `most`."""
        return bool((self.cost.flat[self.grid.line(start, end)] < most).all())

    def open_around(self, place: Place, reach: float) -> None:
        """Make the cells about a robot that stands too near to an obstacle passable, so that it can get away."""
        row, column = self.grid.cell(*place)
        cells = math.ceil(reach / self.grid.resolution)
        rows = slice(max(row - cells, 0), row + cells + 1)
        columns = slice(max(column - cells, 0), column + cells + 1)
        part = self.cost[rows, columns]
        # Occupied cells themselves stay closed.
        part[(part == LETHAL) & (self.distance[rows, columns] > 1.0)] = ESCAPE_COST

    def nearest_open(self, place: Place, reach: float) -> Place | None:
        """Return the passable place nearest to `place`, at most `reach` m from it."""
        row, column = self.grid.cell(*place)
        if self.grid.inside(row, column) and self.cost[row, column] < LETHAL:
            return place
        cells = np.argwhere(self.cost < LETHAL)
        away = np.hypot(*(cells - (row, column)).T) * self.grid.resolution
        return self.grid.place(*map(int, cells[away.argmin()])) if away.min(initial=math.inf) <= reach else None


def plan(grid: OccupancyGrid, radius: float, start: Place, goal: Place, *, goal_reach: float = 0.0) -> Plan | None:
    """Return the cheapest path of a base of `radius` m, straightened; None when there is none.

    A goal in an obstacle's reach may be moved by `goal_reach` m.
    """
    wide = CostMap(grid, radius)
    end = wide.nearest_open(goal, goal_reach)
    if end is None:
        return None
    row, column = grid.cell(*start)
    if not grid.inside(row, column):
        return None
    if not wide.cost[row, column] < LETHAL:
        wide.open_around(start, radius + MARGIN_M)
        wide.cost[row, column] = ESCAPE_COST
    cells = _search(wide.cost, (row, column), grid.cell(*end))
    if cells is None:
        return None
    places = _straightened(wide, [start, *(grid.place(r, c) for r, c in cells[1:-1]), end])
    return Plan(tuple(places), sum(math.dist(a, b) for a, b in zip(places, places[1:], strict=False)))


def _search(cost: NDArray[np.float64], start: tuple[int, int], goal: tuple[int, int]) -> list[tuple[int, int]] | None:
    """Run A* with eight neighbours over a grid framed by cells that nobody enters.

    Prices and ways are arrays, whose memory goes back whole: lists and dictionaries of so many cells leave megabytes behind.
    """
    width = cost.shape[1] + 2
    framed = np.full((cost.shape[0] + 2, width), LETHAL)
    framed[1:-1, 1:-1] = cost
    price = framed.reshape(-1).data
    first, last = (start[0] + 1) * width + start[1] + 1, (goal[0] + 1) * width + goal[1] + 1
    goal_row, goal_column = divmod(last, width)
    diagonal = math.sqrt(2.0)
    steps = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right]
    moves = [(down * width + right, math.hypot(down, right)) for down, right in steps]
    best = array("d", [LETHAL]) * len(price)
    best[first] = 0.0
    came = array("q", [first]) * len(price)
    closed = bytearray(len(price))
    heap = [(0.0, first)]
    while heap:
        _, cell = heapq.heappop(heap)
        if cell == last:
            cells = [cell]
            while cell != first:
                cell = came[cell]
                cells.append(cell)
            return [(c // width - 1, c % width - 1) for c in reversed(cells)]
        if closed[cell]:
            continue
        closed[cell] = 1
        so_far = best[cell]
        for step, length in moves:
            near = cell + step
            if closed[near] or price[near] == LETHAL:
                continue
            total = so_far + length * price[near]
            if total < best[near]:
                best[near] = total
                came[near] = cell
                row, column = divmod(near, width)
                down, right = abs(row - goal_row), abs(column - goal_column)
                rest = down + right + (diagonal - 2.0) * (down if down < right else right)
                heapq.heappush(heap, (total + rest, near))
    return None


def _straightened(costs: CostMap, places: list[Place]) -> list[Place]:
    """Leave out what a straight line replaces without coming nearer to obstacles than the path did."""
    price = [costs.cost[costs.grid.cell(*place)] for place in places]
    kept = [places[0]]
    i = 0
    while i < len(places) - 1:
        j = min(i + 40, len(places) - 1)
        while j > i + 1 and not costs.clear(places[i], places[j], max(price[i : j + 1]) + 0.25):
            j -= max(1, (j - i) // 6)
        j = max(j, i + 1)
        kept.append(places[j])
        i = j
    return kept
