# SPDX-License-Identifier: Apache-2.0
"""An arm at a table of blocks and bowls says where things are, refuses what it cannot do, and puts a block where it is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import pytest
from arm_sim import ArmSim

from ghostshell_ros.robots.tabletop.body import TabletopBody
from skill_kernel import SkillReturn

pytestmark = pytest.mark.slow


@lru_cache(maxsize=1)
def _shared() -> ArmSim:
    return ArmSim("tabletop", TabletopBody)


@pytest.fixture
def arm() -> ArmSim:
    sim = _shared()
    sim.reset()
    return sim


def test_places_are_as_the_robot_sees_them(arm: ArmSim) -> None:
    assert arm.body.names()[:2] == ["blue block", "red block"] and len(arm.body.names()) == 7
    x, y, _ = arm.seen()["blue_block"][0]
    assert arm.body.position("blue block").value == pytest.approx([-y, x], abs=1e-4), "x to the right, y away from it"
    area = arm.body.area
    assert area.denormalised((0.0, 1.0)) == pytest.approx((-0.3, 0.6)), "the top left corner is far and left"
    off = math.dist(area.denormalised((0.1, 0.9)), area.denormalised((0.0, 1.0)))
    assert off > 0.065, "who stays a tenth from each edge misses the corner by the rule of 0.06 m"


@pytest.mark.parametrize(
    ("deed", "says"),
    [
        (lambda b, stop: b.put_on("tea", "red bowl", stop), "no 'tea' on the table; use a name that get_obj_names"),
        (lambda b, stop: b.put_on("red block", "pink bowl", stop), "there is no 'pink bowl'"),
        (lambda b, stop: b.put_on("red block", "red block", stop), "cannot be put on itself"),
        (lambda b, stop: b.put_on("red block", [3.0, 0.4], stop), "off the table, which goes from -0.30 to 0.30"),
        (lambda b, stop: b.put_on("blue bowl", [0.0, 0.4], stop), "too wide for the fingers"),
        (lambda b, stop: b.position("tea"), "there is no 'tea'"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_moves(arm: ArmSim, deed: Callable[..., SkillReturn], says: str) -> None:
    done = deed(arm.body, arm.stop)
    assert not done.ok and says in done.message
    assert arm.sent == 0


def test_blocks_come_to_lie_where_they_are_put(arm: ArmSim) -> None:
    corners = [(0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]
    for block, corner in zip(arm.body.names()[:4], corners, strict=True):
        place = arm.body.area.denormalised(corner)
        assert (done := arm.body.put_on(block, list(place), arm.stop)).ok, done.message
        assert math.dist(arm.body.position(block).value, place) < 0.01
    for second in ("red block", "orange bowl"):
        assert (done := arm.body.put_on("blue block", second, arm.stop)).ok, done.message
        assert math.dist(arm.body.position("blue block").value, arm.body.position(second).value) < 0.01
        if second == "red block":
            refused = arm.body.put_on("red block", [0.0, 0.4], arm.stop)
            assert not refused.ok and "put the blue block away first" in refused.message
