# SPDX-License-Identifier: Apache-2.0
"""When a condition that is looked at again and again comes true: once, not as long as it stays so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Trigger:
    """Armed until `spend`, and again once its condition has been false for `rearm_s`: what is sensed flickers."""

    rearm_s: float
    armed: bool = True
    false_since_s: float | None = None

    def see(self, holds: bool | None, now_s: float) -> bool:
        """Take the condition's value; return whether it holds and the trigger is armed. Unknown (None) changes nothing."""
        if holds is None:
            return False
        if holds:
            self.false_since_s = None
            return self.armed
        if self.false_since_s is None:
            self.false_since_s = now_s
        self.armed = self.armed or now_s - self.false_since_s >= self.rearm_s
        return False

    def spend(self) -> None:
        """Let the condition not fire again while it stays true."""
        self.armed = False
