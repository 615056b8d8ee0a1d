# SPDX-License-Identifier: Apache-2.0
"""Judge whether odometry and scan can be true: each alone, against each other, and against the commands of the gate."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from skill_kernel.robot import BaseConfig

Ranges = NDArray[np.floating]

AHEAD_S = 0.5
"""A stamp further in the future is a fault; clocks synchronised by NTP differ by a few ms."""
WINDOW_S = 0.5
"""Motion is compared with the commands in windows of this length; the body may lag behind them by as much."""
UNORDERED_S, UNORDERED_M, UNORDERED_RAD = 2.0, 0.15, 0.5
"""Motion without a command is a fault when it is this long and this far: the push of a child ends sooner, a sway comes back."""
CREEP_MPS, CREEP_RADPS = 0.1, 0.3
"""Below these speeds the base counts as still."""
SLIP = 1.5
"""Largest ratio of real to commanded motion."""
JUMP_M, JUMP_RAD, JUMP_SPEEDS = 0.3, 1.0, 3.0
"""A jump goes further than JUMP_SPEEDS times the largest speed could, by more than this distance or angle."""
JUMPED_M = 0.05
"""A jump is a fault once this distance has been commanded after it, beyond that of braking."""
ORDERED_M, ORDERED_BLIND_M = 0.3, 1.0
"""A sensor unchanged over this commanded distance is frozen. A stuck base looks so, too: without a scan it takes longer."""
RAY_M, RAY_SHARE, MOVED_SHARE = 0.1, 0.02, 0.2
"""Change of a ray that counts, in m and as a share of its length; share of rays that change when the robot itself moves."""


@dataclass(frozen=True)
class _Pose:
    at: float
    x: float
    y: float
    yaw: float
    ordered: float
    """Distance commanded until then [m]."""

    def way(self, other: _Pose) -> float:
        return math.hypot(self.x - other.x, self.y - other.y)

    def turned(self, other: _Pose) -> float:
        return abs(math.remainder(self.yaw - other.yaw, math.tau))


class Plausibility:
    """Follow the sensors of a base and the commands of its gate. `now` is in seconds of a steady clock.

    Each check returns why a measurement cannot be true, as a phrase behind the sensor's name ("jumped by …"), or "".
    """

    def __init__(self, base: BaseConfig) -> None:
        self._base = base
        self._stamps: dict[str, tuple[float, float]] = {}
        self._ordered = 0.0
        self._moves = False
        self._jump: tuple[str, float] | None = None
        """Description of a jump, and the distance commanded until then."""
        self._last: _Pose | None = None
        self._changed: _Pose | None = None
        self._ranges: Ranges | None = None
        self._ranges_then: Ranges | None = None
        """The first scan after odometry last changed."""
        self._scan_changed: _Pose | None = None
        """The pose when the scan last changed."""
        self.excuse()

    def excuse(self) -> None:
        """Begin a new window: motion until now is not judged, because a change of posture or attitude moves the body, too."""
        self._window: _Pose | None = None
        self._began: _Pose | None = None
        self._ordered_before = 0.0

    def order(self, speed: float, turn: float, elapsed: float) -> None:
        """Note a command of the gate: m/s and rad/s for `elapsed` s. A turn counts as distance: a base may pivot at a thing."""
        self._moves = speed > 0.0 or turn != 0.0
        self._ordered += (speed + abs(turn) * self._base.radius) * elapsed

    def stamped(self, now: float, sensor: str, stamp: float, clock: float) -> str:
        """Judge a stamp by `clock`, the present time of the clock it was made with [s]; 0 is no stamp."""
        before, since = self._stamps.get(sensor, (stamp, now))
        self._stamps[sensor] = (stamp, since if stamp == before else now)
        if stamp > 0.0 and 0.0 < clock < stamp - AHEAD_S:
            return f"is stamped {stamp - clock:.1f} s in the future: synchronise the clocks of all machines"
        repeated = stamp > 0.0 and stamp == before and now - since > WINDOW_S
        return "repeats one measurement, as its stamp tells" if repeated else ""

    def odometry(self, now: float, x: float, y: float, yaw: float) -> str:
        """Judge a pose in the odom frame (m, rad)."""
        here, before = _Pose(now, x, y, yaw, self._ordered), self._last
        self._last = here
        if before is None or self._changed is None or (x, y, yaw) != (before.x, before.y, before.yaw):
            self._changed, self._ranges_then = here, None
        jumped = self._jumped(here, before) if before is not None else ""
        return jumped or self._frozen(here, self._changed) or self._unordered(here)

    def scan(self, ranges: Ranges) -> str:
        """Judge the lengths of one scan's rays (m)."""
        before, self._ranges = self._ranges, ranges
        self._ranges_then = ranges if self._ranges_then is None else self._ranges_then
        last, then = self._last, self._scan_changed
        if last is None or then is None or before is None or not np.array_equal(before, ranges, equal_nan=True):
            self._scan_changed = last
        elif np.isfinite(ranges).any():
            way = last.way(then) + last.turned(then) * self._base.radius
            if min(way, last.ordered - then.ordered) > ORDERED_M:
                return f"is frozen: not one ray has changed while the base moved {way:.1f} m by its odometry"
        return ""

    def _jumped(self, here: _Pose, before: _Pose) -> str:
        """Return how odometry jumped, once the base has driven on: at rest it may be put elsewhere, as in a simulator."""
        elapsed, base = here.at - before.at, self._base
        way, turned = here.way(before), here.turned(before)
        fastest = max(base.max_forward, base.max_backward, base.max_lateral)
        if way > JUMP_M + JUMP_SPEEDS * fastest * elapsed or turned > JUMP_RAD + JUMP_SPEEDS * base.max_turn * elapsed:
            self.excuse()
            told = f"jumped by {way:.1f} m and {math.degrees(turned):.0f} degrees within {elapsed:.2f} s"
            self._jump = self._jump or (told, here.ordered)
        self._jump = self._jump if self._moves else None
        braking = fastest**2 / base.max_acceleration / 2 + base.max_turn**2 / base.max_turn_acceleration / 2 * base.radius
        return self._jump[0] if self._jump is not None and here.ordered - self._jump[1] > braking + JUMPED_M else ""

    def _frozen(self, here: _Pose, changed: _Pose) -> str:
        ordered = here.ordered - changed.ordered
        told = f"is frozen: it has not changed at all while the base was ordered to move {ordered:.1f} m"
        if self._ranges is None:
            return told if ordered > ORDERED_BLIND_M else ""
        if self._ranges_then is None or ordered < ORDERED_M or _changed_share(self._ranges_then, self._ranges) < MOVED_SHARE:
            return ""
        return f"{told} and the scan changes"

    def _unordered(self, here: _Pose) -> str:
        """Return how the base moved, if it moved more than commanded in every window for `UNORDERED_S`."""
        window = self._window
        if window is None or here.at - window.at > 1.5 * WINDOW_S:
            self.excuse()
            self._window = here
            return ""
        if here.at - window.at < WINDOW_S:
            return ""
        elapsed, ordered = here.at - window.at, here.ordered - window.ordered
        allowed, self._ordered_before, self._window = SLIP * max(ordered, self._ordered_before), ordered, here
        moves = here.way(window) > allowed + CREEP_MPS * elapsed
        turns = here.turned(window) > allowed / self._base.radius + CREEP_RADPS * elapsed
        began = self._began = (self._began or window) if moves or turns else None
        if began is None or here.at - began.at < UNORDERED_S:
            return ""
        way, turned = here.way(began), here.turned(began)
        if way < UNORDERED_M and turned < UNORDERED_RAD:
            return ""
        told = f"{way:.1f} m and {math.degrees(turned):.0f} degrees in {here.at - began.at:.1f} s"
        return f"tells of motion that the gate did not order ({told}): is the base pushed, or commanded past the gate?"


def _changed_share(before: Ranges, after: Ranges) -> float:
    """Return the share of rays whose length has changed; rays that met nothing both times do not count."""
    size = min(before.size, after.size)
    first, second = (np.where(np.isfinite(ranges[:size]), ranges[:size], 1e3) for ranges in (before, after))
    nearer = np.minimum(first, second)
    changed = np.abs(first - second) > RAY_M + RAY_SHARE * nearer
    return float(np.mean(changed[nearer < 1e3])) if (nearer < 1e3).any() else 0.0
