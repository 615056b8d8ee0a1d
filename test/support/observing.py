# SPDX-License-Identifier: Apache-2.0
"""A robot with eyes for the tests of the observation: Kalos's fields, and measurements in short words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from skill_kernel.observation.accessors import View, accessors_of
from skill_kernel.observation.model import Observation, Pose
from skill_kernel.observation.observer import Observer
from skill_kernel.observation.odometry import Odometry
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import Detection, Scan

KALOS = RobotConfig.load("kalos")
TABLE = accessors_of(KALOS)


def turn(distance: float = math.inf, at: Mapping[int, float] | None = None, rays: int = 360) -> Scan:
    """Return a turn of a lidar all around, `distance` m everywhere but at some bearings in degrees."""
    ranges = [distance] * rays
    for degrees, other in (at or {}).items():
        ranges[round((degrees + 180) * rays / 360) % rays] = other
    return Scan(-math.pi, math.tau / rays, ranges, 0.05, 12.0)


def person(distance: float, degrees: float = 0.0, confidence: float = 0.9) -> Detection:
    return Detection("person", confidence, math.radians(degrees), distance)


class Scene:
    """An observer on a clock of its own, `now`, that only `wait` moves."""

    def __init__(self, robot: RobotConfig = KALOS) -> None:
        self.now = 100.0
        self.observer = Observer(robot)
        self._table = accessors_of(robot)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def odometry(self, x: float = 0.0, y: float = 0.0, yaw: float = 0.0, speed: float = 0.0, turn: float = 0.0) -> None:
        self.observer.odometry("odom", Odometry(self.now, x, y, yaw, speed, turn))

    def mapped(self, pose: Pose | None = None) -> None:
        self.observer.odom_in_map(pose or Pose(0.0, 0.0, 0.0))

    def scan(self, turn: Scan) -> bool:
        return self.observer.scan("obstacles", turn, self.now)

    def see(self, *things: Detection) -> None:
        self.observer.sightings("object_detections", things, self.now)

    def everything(self) -> None:
        """All of Kalos's sources speak, just before now."""
        self.mapped()
        self.odometry()
        self.scan(turn())
        self.see()
        for field, value in (("posture", "stand"), ("battery", 0.8), ("charging", 2), ("last_heard", "")):
            self.observer.take(field, value, self.now)
        self.observer.take("subsystems", dict.fromkeys(KALOS.subsystems, "free"), self.now)
        self.wait(0.01)

    def observation(self) -> Observation:
        return self.observer.observation(self.now, 1_000.0 + self.now)

    def view(self, observation: Observation | None = None) -> View:
        return View(observation or self.observation(), self._table, self.now)


CALLS: Sequence[tuple[str, ...]] = tuple(
    (name, *((*parameter.choices, "hello")[0] for parameter in accessor.parameters)) for name, accessor in TABLE.items()
)
"""Each of Kalos's accessors, once."""
