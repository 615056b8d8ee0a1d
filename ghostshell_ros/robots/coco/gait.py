# SPDX-License-Identifier: Apache-2.0
"""CoCo's gait as pure functions: walking and turning, calibrated in simulation. Angles are rad, times s, lengths m."""

from __future__ import annotations

import math

from ghostshell_ros.robots.coco.postures import FORE, FRONT, JOINTS, LEGS, SAMPLE_S, Pose, Trajectory, blend, smooth

PAIRS = ((1, 4), (2, 3))
"""Legs that step together."""

STEP_LIFT = 0.28
WALK_CENTRE = 0.25
"""Legs point this much more sideways while walking, which lessens the zigzag of a trot with two joints a leg."""

MAX_HALVES = 10
"""Half steps in one trajectory; then the pose is measured anew."""

MAX_TURN_AMPLITUDE = 0.42
TURN_STEP_S = 0.30
TURN_PER_RAD = 0.535
"""Radians the body turns for each radian a coxa sweeps, measured in simulation."""


def walk_amplitude(amplitude: float) -> float:
    """Sweep of a coxa to either side in rad at an amplitude in percent."""
    return blend(0.18, 0.55, amplitude)


def step_time_s(speed: float, amplitude: float) -> float:
    """Seconds of a half step at speed and amplitude in percent; a wide sweep cannot be faster than the servos."""
    return max(blend(0.42, 0.20, speed), 0.75 * walk_amplitude(amplitude))


def metres_per_rad(step_s: float, sweep: float) -> float:
    """Metres the body moves for each radian a coxa sweeps, fitted to the simulation (12 % at worst): the lag of the
    servos costs most in short steps, the arc of the feet in wide ones."""
    return 0.0932 - 0.00636 / step_s - 0.0319 * sweep


def walk_halves(distance: float, speed: float, amplitude: float) -> int:
    """Half steps of the first trajectory towards `distance` metres: an even number, because the zigzag of an odd one
    leaves the course."""
    sweep = walk_amplitude(amplitude)
    units = abs(distance) / metres_per_rad(step_time_s(speed, amplitude), sweep)
    halves = _halves(units, sweep)
    return min(MAX_HALVES, halves + halves % 2)


def turn_halves(angle: float) -> int:
    """Half steps of the first trajectory towards `angle` rad."""
    return _halves(abs(angle) / TURN_PER_RAD, MAX_TURN_AMPLITUDE)


def _halves(units: float, amplitude: float) -> int:
    return min(MAX_HALVES, 1 + max(1, math.ceil(units / (2.0 * amplitude) - 1e-6)))


def walk_reach(speed: float, amplitude: float) -> float:
    """Metres one trajectory covers at most."""
    sweep = walk_amplitude(amplitude)
    return 2.0 * (MAX_HALVES - 1) * sweep * metres_per_rad(step_time_s(speed, amplitude), sweep)


def turn_reach() -> float:
    """Radians one trajectory turns at most."""
    return 2.0 * (MAX_HALVES - 1) * MAX_TURN_AMPLITUDE * TURN_PER_RAD


def walk_time_s(distance: float, speed: float, amplitude: float) -> float:
    """Seconds `distance` metres take in as many trajectories as it needs, without corrections."""
    full, rest = divmod(abs(distance), walk_reach(speed, amplitude))
    halves = full * MAX_HALVES + (walk_halves(rest, speed, amplitude) if rest > 0.0 else 0)
    return halves * step_time_s(speed, amplitude)


def turn_time_s(angle: float) -> float:
    """Seconds a turn by `angle` rad takes, without corrections."""
    full, rest = divmod(abs(angle), turn_reach())
    return (full * MAX_HALVES + (turn_halves(rest) if rest > 0.0 else 0)) * TURN_STEP_S


def walk(start: Pose, distance: float, speed: float, amplitude: float, heading_error: float = 0.0) -> Trajectory:
    """Trot `distance` metres forward (negative: backward), or as far as one trajectory reaches, and stand.
    `heading_error` is how far the body has turned from its course, in rad, left positive; the steps take it back."""
    distance = math.copysign(min(abs(distance), walk_reach(speed, amplitude)), distance)
    halves, step_s = walk_halves(distance, speed, amplitude), step_time_s(speed, amplitude)
    sweep = 0.0
    for _ in range(3):
        sweep = distance / metres_per_rad(step_s, abs(sweep)) / (2.0 * (halves - 1))
    steer = -heading_error / TURN_PER_RAD / (2.0 * (halves - 1))
    return _trot(start, halves, step_s, sweep, max(-0.15, min(0.15, steer)), WALK_CENTRE)


def turn(start: Pose, angle: float) -> Trajectory:
    """Turn on the spot by `angle` rad, left positive, or as far as one trajectory reaches, and stand."""
    angle = math.copysign(min(abs(angle), turn_reach()), angle)
    halves = turn_halves(angle)
    return _trot(start, halves, TURN_STEP_S, 0.0, angle / TURN_PER_RAD / (2.0 * (halves - 1)), 0.0)


def _trot(start: Pose, halves: int, step_s: float, sweep: float, steer: float, centre: float) -> Trajectory:
    """Diagonal pairs swing in turn while the others push. The first half step sets out from the middle and the last
    returns to it, so all feet stand at both ends and the coxae sweep 2 (halves - 1) amplitudes in all. A leg takes on
    its centre, and leaves it, only while it swings: a foot on the ground would turn the body."""
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
