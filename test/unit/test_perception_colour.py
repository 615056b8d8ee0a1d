# SPDX-License-Identifier: Apache-2.0
"""The detector by colour: blobs by hue."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import yaml

from bench.colour_detector import ColourDetector, ColourRange, Look, hsv
from ghostshell_ros.perception.detector import Box, DetectorError
from ghostshell_ros.robots.kalos.skills.locomotion import Thing

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "config" / "object_detector.yaml").read_text())
PARAMETERS = CONFIG["/**/object_detector"]["ros__parameters"]
DETECTOR = ColourDetector(PARAMETERS["looks"])


def _image() -> np.ndarray:
    return np.full((240, 320, 3), 150, np.uint8)


def test_the_detector_has_a_look_of_all_that_the_skills_name() -> None:
    assert (*DETECTOR.labels, "door") == get_args(Thing), "doors have no colour of their own"


def test_hues_are_those_of_the_colour_circle() -> None:
    colours = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [9, 9, 9]]], np.uint8)
    hue, saturation, value = hsv(colours)
    assert hue[0].tolist() == [0, 120, 240, 60, 0]
    assert saturation[0, 4] == 0 and value[0, 0] == 1


def test_a_blob_of_the_colour_is_found_with_its_box_and_dull_things_are_not() -> None:
    image = _image()
    image[100:120, 50:80] = (240, 120, 20)
    image[10:12, 10:12] = (240, 120, 20)
    (blob,) = DETECTOR.detect(image)
    assert blob == Box("ball", 1.0, 50, 100, 80, 120)


def test_a_red_that_goes_around_the_circle_is_one_colour() -> None:
    image = _image()
    image[50:60, 50:55], image[50:60, 55:60] = (200, 20, 30), (200, 30, 20)
    (blob,) = DETECTOR.detect(image)
    assert (blob.label, blob.confidence) == ("apple", pytest.approx(100 / 150))


def test_two_things_of_one_colour_are_two_and_arms_of_one_shape_are_one() -> None:
    image = _image()
    image[50:70, 50:70] = image[50:70, 100:115] = (240, 120, 20)
    assert [(b.left, b.right) for b in DETECTOR.detect(image)] == [(50, 70), (100, 115)], "the larger one first"
    image = _image()
    image[50:70, 50:56] = image[50:70, 70:76] = image[70:76, 50:76] = (240, 120, 20)
    assert len(DETECTOR.detect(image)) == 1


def test_a_ball_with_seams_is_one_ball() -> None:
    image = _image()
    image[100:140, 100:140] = (240, 120, 20)
    image[119:121, 100:140] = (10, 10, 10)
    (blob,) = DETECTOR.detect(image)
    assert (blob.left, blob.top, blob.right, blob.bottom) == (100, 100, 140, 140)


def test_the_detector_gives_the_edges_of_what_it_sees() -> None:
    image = _image()
    image[100:120, 50:80] = (240, 120, 20)
    assert DETECTOR.detect(image) == [Box("ball", 1.0, 50, 100, 80, 120)]
    assert DETECTOR.detect(np.zeros((0, 0, 3), np.uint8)) == []


def test_without_looks_there_is_nothing_to_see_by() -> None:
    with pytest.raises(DetectorError, match="looks"):
        ColourDetector([""])


def test_a_look_is_read_with_its_colours() -> None:
    look = Look.parse("bottle 120 155, 0.6 1, 0.15 1, 215 245, 0.6 1, 0.2 1")
    assert look.label == "bottle"
    assert look.ranges[1] == ColourRange((215, 245), (0.6, 1), (0.2, 1)) and len(look.ranges) == 2


@pytest.mark.parametrize("text", ["ball", "ball 1", "ball 0 400 0 1 0 1", "ball 0 10 0 2 0 1", "ball x 1 0 1 0 1"])
def test_a_wrong_look_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="ball"):
        Look.parse(text)
