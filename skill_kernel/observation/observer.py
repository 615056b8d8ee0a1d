# SPDX-License-Identifier: Apache-2.0
"""Puts a robot's observations together from what its sensors say; on a clock handed in, without ROS."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from skill_kernel.config.observation import CountLabel, MapPose, Moving, NearestBySector, Room, Speed, Take, Track
from skill_kernel.observation.fields import DerivedField, MadeField, MotionField, ObjectsField, PoseField, taken
from skill_kernel.observation.model import Observation, Pose
from skill_kernel.observation.odometry import Odometry, Trail
from skill_kernel.observation.sectors import ScanTurn, nearest_by_sector
from skill_kernel.observation.tracking import Sighting, Tracker
from skill_kernel.robot import RobotConfig


class Observer:
    """Takes measurements in and gives observations. All times are seconds of one steady clock: `at` when it was measured,
    `now` the present."""

    def __init__(self, robot: RobotConfig) -> None:
        self._base = robot.base
        self._trails: dict[str, Trail] = {}
        self._fields: dict[str, MadeField] = {}
        self._seq = 0
        for name, config in robot.observation.items():
            process = config.process
            if isinstance(process, MapPose):
                made: MadeField = PoseField(name, config, self._trail(config.source.topic))
            elif isinstance(process, (Speed, Moving)):
                made = MotionField(name, config, self._trail(config.source.topic))
            elif isinstance(process, Track):
                made = ObjectsField(name, config, Tracker(process), self._pose_at)
            elif isinstance(process, (CountLabel, Room)):
                made = DerivedField(name, config, self._fields[config.source.field], robot.rooms)
            else:
                made = MadeField(name, config)
            self._fields[name] = made

    def odometry(self, topic: str, odometry: Odometry) -> None:
        """Take in one measurement of an odometry topic; one that is not all numbers counts as silence."""
        if odometry.usable():
            self._trail(topic).add(odometry)

    def odom_in_map(self, pose: Pose) -> None:
        """Where the odometry's origin lies in the map; a pose that is not all finite numbers counts as silence."""
        if not all(map(math.isfinite, (pose.x, pose.y, pose.yaw))):
            return
        for trail in self._trails.values():
            trail.odom_in_map = pose

    def scan(self, name: str, turn: ScanTurn, at: float) -> bool:
        """Take in one turn of the lidar of field `name`. Whether anything in it was measured; else it counts as silence."""
        field = self._fields[name]
        process = field.config.process
        assert isinstance(process, NearestBySector)
        if not turn.usable():
            return False
        laser, radius = ((0.0, 0.0, 0.0), 0.0) if self._base is None else (self._base.laser, self._base.radius)
        field.put(nearest_by_sector(turn, process.sectors, laser=laser, radius=radius), at)
        return True

    def sightings(self, name: str, things: Iterable[Sighting], at: float) -> None:
        """Take in all that the detector of field `name` saw in the image of `at`."""
        field = self._fields[name]
        assert isinstance(field, ObjectsField)
        if field.tracker.update(things, at, self._pose_at(at)):
            field.seen(at)

    def take(self, name: str, raw: Any, at: float) -> None:
        """Take in the value that field `name` is made of: what stands at its path, or the text that was heard."""
        field = self._fields[name]
        process = field.config.process
        made = taken(process, field.config.kind, raw) if isinstance(process, Take) else raw
        field.put(raw if made is None else made, at)

    def table(self, name: str, rows: Mapping[str, str], at: float) -> None:
        """Take in the rows of field `name`."""
        self._fields[name].put(rows, at)

    def miss(self, name: str, why: str) -> None:
        """The source of field `name` has gone or gives no value."""
        self._fields[name].miss(why)

    def observation(self, now: float, time_s: float) -> Observation:
        """All fields as they are now. `time_s`: ROS time."""
        self._seq += 1
        return Observation(now, self._seq, time_s, {name: field.make(now) for name, field in self._fields.items()})

    def _trail(self, topic: str) -> Trail:
        return self._trails.setdefault(topic, Trail())

    def _pose_at(self, time: float) -> Pose | None:
        """By the field `pose`; a robot without one places nothing in the map."""
        field = self._fields.get("pose")
        return field.pose_at(time) if isinstance(field, PoseField) else None
