# SPDX-License-Identifier: Apache-2.0
"""Before and after a detection network, in NumPy: an image fitted to its input, its output as boxes in the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from ghostshell_ros.perception.detector import Box, Pixels

Floats = npt.NDArray[np.float32]

PADDING = 114
"""Grey that the YOLO family is trained to see beside an image."""
MOST_CANDIDATES = 300
"""So many of the surest boxes are compared with each other."""


def letterbox(pixels: Pixels, width: int, height: int) -> tuple[Floats, float, float, float]:
    """Return the image as network input (1, 3, height, width) from 0 to 1, scaled as a whole and centred on grey, with its
    scale and the left and upper border in px."""
    rows, columns = pixels.shape[:2]
    scale = min(width / columns, height / rows)
    new_width, new_height = (max(1, min(most, round(n * scale))) for n, most in ((columns, width), (rows, height)))
    if (new_width, new_height) != (columns, rows):
        pixels = np.asarray(Image.fromarray(pixels).resize((new_width, new_height), Image.Resampling.BILINEAR))
    left, top = (width - new_width) // 2, (height - new_height) // 2
    if (new_width, new_height) != (width, height):
        framed = np.full((height, width, 3), PADDING, np.uint8)
        framed[top : top + new_height, left : left + new_width] = pixels
        pixels = framed
    return np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], dtype=np.float32) / np.float32(255.0), scale, left, top


def decode(output: npt.NDArray[Any], classes: int) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """Edges (left, top, right, bottom; N x 4), scores and class numbers in a network's output.

    Two layouts are known: (1, 4 + classes, N) with centre, width and height before the scores, still overlapping, and
    (1, N, 6) with edges, score and class, already chosen. Raises ValueError for another.
    """
    if output.ndim == 3 and output.shape[0] == 1 and output.shape[1] == 4 + classes:
        table = output[0].astype(np.float32, copy=False)
        best = table[4:].argmax(axis=0)
        centre, half = table[:2].T, table[2:4].T / 2
        with np.errstate(invalid="ignore"):  # a network that answers inf; `choose` leaves it out
            return np.concatenate([centre - half, centre + half], axis=1), table[4:].max(axis=0), best
    if output.ndim == 3 and output.shape[0] == 1 and output.shape[2] == 6:
        rows = output[0].astype(np.float32, copy=False)
        rows = rows[np.isfinite(rows).all(axis=1)]
        numbers = rows[:, 5].astype(np.intp)
        known = (numbers >= 0) & (numbers < classes)
        return rows[known, :4], rows[known, 4], numbers[known]
    raise ValueError(f"its output has the shape {output.shape}, not (1, {4 + classes}, N) or (1, N, 6)")


def choose(
    edges: Floats, scores: Floats, numbers: npt.NDArray[np.intp], confidence: float, overlap: float
) -> npt.NDArray[np.intp]:
    """Rows to keep, surest first: of boxes of one class whose overlap (intersection over union) is greater, the surest."""
    sound = np.isfinite(edges).all(axis=1) & np.isfinite(scores) & (scores >= confidence)
    sound &= (edges[:, 2:] > edges[:, :2]).all(axis=1)
    candidates = np.flatnonzero(sound)
    candidates = candidates[np.argsort(-scores[candidates], kind="stable")][:MOST_CANDIDATES]
    kept: list[int] = []
    while candidates.size:
        first, rest = candidates[0], candidates[1:]
        kept.append(int(first))
        same = numbers[rest] == numbers[first]
        candidates = rest[~(same & (iou(edges[first], edges[rest]) > overlap))]
    return np.array(kept, dtype=np.intp)


def iou(one: Floats, many: Floats) -> Floats:
    """Intersection over union of a box (4) with others (N x 4)."""
    low, high = np.maximum(one[:2], many[:, :2]), np.minimum(one[2:], many[:, 2:])
    inside = np.clip(high - low, 0.0, None).prod(axis=1)
    union = (one[2:] - one[:2]).prod() + (many[:, 2:] - many[:, :2]).prod(axis=1) - inside
    return np.asarray(inside / np.maximum(union, 1e-9), dtype=np.float32)


def to_boxes(
    output: npt.NDArray[Any],
    labels: Sequence[str],
    placed: tuple[float, float, float],
    size: tuple[int, int],
    confidence: float,
    overlap: float,
) -> list[Box]:
    """Boxes in an image of `size` (width, height) that `letterbox` placed by `placed` (scale, left, top)."""
    edges, scores, numbers = decode(output, len(labels))
    scale, left, top = placed
    found = []
    for i in choose(edges, scores, numbers, confidence, overlap):
        x0, y0, x1, y1 = ((edges[i] - (left, top, left, top)) / scale).tolist()
        x0, x1 = (min(max(0.0, x), float(size[0])) for x in (x0, x1))
        y0, y1 = (min(max(0.0, y), float(size[1])) for y in (y0, y1))
        if x1 > x0 and y1 > y0:
            found.append(Box(labels[numbers[i]], min(1.0, float(scores[i])), x0, y0, x1, y1))
    return found
