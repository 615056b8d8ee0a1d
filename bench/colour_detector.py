# SPDX-License-Identifier: Apache-2.0
"""Find things by their colour, the reference of detection by a network: thresholds in hue, saturation and value, then blobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from ghostshell_ros.perception.detector import Box, DetectorError, Pixels

Mask = npt.NDArray[np.bool_]

MIN_PX = 25
MIN_FILL = 0.35
"""Least number of pixels of a blob, and least share of its box that it fills."""
FULL_CONFIDENCE_PX = 150
"""Pixels of a blob that is sure; a smaller one is so in proportion."""
MOST = 3

Run = tuple[int, int, int]
"""Pixels side by side: row, first column, and the column behind the last."""


@dataclass(frozen=True)
class ColourRange:
    """Bound hue in degrees (through red where from is above to), saturation and value from 0 to 1."""

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
        """Read `label hue from to, saturation from to, value from to`, the six numbers once a colour. Raises ValueError."""
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


def colour_detector(*, looks: Sequence[str], **_: object) -> ColourDetector:
    """Return the detector `colour` of the node object_detector."""
    return ColourDetector(looks)


class ColourDetector:
    """See things by the colours of a look, of any shape: the `MOST` largest blobs of each look."""

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
        hue, saturation, value = hsv(pixels)
        found: list[Box] = []
        for look in self._looks:
            blobs: list[tuple[int, Box]] = []
            for one in look.ranges:
                low, high = one.hue
                inside = (hue >= low) & (hue <= high) if low <= high else (hue >= low) | (hue <= high)
                inside &= (saturation >= one.saturation[0]) & (saturation <= one.saturation[1])
                inside &= (value >= one.value[0]) & (value <= one.value[1])
                blobs += _blobs(look.label, _bridged(inside))
            found += [box for _, box in sorted(blobs, key=lambda blob: -blob[0])[:MOST]]
        return found


def hsv(pixels: Pixels) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    """Return hue in degrees, saturation and value from 0 to 1, each of shape (height, width)."""
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
    """Close gaps of up to two pixels, such as a ball's seams: grow by one pixel to each side, then shrink again."""
    for grow in (np.logical_or, np.logical_and):
        padded = np.pad(mask, 1, mode="edge")
        mask = grow.reduce([padded[1:-1, 1:-1], padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]])
    return mask


def _blobs(label: str, mask: Mask) -> Iterator[tuple[int, Box]]:
    """Yield the connected areas that are large and full enough, each with its number of pixels."""
    blobs: dict[Run, list[Run]] = {}
    above: list[Run] = []
    lines, edges = np.nonzero(np.diff(mask.astype(np.int8), axis=1, prepend=0, append=0))
    runs = zip(lines[::2].tolist(), edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    for row, side_by_side in groupby(runs, key=lambda run: run[0]):
        here = list(side_by_side)
        above = above if above and above[0][0] == row - 1 else []
        for run in here:
            blobs[run] = [run]
            for other in above:
                if run[1] < other[2] and other[1] < run[2] and blobs[run] is not blobs[other]:
                    less, more = sorted((blobs[run], blobs[other]), key=len)
                    more += less
                    blobs.update(dict.fromkeys(less, more))
        above = here
    for blob in {id(blob): blob for blob in blobs.values()}.values():
        rows, firsts, ends = zip(*blob, strict=True)
        pixels = sum(ends) - sum(firsts)
        left, top, right, bottom = min(firsts), min(rows), max(ends), max(rows) + 1
        if pixels >= MIN_PX and pixels >= MIN_FILL * (right - left) * (bottom - top):
            yield pixels, Box(label, min(1.0, pixels / FULL_CONFIDENCE_PX), left, top, right, bottom)
