# SPDX-License-Identifier: Apache-2.0
"""CoCo's joint trajectories and postures as pure functions: from the present joint angles to a sampled trajectory.

Angles are rad, times s. Coxae turn about +z; a positive knee lifts its foot. Legs: 1 front left, 2 front right, 3 rear
left, 4 rear right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Pose = Mapping[str, float]

LEGS = (1, 2, 3, 4)
FRONT = {1: 1.0, 2: 1.0, 3: -1.0, 4: -1.0}
LEFT = {1: 1.0, 2: -1.0, 3: 1.0, 4: -1.0}
FORE = {1: -1.0, 2: 1.0, 3: -1.0, 4: 1.0}
"""Sign of the coxa that takes the foot forward."""

JOINTS = tuple(f"leg{leg}_{part}" for leg in LEGS for part in ("coxa", "knee"))

SAMPLE_S = 0.04
MOVE_S = 0.8
"""Time of a change of posture."""

SETTLE_S = 0.35
"""Time in which a leg motion that was stopped puts its feet down."""


@dataclass(frozen=True)
class Trajectory:
    """`positions[k][i]` is joint `joints[i]` at `times[k]`; the first point is where the motion starts."""

    joints: tuple[str, ...]
    times: tuple[float, ...]
    positions: tuple[tuple[float, ...], ...]

    @property
    def duration(self) -> float:
        """Seconds from the first to the last point."""
        return self.times[-1]

    def end(self) -> dict[str, float]:
        """Return the last point by joint."""
        return dict(zip(self.joints, self.positions[-1], strict=True))

    def then(self, other: Trajectory) -> Trajectory:
        """Return this motion followed by `other`, which moves the same joints and starts where this one ends."""
        if other.joints != self.joints:
            raise ValueError(f"trajectories of different joints cannot be joined: {self.joints} and {other.joints}")
        times = (*self.times, *(self.duration + t for t in other.times[1:]))
        return Trajectory(self.joints, times, (*self.positions, *other.positions[1:]))


def legs_pose(coxa: Mapping[int, float] | float = 0.0, knee: Mapping[int, float] | float = 0.0) -> dict[str, float]:
    """Return a pose of all legs from one angle for all, or one per leg (0 where a leg is missing)."""
    pose = {}
    for leg in LEGS:
        pose[f"leg{leg}_coxa"] = coxa.get(leg, 0.0) if isinstance(coxa, Mapping) else coxa
        pose[f"leg{leg}_knee"] = knee.get(leg, 0.0) if isinstance(knee, Mapping) else knee
    return pose


STAND = {
    "normal": legs_pose(),
    "high": legs_pose(knee=-0.38),
    "low": legs_pose(knee=0.35),
    "wide": legs_pose({leg: -FORE[leg] * FRONT[leg] * -0.3 for leg in LEGS}, 0.2),
}
SIT = {
    "normal": legs_pose(knee=0.85),
    "dog": legs_pose({3: -0.35, 4: 0.35}, {1: -0.25, 2: -0.25, 3: 0.95, 4: 0.95}),
    "lie": legs_pose({1: -0.5, 2: 0.5, 3: 0.5, 4: -0.5}, 1.1),
}


def smooth(u: float) -> float:
    """0 to 1 with no velocity at either end."""
    u = min(1.0, max(0.0, u))
    return u * u * (3.0 - 2.0 * u)


def blend(low: float, high: float, percent: float) -> float:
    """Return the value at `percent` of the way from `low` to `high`."""
    return low + (high - low) * min(100.0, max(0.0, percent)) / 100.0


def move(start: Pose, frames: Sequence[tuple[float, Pose]], joints: Sequence[str] = JOINTS) -> Trajectory:
    """From `start` through key poses, each reached smoothly in its own number of seconds. A joint that a key pose
    leaves out stays; one that `start` leaves out is taken to be at 0."""
    at = [start.get(joint, 0.0) for joint in joints]
    times, positions, now = [0.0], [tuple(at)], 0.0
    for seconds, frame in frames:
        goal = [frame.get(joint, value) for joint, value in zip(joints, at, strict=True)]
        count = max(1, math.ceil(seconds / SAMPLE_S - 1e-9))
        for k in range(1, count + 1):
            share = smooth(k / count)
            times.append(now + seconds * k / count)
            positions.append(tuple(a + (g - a) * share for a, g in zip(at, goal, strict=True)))
        now, at = now + seconds, goal
    return Trajectory(tuple(joints), tuple(times), tuple(positions))


def hold(pose: Pose, seconds: float, joints: Sequence[str] = JOINTS) -> Trajectory:
    """Stay in a pose."""
    point = tuple(pose.get(joint, 0.0) for joint in joints)
    return Trajectory(tuple(joints), (0.0, seconds), (point, point))


def is_standing(pose: Pose) -> bool:
    """Return whether the legs carry the body near the normal stand, so that a gait may start without a change of posture."""
    normal = STAND["normal"]
    return all(abs(pose.get(joint, 0.0) - normal[joint]) < 0.2 for joint in JOINTS)


def stand(start: Pose, posture: str = "normal") -> Trajectory:
    """Stand up, or change the posture, in `MOVE_S`."""
    return move(start, [(MOVE_S, STAND[posture])])


def sit(start: Pose, style: str = "normal") -> Trajectory:
    """Sit down in `MOVE_S`."""
    return move(start, [(MOVE_S, SIT[style])])


def settle(start: Pose) -> Trajectory:
    """Put all feet down from any phase of a motion, with the coxae where they are, in `SETTLE_S`."""
    pose = {joint: start.get(joint, 0.0) for joint in JOINTS}
    for leg in LEGS:
        pose[f"leg{leg}_knee"] = 0.0
    return move(start, [(SETTLE_S, pose)])
