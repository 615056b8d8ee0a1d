# SPDX-License-Identifier: Apache-2.0
"""Two robots in one simulated kitchen: each its own, both in one world; a base that rolls, doors, slips, and what is seen."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco")

from ghostshell_ros.sim.parts import LEASH, WHEELS_MOST, Lidar, Wheeled
from ghostshell_ros.sim.robot import SimWorldError
from ghostshell_ros.sim.sight import Sight
from ghostshell_ros.sim.stage import Spot, Stage, Wish
from ghostshell_ros.sim.world import SimWorld
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import Pose2D

pytestmark = pytest.mark.component

WORLD = SimWorld({name: RobotConfig.load(name).model_path() for name in ("atlas", "hebe")}, world="kitchen")
ATLAS, HEBE = WORLD.robots["atlas"], WORLD.robots["hebe"]
for _name, _robot in WORLD.robots.items():
    _robot.home = {joint: limits.rest for joint, limits in RobotConfig.load(_name).joints.items()}
WHEELS, STAGE = Wheeled(WORLD, HEBE), Stage(WORLD)
FRIDGE, OVEN, SINK = (Pose2D(x, y, math.pi / 2) for x, y in ((2.1, 1.05), (1.4, 1.18), (0.4, 1.4)))
TICK_S = 0.05


@pytest.fixture(autouse=True)
def start() -> Iterator[None]:
    WORLD.reset()
    yield
    WORLD.reset()


def roll(seconds: float, forward: float, left: float = 0.0, turn: float = 0.0) -> None:
    for _ in range(round(seconds / TICK_S)):
        WHEELS.command(forward, left, turn)
        WORLD.advance(TICK_S)


def where() -> tuple[float, float, float]:
    pose = HEBE.base().pose
    return pose.x, pose.y, pose.yaw


def seen(robot: str) -> set[str]:
    return set(Sight(WORLD, WORLD.robots[robot], 320, 240).seen())


# -- two robots -------------------------------------------------------------------------------------------------------


def test_each_robot_has_its_own_names_and_commands() -> None:
    for name, robot in WORLD.robots.items():
        assert set(robot.joint_names) == set(RobotConfig.load(name).joints)
        assert robot.joint_positions() == pytest.approx(robot.home, abs=0.03)
    before = HEBE.joint_positions()
    ATLAS.set_joint_targets({"joint1": 0.6})
    with pytest.raises(SimWorldError, match="no joint 'left_joint1'"):
        ATLAS.set_joint_targets({"left_joint1": 0.1})
    WORLD.advance(2.0)
    assert ATLAS.joint_positions()["joint1"] == pytest.approx(0.6, abs=0.02)
    assert HEBE.joint_positions() == pytest.approx(before, abs=1e-3) and HEBE.speed() < 0.01
    alone, both = (w.model.opt for w in (SimWorld("robots/hebe/hebe.xml", world="kitchen"), WORLD))
    for setting in ("timestep", "integrator", "cone", "impratio", "noslip_iterations"):
        assert getattr(both, setting) == getattr(alone, setting), "physics is the same with others around"
    assert set(ATLAS.cameras()) == {"film", "table_camera", "wrist_camera"} and "hebe/head_camera" in WORLD.cameras()


def test_a_reset_brings_both_back_and_two_runs_are_equal() -> None:
    ends = []
    for _ in range(2):
        WORLD.reset()
        ATLAS.set_joint_targets({"joint1": 1.0})
        roll(1.0, 0.3, 0.1, 0.5)
        ends.append(WORLD.state())
    assert (ends[0] == ends[1]).all()
    WORLD.reset()
    assert where() == pytest.approx((1.9, 0.5, math.pi / 2))
    assert ATLAS.joint_positions()["joint1"] == pytest.approx(0.0, abs=0.01)


def test_robots_stop_each_other() -> None:
    """Atlas swings its arm against Hebe's, which is held straight out over the table."""
    ATLAS.place({**ATLAS.home, "joint1": -1.2, "joint2": 1.35, "joint4": 0.0, "joint6": 0.0})
    HEBE.place({**HEBE.home, **{f"right_joint{i}": 0.0 for i in range(1, 8)}})
    HEBE.put(Pose2D(0.4, 1.1, 0.0))
    ATLAS.set_joint_targets({"joint1": 1.2})
    touched = set()
    for _ in range(30):
        WORLD.advance(TICK_S)
        bodies = WORLD.model.geom_bodyid[WORLD.data.contact.geom]
        touched |= {tuple(WORLD.model.body(int(body)).name.split("/")[0] for body in pair) for pair in bodies}
    assert {("atlas", "hebe"), ("hebe", "atlas")} & touched
    assert ATLAS.joint_positions()["joint1"] < 1.1 or abs(HEBE.joint_positions()["right_joint2"]) > 0.05


def test_one_robot_alone_keeps_the_names_of_its_model() -> None:
    world = SimWorld("robots/hebe/hebe.xml", world="kitchen")
    assert world.robot is world.robots[""] and world.robot.prefix == "" and "head_camera" in world.cameras()
    assert "base_link" in world.objects() and not any("/" in name for name in world.objects())


