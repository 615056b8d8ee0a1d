# SPDX-License-Identifier: Apache-2.0
"""Tell which of the kitchen's things a picture shows, and where in it: by their colours, and nothing else."""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from PIL import Image

from bench.colour_detector import ColourDetector

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom as shares of the picture's width and height."""

LOOKS = (
    "apple 352 8, 0.8 1, 0.2 1",
    "orange 26 36, 0.92 1, 0.3 1",
    "tea 130 142, 0.75 1, 0.15 1",
    "hamburger 23 32, 0.66 0.84, 0.18 0.85",
    "vitamins 48 63, 0.7 1, 0.3 1",
    "green_medication 76 92, 0.6 1, 0.3 1",
    "water 178 190, 0.7 1, 0.25 1",
    "milk 222 234, 0.75 1, 0.25 1",
    "red_medication 316 342, 0.33 0.65, 0.35 1",
    "cup 278 288, 0.65 1, 0.2 1",
)
"""Hue [deg], saturation and value of each thing, as `bench.colour_detector` reads them."""
BRIGHT = 12
"""Mean brightness, of 255, below which, or spread below which, a picture shows nothing."""


@lru_cache(maxsize=4096)
def things_in(picture: bytes) -> Mapping[str, Box]:
    """Return the things in a picture, each with the box of its largest area. Raises OSError for bytes that are no picture."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))
    height, width = pixels.shape[:2]
    found: dict[str, Box] = {}
    for box in _detector().detect(pixels):
        found.setdefault(box.label, (box.left / width, box.top / height, box.right / width, box.bottom / height))
    return found


@lru_cache(maxsize=4096)
def shows_anything(picture: bytes) -> bool:
    """Return whether a picture shows anything at all, and not one colour."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("L"))
    return bool(pixels.mean() >= BRIGHT and pixels.std() >= BRIGHT / 2)


@lru_cache(maxsize=1)
def _detector() -> ColourDetector:
    return ColourDetector(LOOKS)
