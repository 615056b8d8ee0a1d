# SPDX-License-Identifier: Apache-2.0
"""Name what a robot's body may use: the actions of its drivers, its senses, the fleet's memory."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from skill_kernel.codes import CallCode
from skill_kernel.skills.skill import SkillReturn


class StopEvent(Protocol):
    """The part of `threading.Event` that a driver call uses."""

    def is_set(self) -> bool: ...
    def wait(self, timeout: float | None = None) -> bool: ...


class DriverRefusal(Exception):
    """Refuse or end a goal; `code` is a constant of the action or a CallCode, the message goes to the caller."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class DriverResult:
    """Tell how a driver's action ended. `values` holds the fields of the result by name, nested messages as mappings."""

    ok: bool
    error_code: int = 0
    error_msg: str = ""
    cancelled: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)


def outcome(result: DriverResult, what: str, *, progress: Mapping[str, Any] | None = None) -> SkillReturn:
    """Return a driver's result as a skill's: `what` says what was done, or how far it came, `progress` the same in figures."""
    if result.ok:
        return SkillReturn.success(what, value=progress)
    if result.cancelled:
        return SkillReturn.interruption(what, progress=progress)
    code = result.error_code or int(CallCode.SKILL_FAILED)
    return SkillReturn.failure(f"{what}: {result.error_msg or 'the driver gives no reason'}", code)


@dataclass(frozen=True)
class Pose2D:
    """Planar pose in the odom frame: x, y in metres, yaw in radians (REP 103)."""

    x: float
    y: float
    yaw: float


@dataclass(frozen=True)
class Scan:
    """One turn of a planar lidar: `ranges[i]` in m at `angle_min + i * angle_step` rad, inf for none; it measures from
    `range_min` to `range_max` m. What a body's senses give it is in the base frame."""

    angle_min: float
    angle_step: float
    ranges: Sequence[float]
    range_min: float = 0.0
    range_max: float = math.inf


@dataclass(frozen=True)
class Detection:
    """Something the robot sees: `bearing` in rad and `distance` in m (nan when unknown) in the base frame."""

    label: str
    confidence: float
    bearing: float
    distance: float


@dataclass(frozen=True)
class MemoryAnswer:
    """The memory's answer: `sources` are the texts of the records it stands on, `note` how its search was limited."""

    ok: bool
    text: str = ""
    note: str = ""
    sources: tuple[str, ...] = ()
    error_code: int = 0
    error_msg: str = ""
    cancelled: bool = False


class Action(Protocol):
    """An action of one of the robot's drivers. A body's constructor gets those that its parameters name."""

    def __call__(
        self,
        *,
        stop: StopEvent,
        deadline_s: float | None = None,
        on_feedback: Callable[[Mapping[str, Any]], None] | None = None,
        **goal: Any,
    ) -> DriverResult:
        """Send a goal, given by the action's goal fields, and wait for its end.

        Blocks its thread. After `stop` was set it returns as soon as the driver confirms that it stopped, with `cancelled`
        true; without that in 0.5 s the code is STOP_UNCERTAIN, and the robot is halted. After `deadline_s` it stops the
        driver likewise, and the code is DEADLINE. `on_feedback` is called on another thread and returns at once. Nested
        messages are mappings, durations seconds. Raises TypeError for a goal field that the action does not have; a fault
        of the robot, or a value that does not fit, is in the result.
        """


class Senses(Protocol):
    """Readings of the robot's sensors. A body's constructor gets them as `senses`."""

    def joint_positions(self) -> Mapping[str, float]:
        """Return the last measured joint positions in rad by name; empty before the first measurement."""

    def odometry(self) -> Pose2D | None:
        """Return the last odometry, or None when the robot has none."""

    def pose(self) -> Pose2D | None:
        """Return the pose in the map frame, or None when it is not known."""

    def scan(self) -> Scan | None:
        """Return the last lidar turn, or None when none is newer than 0.5 s."""

    def image(self) -> Any:
        """Return the front camera's next picture, uint8 array of shape (height, width, 3), RGB, or None."""

    def detections(self) -> Sequence[Detection] | None:
        """Return what is seen now, or None when nobody has looked in the last second."""

    def sights(self) -> Sequence[str]:
        """Return every label that the detector can give; none where it does not tell."""

    def things(self) -> Mapping[str, tuple[Sequence[float], Sequence[float]]]:
        """Return things and handles (`<door>_handle`) seen in the last seconds: position in m and orientation (w, x, y, z) in
        the map frame by name."""


class Memory(Protocol):
    """The robots' memory. A body's constructor gets it as `memory`."""

    def __call__(self, question: str, *, stop: StopEvent, timeout_s: float = 5.0) -> MemoryAnswer:
        """Ask a question, as this robot. It moves nothing."""


def joint_trajectory(joints: Sequence[str], times_s: Sequence[float], positions: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return a `trajectory` for the action move_joints: `positions[k][i]` is joint i in rad at `times_s[k]` seconds.

    Raises ValueError when there is not one row of positions a time.
    """
    if len(times_s) != len(positions):
        raise ValueError(f"{len(times_s)} times but {len(positions)} rows of positions: send one row a time")
    points = [{"positions": list(row), "time_from_start": time_s} for time_s, row in zip(times_s, positions, strict=True)]
    return {"joint_names": list(joints), "points": points}


def map_pose(pose: Pose2D) -> dict[str, Any]:
    """Return a pose in the map frame for a goal field of type geometry_msgs/PoseStamped."""
    turned = {"w": math.cos(pose.yaw / 2), "z": math.sin(pose.yaw / 2)}
    return {"header": {"frame_id": "map"}, "pose": {"position": {"x": pose.x, "y": pose.y}, "orientation": turned}}
