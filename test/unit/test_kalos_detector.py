# SPDX-License-Identifier: Apache-2.0
"""The colour detector: blobs by hue, and where they are by camera and lidar."""

from __future__ import annotations

import math
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import yaml

from ghostshell_ros.perception.colour import Blob, ColourRange, Look, find, hsv
from ghostshell_ros.perception.placing import Camera, Laser, place
from ghostshell_ros.robots.kalos.places import Thing
from skill_kernel.drivers import Scan

CONFIG = yaml.safe_load((Path(__file__).parents[2] / "config" / "colour_detector.yaml").read_text())
PARAMETERS = CONFIG["/**/colour_detector"]["ros__parameters"]
LOOKS = [Look.parse(text) for text in PARAMETERS["things"]]
CAMERA = Camera(focal=200.0, width=320, height=240, forward=0.3, above_ground=0.35)
LASER = Laser(0.2, 0.0, 0.0)


def _image() -> np.ndarray:
    return np.full((240, 320, 3), 150, np.uint8)


def _scan(distance_from_laser: float) -> Scan:
    return Scan(-math.pi, math.tau / 360, [distance_from_laser] * 360)


def _blob(distance: float, *, left_m: float = 0.0, width_m: float = 0.2, height_m: float = 0.2) -> Blob:
    """A box on the ground, seen by CAMERA; `distance` is along its axis from the camera."""
    middle, half = 160 - CAMERA.focal * left_m / distance, CAMERA.focal * width_m / 2 / distance
    bottom = 120 + CAMERA.focal * CAMERA.above_ground / distance
    top = 120 + CAMERA.focal * (CAMERA.above_ground - height_m) / distance
    return Blob("ball", 500, round(middle - half), round(top), round(middle + half) - 1, round(bottom) - 1)


def test_the_detector_knows_what_the_skills_name() -> None:
    assert tuple(look.label for look in LOOKS) == get_args(Thing)


def test_hues_are_those_of_the_colour_circle() -> None:
    colours = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 0], [9, 9, 9]]], np.uint8)
    hue, saturation, value = hsv(colours)
    assert hue[0].tolist() == [0, 120, 240, 60, 0]
    assert saturation[0, 4] == 0 and value[0, 0] == 1


def test_a_blob_of_the_colour_is_found_with_its_box_and_dull_things_are_not() -> None:
    image = _image()
    image[100:120, 50:80] = (240, 120, 20)
    image[10:12, 10:12] = (240, 120, 20)
    (blob,) = find(image, LOOKS)
    assert blob == Blob("ball", 600, 50, 100, 79, 119)


def test_a_red_that_goes_around_the_circle_is_one_colour() -> None:
    image = _image()
    image[50:60, 50:55], image[50:60, 55:60] = (200, 20, 30), (200, 30, 20)
    (blob,) = find(image, LOOKS)
    assert (blob.label, blob.pixels) == ("apple", 100)


def test_two_things_of_one_colour_are_two_and_arms_of_one_shape_are_one() -> None:
    image = _image()
    image[50:70, 50:70] = image[50:70, 100:115] = (240, 120, 20)
    assert [b.pixels for b in find(image, LOOKS)] == [400, 300]
    image = _image()
    image[50:70, 50:56] = image[50:70, 70:76] = image[70:76, 50:76] = (240, 120, 20)
    assert len(find(image, LOOKS)) == 1


def test_a_thing_on_the_ground_is_as_far_as_the_lidar_says() -> None:
    bearing, distance = place(_blob(2.0, height_m=1.5), CAMERA, LASER, _scan(2.1))
    assert distance == pytest.approx(2.3, abs=0.02) and abs(bearing) < 0.02


def test_only_what_the_lidar_meets_in_its_direction_counts() -> None:
    ranges = [2.1 if 85 < i < 95 else 5.0 for i in range(180)]  # to the right only
    scan = Scan(-math.pi / 2, math.pi / 180, ranges)
    assert place(_blob(2.0, left_m=-1.0, height_m=1.5), CAMERA, LASER, scan)[1] > 4.0
    assert place(_blob(2.0, height_m=1.5), CAMERA, LASER, scan)[1] == pytest.approx(2.3, abs=0.05)


def test_a_thing_of_known_width_is_as_far_as_it_is_small_whatever_it_stands_on() -> None:
    low = _blob(2.0, left_m=1.0)
    bearing, distance = place(low, CAMERA, LASER, _scan(5.0), 0.2)
    assert distance == pytest.approx(math.hypot(2.3, 1.0), abs=0.1)
    assert bearing == pytest.approx(math.atan2(1.0, 2.3), abs=0.02)
    raised = Blob("ball", low.pixels, low.left, low.top - 40, low.right, low.bottom - 40)
    assert place(raised, CAMERA, LASER, None, 0.2)[1] == pytest.approx(distance)


def test_without_the_lidar_a_thing_is_where_its_lower_edge_meets_the_ground() -> None:
    assert place(_blob(2.0), CAMERA, LASER, _scan(math.inf))[1] == pytest.approx(2.3, abs=0.05)


def test_what_is_cut_off_has_no_distance() -> None:
    assert math.isnan(place(Blob("person", 900, 100, 60, 140, 239), CAMERA, LASER, None)[1])
    bearing, distance = place(Blob("ball", 900, 0, 100, 40, 140), CAMERA, LASER, _scan(1.0), 0.2)
    assert math.isnan(distance) and bearing > 0.4


def test_a_ball_with_seams_is_one_ball() -> None:
    image = _image()
    image[100:140, 100:140] = (240, 120, 20)
    image[119:121, 100:140] = (10, 10, 10)
    (blob,) = find(image, LOOKS)
    assert (blob.left, blob.top, blob.right, blob.bottom) == (100, 100, 139, 139)


def test_a_look_is_read_with_its_colours_and_its_width() -> None:
    look = Look.parse("bottle 120 155, 0.6 1, 0.15 1, 215 245, 0.6 1, 0.2 1, width 0.075")
    assert look.label == "bottle" and look.width_m == 0.075
    assert look.ranges[1] == ColourRange((215, 245), (0.6, 1), (0.2, 1)) and len(look.ranges) == 2


@pytest.mark.parametrize(
    "text", ["ball", "ball 1", "ball 0 400 0 1 0 1", "ball 0 10 0 2 0 1", "ball x 1 0 1 0 1", "ball 0 10 0 1 0 1 width"]
)
def test_a_wrong_look_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="ball"):
        Look.parse(text)
