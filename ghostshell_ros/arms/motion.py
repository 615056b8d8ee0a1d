# SPDX-License-Identifier: Apache-2.0
"""Time a path of joints: as fast as their limits allow, with bounded jerk (Ruckig). Needs requirements/arms.txt."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from ruckig import InputParameter, Ruckig, Trajectory

Vector = npt.NDArray[np.float64]

SPEED_UP_S, JERK_S = 0.4, 0.15
"""Times in which the arm comes to full speed, and to full acceleration."""
DENSE_RAD = 0.05
"""Distance in any joint within which the hand's way is taken for straight."""
CORNER_RAD = math.radians(25.0)
"""A path that bends more sharply is stopped at the bend."""


class Pace(NamedTuple):
    """Bound how fast an arm moves: share of its joints' speed, and speed of its hand [m/s]."""

    joints: float
    hand_mps: float


class PathMotion:
    """Move along a path of joint positions [rad] from rest to rest, at `max_velocity` [rad/s] by joint times the share of a
    pace, and the hand, which is at `hands` [m], at its speed.

    The way along the path is measured in seconds at full speed: then one rate and one bound on its change hold for all joints.
    """

    def __init__(
        self, path: Sequence[Vector], hands: Sequence[Sequence[float]], max_velocity: Sequence[float], pace: Pace
    ) -> None:
        """Time the path. Raises ValueError for one of less than two points, or a share that is not in (0, 1]."""
        speed = pace.joints
        if len(path) < 2 or not 0.0 < speed <= 1.0:
            raise ValueError(f"{len(path)} points at speed {speed:g}: give two points or more, and a speed of at most 1")
        points = np.array(path, dtype=float)
        scaled = np.diff(points, axis=0) / np.array(max_velocity)
        ways = np.linalg.norm(np.diff(np.array(hands), axis=0), axis=1)
        lengths = np.maximum(np.abs(scaled).max(axis=1), ways * speed / pace.hand_mps)
        kept = lengths > 1e-9
        self._points = np.concatenate([points[:1], points[1:][kept]])
        self._at = np.concatenate([[0.0], np.cumsum(lengths[kept])])
        units = scaled[kept] / np.linalg.norm(scaled[kept], axis=1, keepdims=True)
        bends = np.arccos(np.clip((units[1:] * units[:-1]).sum(axis=1), -1.0, 1.0)) > CORNER_RAD
        stops = [0.0, *self._at[1:-1][bends], self._at[-1]] if len(self._at) > 1 else []
        self._runs: list[tuple[float, Trajectory]] = []
        self.duration_s = 0.0
        for a, b in zip(stops, stops[1:], strict=False):
            run = _run(float(a), float(b), speed)
            self._runs.append((self.duration_s, run))
            self.duration_s += run.duration

    def sample(self, t: float) -> Vector:
        """Return the joints `t` seconds after the begin."""
        if not self._runs:
            return self._points[-1].copy()
        began_s, run = next((r for r in reversed(self._runs) if t >= r[0]), self._runs[0])
        way = run.at_time(min(max(0.0, t - began_s), run.duration))[0][0]
        return np.array([np.interp(way, self._at, column) for column in self._points.T])


def dense(path: Sequence[Vector]) -> list[Vector]:
    """Return a path with points so near to one another that its hand goes straight between them."""
    points = [path[0]]
    for a, b in pairwise(path):
        steps = max(1, math.ceil(np.abs(b - a).max() / DENSE_RAD))
        points += [a + (b - a) * (k / steps) for k in range(1, steps + 1)]
    return points


def _run(a: float, b: float, speed: float) -> Trajectory:
    """Return the motion from rest at `a` to rest at `b`, both in seconds at full speed."""
    given = InputParameter(1)
    given.current_position, given.current_velocity, given.current_acceleration = [a], [0.0], [0.0]
    given.target_position, given.target_velocity, given.target_acceleration = [b], [0.0], [0.0]
    given.max_velocity, given.max_acceleration = [speed], [1.0 / SPEED_UP_S]
    given.max_jerk = [1.0 / SPEED_UP_S / JERK_S]
    run = Trajectory(1)
    Ruckig(1).calculate(given, run)
    return run
