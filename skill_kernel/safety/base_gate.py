# SPDX-License-Identifier: Apache-2.0
"""Gate a mobile base: limits, acceleration, obstacles, sources by rank and a latched halt, on a clock handed in."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from skill_kernel.robot import BaseConfig
from skill_kernel.safety.joint_gate import LARGEST_STEP_S, Gate, Refusal, RefusalKind
from skill_kernel.safety.obstacles import Points, first_obstacle
from skill_kernel.safety.plausibility import Plausibility, Ranges


class Source(IntEnum):
    """Rank those who command (semantics, section 7); a halt outranks them all."""

    ELSEWHERE = 0
    """Whoever publishes `cmd_vel` by habit: tools and nodes of others."""
    SKILL = 1
    REFLEX = 2
    TELEOP = 3


@dataclass(frozen=True)
class Velocity:
    """Hold the velocity of a base in its own frame: m/s forward and to the left, rad/s counter-clockwise."""

    forward: float = 0.0
    lateral: float = 0.0
    turn: float = 0.0

    @property
    def speed(self) -> float:
        """Return the speed in m/s, whatever the direction."""
        return math.hypot(self.forward, self.lateral)


STILL = Velocity()
POSTURES = ("stand", "sit", "lie")
HOLD = "hold"
"""Said instead of a posture: stay as you are, also half way to one."""


class BaseGate(Gate):
    """Turn wished velocities into one that no command can make unsafe. Times are seconds of one steady clock.

    - The highest rank among the sources heard in the last `timeout_s` counts; with none the base stands.
    - Teleop keeps control from its first command until `release_teleop`. An operator silent for `deadman_s` halts.
    - Speeds keep the robot's limits, and their direction; changes keep its accelerations. A halt, a silence and an
      obstacle stop at once.
    - With a scan, the way is looked at that the base's disc would go: within `slow_distance` it slows, from
      `stop_distance` on it stands. Turning on the spot, away and along stays free.
    - A sensor once heard and silent for `sensor_timeout_s` (0 = never) halts; one that cannot be true does so, too.
    """

    def __init__(
        self,
        base: BaseConfig,
        *,
        timeout_s: float = 0.2,
        deadman_s: float = 0.5,
        sensor_timeout_s: float = 1.0,
        source_of: Callable[[str], str] = lambda sensor: "",
    ) -> None:
        """Take from `source_of` what to say of a sensor's publisher."""
        self._base = base
        self._source_of = source_of
        self.plausibility = Plausibility(base)
        self._doubts: dict[str, str] = {}
        self._timeout_s = timeout_s
        self._deadman_s = deadman_s
        self._sensor_timeout_s = sensor_timeout_s
        self._wishes: dict[Source, tuple[float, Velocity]] = {}
        self.teleop = False
        """True while an operator has the base."""
        self._heard: dict[str, float] = {}
        self._lost: set[str] = set()
        self._points: Points | None = None
        self._points_at = 0.0
        self.output = STILL
        """Velocity of the last tick, or still after a halt."""
        self._ticked_at: float | None = None
        self.commander = ""
        """Name of the source obeyed at the last tick; "" for none."""
        self.refused: Counter[RefusalKind] = Counter()
        """Commands that did not count, by kind."""

    def halt(self, cause: str) -> None:
        """Stand still until `clear_halt`. The first cause stands."""
        self.halt_cause = self.halt_cause or cause or "halted"
        self._forget_wishes()
        self.output = STILL

    def clear_halt(self) -> None:
        """Let commands count again; nothing moves before a new one. Motion while it was halted is forgiven."""
        self.halt_cause = ""
        self._forget_wishes()
        self.plausibility.excuse()

    def release_teleop(self) -> bool:
        """Give the base back to skills and reflexes, and return whether an operator had it. It stands until they command."""
        had, self.teleop = self.teleop, False
        self._wishes.clear()
        return had

    def hear(self, now: float, sensor: str) -> None:
        """Note a sign of life of a sensor; from the first one on its silence halts."""
        self._heard[sensor] = now
        self._lost.discard(sensor)

    @property
    def silent(self) -> str:
        """Return which sensors fell silent and have not been heard since; "" for none."""
        return ", ".join(sorted(self._lost))

    @property
    def unheard(self) -> set[str]:
        """Return the sensors that the robot's file names and that were never heard."""
        return {"scan"} - self._heard.keys() if self._base.scan else set()

    def believes(self, now: float, sensor: str, stamp: float, clock: float) -> bool:
        """Return whether a measurement with this stamp is a sign of life, by the time of the stamps' clock."""
        self._heard.setdefault(sensor, now)
        self._doubts[sensor] = self.plausibility.stamped(now, sensor, stamp, clock)
        return not self._doubts[sensor]

    def odometry(self, now: float, x: float, y: float, yaw: float) -> None:
        """Take in where the base is in the odom frame (m, rad)."""
        self.hear(now, "odom")
        self._judge("odom", self.plausibility.odometry(now, x, y, yaw))

    def scan(self, now: float, points: Points, ranges: Ranges | None = None) -> None:
        """Take in the obstacles around, in the base's frame, and the ranges (m) that they were made of."""
        self.hear(now, "scan")
        self._points, self._points_at = points, now
        if ranges is not None:
            self._judge("scan", self.plausibility.scan(ranges))

    def _judge(self, sensor: str, fault: str) -> None:
        if fault:
            self.halt(f"{sensor} {fault}{self._source_of(sensor)}")

    def command(self, now: float, source: Source, wish: Velocity) -> Refusal | None:
        """Wish a velocity. Return None, or why it did not count."""
        refusal = self._refuse(wish, source)
        if refusal is not None:
            self.refused[refusal.kind] += 1
            if refusal.kind is RefusalKind.HALTED and source is Source.TELEOP and self.teleop:
                self._wishes[source] = (now, STILL)  # the operator is still there
            return refusal
        if source is Source.TELEOP:
            self.teleop = True
        self._wishes[source] = (now, wish)
        return None

    def _refuse(self, wish: Velocity, source: Source) -> Refusal | None:
        name = source.name.lower()
        if not all(map(math.isfinite, (wish.forward, wish.lateral, wish.turn))):
            return Refusal(RefusalKind.NOT_FINITE, name, f"velocity of the {name} is not a number: {wish}")
        return self.refusal(name)

    def refusal(self, name: str) -> Refusal | None:
        """Return why nothing that `name` wishes may move the base now; None when it may."""
        if self.halted:
            return Refusal(RefusalKind.HALTED, name, f"halted ({self.halt_cause}): when it is safe: ghostshell clear")
        if blind := self._lost | self.unheard | {sensor for sensor, doubt in self._doubts.items() if doubt}:
            silent = ", ".join(sorted(blind))
            return Refusal(RefusalKind.NOT_MEASURED, name, f"{silent} is silent: is the robot or simulator running?")
        return None

    def tick(self, now: float) -> Velocity:
        """Advance to `now`, and return the velocity to send to the base."""
        elapsed = 0.0 if self._ticked_at is None else min(max(now - self._ticked_at, 0.0), LARGEST_STEP_S)
        self._ticked_at = now
        self.plausibility.order(self.output.speed, self.output.turn, elapsed)
        self._carry_points(now)
        self._watch(now)
        self.commander = ""
        wish = None if self.halted else self._wish(now)
        self.output = STILL if wish is None else self._kept_clear(self._stepped(self._limited(wish), elapsed))
        return self.output

    def _forget_wishes(self) -> None:
        """Forget what was wished, but not when the operator was last there."""
        there = self._wishes.get(Source.TELEOP)
        self._wishes = {} if there is None else {Source.TELEOP: (there[0], STILL)}

    def _watch(self, now: float) -> None:
        if self._sensor_timeout_s > 0:
            for sensor, at in self._heard.items():
                if sensor not in self._lost and now - at > self._sensor_timeout_s:
                    self._lost.add(sensor)
                    doubt = self._doubts.get(sensor)
                    self._judge(sensor, doubt or f"silent for {now - at:.1f} s")
        if self.teleop:
            at, _ = self._wishes.get(Source.TELEOP, (-math.inf, STILL))
            if now - at > self._deadman_s:
                self.teleop = False
                self.halt(f"the operator's deadman was lost: no command of teleop for {self._deadman_s:g} s")

    def _wish(self, now: float) -> Velocity | None:
        for source in (Source.TELEOP,) if self.teleop else (Source.REFLEX, Source.SKILL, Source.ELSEWHERE):
            at, wish = self._wishes.get(source, (-math.inf, STILL))
            if now - at <= self._timeout_s:
                self.commander = source.name.lower()
                return wish
        return None

    def _limited(self, wish: Velocity) -> Velocity:
        """Return the wish within the limits, in its own direction where the base can go that way at all."""
        base = self._base
        lateral = wish.lateral if base.max_lateral > 0 else 0.0
        most = base.max_forward if wish.forward > 0 else base.max_backward
        over = max(1.0, abs(wish.forward) / most, abs(lateral) / base.max_lateral if lateral else 0.0)
        turn = min(max(wish.turn, -base.max_turn), base.max_turn)
        return Velocity(wish.forward / over, lateral / over, turn)

    def _stepped(self, wish: Velocity, elapsed: float) -> Velocity:
        """Return what is as near to the wish as the accelerations allow."""
        now, most = self.output, self._base.max_acceleration * elapsed
        x, y = wish.forward - now.forward, wish.lateral - now.lateral
        share = min(1.0, most / change) if (change := math.hypot(x, y)) > 0 else 1.0
        most = self._base.max_turn_acceleration * elapsed
        turn = now.turn + min(max(wish.turn - now.turn, -most), most)
        return Velocity(now.forward + share * x, now.lateral + share * y, turn)

    def _kept_clear(self, velocity: Velocity) -> Velocity:
        """Return a slower velocity where the way is obstructed, at last only its turn."""
        speed = velocity.speed
        if self._points is None or speed == 0.0:
            return velocity
        base = self._base
        obstacle = first_obstacle(self._points, base.radius, math.atan2(velocity.lateral, velocity.forward))
        if obstacle is None:
            return velocity
        left = max(obstacle.free - base.stop_distance, 0.0)
        most = math.sqrt(2.0 * base.max_acceleration * left)
        if obstacle.free < base.slow_distance:
            fastest = max(base.max_forward, base.max_backward, base.max_lateral)
            most = min(most, fastest * left / (base.slow_distance - base.stop_distance))
        share = min(1.0, most / speed)
        return Velocity(velocity.forward * share, velocity.lateral * share, velocity.turn)

    def _carry_points(self, now: float) -> None:
        """Move what was seen with the base between two scans: the other way in its frame."""
        elapsed, self._points_at = min(max(now - self._points_at, 0.0), LARGEST_STEP_S), now
        if self._points is None or elapsed == 0.0 or self.output == STILL:
            return
        moved = self._points - np.array([self.output.forward, self.output.lateral]) * elapsed
        angle = self.output.turn * elapsed
        cos, sin = math.cos(angle), math.sin(angle)
        self._points = moved @ np.array([[cos, -sin], [sin, cos]])
