# SPDX-License-Identifier: Apache-2.0
"""Named areas of the map, the section `rooms` of a robot's YAML."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field, model_validator

from skill_kernel.config.sections import Section

_Corner = tuple[float, float]


class RoomConfig(Section):
    """A named area of the map frame in m: a rectangle from `x` to `x` and `y` to `y`, or a polygon of `corners`."""

    x: tuple[float, float] | None = None
    y: tuple[float, float] | None = None
    corners: Annotated[tuple[_Corner, ...], Field(max_length=200)] = ()

    @model_validator(mode="after")
    def _one_shape(self) -> RoomConfig:
        if bool(self.corners) == (self.x is not None or self.y is not None):
            raise ValueError("give either x and y or corners")
        if self.corners:
            if len(self.corners) < 3:
                raise ValueError(f"an area has at least three corners, not {len(self.corners)}")
        elif self.x is None or self.y is None or not (self.x[0] < self.x[1] and self.y[0] < self.y[1]):
            raise ValueError("x and y each need a smaller and a larger number")
        return self

    def outline(self) -> tuple[_Corner, ...]:
        """The corners, in order."""
        if self.x is not None and self.y is not None:
            return ((self.x[0], self.y[0]), (self.x[1], self.y[0]), (self.x[1], self.y[1]), (self.x[0], self.y[1]))
        return self.corners

    def holds(self, x: float, y: float) -> bool:
        """Whether a point lies inside, by the ray to the right of it."""
        inside = False
        outline = self.outline()
        for (x0, y0), (x1, y1) in zip(outline, (*outline[1:], outline[0]), strict=True):
            if (y0 > y) != (y1 > y) and x < x0 + (y - y0) / (y1 - y0) * (x1 - x0):
                inside = not inside
        return inside and math.isfinite(x)
