# SPDX-License-Identifier: Apache-2.0
"""Measure a table top: x to the right and y away from who sits at it, and the same from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Point: TypeAlias = tuple[float, float]
"""x to the right and y away from the robot [m], or both as shares of a table from 0 to 1."""
SLACK_M = 0.02
"""Distance from the edge up to which a place beside the area counts as in it."""


@dataclass(frozen=True)
class Area:
    """Hold the edges of the part of a table where things stand [m]."""

    left: float
    right: float
    bottom: float
    top: float

    @property
    def size(self) -> Point:
        """Return its width and depth [m]."""
        return self.right - self.left, self.top - self.bottom

    def denormalised(self, position: Sequence[float]) -> Point:
        """Return the place of a normalised position: (0, 0) is the bottom left corner, (1, 1) the top right one."""
        width, depth = self.size
        return round(self.left + position[0] * width, 4), round(self.bottom + position[1] * depth, 4)

    def fault(self, at: Sequence[float]) -> str:
        """Return why nothing can be put at a place, "" where something can."""
        x, y = at
        inside = self.left - SLACK_M <= x <= self.right + SLACK_M and self.bottom - SLACK_M <= y <= self.top + SLACK_M
        if inside:
            return ""
        return (
            f"({x:.2f}, {y:.2f}) is off the table, which goes from {self.left:.2f} to {self.right:.2f} to the right and from "
            f"{self.bottom:.2f} to {self.top:.2f} away; use denormalize_xy for places on it"
        )
