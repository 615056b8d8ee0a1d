# SPDX-License-Identifier: Apache-2.0
"""Gait functions: trajectories start where the legs are, stay within limits and speeds, and end standing."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial

import pytest
from coco_sim import config

from ghostshell_ros.drivers.trajectory import Trajectory
from ghostshell_ros.robots.coco import motions
from ghostshell_ros.robots.coco.motions import LEGS, Pose

SOMEWHERE = {joint: 0.05 * (k % 5 - 2) for k, joint in enumerate(motions.JOINTS)}


def _freed(act: Callable[[Pose, int], Trajectory], leg: int) -> Callable[[Pose], Trajectory]:
    def motion(start: Pose) -> Trajectory:
        free = motions.free_leg(start, leg)
        done = free.then(act(free.end(), leg))
        return done.then(motions.unfree_leg(done.end(), leg))

    return motion


MOTIONS: dict[str, Callable[[Pose], Trajectory]] = {
    **{f"stand {posture}": partial(motions.change_to, pose) for posture, pose in motions.STAND.items()},
    **{f"sit {style}": partial(motions.change_to, pose) for style, pose in motions.SIT.items()},
    **{
        f"walk {cm} {speed} {amplitude}": lambda s, d=cm, v=speed, a=amplitude: motions.walk(s, d / 100, v, a, 0.3)
        for cm in (-200, -20, 3, 20, 200)
        for speed in (0, 50, 100)
        for amplitude in (0, 50, 100)
    },
    **{f"turn {degrees}": lambda s, d=degrees: motions.turn(s, math.radians(d)) for degrees in (-360, -45, 5, 90, 1000)},
    **{f"lean {side}": lambda s, d=side: motions.lean(s, d) for side in ("left", "right", "forward", "backward")},
    **{f"wave {p}": lambda s, p=p: motions.wave(s, p, p, 3) for p in (0, 100)},
    **{f"shake {p}": lambda s, p=p: motions.shake(s, p, p, 3) for p in (0, 100)},
    "push up": lambda s: motions.push_up(s, 2),
    **{f"knock {leg}": _freed(lambda s, n: motions.knock(s, n, 100, 2, 0.55), leg) for leg in LEGS},
    **{f"pull {leg}": _freed(lambda s, n: motions.pull(s, n, 100, 2), leg) for leg in (1, 2)},
    "settle": motions.settle,
}


@pytest.mark.parametrize("name", MOTIONS)
def test_a_motion_starts_at_the_present_pose_and_keeps_limits_and_speeds(name: str) -> None:
    trajectory = MOTIONS[name](SOMEWHERE)
    limits = config().joints
    assert dict(zip(trajectory.joints, trajectory.positions[0], strict=True)) == pytest.approx(SOMEWHERE)
    assert trajectory.times_s[0] == 0.0
    for k in range(1, len(trajectory.times_s)):
        dt = trajectory.times_s[k] - trajectory.times_s[k - 1]
        assert dt > 0
        for i, joint in enumerate(trajectory.joints):
            here, before = trajectory.positions[k][i], trajectory.positions[k - 1][i]
            assert limits[joint].lower <= here <= limits[joint].upper, (joint, here)
            assert abs(here - before) / dt <= limits[joint].max_velocity, (joint, trajectory.times_s[k])


@pytest.mark.parametrize("name", [n for n in MOTIONS if n.split()[0] in ("walk", "turn", "wave", "knock", "pull")])
def test_gaits_end_in_the_stand(name: str) -> None:
    assert MOTIONS[name](SOMEWHERE).end() == pytest.approx(motions.STAND["normal"], abs=1e-9)


def test_settle_puts_all_feet_down_and_leaves_the_coxae() -> None:
    rng = random.Random(4)
    pose = {joint: rng.uniform(-0.6, 0.6) for joint in motions.JOINTS}
    end = motions.settle(pose).end()
    assert all(end[f"leg{leg}_knee"] == 0.0 for leg in LEGS)
    assert all(end[f"leg{leg}_coxa"] == pose[f"leg{leg}_coxa"] for leg in LEGS)


def test_a_walk_lifts_only_one_diagonal_pair_at_a_time() -> None:
    trajectory = motions.walk({}, 0.4, 60, 60)
    knees = [[row[motions.JOINTS.index(f"leg{leg}_knee")] for leg in LEGS] for row in trajectory.positions]
    lifted = [tuple(leg for leg, knee in zip(LEGS, row, strict=True) if knee > 0.01) for row in knees]
    assert {pair for pair in lifted if pair} == {(1, 4), (2, 3)}


def test_times_foretold_are_those_of_the_trajectories() -> None:
    for distance in (0.03, 0.2, -0.35):
        assert motions.walk_stride(60, 60).time_s(distance) == pytest.approx(motions.walk({}, distance, 60, 60).duration_s)
    for angle in (0.1, 1.57, -3.1):
        assert motions.TURN.time_s(angle) == pytest.approx(motions.turn({}, angle).duration_s)


def test_trajectories_of_different_joints_are_not_joined() -> None:
    with pytest.raises(ValueError, match="different joints"):
        motions.hold({}, 1.0, ("head_yaw",)).then(motions.hold({}, 1.0, ("head_pitch",)))
