# SPDX-License-Identifier: Apache-2.0
"""Raw observations (M0) of a robot: which of them are kept, and as what record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from planners.memory.records import Kind, Provenance, Record, Spot, Tier
from skill_kernel.observation.model import Observation, Pose, SeenObject, Value

IN_SIGHT_S = 1.0
"""What was last detected longer ago is followed still, but no longer seen."""
LEAST_S = 0.2
"""Changes are kept no more often than that."""


class Sampler:
    """Keeps an observation every `period_s`, and at once when the robot comes to another room or sees other things."""

    def __init__(self, robot: str, period_s: float = 1.0) -> None:
        self._robot, self._period_s = robot, period_s
        self._last_s = -math.inf
        self._last: tuple[object, ...] = ()

    def take(self, observation: Observation, now: float) -> Record | None:
        """The record of an observation, or None when it says nothing new. `now` is on the observation's steady clock."""
        fields = {name: f.value for name, f in observation.fields.items() if f.value is not None and not f.stale(now)}
        things = [t for t in _objects(fields) if t.seen_s <= IN_SIGHT_S]
        pose, room = fields.get("pose"), fields.get("room")
        scene = (room, tuple(sorted({(t.label, t.track_id) for t in things})))
        waited = observation.time_s - self._last_s
        if 0 <= waited < (LEAST_S if scene != self._last else self._period_s):
            return None
        self._last_s, self._last = observation.time_s, scene
        data: dict[str, Any] = {n: v for n, v in fields.items() if n != "room" and isinstance(v, (bool, str)) or _finite(v)}
        data["objects"] = [_thing(t) for t in things]
        at = Spot(room=room) if isinstance(room, str) else Spot()
        if isinstance(pose, Pose) and pose.frame == "map":
            at = Spot(round(pose.x, 3), round(pose.y, 3), at.room)
            data["yaw"] = round(pose.yaw, 3)
        return Record(
            Tier.M0, Kind.OBSERVATION, observation.time_s, data=data, provenance=Provenance(self._robot, "observation"), spot=at
        )


def _objects(fields: Mapping[str, Value]) -> list[SeenObject]:
    found = fields.get("object_detections")
    return [t for t in found if isinstance(t, SeenObject)] if isinstance(found, tuple) else []


def _thing(thing: SeenObject) -> dict[str, Any]:
    told: dict[str, Any] = {"label": thing.label[:60], "track": thing.track_id, "confidence": round(thing.confidence, 2)}
    if math.isfinite(thing.x) and math.isfinite(thing.y):
        told |= {"x": round(thing.x, 2), "y": round(thing.y, 2)}
    return told


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