@pytest.mark.parametrize("base", ["", "<joint type='hinge'/>", "<joint type='slide'/>" * 2 + "<joint type='hinge'/>"])
def test_a_robot_whose_base_nothing_can_move_is_refused(tmp_path: Path, base: str) -> None:
    name = "base_link" if base else "trunk"
    (tmp_path / "odd.xml").write_text(
        f"<mujoco><worldbody><body name='{name}'>{base}<geom size='0.1'/></body></worldbody></mujoco>", encoding="utf-8"
    )
    with pytest.raises(SimWorldError, match="no body 'base_link' that stands fast"):
        SimWorld(tmp_path / "odd.xml", world="")


# -- a base that rolls ------------------------------------------------------------------------------------------------


def test_the_base_rolls_as_told_and_stands_within_a_moment_of_silence() -> None:
    roll(1.0, 0.4)
    assert HEBE.base().linear_velocity == pytest.approx((0.4, 0.0, 0.0), abs=0.02)
    moved = HEBE.base().pose
    assert (moved.x, moved.y) == pytest.approx((1.9, 0.5 + 0.4 - 0.4**2 / 2 / 1.5), abs=0.03)
    WORLD.advance(0.25 + 0.4 / 1.5 + 0.1)
    assert HEBE.speed() < 0.01
    stood = where()
    WORLD.advance(1.0)
    assert where() == pytest.approx(stood, abs=1e-3)


def test_it_goes_sideways_and_turns_at_once_and_no_faster_than_its_wheels() -> None:
    roll(1.0, 0.0, 0.2, 0.0)
    assert HEBE.base().linear_velocity[1] == pytest.approx(0.2, abs=0.02) and HEBE.base().pose.x < 1.8
    roll(1.5, 9.0, math.nan, 0.0)
    assert HEBE.speed() < 0.01, "what is no number is no wish"
    HEBE.put(Pose2D(2.0, -1.5, math.pi / 2))
    roll(1.0, 9.0, -9.0, 9.0)
    assert HEBE.base().angular_velocity[2] == pytest.approx(WHEELS_MOST[2], abs=0.1)
    assert math.hypot(*HEBE.base().linear_velocity[:2]) <= math.hypot(*WHEELS_MOST[:2]) + 0.05


def test_what_stands_in_the_way_stops_it_without_winding_it_up() -> None:
    HEBE.put(SINK)
    roll(3.0, 0.4)
    blocked = HEBE.base().pose
    assert 1.6 < blocked.y < 1.72, "its edge is at the counter's"
    assert abs(HEBE.base_target[1] - blocked.y) <= LEASH[1] + 1e-6
    roll(1.0, -0.3)
    assert HEBE.base().pose.y < blocked.y - 0.1, "it comes away at once"


def test_its_lidar_sees_the_kitchen_but_neither_itself_nor_a_picture_of_it() -> None:
    HEBE.put(SINK)
    WORLD.advance(0.1)
    groups = WORLD.model.geom_group.copy()
    scan = Lidar(WORLD, HEBE).scan()
    assert (WORLD.model.geom_group == groups).all()
    ahead, behind = float(scan[180]), float(scan[0])
    assert ahead == pytest.approx(1.95 - 1.4 - 0.12, abs=0.03)
    assert behind == pytest.approx(1.4 + 0.12 - 0.75, abs=0.03)


# -- doors, things, slips ---------------------------------------------------------------------------------------------


def test_doors_are_open_and_shut_at_once_and_what_lies_in_a_drawer_goes_with_it() -> None:
    handle, vitamins = (WORLD.objects()[name][0] for name in ("drawer_middle_handle", "vitamins"))
    STAGE.arrange({"drawer_middle": Wish.OPEN, "fridge": Wish.OPEN}, from_start=False)
    WORLD.advance(1.0)
    moved = WORLD.objects()
    assert moved["drawer_middle_handle"][0][0] == pytest.approx(handle[0] - 0.2, abs=0.005)
    assert moved["vitamins"][0] == pytest.approx((vitamins[0] - 0.2, *vitamins[1:]), abs=0.01)
    assert float(WORLD.data.joint("fridge").qpos[0]) == pytest.approx(1.5, abs=0.02)
    STAGE.arrange({"drawer_middle": Wish.SHUT}, from_start=False)
    WORLD.advance(1.0)
    assert WORLD.objects()["vitamins"][0] == pytest.approx(vitamins, abs=0.01)


def test_a_thing_is_put_at_a_height_and_a_robot_that_rolls_on_its_floor() -> None:
    STAGE.arrange({"apple": Spot(Pose2D(2.3, 2.15, 0.0), 1.20), "hebe": Spot(FRIDGE)}, from_start=True)
    WORLD.advance(1.0)
    assert WORLD.objects()["apple"][0] == pytest.approx((2.3, 2.15, 1.191), abs=0.02)
    assert where() == pytest.approx((FRIDGE.x, FRIDGE.y, FRIDGE.yaw), abs=1e-3)
    for wishes, says in (
        ({"atlas": Spot(FRIDGE)}, "stands fast"),
        ({"fridge": Spot(FRIDGE)}, "does not stand"),
        ({"oven": Wish.SLIP}, "does not stand"),
        ({"hebe": Wish.SLIP}, "no hand holds"),
        ({"hebe": Spot(FRIDGE, 0.5)}, "no height"),
        ({"robot": Spot(FRIDGE)}, "there is no 'robot'"),
    ):
        with pytest.raises(SimWorldError, match=says):
            STAGE.arrange(wishes, from_start=False)


