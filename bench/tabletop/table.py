# SPDX-License-Identifier: Apache-2.0
"""Keep a table of blocks and bowls without physics: where everything stands, and what the robot's four functions do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

from bench.evaluation.propositions import Fact
from ghostshell_ros.robots.tabletop.area import Area
from ghostshell_ros.robots.tabletop.area import Point as Point
from skill_kernel import SkillReturn

BLOCK, BOWL = "block", "bowl"
SIDE_M, RADIUS_M, FLOOR_M = 0.04, 0.06, 0.01
"""Edge of a block, radius of a bowl and the height of its floor [m]."""
NEAR_M, ON_BLOCK_M, IN_BOWL_M = 0.06, 0.04, 0.06
"""Distances within which a block is at a corner or side, on a block and in a bowl (Code as Policies) [m]."""
LITTLE = 1 / 3
"""Up to this share of the table's width or depth something is a little to one side, beyond it a lot."""
ASIDE_M = 0.06
"""What is to the left of a bowl is so little nearer or farther than it at most [m]; likewise for the other directions."""
LEVEL, STEEP, DIAGONAL = 0.3, 10.0, (0.7, 1.3)
"""Slopes of a horizontal line at most, of a vertical one at least, and of a diagonal one."""
STRAIGHT = 0.05
"""Distance of a block from the line at most, as a share of the line's length."""
CORNERS: Mapping[str, Point] = {
    f"{far} {left} corner": (x, y) for far, y in (("top", 1.0), ("bottom", 0.0)) for left, x in (("left", 0.0), ("right", 1.0))
}
"""Corners by name, with their normalised positions."""
SIDES: Mapping[str, tuple[int, float]] = {
    "left side": (0, 0.0),
    "right side": (0, 1.0),
    "bottom side": (1, 0.0),
    "top side": (1, 1.0),
}
"""Sides by name, with the axis across them and its normalised value."""
DIRECTIONS: Mapping[str, Point] = {"left": (-1.0, 0.0), "right": (1.0, 0.0), "top": (0.0, 1.0), "bottom": (0.0, -1.0)}
LINES = ("horizontal", "vertical", "diagonal")
AREA = Area(-0.25, 0.25, 0.20, 0.70)
"""A table as large as that of Code as Policies, 0.5 m by 0.5 m."""


def kind(name: str) -> str:
    """Return whether a thing is a block or a bowl."""
    return name.rpartition(" ")[2]


def colour(name: str) -> str:
    """Return a thing's colour."""
    return name.rpartition(" ")[0]


