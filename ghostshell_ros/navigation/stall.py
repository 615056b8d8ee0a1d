# SPDX-License-Identifier: Apache-2.0
"""Notices in bounded time that a base does not get on, and says what stands in its way."""

from __future__ import annotations

import math
from dataclasses import dataclass

from skill_kernel.robot import BaseConfig
from skill_kernel.safety.base_gate import Velocity
from skill_kernel.safety.obstacles import Obstacle, Points, first_obstacle

IN_THE_WAY_M = 0.1
"""So much further than the gate's stop_distance an obstacle may be and still be what stopped the base."""


@dataclass
class StallWatch:
    """What is left to do must shrink by `step` within each `patience_s`. Times are seconds of one steady clock."""

    patience_s: float
    step: float
    _best: float = math.inf
    _since: float = math.inf

    def stalled(self, now: float, left: float) -> bool:
        """Note how much is left; whether it has not shrunk for too long."""
        if left <= self._best - self.step or self._since == math.inf:
            self._best, self._since = left, now
        return now - self._since > self.patience_s

    def restart(self, now: float) -> None:
        """Begin anew, for what is left may have grown."""
        self._best, self._since = math.inf, now


def in_the_way(base: BaseConfig, points: Points | None, wish: Velocity) -> Obstacle | None:
    """Return what keeps the gate from letting a wish through, or None."""
    if points is None or wish.speed == 0.0:
        return None
    obstacle = first_obstacle(points, base.radius, math.atan2(wish.lateral, wish.forward))
    return obstacle if obstacle is not None and obstacle.free < base.stop_distance + IN_THE_WAY_M else None
