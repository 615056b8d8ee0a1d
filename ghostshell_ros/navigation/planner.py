# SPDX-License-Identifier: Apache-2.0
"""Finds a path through an occupancy grid for a round base: A* over cells that cost more near obstacles and unseen."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ghostshell_ros.navigation.grid import OccupancyGrid, distance_to

Place = tuple[float, float]

LETHAL = math.inf
ESCAPE_COST = 30.0
"""Of a cell too near to an obstacle, where the robot already stands in such a cell and has to leave it."""


@dataclass(frozen=True)
class PlannerCosts:
    """Lengths in m; costs as multiples of the way. Cells nearer than `radius + margin` to an obstacle are not entered;
    up to `comfort` further they cost up to `near` more. Cells never seen are passable at a cost: `unknown` more."""

    radius: float
    margin: float = 0.05
    comfort: float = 0.3
    near: float = 4.0
    unknown: float = 1.0


@dataclass(frozen=True)
class Plan:
    """Places from the robot to the goal, in m of the map frame, each visible from the one before; the goal may have been
    moved out of an obstacle's reach."""

    places: tuple[Place, ...]
    length: float


class CostMap:
    """The cost of each cell of a snapshot, for one planning."""

    def __init__(self, grid: OccupancyGrid, costs: PlannerCosts) -> None:
        self.grid = grid
        wall = (costs.radius + costs.margin) / grid.resolution
        ring = costs.comfort / grid.resolution
        self.distance = distance_to(grid.evidence > 0, math.ceil(wall + ring))
        cost = 1.0 + costs.near * np.clip((wall + ring - self.distance) / ring, 0.0, 1.0) ** 2
        cost[grid.evidence == 0] += costs.unknown
        cost[self.distance < wall] = LETHAL
        self.cost: NDArray[np.float64] = cost

    def clear(self, start: Place, end: Place, most: float = LETHAL) -> bool:
        """Return whether every cell on the straight line costs less than `most`."""
        length = math.dist(start, end)
        count = max(2, math.ceil(2.0 * length / self.grid.resolution))
        share = np.linspace(0.0, 1.0, count)
        column = np.floor((start[0] + share * (end[0] - start[0])) / self.grid.resolution).astype(int)
        row = np.floor((start[1] + share * (end[1] - start[1])) / self.grid.resolution).astype(int)
        column, row = column - self.grid.origin[0], row - self.grid.origin[1]
        n = self.grid.size
        if row.min() < 0 or column.min() < 0 or row.max() >= n or column.max() >= n:
            return False
        return bool((self.cost[row, column] < most).all())

    def open_around(self, place: Place, reach: float) -> None:
        """Make the cells about a robot that stands too near to an obstacle passable, so that it can get away."""
        row, column = self.grid.cell(*place)
        cells = math.ceil(reach / self.grid.resolution)
        rows = slice(max(row - cells, 0), row + cells + 1)
        columns = slice(max(column - cells, 0), column + cells + 1)
        part = self.cost[rows, columns]
        # Never over what is occupied itself.
        part[(part == LETHAL) & (self.distance[rows, columns] > 1.0)] = ESCAPE_COST

    def nearest_open(self, place: Place, reach: float) -> Place | None:
        """Return the passable place nearest to `place`, at most `reach` m from it."""
        row, column = self.grid.cell(*place)
        if self.grid.inside(row, column) and self.cost[row, column] < LETHAL:
            return place
        cells = math.ceil(reach / self.grid.resolution)
        rows = np.arange(max(row - cells, 0), min(row + cells + 1, self.grid.size))
        columns = np.arange(max(column - cells, 0), min(column + cells + 1, self.grid.size))
        if not rows.size or not columns.size:
            return None
        away = np.hypot(rows[:, None] - row, columns[None, :] - column)
        away[self.cost[rows[:, None], columns[None, :]] == LETHAL] = math.inf
        best = np.unravel_index(int(np.argmin(away)), away.shape)
        if away[best] * self.grid.resolution > reach:
            return None
        return self.grid.place(int(rows[best[0]]), int(columns[best[1]]))


def plan(grid: OccupancyGrid, costs: PlannerCosts, start: Place, goal: Place, *, goal_reach: float = 0.0) -> Plan | None:
    """Return the cheapest path, straightened; None when there is none. `goal_reach` m is how far a goal in an obstacle's reach
    may be moved."""
    wide = CostMap(grid, costs)
    end = wide.nearest_open(goal, goal_reach)
    if end is None:
        return None
    row, column = grid.cell(*start)
    if not grid.inside(row, column):
        return None
    if not wide.cost[row, column] < LETHAL:
        wide.open_around(start, costs.radius + costs.margin)
        wide.cost[row, column] = ESCAPE_COST
    cells = _search(wide.cost, (row, column), grid.cell(*end))
    if cells is None:
        return None
    places = _straightened(wide, [start, *(grid.place(r, c) for r, c in cells[1:-1]), end])
    return Plan(tuple(places), sum(math.dist(a, b) for a, b in zip(places, places[1:], strict=False)))


def _search(cost: NDArray[np.float64], start: tuple[int, int], goal: tuple[int, int]) -> list[tuple[int, int]] | None:
    """Run A* with eight neighbours over a grid framed by cells that nobody enters."""
    width = cost.shape[1] + 2
    framed = np.full((cost.shape[0] + 2, width), LETHAL)
    framed[1:-1, 1:-1] = cost
    price: list[float] = framed.reshape(-1).tolist()
    first, last = (start[0] + 1) * width + start[1] + 1, (goal[0] + 1) * width + goal[1] + 1
    goal_row, goal_column = divmod(last, width)
    diagonal = math.sqrt(2.0)
    moves = (
        (1, 1.0),
        (-1, 1.0),
        (width, 1.0),
        (-width, 1.0),
        (width + 1, diagonal),
        (width - 1, diagonal),
        (-width + 1, diagonal),
        (-width - 1, diagonal),
    )
    best = {first: 0.0}
    came: dict[int, int] = {}
    closed = bytearray(len(price))
    heap = [(0.0, first)]
    while heap:
        _, cell = heapq.heappop(heap)
        if cell == last:
            return _walked_back(came, cell, width)
        if closed[cell]:
            continue
        closed[cell] = 1
        so_far = best[cell]
        for step, length in moves:
            near = cell + step
            if closed[near] or price[near] == LETHAL:
                continue
            total = so_far + length * price[near]
            if total < best.get(near, LETHAL):
                best[near] = total
                came[near] = cell
                row, column = divmod(near, width)
                down, right = abs(row - goal_row), abs(column - goal_column)
                rest = down + right + (diagonal - 2.0) * (down if down < right else right)
                heapq.heappush(heap, (total + rest, near))
    return None


def _walked_back(came: dict[int, int], cell: int, width: int) -> list[tuple[int, int]]:
    cells = [cell]
    while cell in came:
        cell = came[cell]
        cells.append(cell)
    return [(c // width - 1, c % width - 1) for c in reversed(cells)]


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
