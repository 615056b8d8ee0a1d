# SPDX-License-Identifier: Apache-2.0
"""Make CoCo's motions: pure functions from the present joint angles to a sampled trajectory.

Angles are rad, times s, lengths m. Coxae turn about +z; a positive knee lifts its foot. Legs: 1 front left, 2 front right,
3 rear left, 4 rear right. The gait is calibrated in simulation.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ghostshell_ros.drivers.trajectory import Trajectory
from skill_kernel.config.yaml_text import read_yaml

Pose = Mapping[str, float]

MANNERS: Any = read_yaml(Path(__file__).resolve().with_name("manners.yaml").read_text(encoding="utf-8"))
"""Postures, acts of head and ears, voices and moods, from the file beside this one."""

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


def legs_pose(coxa: Mapping[int, float] | float = 0.0, knee: Mapping[int, float] | float = 0.0) -> dict[str, float]:
    """Return a pose of all legs from one angle for all, or one per leg (0 where a leg is missing)."""
    pose = {}
    for leg in LEGS:
        pose[f"leg{leg}_coxa"] = coxa.get(leg, 0.0) if isinstance(coxa, Mapping) else coxa
        pose[f"leg{leg}_knee"] = knee.get(leg, 0.0) if isinstance(knee, Mapping) else knee
    return pose


STAND, SIT = ({name: legs_pose(**legs) for name, legs in MANNERS[kind].items()} for kind in ("stand", "sit"))


def smooth(u: float) -> float:
    """Return 0 to 1 with no velocity at either end."""
    u = min(1.0, max(0.0, u))
    return u * u * (3.0 - 2.0 * u)


def blend(low: float, high: float, percent: float) -> float:
    """Return the value at `percent` of the way from `low` to `high`."""
    return low + (high - low) * min(100.0, max(0.0, percent)) / 100.0


def move(start: Pose, frames: Sequence[tuple[float, Pose]], joints: Sequence[str] = JOINTS) -> Trajectory:
    """Move from `start` through key poses, each reached smoothly in its own number of seconds.

    A joint that a key pose leaves out stays; one that `start` leaves out is taken to be at 0.
    """
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
    point = tuple(pose.get(joint, 0.0) for joint in joints)
    return Trajectory(tuple(joints), (0.0, seconds), (point, point))


def is_standing(pose: Pose) -> bool:
    """Return whether the legs carry the body near the normal stand, so that a gait may start without a change of posture."""
    normal = STAND["normal"]
    return all(abs(pose.get(joint, 0.0) - normal[joint]) < 0.2 for joint in JOINTS)


def change_to(posture: Pose, start: Pose) -> Trajectory:
    """Stand up, sit down or change how, in `MOVE_S`."""
    return move(start, [(MOVE_S, posture)])


def settle(start: Pose) -> Trajectory:
    """Put all feet down from any phase of a motion, with the coxae where they are, in `SETTLE_S`."""
    pose = {joint: start.get(joint, 0.0) for joint in JOINTS}
    for leg in LEGS:
        pose[f"leg{leg}_knee"] = 0.0
    return move(start, [(SETTLE_S, pose)])


PAIRS = ((1, 4), (2, 3))
"""Legs that step together."""

STEP_LIFT = 0.28
WALK_CENTRE = 0.25
"""Angle by which legs point more sideways while walking, which lessens the zigzag of a trot with two joints a leg."""

MAX_HALVES = 10
"""Half steps in one trajectory; then the pose is measured again."""

MAX_TURN_AMPLITUDE = 0.42
TURN_STEP_S = 0.30
TURN_PER_RAD = 0.535
"""Radians the body turns for each radian a coxa sweeps, measured in simulation."""


def metres_per_rad(step_s: float, sweep: float) -> float:
    """Return the metres the body moves for each radian a coxa sweeps, fitted to the simulation (12 % at worst).

    The lag of the servos costs most in short steps, the arc of the feet in wide ones.
    """
    return 0.0932 - 0.00636 / step_s - 0.0319 * sweep


@dataclass(frozen=True)
class Stride:
    """Describe a half step: its time in s, the sweep of a coxa in rad, and the m or rad the body moves for each rad of it.

    `even` where only an even number of them keeps the course, because the zigzag of an odd one leaves it.
    """

    step_s: float
    sweep: float
    per_rad: float
    even: bool = False

    @property
    def reach(self) -> float:
        """Return the m or rad that one trajectory covers at most."""
        return 2.0 * (MAX_HALVES - 1) * self.sweep * self.per_rad

    def halves(self, way: float) -> int:
        """Return the half steps of the first trajectory towards a way in m or rad."""
        halves = min(MAX_HALVES, 1 + max(1, math.ceil(abs(way) / self.per_rad / (2.0 * self.sweep) - 1e-6)))
        return halves + halves % 2 if self.even else halves

    def time_s(self, way: float) -> float:
        """Return the seconds of a way in as many trajectories as needed, without corrections."""
        full, rest = divmod(abs(way), self.reach)
        return (full * MAX_HALVES + (self.halves(rest) if rest > 0.0 else 0)) * self.step_s


TURN = Stride(TURN_STEP_S, MAX_TURN_AMPLITUDE, TURN_PER_RAD)


def walk_stride(speed: float, amplitude: float) -> Stride:
    """Return the half step of a walk at speed and amplitude in percent; a wide sweep cannot be faster than the servos."""
    sweep = blend(0.18, 0.55, amplitude)
    step_s = max(blend(0.42, 0.20, speed), 0.75 * sweep)
    return Stride(step_s, sweep, metres_per_rad(step_s, sweep), even=True)


def walk(start: Pose, distance: float, speed: float, amplitude: float, heading_error: float = 0.0) -> Trajectory:
    """Trot `distance` metres forward (negative: backward), or as far as one trajectory reaches, and stand.

    `heading_error` is how far the body has turned from its course, in rad, left positive; the steps take it back.
    """
    stride = walk_stride(speed, amplitude)
    distance = math.copysign(min(abs(distance), stride.reach), distance)
    halves = stride.halves(distance)
    sweep = 0.0
    for _ in range(3):
        sweep = distance / metres_per_rad(stride.step_s, abs(sweep)) / (2.0 * (halves - 1))
    steer = -heading_error / TURN_PER_RAD / (2.0 * (halves - 1))
    return _trot(start, halves, stride.step_s, sweep, max(-0.15, min(0.15, steer)), WALK_CENTRE)


def turn(start: Pose, angle: float) -> Trajectory:
    """Turn on the spot by `angle` rad, left positive, or as far as one trajectory reaches, and stand."""
    angle = math.copysign(min(abs(angle), TURN.reach), angle)
    halves = TURN.halves(angle)
    return _trot(start, halves, TURN_STEP_S, 0.0, angle / TURN_PER_RAD / (2.0 * (halves - 1)), 0.0)


def _trot(start: Pose, halves: int, step_s: float, sweep: float, steer: float, centre: float) -> Trajectory:
    """Swing diagonal pairs in turn while the others push.

    The first half step sets out from the middle and the last returns to it, so all feet stand at both ends and the coxae sweep
    2 (halves - 1) amplitudes in all. A leg takes on its centre, and leaves it, only while it swings: a foot on the ground
    would turn the body.
    """
    offset = dict.fromkeys(LEGS, 0.0)
    before = {joint: start.get(joint, 0.0) for joint in JOINTS}
    count = max(3, math.ceil(step_s / SAMPLE_S - 1e-9))
    times, positions = [0.0], [tuple(before[joint] for joint in JOINTS)]
    for half in range(halves):
        swinging = PAIRS[half % 2]
        goal = {}
        for leg in LEGS:
            reach = 0.0 if half == halves - 1 else (1.0 if leg in swinging else -1.0)
            if leg in swinging:
                offset[leg] = -centre * FORE[leg] * FRONT[leg] if half < halves - 2 else 0.0
            goal[f"leg{leg}_coxa"] = offset[leg] + reach * (FORE[leg] * sweep + steer)
            goal[f"leg{leg}_knee"] = 0.0
        for k in range(1, count + 1):
            u = k / count
            point = {joint: before[joint] + (goal[joint] - before[joint]) * smooth(u) for joint in JOINTS}
            for leg in swinging:
                point[f"leg{leg}_knee"] += STEP_LIFT * math.sin(math.pi * u)
            times.append(step_s * (half + u))
            positions.append(tuple(point[joint] for joint in JOINTS))
        before = goal
    return Trajectory(JOINTS, tuple(times), tuple(positions))


Direction = Literal["left", "right", "forward", "backward"]


def lean(start: Pose, direction: Direction) -> Trajectory:
    """Lean about 10 degrees to one side in `MOVE_S`: the legs there bend, the others stretch."""
    side = LEFT if direction in ("left", "right") else FRONT
    sign = 0.36 if direction in ("left", "forward") else -0.36
    return move(start, [(MOVE_S, legs_pose(knee={leg: sign * side[leg] for leg in LEGS}))])


def oscillate(start: Pose, about: Pose, swings: Mapping[str, tuple[float, float]], period_s: float, times: float) -> Trajectory:
    """Swing joints about a pose `times` periods long, fading in and out over half a period; dances are made of it.

    `swings` gives the amplitude in rad and the phase in turns by joint. Takes `times * period_s`, and ends in `about`.
    """
    total = times * period_s
    fade = min(period_s, total) / 2.0
    at = np.linspace(0.0, total, max(2, math.ceil(total / SAMPLE_S - 1e-9)) + 1)
    arrived, leaving = (np.array([smooth(u) for u in share]) for share in (at / fade, (total - at) / fade))
    columns = []
    for joint in JOINTS:
        first, (amplitude, phase) = start.get(joint, 0.0), swings.get(joint, (0.0, 0.0))
        swing = amplitude * np.sin(2.0 * math.pi * (at / period_s + phase))
        columns.append(first + (about.get(joint, 0.0) - first) * arrived + arrived * leaving * swing)
    return Trajectory(JOINTS, tuple(at.tolist()), tuple(map(tuple, np.stack(columns, axis=1).tolist())))


PERIODS_S = {"wave": (2.0, 0.8), "shake": (1.2, 0.5), "knock": (1.1, 0.55), "pull": (1.8, 0.8)}
"""Period of each move that is repeated, at speeds of 0 and 100 %."""


def period_s(move: str, speed: float) -> float:
    """Return the seconds of one move at a speed in percent."""
    return blend(*PERIODS_S[move], speed)


def wave(start: Pose, speed: float, amplitude: float, times: float) -> Trajectory:
    """Run a wave round the legs, so that the body circles."""
    height = blend(0.10, 0.34, amplitude)
    order = {1: 0.0, 2: 0.25, 4: 0.5, 3: 0.75}
    swings = {f"leg{leg}_knee": (height, phase) for leg, phase in order.items()}
    return oscillate(start, STAND["normal"], swings, period_s("wave", speed), times)


def shake(start: Pose, speed: float, amplitude: float, times: float) -> Trajectory:
    """Raise the rear and swing it left and right."""
    sweep = blend(0.10, 0.32, amplitude)
    about = legs_pose(knee={1: 0.22, 2: 0.22, 3: -0.22, 4: -0.22})
    swings = {f"leg{leg}_coxa": (sweep * (0.6 if FRONT[leg] > 0 else 1.0), 0.0) for leg in LEGS}
    return oscillate(start, about, swings, period_s("shake", speed), times)


PUSH_UP_S = 1.25


def push_up(start: Pose, times: int) -> Trajectory:
    """Go down and up `times` times, `PUSH_UP_S` each."""
    down, up = legs_pose(knee=0.6), legs_pose(knee=-0.3)
    return move(start, [frame for _ in range(times) for frame in ((PUSH_UP_S * 0.55, down), (PUSH_UP_S * 0.45, up))])


SHIFT_S = 0.35
NEIGHBOURS = {1: (2, 3), 2: (4, 1), 3: (1, 4), 4: (3, 2)}
"""For each leg the neighbour that turns counter-clockwise towards it, and the one that turns clockwise."""


def _tripod(leg: int) -> dict[str, float]:
    ccw, cw = NEIGHBOURS[leg]
    opposite = 5 - leg
    return legs_pose({ccw: 0.62, cw: -0.62}, {opposite: 0.12, ccw: 0.04, cw: 0.04})


def free_leg(start: Pose, leg: int) -> Trajectory:
    """Step the two neighbours of a leg towards it, so that the other three legs carry the body and it may be lifted."""
    goal = _tripod(leg)
    ccw, cw = NEIGHBOURS[leg]
    up = dict(goal)
    for neighbour in (ccw, cw):
        joint = f"leg{neighbour}_coxa"
        up[joint] = (start.get(joint, 0.0) + goal[joint]) / 2.0
        up[f"leg{neighbour}_knee"] = 0.32
    return move(start, [(SHIFT_S / 2.0, up), (SHIFT_S / 2.0, goal)])


def unfree_leg(start: Pose, leg: int) -> Trajectory:
    """Go back from `free_leg` to the normal stand: the freed leg down first, then its neighbours home."""
    normal = STAND["normal"]
    down = {**_tripod(leg), f"leg{leg}_coxa": 0.0, f"leg{leg}_knee": 0.0}
    up = dict(normal)
    for neighbour in NEIGHBOURS[leg]:
        up[f"leg{neighbour}_coxa"] = down[f"leg{neighbour}_coxa"] / 2.0
        up[f"leg{neighbour}_knee"] = 0.32
    return move(start, [(SHIFT_S, down), (SHIFT_S / 2.0, up), (SHIFT_S / 2.0, normal)])


FREE_AND_BACK_S = 3.0 * SHIFT_S


def knock(start: Pose, leg: int, speed: float, times: int, forward: float = 0.0) -> Trajectory:
    """Knock on the ground with a leg that `free_leg` freed, its coxa turned forward by `forward` rad."""
    coxa = FORE[leg] * forward
    return _strokes(start, leg, period_s("knock", speed), times, ((0.6, coxa, 0.85), (0.4, coxa, 0.10)))


def pull(start: Pose, leg: int, speed: float, times: int, inward: bool = True) -> Trajectory:
    """Reach out with a freed front leg and draw something in, or push it away when `inward` is false."""
    far, near = FORE[leg] * 0.65, FORE[leg] * -0.45
    first, second = (far, near) if inward else (near, far)
    return _strokes(start, leg, period_s("pull", speed), times, ((0.4, first, 0.9), (0.2, first, 0.22), (0.4, second, 0.22)))


def _strokes(start: Pose, leg: int, period: float, times: int, cycle: Iterable[tuple[float, float, float]]) -> Trajectory:
    """Move a freed leg round a cycle: share of the period, coxa and knee in rad."""
    poses = [(period * share, {**_tripod(leg), f"leg{leg}_coxa": coxa, f"leg{leg}_knee": knee}) for share, coxa, knee in cycle]
    return move(start, times * poses)
