# SPDX-License-Identifier: Apache-2.0
"""Gate joints: limits, largest speed, hold on silence and a latched halt, on a clock handed in."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from skill_kernel.robot import JointConfig

LARGEST_STEP_S = 0.05
"""A late tick counts as this much time at most: a stalled process catches up at the joint's speed, never in a leap."""
SETTLE_S = 1.0
"""Time in which a joint still follows its last set-point."""
UNORDERED_S, UNORDERED_RAD = 1.5, 0.35
"""A joint halts that is further away from its set-point than it was then, by this angle and for this time."""


class RefusalKind(Enum):
    """Name the reasons for which a command does not count."""

    HALTED = "halted"
    NOT_MEASURED = "not measured"
    LENGTHS = "lengths"
    UNKNOWN_JOINT = "unknown joint"
    NOT_FINITE = "not finite"


@dataclass(frozen=True)
class Refusal:
    """Report a refused command: its kind, the joint concerned ("" for all) and a sentence for the log."""

    kind: RefusalKind
    joint: str
    message: str


@dataclass
class _Joint:
    output: float
    target: float
    commanded_at: float


@dataclass
class _Rest:
    """Hold the position at which a joint came to rest (rad), its set-point then, and since when it is elsewhere."""

    set_point: float | None
    since: float
    position: float
    away_since: float | None = None


class Gate:
    """Hold a latched halt."""

    halt_cause = ""
    """Cause of the halt; "" without one."""

    @property
    def halted(self) -> bool:
        """Return whether a halt is latched."""
        return bool(self.halt_cause)


