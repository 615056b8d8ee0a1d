# SPDX-License-Identifier: Apache-2.0
"""Kalos's body, gait and building: physics carries every step, nothing falls over, the sensors tell what is there."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import numpy as np
import pytest
from kalos_sim import MODEL, KalosSim, kalos
from sim_probe import arrived, joint_limits, upright

from ghostshell_ros.sim.gait import JOINTS, Gait
from ghostshell_ros.sim.parts import Legged
from ghostshell_ros.sim.world import ROOT, SimWorld, SimWorldError
from skill_kernel.robot import RobotConfig

pytestmark = pytest.mark.component


@pytest.fixture
def robot() -> KalosSim:
    return kalos()


def test_model_and_urdf_agree_on_joints_and_masses(robot: KalosSim) -> None:
    urdf = ElementTree.parse(ROOT / "robots/kalos/kalos.urdf").getroot()
    limits = joint_limits(robot.world)
    assert tuple(limits) == JOINTS
    ranges = {
        j.get("name"): (float(j.find("limit").get("lower")), float(j.find("limit").get("upper")))
        for j in urdf.findall("joint")
        if j.get("type") == "revolute"
    }
    assert ranges == {name: pytest.approx(limit) for name, limit in limits.items()}
    mass = sum(float(m.get("value")) for m in urdf.iter("mass"))
    assert mass == pytest.approx(float(robot.world.model.body_subtreemass[robot.world.robot.base_id]), rel=1e-3)
    assert 14 < mass < 17


def test_without_a_command_it_stands_still_and_feels_gravity(robot: KalosSim) -> None:
    robot.go(3.0)
    base = robot.world.robot.base()
    assert robot.gait.state == "stand" and robot.tilt < 0.03
    assert 0.27 < base.height < 0.31
    assert math.hypot(base.pose.x, base.pose.y) < 0.03
    assert robot.world.robot.sensor("accelerometer") == pytest.approx((0.0, 0.0, 9.81), abs=0.5)


@pytest.mark.parametrize("speed", [0.5, *(pytest.param(v, marks=pytest.mark.slow) for v in (0.3, -0.3))])
def test_it_walks_a_metre_as_far_as_its_velocity_says(robot: KalosSim, speed: float) -> None:
    robot.go(0.5, (speed, 0.0, 0.0))
    before = robot.world.robot.base().pose
    robot.go(1.0 / abs(speed), (speed, 0.0, 0.0))
    after = robot.world.robot.base().pose
    assert after.x - before.x == pytest.approx(math.copysign(1.0, speed), abs=0.1)
    assert abs(after.y - before.y) < 0.1 and robot.tilt < 0.2 and robot.lowest > 0.25


def test_it_walks_sideways(robot: KalosSim) -> None:
    robot.go(3.0, (0.0, 0.2, 0.0))
    pose = robot.world.robot.base().pose
    assert 0.45 < pose.y < 0.7 and abs(pose.x) < 0.12 and abs(pose.yaw) < 0.2


@pytest.mark.parametrize("turn", [0.8, pytest.param(-0.8, marks=pytest.mark.slow)])
def test_it_turns_a_right_angle_on_the_spot(robot: KalosSim, turn: float) -> None:
    robot.go(math.pi / 2 / abs(turn), (0.0, 0.0, turn))
    robot.go(0.2, (0.0, 0.0, 0.0))
    robot.until("stand", 1.5)
    assert math.degrees(robot.turned) == pytest.approx(math.copysign(90, turn), abs=15)
    pose = robot.world.robot.base().pose
    assert math.hypot(pose.x, pose.y) < 0.15


def test_silence_is_a_stable_stance_soon(robot: KalosSim) -> None:
    robot.go(2.0, (0.5, 0.0, 0.0))
    here = robot.world.robot.base().pose
    assert robot.until("stand", 1.6) > 0.2
    stopped = robot.world.robot.base().pose
    assert math.dist((here.x, here.y), (stopped.x, stopped.y)) < 0.35
    robot.go(2.0)
    rested = robot.world.robot.base().pose
    assert math.dist((rested.x, rested.y), (stopped.x, stopped.y)) < 0.03 and robot.tilt < 0.2


def test_a_zero_velocity_stops_it_sooner_than_silence(robot: KalosSim) -> None:
    robot.go(2.0, (0.5, 0.0, 0.0))
    here = robot.world.robot.base().pose.x
    robot.go(1.0, (0.0, 0.0, 0.0))
    assert robot.world.robot.base().pose.x - here < 0.2
    assert robot.gait.velocity == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("there", [pytest.param((0.6, 0.0, 0.0), marks=pytest.mark.slow), (0.6, 0.3, 1.5)], ids=str)
def test_sudden_reversals_do_not_throw_it(robot: KalosSim, there: tuple[float, float, float]) -> None:
    for sign in (1, -1, 1, -1):
        robot.go(0.6, (sign * there[0], sign * there[1], sign * there[2]))
    robot.until("stand", 2.0)
    assert robot.tilt < 0.35 and robot.lowest > 0.24


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_random_commands_do_not_throw_it(seed: int) -> None:
    random, robot = np.random.default_rng(seed), kalos()
    for _ in range(14):
        velocity = (random.uniform(-2, 2), random.uniform(-1, 1), random.uniform(-3, 3))
        robot.go(float(random.uniform(0.1, 0.8)), velocity)
        _keep_in_the_hallway(robot)
    robot.until("stand", 2.0)
    assert robot.tilt < 0.5 and robot.lowest > 0.22


def _keep_in_the_hallway(robot: KalosSim) -> None:
    """Put it back into the middle, as it moves: the walls are not what is tested here."""
    robot.world.data.qpos[robot.world.robot._base_qpos : robot.world.robot._base_qpos + 2] = 3.0, 0.0


def test_numbers_that_are_none_are_a_zero_velocity() -> None:
    gait = Gait()
    gait.command(0.3, 0.0, 0.0)
    gait.command(math.nan, 0.0, 0.0)
    gait.set_attitude(math.inf, 0.0, 0.0)
    assert gait._wish.tolist() == [0.0, 0.0, 0.0] and gait._attitude_wish.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="no posture 'fly'"):
        gait.set_posture("fly")


def test_sitting_and_lying_lower_it_and_it_gets_up_again(robot: KalosSim) -> None:
    standing = robot.world.robot.base().height
    heights, pitches = {}, {}
    for posture in ("sit", "stand", "lie", "sit", "lie", "stand"):
        robot.until(posture, 2.0)
        robot.go(0.6)
        heights[posture], pitches[posture] = robot.world.robot.base().height, robot.world.robot.base().pitch
    assert heights["stand"] == pytest.approx(standing, abs=0.02)
    assert heights["lie"] < 0.13 < heights["sit"] < standing - 0.04
    assert pitches["sit"] < -0.3 and abs(pitches["lie"]) < 0.1 and abs(pitches["stand"]) < 0.08


@pytest.mark.parametrize("held", ["told to hold", "not told any more"])
def test_half_way_to_a_posture_it_stays_until_it_is_told_to_go_on_or_back(robot: KalosSim, held: str) -> None:
    robot.go(0.6, posture="sit")
    if held == "told to hold":
        robot.gait.hold()
    robot.go(0.5)
    joints = robot.world.robot.joint_positions()
    robot.go(2.0)
    assert robot.gait.state == "moving" and robot.world.robot.joint_positions() == pytest.approx(joints, abs=0.02)
    assert robot.tilt < 0.5 and upright(robot.world)
    robot.go(0.1, posture="lie")
    step = [abs(b - joints[name]) for name, b in robot.world.robot.joint_positions().items()]
    assert max(step) < 0.25, "from where it is, not in a leap"
    robot.until("stand", 2.0)


def test_a_held_attitude_stays(robot: KalosSim) -> None:
    robot.gait.set_attitude(0.0, 0.4, 0.0)
    robot.go(0.1)
    robot.gait.hold()
    robot.go(0.3)
    pitch = robot.world.robot.base().pitch
    robot.go(1.0)
    assert robot.world.robot.base().pitch == pytest.approx(pitch, abs=0.03) and pitch < 0.25


def test_from_a_walk_it_sits_down_by_itself_and_then_ignores_velocities(robot: KalosSim) -> None:
    robot.go(1.5, (0.4, 0.0, 0.0))
    robot.go(3.0, (0.4, 0.0, 0.0), posture="sit")
    assert robot.gait.state == "sit"
    here = robot.world.robot.base().pose.x
    robot.go(1.0, (0.4, 0.0, 0.0))
    assert robot.world.robot.base().pose.x == pytest.approx(here, abs=0.02)


def test_attitudes_turn_the_trunk_over_standing_feet(robot: KalosSim) -> None:
    for wish in ((0.0, 0.3, 0.0), (0.0, -0.3, 0.0), (0.25, 0.0, 0.0), (0.0, 0.0, 0.3)):
        robot.gait.set_attitude(*wish)
        robot.go(0.8)
        base = robot.world.robot.base()
        assert (base.roll, base.pitch, base.pose.yaw) == pytest.approx(wish, abs=0.1)
        assert math.hypot(base.pose.x, base.pose.y) < 0.04
    robot.gait.set_attitude(9.0, 9.0, 9.0)
    robot.go(1.0)
    assert upright(robot.world) and robot.world.robot.base().pitch < 0.55


def test_the_lidar_sees_walls_and_ball_but_never_the_robot(robot: KalosSim) -> None:
    ranges = robot.lidar.scan()
    ahead, left, behind, right = (ranges[i] for i in (180, 270, 0, 90))
    assert ahead == pytest.approx(11.5 - 0.28, abs=0.1)
    assert (left, right) == pytest.approx((1.0, 1.0), abs=0.05) and behind == pytest.approx(1.78, abs=0.05)
    robot.gait.set_attitude(0.0, 0.4, 0.0)
    robot.go(0.8)
    assert robot.lidar.scan()[180] == pytest.approx(11.2, abs=0.2), "the scan is level whatever the trunk does"


def test_the_door_slides_shut_and_the_person_comes_into_view(robot: KalosSim) -> None:
    assert set(robot.stage.movers) == {"person", "office_door"}
    before = robot.lidar.scan()
    for name in robot.stage.movers:
        robot.stage.move(name, True)
    robot.go(6.0)
    assert all(arrived(robot.stage, name) for name in robot.stage.movers)
    objects = robot.world.objects()
    assert objects["person"][0][:2] == pytest.approx([7.0, -0.1], abs=0.01)
    assert objects["office_door"][0][0] == pytest.approx(5.25, abs=0.01)
    nearer = before - robot.lidar.scan()
    assert nearer.max() > 0.5, "somebody stands in the way of a ray"
    robot.stage.move("person", False)
    robot.go(6.0)
    assert robot.world.objects()["person"][0][:2] == pytest.approx([7.9, -2.7], abs=0.01)


def test_the_door_does_not_close_on_the_robot(robot: KalosSim) -> None:
    q = robot.world.robot._base_qpos
    robot.world.data.qpos[q : q + 2] = 5.25, 1.05
    robot.stage.move("office_door", True)
    robot.go(2.0)
    assert not arrived(robot.stage, "office_door") and robot.world.objects()["office_door"][0][0] > 6.4


def test_waypoints_have_room_to_stand_in(robot: KalosSim) -> None:
    """The places that are known to the robots' files; map, odometry and world are one where it starts."""
    config = RobotConfig.load("kalos")
    assert config.base is not None and len(config.waypoints) >= 4
    q = robot.world.robot._base_qpos
    for name, place in config.waypoints.items():
        robot.world.reset()
        robot.world.data.qpos[q : q + 2] = place.x, place.y
        robot.go(0.1)
        nearest = _from_the_middle(robot)
        assert nearest > config.base.radius + 0.05, f"{name}: {nearest:.2f} m to the next thing"


