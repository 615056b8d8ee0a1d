# SPDX-License-Identifier: Apache-2.0
"""Write and read observations as JSON, for reflexes that are tried on what was recorded."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, Strict, TypeAdapter, ValidationError
from pydantic_core import to_json

from skill_kernel.config.sections import shown
from skill_kernel.config.yaml_text import RecordError
from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, Sector, SeenObject

LATEST_S = 1e11
"""No time of a clock, of ROS or of the machine, lies beyond: thousands of years."""
MOST_CHARS = 8_000_000
"""Characters of recorded observations: about ten minutes of them."""
LONGEST_LINE = 1_000_000
"""Characters of one observation."""

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


def observation_to_json(observation: Observation) -> str:
    """Return one line, with ages and ROS time. Numbers that are not finite are "NaN", "Infinity" and "-Infinity"."""
    fields = [
        _Field(f.name, f.kind, f.age(observation.stamp), f.max_age_s, f.missing, f.value) for f in observation.fields.values()
    ]
    return to_json(_Record(observation.time_s, observation.seq, fields), inf_nan_mode="strings").decode()


def recorded(text: str) -> list[Observation]:
    """Return recorded observations, one a line. Raises RecordError with the number of the first line that holds none."""
    if len(text) > MOST_CHARS:
        raise RecordError(f"the observations have more than {MOST_CHARS // 1_000_000} million characters; give them in parts")
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            if len(line) > LONGEST_LINE:
                raise RecordError(f"longer than {LONGEST_LINE // 1_000_000} million characters; write one observation a line")
            found += [observation_from_json(line)] if line.strip() else []
        except RecordError as error:
            raise RecordError(f"line {number} is {error}") from error
    return found


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
        raise RecordError(f"no recorded observation ({shown(why, 200)}); record it anew") from error