@dataclass
class Table:
    """Hold the truth of one run. `things`: where each block and bowl is, x, y and the height of its underside [m]."""

    things: dict[str, tuple[float, float, float]]
    area: Area = AREA

    def of(self, kind_: str) -> list[str]:
        """Return the names of all blocks, or of all bowls."""
        return [name for name in self.things if kind(name) == kind_]

    def at(self, name: str) -> Point:
        """Return where a thing stands [m]."""
        x, y, _ = self.things[name]
        return x, y

    def copy(self) -> Table:
        """Return another table with the same things at the same places."""
        return Table(dict(self.things), self.area)

    # -- the functions of the robot -----------------------------------------------------------------------------------

    def call(self, skill: str, arguments: Mapping[str, Any]) -> SkillReturn:
        """Do what a skill of robot `tabletop` does."""
        if skill == "get_obj_names":
            return SkillReturn.success(value=list(self.things))
        if skill == "denormalize_xy":
            return SkillReturn.success(value=list(self.area.denormalised(arguments["position"])))
        if skill == "get_obj_pos":
            name = arguments["name"]
            return SkillReturn.success(value=list(self.at(name))) if name in self.things else self._missing(name)
        if skill != "put_first_on_second":
            return SkillReturn.failure(f"there is no function '{skill}' at this table")
        return self._put(arguments["first"], arguments["second"])

    def _put(self, first: str, second: str | list[float]) -> SkillReturn:
        for name in (first, *([second] if isinstance(second, str) else [])):
            if name not in self.things:
                return self._missing(name)
        if kind(first) != BLOCK:
            return SkillReturn.failure(f"the {first} is too wide for the fingers; put blocks only")
        if first == second:
            return SkillReturn.failure(f"the {first} cannot be put on itself; name another thing or a position")
        x, y = self.at(second) if isinstance(second, str) else (float(second[0]), float(second[1]))
        if fault := self.area.fault((x, y)):
            return SkillReturn.failure(fault)
        if above := [name for name in self.of(BLOCK) if self._on(name, first)]:
            return SkillReturn.failure(f"the {above[0]} is on the {first}; put the {above[0]} away first")
        self.things[first] = x, y, self._height((x, y), first)
        return SkillReturn.success(f"put the {first} there")

    def _height(self, at: Point, without: str) -> float:
        """Return how high a block comes to stand at a place: on the highest thing below it [m]."""
        tops = [0.0]
        for name, (x, y, z) in self.things.items():
            away = math.dist(at, (x, y))
            if name != without and kind(name) == BLOCK and away < SIDE_M:
                tops.append(z + SIDE_M)
            elif name != without and kind(name) == BOWL and away < RADIUS_M:
                tops.append(z + FLOOR_M)
        return max(tops)

    def _missing(self, name: str) -> SkillReturn:
        return SkillReturn.failure(f"there is no '{name}' on the table; use a name that get_obj_names() returns")

    # -- what is true -------------------------------------------------------------------------------------------------

    def _on(self, above: str, below: str) -> bool:
        """Return whether a block is on a block, or in a bowl."""
        if above == below:
            return False
        within = ON_BLOCK_M if kind(below) == BLOCK else IN_BOWL_M
        higher = self.things[above][2] > self.things[below][2] + FLOOR_M / 2
        return higher and math.dist(self.at(above), self.at(below)) < within

    def facts(self) -> Iterator[Fact]:
        """Yield what is true of the blocks: on what each is, at which corners and sides, in which direction of which bowl and
        how far, and the line that they all form."""
        for block in self.of(BLOCK):
            yield from (("on", block, other) for other in self.things if self._on(block, other))
            yield from (("at", block, place) for place in (*CORNERS, *SIDES) if self._is_at(block, place))
            for bowl in self.of(BOWL):
                yield from (("beside", block, bowl, d, much) for d in DIRECTIONS if (much := self._much(block, bowl, d)))
        yield from (("lined", line) for line in LINES if self._lined(line))

    def _is_at(self, block: str, place: str) -> bool:
        x, y = self.at(block)
        if place in CORNERS:
            return math.dist((x, y), self.area.denormalised(CORNERS[place])) < NEAR_M
        axis, end = SIDES[place]
        return abs((x, y)[axis] - self.area.denormalised((end, end))[axis]) < NEAR_M

    def _much(self, block: str, bowl: str, direction: str) -> str:
        """Return how far a block is in a direction of a bowl: a little, a lot, or "" where it is not in this direction."""
        (x, y), (bx, by), (dx, dy) = self.at(block), self.at(bowl), DIRECTIONS[direction]
        along, across = (x - bx) * dx + (y - by) * dy, abs((x - bx) * dy) + abs((y - by) * dx)
        if along < RADIUS_M or across > ASIDE_M:
            return ""
        return "a little" if along <= LITTLE * self.area.size[0 if dx else 1] else "a lot"

    def _lined(self, line: str) -> bool:
        """Return whether all blocks, of which there are two or more, stand side by side in a line."""
        points = [self.at(block) for block in self.of(BLOCK)]
        if len(points) < 2 or any(math.dist(a, b) < SIDE_M for a, b in combinations(points, 2)):
            return False
        first, last = max(combinations(points, 2), key=lambda ends: math.dist(*ends))
        length, dx, dy = math.dist(first, last), last[0] - first[0], last[1] - first[1]
        if any(abs((x - first[0]) * dy - (y - first[1]) * dx) / length > STRAIGHT * length for x, y in points):
            return False
        slope = abs(dy / dx) if dx else math.inf
        if line == "horizontal":
            return slope < LEVEL
        return slope > STEEP if line == "vertical" else DIAGONAL[0] <= slope <= DIAGONAL[1]


def mismatched(blocks: list[str], bowls: list[str]) -> dict[str, str] | None:
    """Return a bowl of another colour for each block, a different one for each where there are enough; None for none."""
    for chosen in permutations(bowls, len(blocks)) if len(bowls) >= len(blocks) else ():
        if all(colour(block) != colour(bowl) for block, bowl in zip(blocks, chosen, strict=True)):
            return dict(zip(blocks, chosen, strict=True))
    own = {block: next((bowl for bowl in bowls if colour(bowl) != colour(block)), "") for block in blocks}
    return own if all(own.values()) else None