class JointGate(Gate):
    """Turn wished joint positions into set-points that no command can make unsafe.

    A joint starts at its measured position and moves towards its wish at its largest speed at most, never past its
    limits. `timeout_s` after the last wish for it, it stays where it is. While halted, no set-point changes. A command
    with anything wrong in it is refused as a whole: half a pose may be a fall. A joint that leaves its set-point halts.

    Times are seconds of one steady clock.
    """

    def __init__(
        self, limits: Mapping[str, JointConfig], *, timeout_s: float = 0.2, measurement_timeout_s: float = 1.0
    ) -> None:
        """Halt after `measurement_timeout_s` without a measurement, once there was one; 0 = never."""
        self._limits = dict(limits)
        self._timeout_s = timeout_s
        self._measurement_timeout_s = measurement_timeout_s
        self._measured: dict[str, float] = {}
        self._measured_at: dict[str, float] = {}
        self._lost = False
        self._joints: dict[str, _Joint] = {}
        self._rests: dict[str, _Rest] = {}
        self._ticked_at: float | None = None

    def halt(self, cause: str) -> None:
        """Freeze every set-point until `clear_halt`. The first cause stands."""
        self.halt_cause = self.halt_cause or cause or "halted"
        for joint in self._joints.values():
            joint.target = joint.output

    def clear_halt(self) -> None:
        """Let commands count again; nothing moves before a new one. A joint that was bent meanwhile sets out from there."""
        self.halt_cause = ""
        for name in [name for name, rest in self._rests.items() if rest.away_since is not None]:
            self._joints.pop(name, None)
        self._rests.clear()

    @property
    def silent(self) -> str:
        """Return which sensor fell silent and has not been heard since; "" for none."""
        return "joint_states" if self._lost else ""

    def measure(self, now: float, names: Sequence[str], positions: Sequence[float]) -> bool:
        """Take in measured positions in rad. After a silence of the sensor, set-points start anew from them.

        Return False where no known joint is a number. That is no sign of life: a broken bus may go on sending.
        """
        found = [(n, p) for n, p in zip(names, positions, strict=False) if n in self._limits and math.isfinite(p)]
        if not found:
            return False
        if self._lost:
            self._lost = False
            for known in (self._joints, self._measured, self._measured_at, self._rests):
                known.clear()
        for name, position in found:
            self._watch_motion(now, name, position)
        self._measured.update(found)
        self._measured_at.update((name, now) for name, _ in found)
        return True

    def command(self, now: float, names: Sequence[str], positions: Sequence[float]) -> Refusal | None:
        """Wish positions in rad for some joints. Return None, or why the command as a whole did not count."""
        refusal = self._refuse(names, positions)
        if refusal is not None:
            return refusal
        for name, position in zip(names, positions, strict=True):
            joint, limit = self._joints.get(name), self._limits[name]
            if joint is None:
                joint = self._joints[name] = _Joint(self._measured[name], self._measured[name], now)
            joint.target = min(max(position, limit.lower), limit.upper)
            joint.commanded_at = now
        return None

    def _refuse(self, names: Sequence[str], positions: Sequence[float]) -> Refusal | None:
        if self.halted:
            return Refusal(RefusalKind.HALTED, "", f"halted ({self.halt_cause}): when it is safe: ghostshell clear")
        if self._lost:
            return Refusal(RefusalKind.NOT_MEASURED, "", "joint_states are silent: is the robot or simulator running?")
        if len(names) != len(positions):
            return Refusal(
                RefusalKind.LENGTHS, "", f"{len(names)} names but {len(positions)} positions: send one position a name"
            )
        for name, position in zip(names, positions, strict=True):
            if name not in self._limits:
                known = ", ".join(sorted(self._limits))
                return Refusal(RefusalKind.UNKNOWN_JOINT, name, f"unknown joint '{name[:80]}' (known: {known})")
            if not math.isfinite(position):
                return Refusal(RefusalKind.NOT_FINITE, name, f"position {position} for joint '{name}' is not a number")
            if name not in self._joints and name not in self._measured:
                return Refusal(
                    RefusalKind.NOT_MEASURED, name, f"joint '{name}' was not measured yet: is joint_states published?"
                )
        return None

    def tick(self, now: float) -> Mapping[str, float]:
        """Advance to `now`, and return the set-points in rad of all joints that were ever commanded."""
        self._watch_sensor(now)
        elapsed = 0.0 if self._ticked_at is None else min(max(now - self._ticked_at, 0.0), LARGEST_STEP_S)
        self._ticked_at = now
        if not self.halted:
            for name, joint in self._joints.items():
                if now - joint.commanded_at > self._timeout_s:
                    joint.target = joint.output
                step = self._limits[name].max_velocity * elapsed
                joint.output += min(max(joint.target - joint.output, -step), step)
        return {name: joint.output for name, joint in self._joints.items()}

    def _watch_sensor(self, now: float) -> None:
        if not self._measured_at or self._measurement_timeout_s <= 0 or self._lost:
            return
        oldest = min(self._measured_at, key=lambda name: self._measured_at[name])
        silence = now - self._measured_at[oldest]
        if silence > self._measurement_timeout_s:
            self._lost = True
            others = any(now - at <= self._measurement_timeout_s for at in self._measured_at.values())
            self.halt(f"joint_states silent{f' about {oldest}' if others else ''} for {silence:.1f} s")

    def _watch_motion(self, now: float, name: str, position: float) -> None:
        """Halt when a joint at rest goes away from its set-point: a push or a stop on its way there ends otherwise."""
        set_point = joint.output if (joint := self._joints.get(name)) is not None else None
        rest = self._rests.get(name)
        leaps = abs(position - self._measured.get(name, position)) > UNORDERED_RAD  # as when a simulator is reset
        if rest is None or set_point != rest.set_point or leaps:
            self._rests[name] = _Rest(set_point, now, position)
            return
        if now - rest.since < SETTLE_S:
            rest.position = position
        wished = rest.position if set_point is None else set_point
        away = abs(position - wished) - abs(rest.position - wished)
        rest.away_since = None if away < UNORDERED_RAD else rest.away_since or now
        if rest.away_since is not None and now - rest.away_since > UNORDERED_S:
            self.halt(f"joint {name} moved {away:.1f} rad without an order: is it bent, or commanded past the gate?")

    def moving(self, now: float) -> bool:
        """Return whether set-points may still change, or a commander is still being listened to."""
        return not self.halted and any(now - joint.commanded_at <= self._timeout_s for joint in self._joints.values())
