# SPDX-License-Identifier: Apache-2.0
"""Convert observations to and from messages; they carry ages, so no two machines need one steady clock."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ghostshell.msg import Observation as ObservationMsg
from ghostshell.msg import ObservationField, ObservedObject

from ghostshell_ros.wire.values import ros_text, seconds, time_message
from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, Sector, SeenObject, Value

KINDS: dict[Kind, int] = {kind: int(getattr(ObservationField, kind.name)) for kind in Kind}
_KIND_OF = {number: kind for kind, number in KINDS.items()}


class ObservationWriter:
    """Makes the messages of one node. A field whose value has not changed keeps its message, with a new age."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[FieldValue, ObservationField]] = {}

    def message(self, observation: Observation) -> ObservationMsg:
        """Return the observation at its stamp as a message. The next call changes its parts: publish it before."""
        fields = []
        for name, field in observation.fields.items():
            made = self._made.get(name)
            if made is not None and made[0] is field:
                part = made[1]
            else:
                part = _part(field)
                self._made[name] = (field, part)
            part.age_s = field.age(observation.stamp)
            part.stale = field.stale(observation.stamp)
            fields.append(part)
        return ObservationMsg(stamp=time_message(observation.time_s), seq=observation.seq, fields=fields)


def to_message(observation: Observation) -> ObservationMsg:
    """Return an observation as a message of its own."""
    return ObservationWriter().message(observation)


def from_message(message: ObservationMsg, now: float, ros_now_s: float | None = None) -> Observation:
    """Return the observation on the reader's steady clock, whose present is `now`.

    With `ros_now_s`, ROS time in seconds, the time the message was underway or waited in a queue counts to its age.
    """
    time_s = seconds(message.stamp)
    underway = max(0.0, ros_now_s - time_s) if ros_now_s is not None else 0.0
    stamp = now - underway
    fields = {f.name: _field(f, stamp) for f in message.fields}
    return Observation(stamp, message.seq, time_s, fields)


def _part(field: FieldValue) -> ObservationField:
    part = ObservationField(name=field.name, kind=KINDS[field.kind], missing=ros_text(field.missing))
    part.max_age_s = field.max_age_s or 0.0
    value = field.value
    if value is None:
        part.missing = part.missing or "no reason is given"
    elif isinstance(value, bool):
        part.flag = value
    elif isinstance(value, (int, float)):
        part.number = float(value)
    elif isinstance(value, str):
        part.text = ros_text(value)
    elif isinstance(value, Pose):
        part.numbers, part.text = [value.x, value.y, value.yaw], value.frame
    elif isinstance(value, Mapping):
        part.names, part.texts = [ros_text(name) for name in value], [ros_text(text) for text in value.values()]
    elif field.kind is Kind.SECTORS:
        sectors = [s for s in value if isinstance(s, Sector)]
        part.names, part.numbers = [s.name for s in sectors], [s.distance for s in sectors]
    else:
        part.objects = [_object(o) for o in value if isinstance(o, SeenObject)]
    return part


def _object(thing: SeenObject) -> ObservedObject:
    return ObservedObject(
        track_id=thing.track_id,
        label=ros_text(thing.label),
        confidence=float(thing.confidence),
        bearing=thing.bearing,
        distance=thing.distance,
        x=thing.x,
        y=thing.y,
        seen_s=thing.seen_s,
    )


def _field(message: Any, stamp: float) -> FieldValue:
    kind = _KIND_OF.get(message.kind)
    limit = message.max_age_s if message.max_age_s > 0.0 else None
    if kind is None:
        return FieldValue(message.name, Kind.TEXT, None, -math.inf, limit, f"its kind {message.kind} is unknown here; rebuild")
    value = None if message.missing else _value(kind, message)
    return FieldValue(message.name, kind, value, stamp - message.age_s, limit, message.missing)


def _value(kind: Kind, message: Any) -> Value | None:
    if kind is Kind.BOOLEAN:
        return bool(message.flag)
    if kind is Kind.NUMBER:
        return float(message.number)
    if kind is Kind.TEXT:
        return str(message.text)
    if kind is Kind.POSE:
        if len(message.numbers) != 3:
            return None
        x, y, yaw = message.numbers
        return Pose(x, y, yaw, message.text)
    if kind is Kind.SECTORS:
        return tuple(Sector(n, d) for n, d in zip(message.names, message.numbers, strict=False))
    if kind is Kind.TABLE:
        return dict(zip(message.names, message.texts, strict=False))
    return tuple(
        SeenObject(o.track_id, o.label, o.confidence, o.bearing, o.distance, o.x, o.y, o.seen_s) for o in message.objects
    )
