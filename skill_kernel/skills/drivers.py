# SPDX-License-Identifier: Apache-2.0
"""What a robot's body may do with its drivers: blocking calls that end soon after their stop event is set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


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


@dataclass(frozen=True)
class Scan:
    """One turn of a planar lidar in the base frame: `ranges[i]` in m at `angle_min + i * angle_step` rad, inf for none."""

    angle_min: float
    angle_step: float
    ranges: Sequence[float]


@dataclass(frozen=True)
class Detection:
    """Something the robot sees: `bearing` in rad and `distance` in m (nan when unknown) in the base frame."""

    label: str
    confidence: float
    bearing: float
    distance: float


@dataclass(frozen=True)
class MemoryAnswer:
    """What the memory said: `sources` are the texts of the records it stands on, `note` how its search was limited."""

    ok: bool
    text: str = ""
    note: str = ""
    sources: tuple[str, ...] = ()
    error_code: int = 0
    error_msg: str = ""
    cancelled: bool = False


class Drivers(Protocol):
    """The robot's action servers, seen from a skill. Every method blocks its thread until the action ended, and returns
    with `cancelled` true soon after `stop` was set, as the driver confirms that it stopped. Without that in 0.5 s the
    code is STOP_UNCERTAIN, and the robot is halted. None raises for a fault of the robot."""

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

    def drive(
        self,
        *,
        stop: StopEvent,
        distance: float = 0.0,
        lateral: float = 0.0,
        turn: float = 0.0,
        max_linear: float = 0.0,
        max_angular: float = 0.0,
    ) -> DriverResult:
        """Move the base relative to where it stands, in m and rad; `values` tells what was really moved, by the same
        names. 0 as speed is the robot's usual one."""

    def navigate(
        self, *, stop: StopEvent, waypoint: str = "", pose: Pose2D | None = None, tolerance: float = 0.0
    ) -> DriverResult:
        """Go to a named waypoint or to a pose in the map frame; `values['distance_left']` in m."""

    def set_posture(
        self, posture: str, *, stop: StopEvent, roll: float = 0.0, pitch: float = 0.0, yaw: float = 0.0, duration_s: float = 0.0
    ) -> DriverResult:
        """Bring a legged base into a posture, or with "" only its attitude in rad."""

    def pose(self) -> Pose2D | None:
        """Pose in the map frame, or None when it is not known."""

    def scan(self) -> Scan | None:
        """The last lidar turn, or None when none is newer than 0.5 s."""

    def image(self) -> Any:
        """The front camera's last picture, uint8 array of shape (height, width, 3), RGB, or None."""

    def query_memory(self, question: str, *, stop: StopEvent, timeout_s: float = 5.0) -> MemoryAnswer:
        """Ask the robots' memory a question, as this robot. It moves nothing."""

    def detections(self) -> Sequence[Detection] | None:
        """What is seen now, or None when nobody has looked in the last second."""
