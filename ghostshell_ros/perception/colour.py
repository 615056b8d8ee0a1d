# SPDX-License-Identifier: Apache-2.0
"""Finds things by their colour: thresholds in hue, saturation and value, then connected blobs. It needs no model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ghostshell_ros.perception.detector import Box, DetectorError, Pixels

Mask = npt.NDArray[np.bool_]

MIN_PX = 25
MIN_FILL = 0.35
"""Blobs of fewer pixels, or that fill less of their box, are not counted."""
FULL_CONFIDENCE_PX = 150
"""A blob of this many pixels is taken for sure; a smaller one in proportion."""


@dataclass(frozen=True)
class ColourRange:
    """Hue in degrees (from above to: through red), saturation and value from 0 to 1."""

    hue: tuple[float, float]
    saturation: tuple[float, float]
    value: tuple[float, float]


@dataclass(frozen=True)
class Look:
    """Describe one kind of thing by its colours."""

    label: str
    ranges: tuple[ColourRange, ...]

    @classmethod
    def parse(cls, text: str) -> Look:
        """Read `label hue from to, saturation from to, value from to`, the six numbers once for each colour. Raises ValueError
        for anything else."""
        label, *words = text.replace(",", " ").split() or [""]
        try:
            numbers = [float(word) for word in words]
        except ValueError as error:
            raise ValueError(f"'{text}' is not '<label> <numbers>'") from error
        if not numbers or len(numbers) % 6:
            raise ValueError(f"'{text}': write hue from, to [deg], saturation from, to, value from, to (0 to 1)")
        ranges = []
        for h0, h1, s0, s1, v0, v1 in (numbers[i : i + 6] for i in range(0, len(numbers), 6)):
            if not (0 <= h0 <= 360 and 0 <= h1 <= 360) or not all(0 <= n <= 1 for n in (s0, s1, v0, v1)):
                raise ValueError(f"'{text}': hue is 0 to 360 degrees, saturation and value are 0 to 1")
            ranges.append(ColourRange((h0, h1), (s0, s1), (v0, v1)))
        return cls(label, tuple(ranges))


@dataclass(frozen=True)
class Blob:
    """Connected pixels of one label. `right` and `bottom` are the last pixels that belong to it."""

    label: str
    pixels: int
    left: int
    top: int
    right: int
    bottom: int

    @property
    def confidence(self) -> float:
        return min(1.0, self.pixels / FULL_CONFIDENCE_PX)


class ColourDetector:
    """Sees what has the colours of a look, whatever its shape."""

    def __init__(self, looks: Iterable[str]) -> None:
        """Take `looks`, lines as `Look.parse` reads them. Raises DetectorError for any other, or for none."""
        try:
            self._looks = [Look.parse(line) for line in looks if line]
        except ValueError as error:
            raise DetectorError(f"parameter looks: {error}") from error
        if not self._looks:
            raise DetectorError("detector colour needs the parameter looks: a line for each thing")
        self.labels: Sequence[str] = tuple(look.label for look in self._looks)

    def detect(self, pixels: Pixels) -> list[Box]:
        """See `Detector`."""
        if not pixels.shape[0] or not pixels.shape[1]:
            return []
        return [Box(b.label, b.confidence, b.left, b.top, b.right + 1, b.bottom + 1) for b in find(pixels, self._looks)]


def find(pixels: Pixels, looks: Iterable[Look], most: int = 3) -> list[Blob]:
    """Return the largest blobs of each look, at most `most`, in an image of shape (height, width, 3), RGB."""
    hue, saturation, value = hsv(pixels)
    found: list[Blob] = []
    for look in looks:
        blobs: list[Blob] = []
        for one in look.ranges:
            low, high = one.hue
            inside = (hue >= low) & (hue <= high) if low <= high else (hue >= low) | (hue <= high)
            inside &= (saturation >= one.saturation[0]) & (saturation <= one.saturation[1])
            inside &= (value >= one.value[0]) & (value <= one.value[1])
            blobs += [b for b in _blobs(look.label, _bridged(inside)) if b.pixels >= MIN_PX and _fill(b) >= MIN_FILL]
        found += sorted(blobs, key=lambda b: -b.pixels)[:most]
    return found


def hsv(pixels: Pixels) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Hue in degrees, saturation and value from 0 to 1, each of shape (height, width)."""
    rgb = pixels.astype(np.float32) / 255.0
    red, green, blue = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    value = rgb.max(axis=2)
    spread = value - rgb.min(axis=2)
    safe = np.where(spread > 0, spread, 1.0)
    hue = np.where(
        value == red,
        (green - blue) / safe % 6.0,
        np.where(value == green, (blue - red) / safe + 2.0, (red - green) / safe + 4.0),
    )
    saturation = np.where(value > 0, spread / np.where(value > 0, value, 1.0), 0.0)
    return np.where(spread > 0, hue * 60.0, 0.0), saturation, value


def _bridged(mask: Mask) -> Mask:
    """Lines of up to two pixels closed, such as a ball's seams: grown by one pixel to each side, then shrunk again."""
    for grow in (np.logical_or, np.logical_and):
        padded = np.pad(mask, 1, mode="edge")
        mask = grow.reduce([padded[1:-1, 1:-1], padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]])
    return mask


def _fill(blob: Blob) -> float:
    return blob.pixels / ((blob.right - blob.left + 1) * (blob.bottom - blob.top + 1))


def _blobs(label: str, mask: Mask) -> Iterator[Blob]:
    """Return connected areas, joined run by run of each row."""
    parent: list[int] = []
    boxes: list[list[int]] = []  # pixels, left, top, right, bottom

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    above: list[tuple[int, int, int]] = []
    for row in np.flatnonzero(mask.any(axis=1)).tolist():
        edges = np.flatnonzero(np.diff(np.concatenate(([0], mask[row].astype(np.int8), [0]))))
        runs: list[tuple[int, int, int]] = []
        for first, end in edges.reshape(-1, 2).tolist():
            touching = [i for a, b, i in above if a < end and first < b and boxes[root(i)][4] >= row - 1]
            if touching:
                own = root(touching[0])
                for other in {root(i) for i in touching} - {own}:
                    parent[other] = own
                    boxes[own] = _joined(boxes[own], boxes[other])
            else:
                own = len(parent)
                parent.append(own)
                boxes.append([0, first, row, end - 1, row])
            boxes[own] = _joined(boxes[own], [end - first, first, row, end - 1, row])
            runs.append((first, end, own))
        above = runs
    for i, box in enumerate(boxes):
        if parent[i] == i:
            yield Blob(label, *box)


def _joined(a: list[int], b: list[int]) -> list[int]:
    return [a[0] + b[0], min(a[1], b[1]), min(a[2], b[2]), max(a[3], b[3]), max(a[4], b[4])]
