# SPDX-License-Identifier: Apache-2.0
"""Write and read observations as JSON, for reflexes that are tried on what was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, Strict, TypeAdapter, ValidationError
from pydantic_core import to_json

from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, Sector, SeenObject

LATEST_S = 1e11
"""No time of a clock, of ROS or of the machine, lies beyond: thousands of years."""

_VALUES: dict[Kind, TypeAdapter[Any]] = {
    Kind.BOOLEAN: TypeAdapter(Annotated[bool, Strict()]),
    Kind.NUMBER: TypeAdapter(Annotated[float, Strict()]),
    Kind.TEXT: TypeAdapter(str),
    Kind.POSE: TypeAdapter(Pose),
    Kind.SECTORS: TypeAdapter(tuple[Sector, ...]),
    Kind.OBJECTS: TypeAdapter(tuple[SeenObject, ...]),
    Kind.TABLE: TypeAdapter(dict[str, str]),
}


@dataclass(frozen=True)
class _Field:
    name: str
    kind: Kind
    age_s: float
    max_age_s: float | None
    missing: str
    value: Any


@dataclass(frozen=True)
class _Record:
    time_s: Annotated[float, Field(ge=0, le=LATEST_S)]
    seq: Annotated[int, Field(ge=0, le=int(LATEST_S))]
    fields: list[_Field]


_RECORD = TypeAdapter(_Record)


class RecordError(ValueError):
    """Report that a text is no recorded observation; the message says what is wrong with it."""


def observation_to_json(observation: Observation) -> str:
    """Return one line, with ages and ROS time. Numbers that are not finite are "NaN", "Infinity" and "-Infinity"."""
    fields = [
        _Field(f.name, f.kind, f.age(observation.stamp), f.max_age_s, f.missing, f.value) for f in observation.fields.values()
    ]
    return to_json(_Record(observation.time_s, observation.seq, fields), inf_nan_mode="strings").decode()


def observation_from_json(line: str, stamp: float | None = None) -> Observation:
    """Return the observation, with its times put so that it was made at `stamp`, or else at its own ROS time.

    Raises RecordError for anything that `observation_to_json` did not write.
    """
    try:
        record = _RECORD.validate_json(line)
        at, fields = record.time_s if stamp is None else stamp, {}
        for f in record.fields:
            value = None if f.value is None else _VALUES[f.kind].validate_python(f.value)
            fields[f.name] = FieldValue(f.name, f.kind, value, at - f.age_s, f.max_age_s, f.missing)
        return Observation(at, record.seq, record.time_s, fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        why = f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()
        raise RecordError(f"no recorded observation ({why[:200]}): {line[:60]!r}; record it anew") from error