def test_what_a_hand_holds_slips_when_told_and_only_once() -> None:
    """Atlas holds the apple above the table: it stays in the hand for seconds, and falls once it is told to slip."""
    up = {"joint2": 0.6, "joint4": 1.9, "joint6": math.pi - 2.5}

    def grasp() -> None:
        ATLAS.place({**ATLAS.home, **up})
        WORLD.step()
        x, y, z = WORLD.data.site("atlas/grip").xpos
        STAGE.arrange({"apple": Spot(Pose2D(float(x), float(y), 0.0), float(z))}, from_start=False)
        ATLAS.set_joint_targets({"left": 0.0, "right": 0.0})
        for _ in range(20):  # held up until the fingers are shut
            WORLD.advance(0.01)
            STAGE.arrange({"apple": Spot(Pose2D(float(x), float(y), 0.0), float(z))}, from_start=False)

    grasp()
    WORLD.advance(3.0)
    held = WORLD.objects()["apple"][0][2]
    STAGE.arrange({"apple": Wish.SLIP}, from_start=False)
    WORLD.advance(1.5)
    assert WORLD.objects()["apple"][0][2] < held - 0.05
    grasp()
    WORLD.advance(3.0)
    assert WORLD.objects()["apple"][0][2] == pytest.approx(held, abs=0.02), "the next hold is as firm as the first"


# -- what is seen -----------------------------------------------------------------------------------------------------


def test_what_lies_open_before_a_camera_is_seen_where_it_is() -> None:
    table = {"apple", "orange", "hamburger", "green_medication", "red_medication", "cup"}
    assert table | {"drawer_top_handle", "drawer_middle_handle"} <= seen("atlas")
    apple = Sight(WORLD, ATLAS, 320, 240).seen()["apple"]
    assert apple.position == pytest.approx(WORLD.objects()["apple"][0]) and apple.size == pytest.approx((0.07,) * 3)


def test_nothing_behind_a_shut_door_is_seen_and_all_behind_an_open_one() -> None:
    HEBE.put(FRIDGE)
    WORLD.advance(0.1)
    inside = {"tea", "water", "milk"}
    assert "fridge_handle" in seen("hebe") and not (inside | {"vitamins"}) & (seen("hebe") | seen("atlas"))
    STAGE.arrange({"fridge": Wish.OPEN, "drawer_middle": Wish.OPEN}, from_start=False)
    WORLD.advance(0.2)
    assert inside <= seen("hebe") and "vitamins" in seen("atlas")


def test_an_open_door_is_seen_though_it_hides_its_handle() -> None:
    for point, door in ((FRIDGE, "fridge"), (OVEN, "oven")):
        HEBE.put(point)
        for wish in (Wish.SHUT, Wish.OPEN):
            STAGE.arrange({door: wish}, from_start=False)
            WORLD.advance(0.1)
            seen = Sight(WORLD, HEBE, 320, 240).seen()
            assert seen[f"{door}_handle"].position == pytest.approx(WORLD.objects()[f"{door}_handle"][0]), (door, wish)


def test_what_is_beside_the_picture_or_hidden_by_the_robot_itself_is_not_seen() -> None:
    HEBE.put(FRIDGE)
    WORLD.advance(0.1)
    assert "apple" not in seen("hebe"), "it is behind her"
    ATLAS.place({**ATLAS.home, "joint1": -2.5})  # its wrist camera looks elsewhere
    sight = Sight(WORLD, ATLAS, 320, 240)
    assert "apple" in sight.seen()
    eye = WORLD.data.cam_xpos[WORLD.model.camera("atlas/table_camera").id]
    over = np.array(WORLD.objects()["apple"][0]) * 0.85 + eye * 0.15
    STAGE.arrange({"cup": Spot(Pose2D(float(over[0]), float(over[1]), 0.0), float(over[2]))}, from_start=False)
    assert "apple" not in sight.seen() and "cup" in sight.seen()


def test_both_cameras_show_things_in_their_colours() -> None:
    HEBE.put(FRIDGE)
    STAGE.arrange({"fridge": Wish.OPEN}, from_start=False)
    WORLD.advance(0.2)
    try:
        table, fridge = WORLD.render("atlas/table_camera", 320, 240), WORLD.render("hebe/head_camera", 320, 240)
    except SimWorldError as error:
        pytest.skip(str(error))
    finally:
        WORLD.close()
    red = (table[..., 0] > 120) & (table[..., 1:].max(axis=2) < 60)
    blue = (fridge[..., 2] > 100) & (fridge[..., :2].max(axis=2) < 90)
    assert red.sum() > 30 and blue.sum() > 30
