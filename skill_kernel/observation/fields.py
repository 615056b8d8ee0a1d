# SPDX-License-Identifier: Apache-2.0
"""The fields of a robot, each made from what its source last said when an observation is put together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from skill_kernel.config.observation import CountLabel, FieldConfig, Heard, MapPose, Moving, Take
from skill_kernel.config.rooms import RoomConfig
from skill_kernel.observation.model import FieldValue, Kind, Pose, SeenObject, Value
from skill_kernel.observation.odometry import Trail
from skill_kernel.observation.tracking import Tracker

TEXT_CHARS = 500
TABLE_ROWS = 100
"""Longer texts and tables are cut: what is sensed may come from anybody."""
EARLY = 0.9
"""A field is made anew this much of its period after the last time, so that a source's jitter costs no round."""


class MadeField:
    """A field that holds what its source last said. `make` is called when an observation is put together."""

    def __init__(self, name: str, config: FieldConfig) -> None:
        self.name, self.config = name, config
        source = config.source
        from_where = f"topic '{source.topic}'" if source.topic else f"service '{source.service}'"
        # Silence is an answer only of what is told when it happens.
        tells = isinstance(config.process, Heard) or (source.qos == "event" and config.kind is Kind.TEXT)
        self._held: Value | None = "" if tells else None
        self._at = -math.inf
        self._missing = "" if tells else f"nothing has come from {from_where} yet; is its node running?"
        self._made: FieldValue | None = None
        self._made_at = -math.inf

    def put(self, value: Any, at: float) -> None:
        """What the source says, measured at a time. A value that does not fit the field's kind makes it missing."""
        self._at = at
        self._held, self._missing = _fitting(self.config.kind, value)

    def miss(self, why: str) -> None:
        """There is no value any more."""
        self._held, self._missing = None, why

    def make(self, now: float) -> FieldValue:
        """The field's value at `now`, or the last one within its rate."""
        rate = self.config.rate_hz
        if self._made is None or not rate or now - self._made_at >= EARLY / rate or self._due(self._made):
            self._made, self._made_at = self._make(now), now
        return self._made

    def _due(self, made: FieldValue) -> bool:
        """Whether the last value must not stand until its period is over."""
        return made.missing != self._missing

    def _make(self, now: float) -> FieldValue:
        return self._value(self._held, self._at, self._missing)

    def _value(self, value: Value | None, at: float, missing: str) -> FieldValue:
        return FieldValue(self.name, self.config.kind, value, at, self.config.max_age_s, missing)


class PoseField(MadeField):
    """The newest odometry, in the map."""

    def __init__(self, name: str, config: FieldConfig, trail: Trail) -> None:
        super().__init__(name, config)
        self._trail = trail
        assert isinstance(config.process, MapPose)
        self.frame = config.process.frame

    def _due(self, made: FieldValue) -> bool:
        return made.value is None

    def _make(self, now: float) -> FieldValue:
        newest = self._trail.newest
        if newest is None:
            return self._value(None, self._at, self._missing)
        pose = self._trail.at(newest.at, self.frame)
        why = "" if pose is not None else "nobody tells where odom lies in the map; is navigate_to or a SLAM node running?"
        return self._value(pose, newest.at, why)

    def pose_at(self, time: float) -> Pose | None:
        """Where the robot was at a time, None when that is not known."""
        return self._trail.at(time, self.frame)


class MotionField(MadeField):
    """Speed, or whether it moves, of the newest odometry."""

    def __init__(self, name: str, config: FieldConfig, trail: Trail) -> None:
        super().__init__(name, config)
        self._trail = trail

    def _due(self, made: FieldValue) -> bool:
        return made.value is None

    def _make(self, now: float) -> FieldValue:
        newest, process = self._trail.newest, self.config.process
        if newest is None:
            return self._value(None, self._at, self._missing)
        if isinstance(process, Moving):
            moving = newest.speed > process.speed_mps or abs(math.degrees(newest.turn)) > process.turn_dps
            return self._value(moving, newest.at, "")
        return self._value(newest.speed, newest.at, "")


class ObjectsField(MadeField):
    """What the detector sees, tracked in the map."""

    def __init__(self, name: str, config: FieldConfig, tracker: Tracker, pose_at: Callable[[float], Pose | None]) -> None:
        super().__init__(name, config)
        self.tracker, self._pose_at = tracker, pose_at

    def seen(self, at: float) -> None:
        """The tracker took an image of this time in."""
        self._at, self._missing, self._made = at, "", None

    def _make(self, now: float) -> FieldValue:
        seen = None if self._missing else self.tracker.in_sight(now, self._pose_at(now))
        return self._value(seen, self._at, self._missing)


class DerivedField(MadeField):
    """A field made of another: how many things of a label there are, or which room the pose lies in. As old as that one."""

    def __init__(self, name: str, config: FieldConfig, source: MadeField, rooms: Mapping[str, RoomConfig]) -> None:
        super().__init__(name, config)
        self._source, self._rooms = source, rooms

    def _due(self, made: FieldValue) -> bool:
        return True

    def _make(self, now: float) -> FieldValue:
        of = self._source.make(now)
        if of.value is None:
            made = self._value(None, of.measured_at, f"it is made of '{of.name}', and {of.missing}")
        else:
            made = self._value(self._derived(of.value), of.measured_at, "")
        return made if self.config.max_age_s is not None else replace(made, max_age_s=of.max_age_s)

    def _derived(self, value: Value) -> Value:
        process = self.config.process
        if isinstance(process, CountLabel) and isinstance(value, tuple):
            return float(sum(isinstance(thing, SeenObject) and thing.label == process.label for thing in value))
        assert isinstance(value, Pose)
        return next((name for name, room in self._rooms.items() if room.holds(value.x, value.y)), "")


def taken(process: Take, kind: Kind, raw: Any) -> Value | None:
    """What `take` makes of the value at its path; None when that is no boolean, number or text as the kind wants it."""
    if process.equals:
        answer = raw in process.equals
        return answer if kind is Kind.BOOLEAN else float(answer) if kind is Kind.NUMBER else str(answer).lower()
    if kind is Kind.NUMBER:
        try:
            return float(raw) * process.scale + process.offset
        except (TypeError, ValueError):
            return None
    if kind is Kind.BOOLEAN:
        return bool(raw) if isinstance(raw, (bool, int)) else None
    return str(raw)


def _fitting(kind: Kind, value: Any) -> tuple[Value | None, str]:
    """The value as the kind wants it, or None and why it cannot be had."""
    if kind is Kind.NUMBER:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value), ""
        return None, f"its source says {str(value)[:40]}, which is no number; look at the sensor"
    if kind is Kind.TEXT and isinstance(value, str):
        return (value if len(value) <= TEXT_CHARS else value[: TEXT_CHARS - 1] + "…"), ""
    if kind is Kind.TABLE and isinstance(value, Mapping):
        rows = list(value.items())[:TABLE_ROWS]
        return {str(key)[:TEXT_CHARS]: str(text)[:TEXT_CHARS] for key, text in rows}, ""
    if (kind is Kind.BOOLEAN and isinstance(value, bool)) or (kind is Kind.SECTORS and isinstance(value, tuple)):
        return value, ""
    return None, f"its source gives no {kind.value}; compare source and process in the robot's file"
