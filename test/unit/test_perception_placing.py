# SPDX-License-Identifier: Apache-2.0
"""Where a thing in the image is, by camera and lidar."""

from __future__ import annotations

import math

import pytest

from ghostshell_ros.perception.detector import Box, Camera, place
from skill_kernel.skills.drivers import Pose2D, Scan

CAMERA = Camera(focal=200.0, width=320, height=240, forward=0.3, above_ground=0.35)
LASER = Pose2D(0.2, 0.0, 0.0)


def _scan(distance_from_laser: float) -> Scan:
    return Scan(-math.pi, math.tau / 360, [distance_from_laser] * 360)


def _box(distance: float, *, left_m: float = 0.0, width_m: float = 0.2, height_m: float = 0.2) -> Box:
    """Return a box on the ground, seen by CAMERA; `distance` is along its axis from the camera."""
    middle, half = 160 - CAMERA.focal * left_m / distance, CAMERA.focal * width_m / 2 / distance
    bottom = 120 + CAMERA.focal * CAMERA.above_ground / distance
    top = 120 + CAMERA.focal * (CAMERA.above_ground - height_m) / distance
    return Box("ball", 0.9, middle - half, top, middle + half, bottom)


def test_a_thing_on_the_ground_is_as_far_as_the_lidar_says() -> None:
    bearing, distance = place(_box(2.0, height_m=1.5), CAMERA, LASER, _scan(2.1))
    assert distance == pytest.approx(2.3, abs=0.02) and abs(bearing) < 0.02


def test_only_what_the_lidar_meets_in_its_direction_counts() -> None:
    ranges = [2.1 if 85 < i < 95 else 5.0 for i in range(180)]  # to the right only
    scan = Scan(-math.pi / 2, math.pi / 180, ranges)
    assert place(_box(2.0, left_m=-1.0, height_m=1.5), CAMERA, LASER, scan)[1] > 4.0
    assert place(_box(2.0, height_m=1.5), CAMERA, LASER, scan)[1] == pytest.approx(2.3, abs=0.05)


def test_a_thing_of_known_width_is_as_far_as_it_is_small_whatever_it_stands_on() -> None:
    low = _box(2.0, left_m=1.0)
    bearing, distance = place(low, CAMERA, LASER, _scan(5.0), 0.2)
    assert distance == pytest.approx(math.hypot(2.3, 1.0), abs=0.1)
    assert bearing == pytest.approx(math.atan2(1.0, 2.3), abs=0.02)
    raised = Box("ball", 0.9, low.left, low.top - 40, low.right, low.bottom - 40)
    assert place(raised, CAMERA, LASER, None, 0.2)[1] == pytest.approx(distance)


def test_without_the_lidar_a_thing_is_where_its_lower_edge_meets_the_ground() -> None:
    assert place(_box(2.0), CAMERA, LASER, _scan(math.inf))[1] == pytest.approx(2.3, abs=0.05)


def test_what_is_cut_off_has_no_distance() -> None:
    assert math.isnan(place(Box("person", 0.9, 100, 60, 141, 240), CAMERA, LASER, None)[1])
    bearing, distance = place(Box("ball", 0.9, 0, 100, 41, 141), CAMERA, LASER, _scan(1.0), 0.2)
    assert math.isnan(distance) and bearing > 0.4
