# SPDX-License-Identifier: Apache-2.0
"""CoCo's motions on the spot as pure functions: leaning, dancing, push-ups, and what one leg does while three carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ghostshell_ros.robots.coco.postures import (
    FORE,
    FRONT,
    JOINTS,
    LEFT,
    LEGS,
    MOVE_S,
    SAMPLE_S,
    STAND,
    Pose,
    Trajectory,
    blend,
    legs_pose,
    move,
    smooth,
)

Direction = Literal["left", "right", "forward", "backward"]


def lean_pose(direction: Direction) -> dict[str, float]:
    """Return the body tilted about 10 degrees to one side: the legs there bend, the others stretch."""
    side = {"left": LEFT, "right": LEFT, "forward": FRONT, "backward": FRONT}[direction]
    sign = 0.36 if direction in ("left", "forward") else -0.36
    return legs_pose(knee={leg: sign * side[leg] for leg in LEGS})


def lean(start: Pose, direction: Direction) -> Trajectory:
    """Lean to one side in `MOVE_S`."""
    return move(start, [(MOVE_S, lean_pose(direction))])


@dataclass(frozen=True)
class Swing:
    """Describe how one joint swings about a pose: amplitude in rad and phase in turns."""

    joint: str
    amplitude: float
    phase: float = 0.0


def oscillate(start: Pose, about: Pose, swings: Sequence[Swing], period_s: float, times: float) -> Trajectory:
    """Swing joints about a pose `times` periods long, fading in and out over half a period: the building block of
    dances. Takes `times * period_s`, and ends in `about`."""
    by_joint = {swing.joint: swing for swing in swings}
    total = times * period_s
    fade = min(period_s / 2.0, total / 2.0)
    count = max(2, math.ceil(total / SAMPLE_S - 1e-9))
    points = [tuple(start.get(joint, 0.0) for joint in JOINTS)]
    for k in range(1, count + 1):
        now = total * k / count
        envelope = smooth(now / fade) * smooth((total - now) / fade)
        arrived = smooth(now / fade)
        point = []
        for joint in JOINTS:
            value = start.get(joint, 0.0) + (about.get(joint, 0.0) - start.get(joint, 0.0)) * arrived
            if (swing := by_joint.get(joint)) is not None:
                value += envelope * swing.amplitude * math.sin(2.0 * math.pi * (now / period_s + swing.phase))
            point.append(value)
        points.append(tuple(point))
    return Trajectory(JOINTS, tuple(total * k / count for k in range(count + 1)), tuple(points))


def wave_period_s(speed: float) -> float:
    """Seconds of one wave of the body at a speed in percent."""
    return blend(2.0, 0.8, speed)


def wave(start: Pose, speed: float, amplitude: float, times: float) -> Trajectory:
    """Run a wave round the legs, so that the body circles."""
    height = blend(0.10, 0.34, amplitude)
    order = {1: 0.0, 2: 0.25, 4: 0.5, 3: 0.75}
    swings = [Swing(f"leg{leg}_knee", height, phase) for leg, phase in order.items()]
    return oscillate(start, STAND["normal"], swings, wave_period_s(speed), times)


def shake_period_s(speed: float) -> float:
    """Seconds of one shake of the rear at a speed in percent."""
    return blend(1.2, 0.5, speed)


def shake(start: Pose, speed: float, amplitude: float, times: float) -> Trajectory:
    """Raise the rear and swing it left and right."""
    sweep = blend(0.10, 0.32, amplitude)
    about = legs_pose(knee={1: 0.22, 2: 0.22, 3: -0.22, 4: -0.22})
    swings = [Swing(f"leg{leg}_coxa", sweep * (0.6 if FRONT[leg] > 0 else 1.0)) for leg in LEGS]
    return oscillate(start, about, swings, shake_period_s(speed), times)


PUSH_UP_S = 1.25


def push_up(start: Pose, times: int) -> Trajectory:
    """Down and up `times` times, `PUSH_UP_S` each."""
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
    """Back from `free_leg` to the normal stand: the freed leg down first, then its neighbours home."""
    normal = STAND["normal"]
    down = {**_tripod(leg), f"leg{leg}_coxa": 0.0, f"leg{leg}_knee": 0.0}
    up = dict(normal)
    for neighbour in NEIGHBOURS[leg]:
        up[f"leg{neighbour}_coxa"] = down[f"leg{neighbour}_coxa"] / 2.0
        up[f"leg{neighbour}_knee"] = 0.32
    return move(start, [(SHIFT_S, down), (SHIFT_S / 2.0, up), (SHIFT_S / 2.0, normal)])


FREE_AND_BACK_S = 3.0 * SHIFT_S


def knock_period_s(speed: float) -> float:
    """Seconds of one knock at a speed in percent."""
    return blend(1.1, 0.55, speed)


def knock(start: Pose, leg: int, speed: float, times: int, forward: float = 0.0) -> Trajectory:
    """Knock on the ground with a leg that `free_leg` freed, its coxa turned forward by `forward` rad."""
    period = knock_period_s(speed)
    base = _tripod(leg)
    coxa = {f"leg{leg}_coxa": FORE[leg] * forward}
    raised = {**base, **coxa, f"leg{leg}_knee": 0.85}
    tapped = {**base, **coxa, f"leg{leg}_knee": 0.10}
    return move(start, [frame for _ in range(times) for frame in ((period * 0.6, raised), (period * 0.4, tapped))])


def pull_period_s(speed: float) -> float:
    """Seconds of one pull of an arm at a speed in percent."""
    return blend(1.8, 0.8, speed)


def pull(start: Pose, leg: int, speed: float, times: int, inward: bool = True) -> Trajectory:
    """Reach out with a freed front leg and draw something in, or push it away when `inward` is false."""
    period = pull_period_s(speed)
    base = _tripod(leg)
    far, near = FORE[leg] * 0.65, FORE[leg] * -0.45
    first, second = (far, near) if inward else (near, far)
    reach = {**base, f"leg{leg}_coxa": first, f"leg{leg}_knee": 0.9}
    lower = {**base, f"leg{leg}_coxa": first, f"leg{leg}_knee": 0.22}
    drawn = {**base, f"leg{leg}_coxa": second, f"leg{leg}_knee": 0.22}
    cycle = ((period * 0.4, reach), (period * 0.2, lower), (period * 0.4, drawn))
    return move(start, [frame for _ in range(times) for frame in cycle])
