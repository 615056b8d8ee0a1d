# SPDX-License-Identifier: Apache-2.0
"""The timing of an arm's path: as fast as a pace lets joints and hand be, and no faster."""

from __future__ import annotations

import numpy as np
import pytest

from ghostshell_ros.arms.motion import Pace, PathMotion, dense

SPEEDS = (1.6, 1.4)
STEP_S = 0.01


def hand(q: np.ndarray) -> list[float]:
    """Return the hand of an arm of two links of 0.5 m."""
    first, both = q[0], q[0] + q[1]
    return [0.5 * (np.cos(first) + np.cos(both)), 0.5 * (np.sin(first) + np.sin(both)), 0.0]


def played(pace: Pace) -> np.ndarray:
    """Return the joints each `STEP_S` along a path with a bend."""
    path = dense([np.array([0.0, 0.0]), np.array([1.5, 0.2]), np.array([1.7, 2.0])])
    motion = PathMotion(path, [hand(q) for q in path], SPEEDS, pace)
    return np.array([motion.sample(t) for t in np.arange(0.0, motion.duration_s + STEP_S, STEP_S)])


@pytest.mark.parametrize("pace", [Pace(1.0, 0.25), Pace(1.0, 1.2), Pace(0.8, 0.8), Pace(0.3, 9.0)])
def test_neither_hand_nor_joints_are_faster_than_the_pace(pace: Pace) -> None:
    joints = played(pace)
    speeds = np.abs(np.diff(joints, axis=0)).max(axis=0) / STEP_S / SPEEDS
    hands = np.linalg.norm(np.diff([hand(q) for q in joints], axis=0), axis=1).max() / STEP_S
    assert speeds.max() <= pace.joints * 1.001 and hands <= pace.hand_mps * 1.02
    assert max(speeds.max() / pace.joints, hands / pace.hand_mps) > 0.98, "one of the two is used"
    assert joints[0].tolist() == [0.0, 0.0] and joints[-1] == pytest.approx([1.7, 2.0])


def test_a_path_needs_two_points_and_a_share_of_the_speed() -> None:
    q = np.zeros(2)
    for path, share in (([q], 1.0), ([q, q], 0.0), ([q, q], 1.5)):
        with pytest.raises(ValueError, match="give two points or more"):
            PathMotion(path, [hand(p) for p in path], SPEEDS, Pace(share, 1.0))
