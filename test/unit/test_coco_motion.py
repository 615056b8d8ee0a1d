# SPDX-License-Identifier: Apache-2.0
"""Measure in simulation what CoCo's legs really do."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from coco_sim import CocoSim, Measured
from lockstep import SimStop
from sim_probe import joint_targets, tilt, upright

from ghostshell_ros.robots.coco import motions
from ghostshell_ros.robots.coco.body import BodyError
from skill_kernel.skills.drivers import DriverResult, joint_trajectory

pytestmark = pytest.mark.component

FELL_DEG = 30.0


def _stood(measured: Measured) -> None:
    assert measured.result.ok, measured.result.message
    assert measured.peak_tilt < FELL_DEG
    assert measured.beyond_limits < 0.03


@pytest.mark.parametrize("angle", [90, -90, 45, 180, -30, 360])
def test_it_turns_by_the_angle(angle: float) -> None:
    measured = CocoSim().run("spider_rotate", angle=angle)
    _stood(measured)
    assert measured.yaw == pytest.approx(angle, abs=8)
    assert math.hypot(measured.forward, measured.sideways) < 4


@pytest.mark.parametrize("distance", [20, 40, -20, -40, 5])
def test_it_walks_the_distance_straight(distance: float) -> None:
    measured = CocoSim().run("spider_run_distance", distance=distance)
    _stood(measured)
    assert measured.forward == pytest.approx(distance, abs=3)
    assert abs(measured.sideways) < 3
    assert abs(measured.yaw) < 8
    assert measured.peak_tilt < 12


@pytest.mark.parametrize(
    ("speed", "amplitude"),
    [(100, 100), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in [(0, 0), (100, 0), (0, 100)])],
)
def test_it_walks_the_distance_at_any_speed_and_amplitude(speed: float, amplitude: float) -> None:
    measured = CocoSim().run("spider_run_distance", speed=speed, amplitude=amplitude, distance=40)
    _stood(measured)
    assert measured.forward == pytest.approx(40, abs=4)


@pytest.mark.parametrize("distance", [150, pytest.param(-150, marks=pytest.mark.slow)])
def test_a_long_walk_comes_back_to_its_course(distance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    real, pushed = motions.walk, []

    def shoved(start, aim, speed, amplitude, heading_error):
        """Let the first steps go astray by 17 degrees or so."""
        pushed.append(heading_error)
        return real(start, aim, speed, amplitude, heading_error if len(pushed) > 1 else 0.3)

    monkeypatch.setattr(motions, "walk", shoved)
    measured = CocoSim().run("spider_run_distance", distance=distance)
    _stood(measured)
    assert measured.forward == pytest.approx(distance, abs=5)
    assert abs(measured.sideways) < 3


def test_without_odometry_it_walks_and_turns_nearly_as_far() -> None:
    walked = CocoSim(with_odometry=False).run("spider_run_distance", distance=20)
    turned = CocoSim(with_odometry=False).run("spider_rotate", angle=90)
    _stood(walked)
    _stood(turned)
    assert walked.forward == pytest.approx(20, abs=5)
    assert turned.yaw == pytest.approx(90, abs=15)


def test_odometry_makes_up_for_a_gait_that_slips(monkeypatch: pytest.MonkeyPatch) -> None:
    real = motions.metres_per_rad
    monkeypatch.setattr(motions, "metres_per_rad", lambda step_s, sweep: real(step_s, sweep) * 1.4)
    assert CocoSim(with_odometry=False).run("spider_run_distance", distance=30).forward < 25
    assert CocoSim().run("spider_run_distance", distance=30).forward == pytest.approx(30, abs=4)


def test_sitting_lowers_the_body_and_standing_raises_it() -> None:
    sim = CocoSim()
    heights = {}
    for posture in ("normal", "high", "low", "wide"):
        measured = sim.run("spider_stand", posture=posture)
        _stood(measured)
        heights[posture] = measured.height
    heights["sit"] = sim.run("spider_sit").height
    heights["lie"] = sim.run("spider_sit", style="lie").height
    assert heights["high"] > heights["normal"] + 1 > heights["low"] + 2 > heights["sit"] + 3
    assert heights["lie"] < 3


def test_sitting_like_a_dog_lifts_the_chest() -> None:
    measured = CocoSim().run("spider_sit", style="dog")
    assert -30 < measured.pitch < -12
    assert abs(measured.roll) < 3


@pytest.mark.parametrize("style", ["normal", "dog", "lie"])
def test_a_seated_robot_stands_up_before_it_walks(style: str) -> None:
    sim = CocoSim()
    sim.run("spider_sit", style=style)
    measured = sim.run("spider_run_distance", distance=20)
    _stood(measured)
    assert measured.height > 6
    assert measured.forward == pytest.approx(20, abs=5)
    assert measured.seconds > measured.nominal_s + 0.9 * motions.MOVE_S


@pytest.mark.parametrize("direction", ["left", "right", "forward", "backward"])
def test_it_leans_to_the_side_named_and_comes_back(direction: str) -> None:
    """REP 103: a positive roll is right side down, a positive pitch is nose down."""
    measured = CocoSim().run("spider_body_lean", direction=direction)
    _stood(measured)
    towards, away, crosswise = {
        "left": (-measured.least_roll, measured.peak_roll, measured.peak_pitch),
        "right": (measured.peak_roll, -measured.least_roll, measured.peak_pitch),
        "forward": (measured.peak_pitch, -measured.least_pitch, measured.peak_roll),
        "backward": (-measured.least_pitch, measured.peak_pitch, measured.peak_roll),
    }[direction]
    assert 7 < towards < 15
    assert away < 2 and crosswise < 3
    assert measured.end_tilt < 2


@pytest.mark.parametrize("leg", [1, 2, 3, 4])
def test_a_knocking_leg_leaves_the_ground_while_the_others_carry(leg: int) -> None:
    sim = CocoSim()
    highest = dict.fromkeys((1, 2, 3, 4), 0.0)
    observe = sim._observe

    def watch() -> None:
        observe()
        if 0.6 < sim.world.time < 1.8:
            for n in highest:
                highest[n] = max(highest[n], float(sim.world.data.geom(f"foot{n}").xpos[2]))

    sim._observe = watch
    measured = sim.run("spider_single_leg_knock", leg=leg, times=3)
    _stood(measured)
    assert highest[leg] > 0.04
    assert all(height < 0.015 for n, height in highest.items() if n != leg), highest
    assert measured.peak_tilt < 8


def test_push_ups_move_the_body_up_and_down() -> None:
    sim = CocoSim()
    heights: list[float] = []
    observe = sim._observe
    sim._observe = lambda: (observe(), heights.append(sim.world.robot.base().height * 100))
    measured = sim.run("spider_push_up", duration=4)
    _stood(measured)
    assert min(heights) < 4 and max(heights) > 7.5
    downs = sum(1 for a, b in pairwise(heights) if a >= 5 > b)
    assert downs == 3


EXTREMES = [
    pytest.param("spider_run_distance", {"distance": 200, "speed": 100, "amplitude": 100}, marks=pytest.mark.slow),
    pytest.param("spider_run_distance", {"distance": -200, "speed": 0, "amplitude": 100}, marks=pytest.mark.slow),
    pytest.param("spider_rotate", {"angle": -360}, marks=pytest.mark.slow),
    ("spider_wave_move", {"speed": 100, "amplitude": 100, "times": 6}),
    pytest.param("spider_wave_move", {"speed": 0, "amplitude": 0, "times": 1}, marks=pytest.mark.slow),
    ("spider_shake_ass", {"speed": 100, "amplitude": 100, "times": 8}),
    pytest.param("spider_shake_ass", {"speed": 0, "amplitude": 100, "times": 1}, marks=pytest.mark.slow),
    ("spider_push_up", {"duration": 0}),
    *(("spider_arm_pull", {"direction": d, "speed": 100}) for d in ("left", "right", "forward", "backward")),
    ("spider_arm_knock", {"speed": 100, "times": 6}),
    ("spider_single_leg_knock", {"leg": 3, "speed": 0, "times": 1}),
    ("spider_body_lean", {"direction": "backward", "duration": 0}),
    ("spider_stand", {"posture": "wide", "duration": 0}),
    ("spider_sit", {"style": "lie", "duration": 0}),
]


@pytest.mark.parametrize(("name", "arguments"), EXTREMES, ids=lambda v: str(v))
def test_no_extreme_makes_it_fall_or_passes_a_limit(name: str, arguments: dict) -> None:
    sim = CocoSim()
    measured = sim.run(name, **arguments)
    _stood(measured)
    assert measured.peak_speed <= 6.0 + 1e-6
    sim.settle()
    assert math.degrees(tilt(sim.world)) < 3


STOPPED = [
    ("spider_run_distance", {"distance": 200, "speed": 100, "amplitude": 100}),
    ("spider_run_distance", {"distance": -100}),
    ("spider_rotate", {"angle": 360}),
    ("spider_wave_move", {"amplitude": 100, "times": 9}),
    ("spider_shake_ass", {"amplitude": 100, "times": 9}),
    ("spider_push_up", {"duration": 9}),
    ("spider_arm_pull", {"times": 9}),
    ("spider_arm_knock", {"times": 9}),
    ("spider_single_leg_knock", {"leg": 4, "times": 9}),
    ("spider_body_lean", {"duration": 9}),
    ("spider_stand", {"posture": "high", "duration": 9}),
    ("spider_sit", {"duration": 9}),
]


@pytest.mark.parametrize(("name", "arguments"), STOPPED, ids=lambda v: str(v))
@pytest.mark.parametrize("after", [0.1, 1.31, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.0, 0.46, 0.73, 2.2))])
def test_stopped_at_any_moment_it_stands_stable_within_its_stop_time(name: str, arguments: dict, after: float) -> None:
    sim = CocoSim()
    measured = sim.run(name, stop_after=after, **arguments)
    assert measured.result.interrupted and not measured.result.ok
    assert measured.seconds - after <= measured.stop_bound_s
    assert measured.peak_tilt < FELL_DEG
    still = sim.world.robot.base().pose
    sim.settle(1.0)
    feet = [float(sim.world.data.geom(f"foot{leg}").xpos[2]) for leg in (1, 2, 3, 4)]
    assert upright(sim.world) and math.degrees(tilt(sim.world)) < 3
    assert name == "spider_sit" or max(feet) < 0.012
    moved = sim.world.robot.base().pose
    assert math.hypot(moved.x - still.x, moved.y - still.y) < 0.02


def test_what_it_reports_when_stopped_is_how_far_it_came() -> None:
    sim = CocoSim()
    measured = sim.run("spider_run_distance", distance=100, stop_after=2.0)
    reported = float(measured.result.message.split()[1])
    assert reported == pytest.approx(measured.forward, abs=0.2)
    assert 10 < reported < 60
    measured = CocoSim().run("spider_rotate", angle=360, stop_after=2.0)
    assert float(measured.result.message.split()[1]) == pytest.approx(measured.yaw, abs=1)


def test_the_test_drivers_clamp_speed_and_range_as_the_gate_does() -> None:
    sim = CocoSim()
    sim.drivers.move_joints(trajectory=joint_trajectory(("leg1_knee",), (0.02,), ((9.0,),)), stop=SimStop(sim.world))
    assert joint_targets(sim.world)["leg1_knee"] == pytest.approx(6.0 * 0.02)
    sim.drivers.move_joints(trajectory=joint_trajectory(("leg1_knee",), (0.5,), ((9.0,),)), stop=SimStop(sim.world))
    assert joint_targets(sim.world)["leg1_knee"] == pytest.approx(1.3)


def test_nothing_moves_before_the_joints_have_been_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = CocoSim()
    before = joint_targets(sim.world)
    monkeypatch.setattr(sim.drivers, "joint_positions", dict)
    with pytest.raises(BodyError, match="not been measured"):
        sim.run("spider_stand", posture="high")
    assert joint_targets(sim.world) == before


def test_a_driver_that_refuses_fails_the_skill_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = CocoSim()
    halted = DriverResult(False, 403, "the safety gate is latched: clear the halt")
    monkeypatch.setattr(sim.drivers, "move_joints", lambda *args, **kwargs: halted)
    for name in ("spider_run_distance", "spider_sit", "head_act", "spider_push_up"):
        result = sim.run(name).result
        assert not result.ok and not result.interrupted
        assert result.error_code == 403 and "clear the halt" in result.message
