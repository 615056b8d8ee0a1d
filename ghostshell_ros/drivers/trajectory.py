# SPDX-License-Identifier: Apache-2.0
"""Joint trajectories without ROS: check them, join them, and interpolate between their points."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from skill_kernel.robot import JointConfig
from skill_kernel.skills.drivers import DriverRefusal

MAX_POINTS = 10_000
SLACK = 1e-3
"""Rounding of a planner that no limit minds: in rad, and as a share of a speed."""


class MotionCode(IntEnum):
    """Number the constants of MoveJoints.action, and two that only FollowJointTrajectory can meet."""

    NONE = 0
    UNKNOWN_JOINT = 400
    BAD_TRAJECTORY = 401
    JOINTS_BUSY = 402
    DRIVER_HALTED = 403
    NOT_REACHED = 404
    PATH_LEFT = 405
    TOO_LATE = 406
    NO_WAY = 407


@dataclass(frozen=True)
class Trajectory:
    """Hold positions in rad of `joints` at `times_s` seconds from the start: `positions[k][i]` is joint i at time k.

    Between points the positions run straight: speeds are what the points say, and no joint swings past a point.
    """

    joints: tuple[str, ...]
    times_s: tuple[float, ...]
    positions: tuple[tuple[float, ...], ...]

    @classmethod
    def checked(
        cls, known: Collection[str], joints: Sequence[str], times_s: Sequence[float], positions: Sequence[Sequence[float]]
    ) -> Trajectory:
        """Return the trajectory. Raises DriverRefusal when it names a joint that is not in `known`, or is not well formed."""
        for joint in joints:
            if joint not in known:
                raise DriverRefusal(
                    MotionCode.UNKNOWN_JOINT, f"unknown joint '{joint[:80]}' (known: {', '.join(sorted(known))})"
                )
        if not joints or not times_s:
            raise _bad("it has no joints or no points: send at least one of each")
        if len(set(joints)) != len(joints):
            raise _bad("a joint is named twice: name each once")
        if len(times_s) > MAX_POINTS:
            raise _bad(f"it has {len(times_s)} points: at most {MAX_POINTS} are taken")
        if len(positions) != len(times_s):
            raise _bad(f"{len(times_s)} times but {len(positions)} rows of positions: send one row a time")
        before = -1.0
        for k, (time_s, row) in enumerate(zip(times_s, positions, strict=True)):
            if not math.isfinite(time_s) or time_s < 0 or time_s <= before:
                raise _bad(f"time {time_s} s of point {k} does not come after the one before: send rising times")
            if len(row) != len(joints):
                raise _bad(f"point {k} has {len(row)} positions for {len(joints)} joints: send one a joint")
            if not all(map(math.isfinite, row)):
                raise _bad(f"point {k} holds a position that is not a number: {list(row)[:20]}")
            before = time_s
        return cls(tuple(joints), tuple(map(float, times_s)), tuple(tuple(map(float, row)) for row in positions))

    @property
    def duration_s(self) -> float:
        """Return the time of the last point in s."""
        return self.times_s[-1]

    def end(self) -> dict[str, float]:
        """Return the last point in rad by joint."""
        return dict(zip(self.joints, self.positions[-1], strict=True))

    def then(self, other: Trajectory) -> Trajectory:
        """Return this motion followed by `other`, which moves the same joints and starts where this one ends.

        Raises ValueError when it moves other joints.
        """
        if other.joints != self.joints:
            raise ValueError(f"trajectories of different joints cannot be joined: {self.joints} and {other.joints}")
        times = (*self.times_s, *(self.duration_s + t for t in other.times_s[1:]))
        return Trajectory(self.joints, times, (*self.positions, *other.positions[1:]))

    def check_limits(self, limits: Mapping[str, JointConfig]) -> None:
        """Raise DriverRefusal when a point lies outside a joint's range, or is reached faster than the joint may move."""
        for i, joint in enumerate(self.joints):
            limit = limits[joint]
            way = [(time_s, row[i]) for time_s, row in zip(self.times_s, self.positions, strict=True)]
            for _, at in way:
                if not limit.lower - SLACK <= at <= limit.upper + SLACK:
                    raise _bad(f"joint '{joint}' goes to {at:.3f} rad, outside of {limit.lower:g} to {limit.upper:g}")
            for (t0, p0), (t1, p1) in pairwise(way):
                if (speed := abs(p1 - p0) / (t1 - t0)) > limit.max_velocity * (1 + SLACK):
                    raise _bad(
                        f"joint '{joint}' moves at {speed:.2f} rad/s before {t1:g} s, faster than {limit.max_velocity:g}"
                    )

    def start_from(self, at: Mapping[str, float]) -> tuple[float, ...]:
        """Return where the joints set out in rad: from `at`, and a joint that is missing there from its first point."""
        return tuple(at.get(joint, first) for joint, first in zip(self.joints, self.positions[0], strict=True))

    def sample(self, time_s: float, start: Sequence[float]) -> tuple[float, ...]:
        """Return the positions at a time: `start` before 0, then straight to the first point, and the last point at the end."""
        if time_s < 0:
            return tuple(start)
        k = bisect_right(self.times_s, time_s)
        if k == len(self.times_s):
            return self.positions[-1]
        t0, p0 = (self.times_s[k - 1], self.positions[k - 1]) if k else (0.0, tuple(start))
        t1, p1 = self.times_s[k], self.positions[k]
        share = min(max((time_s - t0) / (t1 - t0), 0.0), 1.0)
        return tuple(a + (b - a) * share for a, b in zip(p0, p1, strict=True))


def within(code: MotionCode, off: Mapping[str, float], tolerances: Mapping[str, float], what: str) -> None:
    """Raise DriverRefusal with the code when a joint is further off than its tolerance, both in rad by joint.

    A joint without a tolerance is not watched.
    """
    beyond = {joint: off[joint] - most for joint, most in tolerances.items() if not off[joint] <= most}
    if beyond:
        worst = max(beyond, key=lambda joint: beyond[joint])
        text = f"joint '{worst}' is {off[worst]:.3f} rad from {what}, more than {tolerances[worst]:.3f}: is it blocked?"
        raise DriverRefusal(code, text)


def _bad(reason: str) -> DriverRefusal:
    return DriverRefusal(MotionCode.BAD_TRAJECTORY, f"bad trajectory: {reason}")
