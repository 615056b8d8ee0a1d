# SPDX-License-Identifier: Apache-2.0
"""Keep what is known of a robot at one moment, and what a queue of steps relied on: the few facts of an observation whose
change is worth planning again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from skill_kernel.events import CallEvent
from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, SeenObject
from skill_kernel.processes.process import Process, ProcessSource

IN_SIGHT_S = 1.0
"""Age up to which a detection counts as seen; an older one is only followed."""

MOVED_M = 0.5
"""A robot so far from where its steps were planned stands elsewhere."""
TURNED_RAD = math.radians(45.0)


@dataclass(frozen=True)
class Present:
    """Hold what is known at one moment, `steady_s` on the clock of observations and `time_s` in ROS time: the newest
    observation, however old, the processes, also those that have ended, and the calls that run."""

    observation: Observation | None = None
    processes: Sequence[Process] = ()
    running: Sequence[CallEvent] = ()
    steady_s: float = 0.0
    time_s: float = 0.0


EARLIER_TASKS, EARLIER_S = 3, 1800.0
"""Tasks before one that prompts show, if they have ended so recently."""


def earlier_tasks(present: Present, process_id: str) -> list[dict[str, str]]:
    """Return the newest tasks that a person gave and that have ended, oldest first, as prompts show them."""
    ended = [
        {"instruction": process.instruction, "achieved": process.achievement.name}
        for process in present.processes
        if process.source is ProcessSource.USER and process.process_id != process_id
        if process.ended_s and present.time_s - process.ended_s <= EARLIER_S
    ]
    return ended[-EARLIER_TASKS:]


@dataclass(frozen=True)
class SceneSnapshot:
    """Room, posture, what is in sight by label, and the pose; a field that is stale or missing tells nothing."""

    room: str = ""
    posture: str = ""
    in_sight: frozenset[str] = frozenset()
    pose: Pose | None = None

    @property
    def place(self) -> object:
        """Return what is equal for snapshots of one place with the same things in it; the way through it does not count."""
        return (self.room, self.posture, self.in_sight)

    def moved_m(self, other: SceneSnapshot) -> float:
        """Return how far apart the robot stood [m]; 0 while either place is not known."""
        if self.pose is None or other.pose is None or self.pose.frame != other.pose.frame:
            return 0.0
        return math.hypot(self.pose.x - other.pose.x, self.pose.y - other.pose.y)

    def holds(self, now: SceneSnapshot) -> bool:
        """Return whether steps planned on this may go on now."""
        turned = 0.0
        if self.pose is not None and now.pose is not None:
            turned = abs(math.remainder(self.pose.yaw - now.pose.yaw, math.tau))
        return self.place == now.place and self.moved_m(now) <= MOVED_M and turned <= TURNED_RAD


def snapshot(observation: Observation | None, now: float) -> SceneSnapshot:
    """Return what may be relied on in an observation; `now` is on its steady clock."""
    if observation is None or observation.stale(now):
        return SceneSnapshot()
    fresh = {name: field for name, field in observation.fields.items() if not field.stale(now)}
    posture = _text(fresh.get("posture"))
    labels: Counter[str] = Counter()
    for field in fresh.values():
        if field.kind is Kind.OBJECTS and isinstance(field.value, tuple):
            labels.update(thing.label for thing in field.value if isinstance(thing, SeenObject))
    pose = fresh.get("pose")
    return SceneSnapshot(
        _text(fresh.get("room")),
        "" if posture == "moving" else posture,
        frozenset(labels),
        pose.value if pose is not None and isinstance(pose.value, Pose) else None,
    )


def _text(field: FieldValue | None) -> str:
    return field.value if field is not None and isinstance(field.value, str) else ""
