# SPDX-License-Identifier: Apache-2.0
"""A world is put back to its start, or arranged for a task, while its time goes on."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

pytest.importorskip("mujoco")

from sim_probe import arrived, upright

from ghostshell_ros.sim.parts import Legged, Lidar
from ghostshell_ros.sim.stage import Spot, Stage, Wish, read_arrangement
from ghostshell_ros.sim.world import SimWorld, SimWorldError
from skill_kernel.skills.drivers import Pose2D

pytestmark = pytest.mark.component

WORLD = SimWorld("robots/kalos/kalos.xml", world="building")
STAGE, LEGGED = Stage(WORLD), Legged(WORLD, WORLD.robot)


@pytest.fixture
def stage() -> Iterator[Stage]:
    WORLD.reset()
    yield STAGE
    WORLD.reset()


def at(name: str) -> tuple[float, float]:
    x, y, _ = WORLD.objects()[name][0]
    return x, y


def test_the_robot_stands_where_it_is_put_and_goes_on_standing(stage: Stage) -> None:
    WORLD.advance(1.0)
    before = WORLD.time
    stage.arrange({"robot": Spot(Pose2D(9.5, 2.0, 1.2))}, from_start=True)
    assert WORLD.time == before, "whoever hears its clock must not see it go back"
    WORLD.advance(1.0)
    base = WORLD.robot.base()
    assert (base.pose.x, base.pose.y, base.pose.yaw) == pytest.approx((9.5, 2.0, 1.2), abs=0.03)
    assert upright(WORLD) and 0.27 < base.height < 0.31 and LEGGED.gait.state == "stand"


def test_what_sat_and_was_on_its_way_stands_at_rest_after_a_reset(stage: Stage) -> None:
    stage.move("person", True)
    for _ in range(60):
        LEGGED.gait.set_posture("sit")
        WORLD.advance(0.05)
    assert LEGGED.gait.state == "sit"
    stage.arrange({}, from_start=True)
    WORLD.advance(0.5)
    assert LEGGED.gait.state == "stand" and at("person") == pytest.approx((7.9, -2.7)) and arrived(STAGE, "person")


def test_things_are_put_on_the_floor_and_stay_there(stage: Stage) -> None:
    spots = {
        "ball": Spot(Pose2D(8.5, 3.0, 0.0)),
        "chair_spare": Spot(Pose2D(4.0, 0.7, 3.1)),
        "person": Spot(Pose2D(-1.0, 0.2, 1.0)),
    }
    stage.arrange(spots, from_start=True)
    WORLD.advance(1.0)
    assert at("ball") == pytest.approx((8.5, 3.0), abs=0.02)
    assert at("chair_spare") == (4.0, 0.7) and at("person") == (-1.0, 0.2)


def test_only_what_is_named_moves_when_nothing_begins_anew(stage: Stage) -> None:
    stage.arrange({"ball": Spot(Pose2D(8.5, 3.0, 0.0)), "robot": Spot(Pose2D(5.0, 0.0, 0.0))}, from_start=True)
    WORLD.advance(0.2)
    stage.arrange({"person": Spot(Pose2D(6.5, 0.0, math.pi))}, from_start=False)
    WORLD.advance(0.2)
    assert at("person") == (6.5, 0.0) and at("ball") == pytest.approx((8.5, 3.0), abs=0.02)
    assert WORLD.robot.base().pose.x == pytest.approx(5.0, abs=0.03)
    # The lidar sees who stands there.
    assert float(Lidar(WORLD, WORLD.robot).scan()[165:196].min()) == pytest.approx(1.5 - 0.28 - 0.2, abs=0.15)


def test_a_door_is_shut_at_once_and_opens_again_by_itself_only_when_told(stage: Stage) -> None:
    stage.arrange({"office_door": Wish.SHUT}, from_start=True)
    assert at("office_door") == pytest.approx((5.25, 1.14))
    WORLD.advance(0.5)
    assert at("office_door") == pytest.approx((5.25, 1.14))
    stage.move("office_door", False)
    WORLD.advance(3.0)
    assert at("office_door") == pytest.approx((6.50, 1.14))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1, 2]", "JSON object of names"),
        ("{robot: 1}", "JSON object of names"),
        ('{"ball": [1]}', r"\[x, y\]"),
        ('{"ball": [1, "2"]}', r"\[x, y\]"),
        ('{"ball": [1, 1e999]}', "100 m"),
        ('{"ball": [1, NaN]}', "100 m"),
        ('{"ball": [1, 101]}', "100 m"),
        ('{"ball": "gone"}', "open"),
        ('{"ball": true}', r"\[x, y\]"),
        ('{"moon": [1, 2]}', "no 'moon'"),
        ('{"chair_office": [1, 2]}', "no 'chair_office'"),
        ('{"office_door": [1, 2]}', "does not stand"),
        ('{"ball": "shut"}', "no door"),
    ],
)
def test_an_arrangement_that_cannot_be_is_refused_before_anything_moves(stage: Stage, text: str, says: str) -> None:
    before = at("ball")
    with pytest.raises(SimWorldError, match=says):
        stage.arrange({"ball": Spot(Pose2D(8.5, 3.0, 0.0)), **read_arrangement(text)}, from_start=True)
    assert at("ball") == before


def test_no_text_is_the_world_as_it_starts() -> None:
    assert read_arrangement(" ") == {}
    assert read_arrangement('{"office_door": "shut", "ball": [1, 2]}') == {
        "office_door": Wish.SHUT,
        "ball": Spot(Pose2D(1.0, 2.0, 0.0)),
    }
