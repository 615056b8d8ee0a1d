# SPDX-License-Identifier: Apache-2.0
"""The camera head as its skills see it: motions in degrees, on top of the drivers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from skill_kernel import SkillReturn
from skill_kernel.skills.drivers import Action, DriverResult, Senses, StopEvent, joint_trajectory

JOINTS = ("pan", "tilt")
"""Named as in pan_tilt.yaml and in the messages of the servo node."""

SPEED_DEG_S = 90.0
"""Speed of the head's own motions. The safety gate allows `max_velocity` of the robot's file and no more."""

SHORTEST_MOVE_S = 0.25

NEAR_DEG = 8.0
"""Servos lag and sag by less than this; what is further from the last goal was moved by somebody else."""

Place = tuple[float, float]
"""Pan and tilt in degrees; left and up are positive."""


class PanTiltBody:
    """Built once by the skill kernel, with the actions and senses that it names; skills get it as `body`."""

    def __init__(self, *, move_joints: Action, speak: Action, senses: Senses) -> None:
        self.move_joints, self.speak, self.senses = move_joints, speak, senses
        self._goal: Place | None = None

    def place(self) -> Place:
        """Return where the head points: its last goal while it is near that, else as measured.

        Raises RuntimeError while it has not been measured: a guess could make it jump."""
        measured = self.senses.joint_positions()
        if not all(joint in measured for joint in JOINTS):
            raise RuntimeError("pan and tilt have not been measured yet; check that the servo node publishes joint_states")
        here = math.degrees(measured["pan"]), math.degrees(measured["tilt"])
        return self._goal if self._goal is not None and _way(here, self._goal) < NEAR_DEG else here

    def visit(self, places: Sequence[Place], stop: StopEvent) -> DriverResult:
        """Point at one place after the other. Blocks; ends within 0.2 s of `stop`, and the head stays where it is."""
        here, now_s = self.place(), 0.0
        times_s, positions = [], []
        for place in places:
            now_s += max(_way(here, place) / SPEED_DEG_S, SHORTEST_MOVE_S)
            times_s.append(now_s)
            positions.append([math.radians(angle) for angle in place])
            here = place
        tolerance = math.radians(NEAR_DEG / 2)
        trajectory = joint_trajectory(JOINTS, times_s, positions)
        result = self.move_joints(trajectory=trajectory, goal_tolerance=tolerance, stop=stop)
        self._goal = here if result.ok else None
        return result


def outcome(result: DriverResult, done: str) -> SkillReturn:
    """Turn a driver's result into a skill's; `done` says what was done, for the model to read."""
    if result.ok:
        return SkillReturn.success(done)
    if result.cancelled:
        return SkillReturn.interruption(f"stopped before the end of: {done}")
    return SkillReturn.failure(f"{done} failed: {result.error_msg}", result.error_code)


def _way(one: Place, other: Place) -> float:
    """Return the larger of the two angles between places, in degrees."""
    return max(abs(a - b) for a, b in zip(one, other, strict=True))
