# SPDX-License-Identifier: Apache-2.0
"""Trajectories are checked before they play and interpolated in between."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghostshell_ros.drivers.trajectory import MotionCode, Trajectory
from skill_kernel.robot import JointConfig
from skill_kernel.skills.drivers import DriverRefusal

KNOWN = {"a", "b", "c"}


def line(*joints: str, seconds: float = 1.0, to: float = 1.0) -> Trajectory:
    return Trajectory.checked(KNOWN, joints, [seconds], [[to] * len(joints)])


@pytest.mark.parametrize(
    ("joints", "times", "positions", "code"),
    [
        (["tail"], [1.0], [[0.0]], MotionCode.UNKNOWN_JOINT),
        ([], [], [], MotionCode.BAD_TRAJECTORY),
        (["a"], [], [], MotionCode.BAD_TRAJECTORY),
        (["a", "a"], [1.0], [[0.0, 0.0]], MotionCode.BAD_TRAJECTORY),
        (["a"], [1.0, 1.0], [[0.0], [0.0]], MotionCode.BAD_TRAJECTORY),
        (["a"], [2.0, 1.0], [[0.0], [0.0]], MotionCode.BAD_TRAJECTORY),
        (["a"], [-1.0], [[0.0]], MotionCode.BAD_TRAJECTORY),
        (["a"], [math.nan], [[0.0]], MotionCode.BAD_TRAJECTORY),
        (["a"], [1.0], [[math.nan]], MotionCode.BAD_TRAJECTORY),
        (["a"], [1.0], [[math.inf]], MotionCode.BAD_TRAJECTORY),
        (["a", "b"], [1.0], [[0.0]], MotionCode.BAD_TRAJECTORY),
        (["a"], [1.0], [[0.0], [1.0]], MotionCode.BAD_TRAJECTORY),
    ],
)
def test_what_is_not_a_trajectory_is_refused(
    joints: list[str], times: list[float], positions: list[list[float]], code: MotionCode
) -> None:
    with pytest.raises(DriverRefusal) as caught:
        Trajectory.checked(KNOWN, joints, times, positions)
    assert caught.value.code is code


def test_positions_run_straight_from_the_start_through_the_points() -> None:
    made = Trajectory.checked(KNOWN, ["a", "b"], [1.0, 3.0], [[1.0, 0.0], [2.0, -1.0]])
    assert made.sample(0.5, [0.0, 0.0]) == (0.5, 0.0)
    assert made.sample(1.0, [0.0, 0.0]) == (1.0, 0.0)
    assert made.sample(2.0, [0.0, 0.0]) == (1.5, -0.5)
    assert made.sample(9.0, [0.0, 0.0]) == (2.0, -1.0)


def test_a_point_at_time_zero_is_where_it_starts() -> None:
    made = Trajectory.checked(KNOWN, ["a"], [0.0, 1.0], [[0.3], [0.5]])
    assert made.sample(0.0, [0.0]) == (0.3,)
    assert made.sample(0.5, [0.0]) == pytest.approx((0.4,))


@given(
    rows=st.lists(st.tuples(st.floats(0.01, 2.0), st.floats(-3, 3)), min_size=1, max_size=8),
    at=st.floats(-1, 20),
    start=st.floats(-3, 3),
)
def test_no_sample_lies_outside_what_was_given(rows: list[tuple[float, float]], at: float, start: float) -> None:
    times = [sum(step for step, _ in rows[: k + 1]) for k in range(len(rows))]
    made = Trajectory.checked(KNOWN, ["a"], times, [[position] for _, position in rows])
    every = [start, *(position for _, position in rows)]
    assert min(every) - 1e-9 <= made.sample(at, [start])[0] <= max(every) + 1e-9


def test_nothing_moves_before_the_start() -> None:
    assert line("a", to=0.7).sample(-0.5, [0.2]) == (0.2,)


@pytest.mark.parametrize(
    ("times", "positions", "words"),
    [([1.0, 1.5], [[0.0], [1.2]], "1.200 rad, outside of -1 to 1"), ([0.0, 0.1], [[0.0], [0.3]], "3.00 rad/s before 0.1 s")],
)
def test_what_lies_beyond_a_joints_limits_is_refused(times: list[float], positions: list[list[float]], words: str) -> None:
    limits = {"a": JointConfig(lower=-1.0, upper=1.0, max_velocity=2.0)}
    Trajectory.checked(KNOWN, ["a"], [0.0, 1.0], [[0.9], [-1.0]]).check_limits(limits)
    with pytest.raises(DriverRefusal, match=words) as refused:
        Trajectory.checked(KNOWN, ["a"], times, positions).check_limits(limits)
    assert refused.value.code is MotionCode.BAD_TRAJECTORY


def test_a_joint_never_measured_goes_to_its_first_point() -> None:
    made = line("a", "b", to=0.7)
    assert made.sample(0.0, made.start_from({"b": 0.2})) == (0.7, 0.2)
