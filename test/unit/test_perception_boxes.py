# SPDX-License-Identifier: Apache-2.0
"""Before and after a detection network: the image fitted to it, its output as boxes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostshell_ros.perception.detector import Box, choose, decode, iou, letterbox, to_boxes

LABELS = ("cat", "dog")
PLAIN = (1.0, 0.0, 0.0)


def _dense(*rows: tuple[float, ...]) -> np.ndarray:
    """Network output of centre x, y, width, height, score of cat, of dog."""
    return np.array(rows, np.float32).T[None]


def test_an_image_of_the_right_size_goes_in_as_it_is() -> None:
    pixels = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    data, scale, left, top = letterbox(pixels, 6, 4)
    assert (scale, left, top) == (1.0, 0, 0) and data.shape == (1, 3, 4, 6) and data.dtype == np.float32
    assert np.allclose(data[0].transpose(1, 2, 0) * 255, pixels)


def test_another_image_keeps_its_proportions_in_the_middle_of_grey() -> None:
    data, scale, left, top = letterbox(np.full((100, 400, 3), 255, np.uint8), 320, 240)
    assert (scale, left, top) == (0.8, 0, 80)
    inside = data[0, 0] == 1.0
    assert inside[80:160].all() and not inside[:80].any() and not inside[160:].any()


@given(st.integers(1, 700), st.integers(1, 700))
def test_what_the_network_sees_is_found_back_in_an_image_of_any_size(width: int, height: int) -> None:
    _, *placed = letterbox(np.zeros((height, width, 3), np.uint8), 320, 240)
    scale, left, top = placed
    seen = _dense((left + scale * width / 2, top + scale * height / 2, scale * width, scale * height, 0.9, 0.0))
    (box,) = to_boxes(seen, LABELS, (scale, left, top), (width, height), 0.5, 0.5)
    assert (box.left, box.top) == (pytest.approx(0, abs=1e-2), pytest.approx(0, abs=1e-2))
    assert (box.right, box.bottom) == (pytest.approx(width, abs=0.1), pytest.approx(height, abs=0.1))


def test_of_boxes_upon_each_other_the_surest_stays_and_another_label_too() -> None:
    output = _dense((50, 50, 20, 20, 0.6, 0), (51, 50, 20, 20, 0.8, 0), (50, 50, 20, 20, 0, 0.5), (90, 50, 20, 20, 0.7, 0))
    boxes = to_boxes(output, LABELS, PLAIN, (320, 240), 0.4, 0.5)
    assert [(b.label, round(b.confidence, 1), b.left) for b in boxes] == [("cat", 0.8, 41), ("cat", 0.7, 80), ("dog", 0.5, 40)]


def test_what_is_not_sure_enough_is_left_out_and_what_sticks_out_is_cut() -> None:
    output = _dense((0, 10, 20, 20, 0.9, 0), (100, 100, 20, 20, 0.39, 0), (400, 300, 20, 20, 0.9, 0))
    assert to_boxes(output, LABELS, PLAIN, (320, 240), 0.4, 0.5) == [Box("cat", pytest.approx(0.9), 0, 0, 10, 20)]


def test_a_network_that_has_already_chosen_is_read_too() -> None:
    output = np.array([[[10, 20, 30, 40, 0.9, 1], [10, 20, 30, 40, 0.1, 0], [0, 0, 9, 9, 0.9, 7]]], np.float32)
    assert to_boxes(output, LABELS, PLAIN, (320, 240), 0.4, 0.5) == [Box("dog", pytest.approx(0.9), 10, 20, 30, 40)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", range(6))
def test_numbers_that_are_none_become_no_boxes(bad: float, place: int) -> None:
    dense, chosen = [50.0, 50.0, 20.0, 20.0, 0.9, 0.0], [40.0, 40.0, 60.0, 60.0, 0.9, 0.0]
    dense[place] = chosen[place] = bad
    sound = Box("cat", pytest.approx(0.8), 190, 90, 210, 110)
    boxes = to_boxes(_dense(tuple(dense), (200, 100, 20, 20, 0.8, 0)), LABELS, PLAIN, (320, 240), 0.4, 0.5)
    if not (place == 5 and bad == -math.inf):  # then it is no dog, and a cat all the same
        assert boxes == [sound]
    both = np.array([[chosen, [190, 90, 210, 110, 0.8, 0]]], np.float32)
    assert to_boxes(both, LABELS, PLAIN, (320, 240), 0.4, 0.5) == [sound]


def test_an_unknown_layout_is_refused_by_its_shape() -> None:
    with pytest.raises(ValueError, match=r"\(1, 8400, 7\), not \(1, 6, N\)"):
        decode(np.zeros((1, 8400, 7), np.float32), 2)


def test_of_very_many_boxes_only_the_surest_are_compared() -> None:
    corner = np.arange(200_000, dtype=np.float32)[:, None] * 20
    edges = np.concatenate([corner, corner, corner + 10, corner + 10], axis=1)
    scores = np.linspace(0.5, 0.9, 200_000, dtype=np.float32)
    kept = choose(edges, scores, np.zeros(200_000, np.intp), 0.4, 0.5)
    assert len(kept) == 300 and kept[0] == 199_999


def test_overlap_is_intersection_over_union() -> None:
    many = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [20, 20, 30, 30], [3, 3, 3, 3]], np.float32)
    assert iou(np.array([0, 0, 10, 10], np.float32), many) == pytest.approx([1, 1 / 3, 0, 0])
