# SPDX-License-Identifier: Apache-2.0
"""Put a robot's observations together from what its sensors say, on a clock handed in and without ROS."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from skill_kernel.config.observation import CountLabel, FieldConfig, MapPose, Moving, NearestBySector, Take, Track
from skill_kernel.config.sections import shown
from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, SeenObject, Value
from skill_kernel.observation.odometry import Odometry, Trail, nearest_by_sector, usable
from skill_kernel.observation.tracking import Tracker
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import Detection, Scan

TEXT_CHARS = 500
TABLE_ROWS = 100
"""Longer texts and tables are cut: what is sensed may come from anybody."""


class _Field:
    """Hold what the source of a field last said, unless `work_out` makes its value when an observation is put together."""

    def __init__(self, name: str, config: FieldConfig) -> None:
        self.name, self.config = name, config
        source = config.source
        # Silence is an answer only of what is told when it happens.
        tells = config.process.function == "heard" or (source.qos == "event" and config.kind is Kind.TEXT)
        self._held: Value | None = "" if tells else None
        self.missing = "" if tells else f"nothing has come from topic '{source.topic}' yet; is its node running?"
        self.at = -math.inf
        self.work_out: Callable[[float], FieldValue | None] = lambda now: None

    def put(self, value: Any, at: float) -> None:
        """Take what the source says, measured at a time. A value that does not fit the field's kind makes it missing."""
        self.at = at
        self._held, self.missing = _fitting(self.config.kind, value)

    def miss(self, why: str) -> None:
        """Note that there is no value any more."""
        self._held, self.missing = None, why

    def make(self, now: float) -> FieldValue:
        """Return the field's value at `now`. One made of another field is as old as it is."""
        return self.work_out(now) or self.value(self._held, self.at, self.missing)

    def value(self, value: Value | None, at: float, missing: str = "", max_age_s: float | None = None) -> FieldValue:
        limit = self.config.max_age_s
        return FieldValue(self.name, self.config.kind, value, at, max_age_s if limit is None else limit, missing)


