# SPDX-License-Identifier: Apache-2.0
"""Hold an observation: what the robot knows of itself and its surroundings at one moment, field by field (TypeGo 4)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from skill_kernel.config.observation import Kind as Kind


class ObservationError(RuntimeError):
    """Report that an accessor gave no value; the message says what to do."""


class StaleFieldError(ObservationError):
    """Report that a field is stale, missing, or does not tell what was asked. `age_s` is inf when it was never measured."""

    def __init__(self, field: str, age_s: float, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.age_s = age_s


class ArgumentError(ObservationError):
    """Report that there is no accessor of a name, or that it was called with arguments that do not fit."""


OBSERVATION_MAX_AGE_S = 1.0
"""An observation older than this says nothing any more: its observer is gone or hangs."""


@dataclass(frozen=True)
class Pose:
    """Hold a planar pose in `frame`: x, y in m, yaw in rad, counter-clockwise from x."""

    x: float
    y: float
    yaw: float
    frame: str = "map"


@dataclass(frozen=True)
class Sector:
    """Hold the nearest obstacle in one direction: m from the robot's edge, inf where all is free, nan where nobody measures."""

    name: str
    distance: float


@dataclass(frozen=True)
class SeenObject:
    """Hold a thing in sight that keeps its `track_id` while it is in sight and some time beyond.

    `bearing` in rad, left positive, and `distance` in m, nan when unknown, from the robot's middle; `x` and `y` in m in the
    map frame, nan when unknown; `seen_s` is how long before the observation it was last seen.
    """

    track_id: int
    label: str
    confidence: float
    bearing: float
    distance: float
    x: float = math.nan
    y: float = math.nan
    seen_s: float = 0.0


Value = bool | float | str | Pose | tuple[Sector, ...] | tuple[SeenObject, ...] | Mapping[str, str]
"""A field's value, by its kind: bool, float, str, Pose, Sectors, SeenObjects, or for a table text by name."""


@dataclass(frozen=True)
class FieldValue:
    """Hold one field. Times are seconds of the steady clock of the process that holds it.

    `value` is None when there is none, and `missing` then says why; `max_age_s` is None for what holds until it changes.
    """

    name: str
    kind: Kind
    value: Value | None
    measured_at: float = -math.inf
    max_age_s: float | None = None
    missing: str = ""

    def age(self, now: float) -> float:
        """Return the seconds since it was measured; inf when it never was."""
        return max(0.0, now - self.measured_at)

    def stale(self, now: float) -> bool:
        """Return whether it must not be taken for what is now."""
        return self.value is None or (self.max_age_s is not None and now - self.measured_at > self.max_age_s)


ALIKE = 0.03
"""Numbers that differ by less [m, rad, or of themselves] are those of a scene that stands still."""


def alike(one: FieldValue, other: FieldValue) -> bool:
    """Return whether two values of a field tell the same, but for the noise of measurements."""
    return one is other or (one.missing == other.missing and _alike(one.value, other.value))


def _alike(one: object, other: object) -> bool:
    one, other = _told(one), _told(other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or one != one != other != other or abs(one - other) < ALIKE * max(1.0, abs(one))
    return one == other


def _told(value: object) -> object:
    """Return a pose, sector or thing as a tuple, without what differs from image to image."""
    if not isinstance(value, (Pose, Sector, SeenObject)):
        return value
    return tuple(told for name, told in vars(value).items() if name not in ("confidence", "seen_s"))


@dataclass(frozen=True)
class Observation:
    """Hold all fields at one moment: `stamp` in seconds of the holder's steady clock, `time_s` in ROS time."""

    stamp: float
    seq: int = 0
    time_s: float = 0.0
    fields: Mapping[str, FieldValue] = field(default_factory=dict)

    def stale(self, now: float) -> bool:
        """Return whether it is too old as a whole, also for fields that do not age."""
        return now - self.stamp > OBSERVATION_MAX_AGE_S
