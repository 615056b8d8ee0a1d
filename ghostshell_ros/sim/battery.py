# SPDX-License-Identifier: Apache-2.0
"""A simulated battery, so that what depends on its charge can be tried: it only ever empties."""

from __future__ import annotations

IDLE_HOURS = 4.0
WALK_HOURS = 1.5
WALK_MPS = 0.4
"""From full to empty: at rest, and at this speed without a pause; such robots do about that."""
FULL_V, EMPTY_V = 29.4, 24.5
"""Of seven lithium cells."""


class Battery:
    """`charge` is from 0 to 1."""

    def __init__(self, charge: float = 1.0) -> None:
        self.charge = min(max(charge, 0.0), 1.0)

    def drain(self, seconds: float, speed_mps: float) -> None:
        """Let it feed the robot for some time at a speed."""
        share = min(speed_mps / WALK_MPS, 2.0)
        per_hour = 1.0 / IDLE_HOURS + share * (1.0 / WALK_HOURS - 1.0 / IDLE_HOURS)
        self.charge = max(0.0, self.charge - seconds / 3600.0 * per_hour)

    @property
    def voltage(self) -> float:
        return EMPTY_V + (FULL_V - EMPTY_V) * self.charge