class Observer:
    """Take measurements in and gives observations. All times are seconds of one steady clock: `at` when it was measured,
    `now` the present."""

    def __init__(self, robot: RobotConfig) -> None:
        self._base, self._rooms = robot.base, robot.rooms
        self._trails: dict[str, Trail] = {}
        self._trackers: dict[str, Tracker] = {}
        self._fields: dict[str, _Field] = {}
        self._seq = 0
        for name, config in robot.observation.items():
            field = self._fields[name] = _Field(name, config)
            process = config.process
            if process.function in ("pose", "speed", "moving"):
                field.work_out = partial(self._moved, field, self._trail(config.source.topic))
            elif isinstance(process, Track):
                self._trackers[name] = Tracker(process)
                field.work_out = partial(self._in_sight, field, self._trackers[name])
            elif process.function in ("count", "room"):
                field.work_out = partial(self._derived, field, self._fields[config.source.field])

    def odometry(self, topic: str, odometry: Odometry) -> None:
        """Take in one measurement of an odometry topic; one that is not all numbers counts as silence."""
        if odometry.usable():
            self._trail(topic).add(odometry)

    def odom_in_map(self, pose: Pose) -> None:
        """Take in where the odometry's origin lies in the map; a pose that is not all finite numbers counts as silence."""
        if all(map(math.isfinite, (pose.x, pose.y, pose.yaw))):
            for trail in self._trails.values():
                trail.odom_in_map = pose

    def scan(self, name: str, turn: Scan, at: float) -> bool:
        """Take in one turn of the lidar of field `name`. Return whether it measured anything; else it counts as silence."""
        process = self._fields[name].config.process
        assert isinstance(process, NearestBySector)
        if not usable(turn):
            return False
        laser, radius = ((0.0, 0.0, 0.0), 0.0) if self._base is None else (self._base.laser, self._base.radius)
        self._fields[name].put(nearest_by_sector(turn, process.sectors, laser=laser, radius=radius), at)
        return True

    def sightings(self, name: str, things: Iterable[Detection], at: float) -> None:
        """Take in all that the detector of field `name` saw in the image of `at`."""
        if self._trackers[name].update(things, at, self._pose_at(at)):
            field = self._fields[name]
            field.at, field.missing = at, ""

    def take(self, name: str, raw: Any, at: float) -> None:
        """Take in the value that field `name` is made of: what stands at its path, the text that was
        heard, or the rows of a table."""
        field = self._fields[name]
        process = field.config.process
        made = _taken(process, field.config.kind, raw) if isinstance(process, Take) else raw
        field.put(raw if made is None else made, at)

    def miss(self, name: str, why: str) -> None:
        """Note that the source of field `name` has gone or gives no value."""
        self._fields[name].miss(why)

    def fields(self, now: float) -> Mapping[str, FieldValue]:
        return {name: field.make(now) for name, field in self._fields.items()}

    def observation(self, now: float, time_s: float) -> Observation:
        """Return the next observation, of all fields as they are now. `time_s`: ROS time."""
        self._seq += 1
        return Observation(now, self._seq, time_s, self.fields(now))

    def _trail(self, topic: str) -> Trail:
        return self._trails.setdefault(topic, Trail())

    def _pose_at(self, time: float) -> Pose | None:
        """Return the pose at a time by the field `pose`; a robot without one places nothing in the map."""
        config = self._fields["pose"].config if "pose" in self._fields else None
        if config is None or not isinstance(config.process, MapPose):
            return None
        return self._trail(config.source.topic).at(time, config.process.frame)

    def _moved(self, field: _Field, trail: Trail, now: float) -> FieldValue | None:
        """Return the pose in the map, the speed, or whether it moves, by the newest odometry."""
        newest, process = trail.newest, field.config.process
        if newest is None:
            return None
        if isinstance(process, MapPose):
            pose = trail.at(newest.at, process.frame)
            why = "" if pose is not None else "nobody tells where odom lies in the map; is navigate_to or a SLAM node running?"
            return field.value(pose, newest.at, why)
        if isinstance(process, Moving):
            turns = abs(math.degrees(newest.turn)) > process.turn_dps
            return field.value(newest.speed > process.speed_mps or turns, newest.at)
        return field.value(newest.speed, newest.at)

    def _in_sight(self, field: _Field, tracker: Tracker, now: float) -> FieldValue | None:
        return None if field.missing else field.value(tracker.in_sight(now, self._pose_at(now)), field.at)

    def _derived(self, field: _Field, source: _Field, now: float) -> FieldValue:
        """Return how many things of a label there are, or which room the pose lies in."""
        of, process = source.make(now), field.config.process
        if of.value is None:
            why = f"it is made of '{of.name}', and {of.missing}"
            return field.value(None, of.measured_at, why, of.max_age_s)
        made: Value
        if isinstance(process, CountLabel) and isinstance(of.value, tuple):
            made = float(sum(isinstance(thing, SeenObject) and thing.label == process.label for thing in of.value))
        else:
            assert isinstance(of.value, Pose)
            here = of.value
            made = next((name for name, room in self._rooms.items() if room.holds(here.x, here.y)), "")
        return field.value(made, of.measured_at, "", of.max_age_s)


def _taken(process: Take, kind: Kind, raw: Any) -> Value | None:
    """Return what `take` makes of the value at its path; None when that is no boolean, number or text as the kind wants it."""
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
    """Return the value as the kind wants it, or None and why it cannot be had."""
    if kind is Kind.NUMBER:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value), ""
        return None, f"its source says {shown(value, 40)}, which is no number; look at the sensor"
    if kind is Kind.TEXT and isinstance(value, str):
        return (value if len(value) <= TEXT_CHARS else value[: TEXT_CHARS - 1] + "…"), ""
    if kind is Kind.TABLE and isinstance(value, Mapping):
        rows = list(value.items())[:TABLE_ROWS]
        return {str(key)[:TEXT_CHARS]: str(text)[:TEXT_CHARS] for key, text in rows}, ""
    if (kind is Kind.BOOLEAN and isinstance(value, bool)) or (kind is Kind.SECTORS and isinstance(value, tuple)):
        return value, ""
    return None, f"its source gives no {kind.value}; compare source and process in the robot's file"
