# SPDX-License-Identifier: Apache-2.0
"""What the simulated model makes of a picture: areas of a colour, of which it knows what they stand for on CoCo's desk."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from bench.colour_detector import hsv

HALF_VIEW_RAD = math.radians(30.0)
"""Half of the picture's height, as CoCo's camera sees it."""
EYE_M, BOTTLE_M = 0.17, 0.044
"""Height of the camera over the desk while CoCo stands, and width of a bottle."""
LEAST_PX = 12

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Area:
    """All that has one colour: its box [px, from the middle, right and down positive], how many pixels of it, and whether the
    picture's lower edge cuts it."""

    left: float
    top: float
    right: float
    bottom: float
    pixels: int
    cut: bool
    focal_px: float

    @property
    def shape(self) -> tuple[float, float]:
        """Return height over width of the box, and how much of it is filled."""
        wide, high = self.right - self.left, self.bottom - self.top
        return high / wide, self.pixels / (wide * high)

    @property
    def bearing_deg(self) -> float:
        """Return where its middle is, left positive."""
        return -math.degrees(math.atan2((self.left + self.right) / 2, self.focal_px))

    @property
    def distance_m(self) -> float:
        """Return how far from the camera it is: by where its foot stands on the desk, by its width where that is cut off."""
        if self.cut:
            return BOTTLE_M * self.focal_px / (self.right - self.left)
        return EYE_M * self.focal_px / self.bottom if self.bottom > 1 else math.inf


@dataclass(frozen=True)
class Sight:
    """A picture: pixels of red and of blue, whether a robot of CoCo's kind is in it, the bottle, and a hand."""

    red: int
    blue: int
    robot: bool
    bottle: Area | None
    hand: Area | None


def look(picture: bytes) -> Sight:
    """Look at a picture of any format that Pillow reads. Raises OSError for another."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))
    hue, saturation, value = hsv(pixels)

    def coloured(low: float, high: float, least: float = 0.3) -> Mask:
        inside = (hue >= low) & (hue <= high) if low <= high else (hue >= low) | (hue <= high)
        return np.asarray(inside & (saturation > least) & (value > 0.1))

    return Sight(
        red=int(coloured(345, 15).sum()),
        blue=int(coloured(205, 250).sum()),
        robot=int(coloured(22, 36, 0.6).sum()) > LEAST_PX,
        bottle=_area(coloured(120, 155, 0.6)),
        hand=_area(coloured(290, 325, 0.6)),
    )


def hand_shown(area: Area | None) -> str:
    """Return "rock", "paper" or "scissors", "" for none."""
    if area is None:
        return ""
    upright, filled = area.shape
    if filled < 0.6:
        return "scissors"
    return "paper" if upright > 1.5 or filled > 0.9 else "rock"


def _area(mask: Mask) -> Area | None:
    rows, columns = np.nonzero(mask)
    if rows.size < LEAST_PX:
        return None
    high, wide = mask.shape
    box: tuple[Any, ...] = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    left, top, right, bottom = (float(edge) for edge in box)
    focal = high / 2 / math.tan(HALF_VIEW_RAD)
    cut = bottom >= high - 1
    return Area(left - wide / 2, top - high / 2, right - wide / 2, bottom - high / 2, int(rows.size), cut, focal)
