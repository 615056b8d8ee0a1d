# SPDX-License-Identifier: Apache-2.0
"""The nearest obstacle by sector, beside a reference that looks at each ray by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observing import KALOS, Scene, turn
from thorough import examples

from skill_kernel.observation.model import StaleFieldError
from skill_kernel.observation.odometry import NEAR_M, nearest_by_sector
from skill_kernel.skills.drivers import Scan

SECTORS = {"front": (-30.0, 30.0), "left": (30.0, 150.0), "back": (150.0, 210.0), "right": (-150.0, -30.0)}


def by_hand(scan: Scan, laser: tuple[float, float, float], radius: float) -> dict[str, float]:
    """Ray by ray, in plain arithmetic."""
    nearest, seen = dict.fromkeys(SECTORS, math.inf), dict.fromkeys(SECTORS, 0)
    for i, length in enumerate(scan.ranges):
        angle = scan.angle_min + laser[2] + i * scan.angle_step
        if math.isnan(length) or (length < 0 and length != -math.inf):
            continue
        for name in SECTORS:
            seen[name] += inside(math.degrees(angle), name)
        if length == -math.inf or 0 < length < scan.range_min:
            length = scan.range_min
        if not scan.range_min <= length < scan.range_max:
            continue
        x, y = laser[0] + length * math.cos(angle), laser[1] + length * math.sin(angle)
        for name in SECTORS:
            if inside(math.degrees(math.atan2(y, x)), name):
                nearest[name] = min(nearest[name], max(0.0, math.hypot(x, y) - radius))
    step = abs(math.degrees(scan.angle_step))
    for name, (start, end) in SECTORS.items():
        if seen[name] * step < (end - start) / 2 and nearest[name] > NEAR_M:
            nearest[name] = math.nan
    return nearest


def inside(degrees: float, name: str) -> bool:
    start, end = SECTORS[name]
    return (degrees - start) % 360.0 <= end - start


RANGE = st.one_of(st.floats(0.06, 11.0), st.sampled_from([math.inf, -math.inf, math.nan, 0.0, 0.02, 30.0, -1.0]))


@settings(max_examples=examples(80))
@given(
    ranges=st.lists(RANGE, min_size=1, max_size=120),
    start=st.floats(-math.pi, math.pi),
    width=st.floats(0.3, math.tau),
    laser=st.tuples(st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(-3.0, 3.0)),
    radius=st.floats(0.0, 0.5),
)
def test_sectors_equal_the_reference(
    ranges: list[float], start: float, width: float, laser: tuple[float, float, float], radius: float
) -> None:
    scan = Scan(start, width / len(ranges), ranges, 0.05, 12.0)
    found = {s.name: s.distance for s in nearest_by_sector(scan, SECTORS, laser=laser, radius=radius)}
    assert found == pytest.approx(by_hand(scan, laser, radius), nan_ok=True, abs=1e-9)


def test_distances_are_from_the_edge_and_by_direction() -> None:
    scene = Scene()
    scene.scan(turn(5.0, {0: 1.0, 90: 2.0, -90: 0.4}))
    view = scene.view()
    base = KALOS.base
    assert base is not None
    front = 1.0 + base.laser[0] - base.radius
    assert view.call("front_distance_m") == pytest.approx(front, abs=0.02)
    assert view.call("left_distance_m") == pytest.approx(math.hypot(2.0, base.laser[0]) - base.radius, abs=0.02)
    assert view.call("right_distance_m") == pytest.approx(math.hypot(0.4, base.laser[0]) - base.radius, abs=0.02)
    assert view.call("nearest_distance_m") == view.call("right_distance_m")


def test_a_free_hall_is_free_and_not_unknown() -> None:
    scene = Scene()
    scene.scan(turn(math.inf))
    assert {scene.view().call(f"{side}_distance_m") for side in ("front", "left", "right", "back", "nearest")} == {math.inf}


def test_what_the_lidar_does_not_look_at_is_unknown_and_not_free() -> None:
    ahead_only = Scan(math.radians(-90), math.radians(1), [math.inf] * 181, 0.05, 12.0)
    scene = Scene()
    scene.scan(ahead_only)
    assert scene.view().call("front_distance_m") == math.inf
    with pytest.raises(StaleFieldError, match="does not measure what is in sector 'back'"):
        scene.view().call("back_distance_m")


def test_a_sector_that_is_mostly_blind_is_free_to_nobody_but_what_is_near_in_it_counts() -> None:
    blind = dict.fromkeys(range(-30, 31), math.nan)
    scene = Scene()
    scene.scan(turn(math.inf, blind | {0: 5.0}))
    with pytest.raises(StaleFieldError, match="sector 'front'"):
        scene.view().call("front_distance_m")
    scene.scan(turn(math.inf, blind | {0: 0.6}))
    assert scene.view().call("front_distance_m") == pytest.approx(0.6 + 0.28 - 0.35, abs=0.01)


def test_an_obstacle_within_the_robots_circle_is_at_no_distance_and_not_behind_it() -> None:
    scene = Scene()
    scene.scan(turn(5.0, {0: -math.inf}))
    assert scene.view().call("front_distance_m") == 0.0


def test_a_message_array_is_read_like_a_list() -> None:
    ranges = np.full(360, 2.0, dtype=np.float32)
    found = nearest_by_sector(Scan(-math.pi, math.tau / 360, ranges, 0.05, 12.0), SECTORS)
    assert [s.distance for s in found] == pytest.approx([2.0] * 4)
