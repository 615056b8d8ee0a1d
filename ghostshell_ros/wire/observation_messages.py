# SPDX-License-Identifier: Apache-2.0
"""Convert observations to and from messages, which carry ages, so that machines need no common steady clock."""

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ghostshell.msg import Observation as ObservationMsg
from ghostshell.msg import ObservationField, ObservedObject

from ghostshell_ros.wire.values import ros_text, seconds, time_message
from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, Sector, SeenObject, Value

KINDS: dict[Kind, int] = {kind: int(getattr(ObservationField, kind.name)) for kind in Kind}
_KIND_OF = {number: kind for kind, number in KINDS.items()}
_SEEN = [f.name for f in fields(SeenObject)]
"""Fields that SeenObject shares with ObservedObject."""
_WRITTEN: dict[Kind, Callable[[Any], dict[str, Any]]] = {
    Kind.BOOLEAN: lambda value: {"flag": value},
    Kind.NUMBER: lambda value: {"number": float(value)},
    Kind.TEXT: lambda value: {"text": ros_text(value)},
    Kind.POSE: lambda pose: {"numbers": [pose.x, pose.y, pose.yaw], "text": pose.frame},
    Kind.SECTORS: lambda sectors: {"names": [s.name for s in sectors], "numbers": [s.distance for s in sectors]},
    Kind.OBJECTS: lambda things: {"objects": [ObservedObject(**vars(o) | {"label": ros_text(o.label)}) for o in things]},
    Kind.TABLE: lambda rows: {"names": [*map(ros_text, rows)], "texts": [*map(ros_text, rows.values())]},
}
_READ: dict[Kind, Callable[[Any], Value | None]] = {
    Kind.BOOLEAN: lambda message: bool(message.flag),
    Kind.NUMBER: lambda message: float(message.number),
    Kind.TEXT: lambda message: str(message.text),
    Kind.POSE: lambda message: Pose(*[*message.numbers, message.text]) if len(message.numbers) == 3 else None,
    Kind.SECTORS: lambda message: tuple(Sector(n, d) for n, d in zip(message.names, message.numbers, strict=False)),
    Kind.OBJECTS: lambda message: tuple(SeenObject(*(getattr(o, name) for name in _SEEN)) for o in message.objects),
    Kind.TABLE: lambda message: dict(zip(message.names, message.texts, strict=False)),
}


def observation_message(observation: Observation) -> ObservationMsg:
    """Return the observation at its stamp as a message."""
    parts = [_part(field, observation.stamp) for field in observation.fields.values()]
    return ObservationMsg(stamp=time_message(observation.time_s), seq=observation.seq, fields=parts)


def from_message(message: ObservationMsg, now: float, ros_now_s: float | None = None) -> Observation:
    """Return the observation on the reader's steady clock, whose present is `now`.

    With `ros_now_s`, ROS time in seconds, the age includes the time that the message was underway.
    """
    time_s = seconds(message.stamp)
    underway = max(0.0, ros_now_s - time_s) if ros_now_s is not None else 0.0
    stamp = now - underway
    return Observation(stamp, message.seq, time_s, {f.name: _field(f, stamp) for f in message.fields})


def _part(field: FieldValue, stamp: float) -> ObservationField:
    values = {} if field.value is None else _WRITTEN[field.kind](field.value)
    missing = ros_text(field.missing or "no reason is given") if field.value is None else ""
    return ObservationField(
        name=field.name,
        kind=KINDS[field.kind],
        missing=missing,
        age_s=field.age(stamp),
        max_age_s=field.max_age_s or 0.0,
        stale=field.stale(stamp),
        **values,
    )


def _field(message: Any, stamp: float) -> FieldValue:
    kind = _KIND_OF.get(message.kind)
    limit = message.max_age_s if message.max_age_s > 0.0 else None
    if kind is None:
        return FieldValue(message.name, Kind.TEXT, None, -math.inf, limit, f"its kind {message.kind} is unknown here; rebuild")
    value = None if message.missing else _READ[kind](message)
    return FieldValue(message.name, kind, value, stamp - message.age_s, limit, message.missing)
