# SPDX-License-Identifier: Apache-2.0
"""Kalos in simulation for unit tests: physics carries it, in virtual time."""

from __future__ import annotations

import math
from functools import lru_cache

from sim_probe import tilt

from ghostshell_ros.sim.parts import Legged, Lidar
from ghostshell_ros.sim.stage import Stage
from ghostshell_ros.sim.world import SimWorld

MODEL = "robots/kalos/kalos.xml"
COMMAND_S = 0.05


class KalosSim:
    """Kalos in the building at its start; one for all tests of a run, `kalos()` resets it."""

    def __init__(self) -> None:
        self.world = SimWorld(MODEL, world="building")
        self.gait = Legged(self.world, self.world.robot).gait
        self.stage = Stage(self.world)
        self.lidar = Lidar(self.world, self.world.robot)
        self.clear()

    def clear(self) -> None:
        """Forget the extremes of tilt (rad) and height (m) so far."""
        self.tilt, self.lowest, self.turned = 0.0, math.inf, 0.0

    def go(self, seconds: float, velocity: tuple[float, float, float] | None = None, *, posture: str = "") -> None:
        """Let time pass, with a velocity or a posture commanded 20 times a second or neither."""
        for _ in range(round(seconds / COMMAND_S)):
            if velocity is not None:
                self.gait.command(*velocity)
            if posture:
                self.gait.set_posture(posture)
            yaw = self.world.robot.base().pose.yaw
            self.world.advance(COMMAND_S)
            base = self.world.robot.base()
            self.turned += math.remainder(base.pose.yaw - yaw, math.tau)
            self.tilt, self.lowest = max(self.tilt, tilt(self.world)), min(self.lowest, base.height)

    def until(self, posture: str, at_most: float) -> float:
        """Command a posture until it is reached; gives the seconds, raises TimeoutError after `at_most`."""
        seconds = 0.0
        while self.gait.state != posture:
            if seconds >= at_most:
                raise TimeoutError(f"not '{posture}' after {at_most} s but '{self.gait.state}'")
            self.go(COMMAND_S, posture=posture)
            seconds += COMMAND_S
        return seconds


@lru_cache(maxsize=1)
def _shared() -> KalosSim:
    return KalosSim()


def kalos() -> KalosSim:
    """Kalos at rest at its start."""
    shared = _shared()
    shared.world.reset()
    shared.clear()
    return shared
