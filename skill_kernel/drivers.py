# SPDX-License-Identifier: Apache-2.0
"""What a robot's body may do with its drivers: blocking calls that end soon after their stop event is set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class StopEvent(Protocol):
    """The part of `threading.Event` a driver call looks at."""

    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


@dataclass(frozen=True)
class DriverResult:
    """How a driver action ended. `values` holds the action's numeric result fields by name."""

    ok: bool
    error_code: int = 0
    error_msg: str = ""
    cancelled: bool = False
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pose2D:
    """Planar pose in the odom frame: x, y in metres, yaw in radians (REP 103)."""

    x: float
    y: float
    yaw: float


class Drivers(Protocol):
    """The robot's action servers, seen from a skill. Every method blocks its thread until the action ended, and returns
    within 0.2 s of `stop` being set with `cancelled` true. None raises for a fault of the robot."""

    def move_joints(
        self,
        joints: Sequence[str],
        times_s: Sequence[float],
        positions: Sequence[Sequence[float]],
        *,
        stop: StopEvent,
        tolerance_rad: float = 0.0,
    ) -> DriverResult:
        """Play a trajectory: `positions[k][i]` is joint i in rad at `times_s[k]` seconds from now, interpolated."""

    def speak(self, text: str, *, stop: StopEvent, voice: str = "", rate: float = 1.0, volume: float = 1.0) -> DriverResult:
        """Say a text; `values['spoken_chars']` tells how far it came."""

    def play_sound(self, name: str, *, stop: StopEvent, volume: float = 1.0, loop: bool = False) -> DriverResult:
        """Play a named sound to its end, or until stopped when it loops."""

    def show_face(self, face: str, *, stop: StopEvent, duration_s: float = 0.0) -> DriverResult:
        """Show an expression for a time; 0 means until stopped."""

    def joint_positions(self) -> Mapping[str, float]:
        """Last measured joint positions in rad by name; empty before the first measurement."""

    def odometry(self) -> Pose2D | None:
        """Last odometry, or None when the robot has none."""