def _from_the_middle(robot: KalosSim) -> float:
    """Least distance in m of what the lidar sees from the robot's middle."""
    ranges, angles = robot.lidar.scan(), robot.lidar.angles
    x, y = 0.28 + ranges * np.cos(angles), ranges * np.sin(angles)
    return float(np.nanmin(np.hypot(x, y)))


def test_the_same_commands_give_the_same_world_to_the_last_bit() -> None:
    ends = []
    for _ in range(2):
        robot = kalos()
        robot.go(1.5, (0.4, 0.1, 0.3))
        ends.append(robot.world.data.qpos.copy())
    assert (ends[0] == ends[1]).all()


def test_unknown_worlds_and_bodies_are_refused_in_one_sentence() -> None:
    with pytest.raises(SimWorldError, match="no world 'moon'; the worlds are building, desk"):
        SimWorld(MODEL, world="moon")
    with pytest.raises(SimWorldError, match="gait needs the joint"):
        world = SimWorld("robots/coco/coco.xml")
        Legged(world, world.robot)


def test_the_front_camera_sees_the_person_in_the_hallway(robot: KalosSim) -> None:
    try:
        empty = robot.world.render("front_camera", 320, 240)
    except SimWorldError as error:
        pytest.skip(str(error))
    robot.stage.move("person", True)
    robot.go(6.0)
    shown = robot.world.render("front_camera", 320, 240)
    magenta = [((p[..., 0] > 90) & (p[..., 2] > 70) & (p[..., 1] < 50)).sum() for p in (empty, shown)]
    assert magenta[0] == 0 and magenta[1] > 20
