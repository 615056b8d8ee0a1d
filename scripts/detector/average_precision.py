# SPDX-License-Identifier: Apache-2.0
"""Mean average precision as in COCO (101 points of recall), with things that need not be found and do not count if they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ghostshell_ros.perception.detector import Box, iou

Floats = npt.NDArray[np.float32]

THRESHOLDS = tuple(0.5 + 0.05 * k for k in range(10))


def average_precision(
    found: Sequence[Sequence[Box]], truth: Sequence[Floats], number: int, label: str, threshold: float
) -> float:
    """Return the average precision of one label, nan when nothing is to be found.

    `found` and `truth` have an entry per frame; rows of truth are label number, four edges, ignore.
    """
    wanted = sum(int(np.sum((rows[:, 0] == number) & (rows[:, 5] == 0))) for rows in truth)
    if not wanted:
        return float("nan")
    scores, hits = [], []
    for boxes, rows in zip(found, truth, strict=True):
        rows = rows[rows[:, 0] == number]
        taken = np.zeros(len(rows), bool)
        for box in sorted((b for b in boxes if b.label == label), key=lambda b: -b.confidence):
            overlaps = iou(np.array([box.left, box.top, box.right, box.bottom], np.float32), rows[:, 1:5])
            # A thing that must be found goes before one that need not be.
            order = np.where(taken | (overlaps < threshold), -1.0, overlaps + (rows[:, 5] == 0))
            best = int(order.argmax()) if len(order) else -1
            matched = best >= 0 and order[best] > 0
            if matched and rows[best, 5]:
                continue
            if matched:
                taken[best] = True
            elif len(rows) and _mostly_inside(box, rows[rows[:, 5] == 1, 1:5]):
                continue
            scores.append(box.confidence)
            hits.append(matched)
    right = np.array(hits, float)[np.argsort(-np.array(scores), kind="stable")] if scores else np.zeros(0)
    recall, precision = right.cumsum() / wanted, right.cumsum() / np.arange(1, len(right) + 1)
    points = np.linspace(0, 1, 101)
    return float(np.mean([precision[recall >= p].max(initial=0.0) for p in points]))


def _mostly_inside(box: Box, ignored: Floats) -> bool:
    """Return whether half of the box lies in a thing of which too little shows."""
    low = np.maximum((box.left, box.top), ignored[:, :2])
    high = np.minimum((box.right, box.bottom), ignored[:, 2:])
    inside = np.clip(high - low, 0, None).prod(axis=1)
    return bool((inside > 0.5 * (box.right - box.left) * (box.bottom - box.top)).any())


def scores(found: Sequence[Sequence[Box]], truth: Sequence[Floats], labels: Sequence[str]) -> dict[str, tuple[float, float]]:
    """AP at 0.5 and the mean of 0.5 to 0.95 by label, and `all` for the mean over the labels that occur."""
    table = {}
    for number, label in enumerate(labels):
        each = [average_precision(found, truth, number, label, t) for t in THRESHOLDS]
        if each[0] == each[0]:
            table[label] = (each[0], float(np.mean(each)))
    table["all"] = (float(np.mean([a for a, _ in table.values()])), float(np.mean([b for _, b in table.values()])))
    return table


def truth_of(rows: Floats, frames: int) -> list[Floats]:
    """Rows of a `boxes.npy`, by frame and without its number."""
    return [rows[rows[:, 0] == i, 1:] for i in range(frames)]
