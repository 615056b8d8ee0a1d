# SPDX-License-Identifier: Apache-2.0
"""The measure of the detector, on cases that can be counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ghostshell_ros.perception.detector import Box
from scripts.detector.average_precision import average_precision, scores, truth_of

LABELS = ("cat", "dog")


def _truth(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array(rows, np.float32).reshape(-1, 6)


CAT, OTHER_CAT = (0, 0, 0, 10, 10, 0), (0, 50, 50, 60, 60, 0)
HIT, OTHER_HIT, MISS = Box("cat", 0.9, 0, 0, 10, 10), Box("cat", 0.7, 50, 50, 60, 60), Box("cat", 0.8, 20, 20, 30, 30)


def _ap(found: list[Box], *rows: tuple[float, ...], threshold: float = 0.5) -> float:
    return average_precision([found], [_truth(*rows)], 0, "cat", threshold)


def test_all_found_and_nothing_else_is_one_and_nothing_found_is_none() -> None:
    assert _ap([HIT, OTHER_HIT], CAT, OTHER_CAT) == pytest.approx(1.0)
    assert _ap([], CAT) == 0.0 and _ap([MISS], CAT) == 0.0
    assert math.isnan(_ap([HIT], (1, 0, 0, 10, 10, 0)))


def test_a_false_one_costs_only_what_is_less_sure_than_it() -> None:
    assert _ap([HIT, Box("cat", 0.1, 20, 20, 30, 30)], CAT) == pytest.approx(1.0)
    # Recall 0.5 at precision 1, recall 1 at precision 2/3: 51 of the 101 points and 50.
    assert _ap([HIT, MISS, OTHER_HIT], CAT, OTHER_CAT) == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_a_thing_is_found_once() -> None:
    twice = [HIT, Box("cat", 0.8, 0, 0, 10, 10), OTHER_HIT]
    assert _ap(twice, CAT, OTHER_CAT) == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_how_well_the_box_fits_counts_by_the_threshold() -> None:
    loose = Box("cat", 0.9, 0, 0, 10, 7)
    assert _ap([loose], CAT) == pytest.approx(1.0) and _ap([loose], CAT, threshold=0.75) == 0.0


def test_what_need_not_be_found_does_not_count_either_way() -> None:
    hidden = (0, 50, 50, 60, 60, 1)
    assert _ap([HIT], CAT, hidden) == pytest.approx(1.0)
    assert _ap([HIT, Box("cat", 0.95, 50, 50, 60, 60)], CAT, hidden) == pytest.approx(1.0)
    assert _ap([HIT, Box("cat", 0.95, 51, 51, 55, 55)], CAT, hidden) == pytest.approx(1.0), "a part of it"


def test_the_mean_is_over_the_labels_that_occur() -> None:
    rows = np.array([[0, *CAT], [2, *OTHER_CAT]], np.float32)
    table = scores([[HIT], [], [OTHER_HIT]], truth_of(rows, 3), LABELS)
    assert table == {"cat": (pytest.approx(1.0), pytest.approx(1.0)), "all": (pytest.approx(1.0), pytest.approx(1.0))}
