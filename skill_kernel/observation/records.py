# SPDX-License-Identifier: Apache-2.0
"""Observations as JSON, to be kept and read again: for memory, and for reflexes that are tried on what was recorded."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, Sector, SeenObject, Value

LATEST_S = 1e11
"""No time of a clock, of ROS or of the machine, lies beyond: thousands of years."""


class RecordError(ValueError):
    """A text is no recorded observation; the message says what is wrong with it."""


def observation_to_json(observation: Observation) -> str:
    """One line. Ages are kept, and the time in ROS time; numbers that are not finite are null, "inf" or "-inf"."""
    fields = [
        {
            "name": f.name,
            "kind": f.kind.value,
            "age_s": _number_out(f.age(observation.stamp)),
            "max_age_s": f.max_age_s,
            "missing": f.missing,
            "value": None if f.value is None else _out(f.value),
        }
        for f in observation.fields.values()
    ]
    record = {"time_s": observation.time_s, "seq": observation.seq, "fields": fields}
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def observation_from_json(line: str, stamp: float | None = None) -> Observation:
    """The observation, with its times put so that it was made at `stamp`, or else at its own ROS time.

    Raises RecordError for anything that `observation_to_json` did not write.
    """
    try:
        record = json.loads(line)
        time_s, seq = float(record["time_s"]), int(record["seq"])
        if not 0.0 <= time_s <= LATEST_S or not 0 <= seq <= LATEST_S:
            raise ValueError(f"time_s and seq lie between 0 and {LATEST_S:g}")
        at = time_s if stamp is None else stamp
        fields = {str(f["name"]): _field(f, at) for f in record["fields"]}
        return Observation(at, seq, time_s, fields)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise RecordError(f"no recorded observation ({why}): {line[:60]!r}; record it anew") from error


def _field(record: Mapping[str, Any], at: float) -> FieldValue:
    kind, limit = Kind(record["kind"]), record["max_age_s"]
    value = None if record["value"] is None else _in(kind, record["value"])
    return FieldValue(
        str(record["name"]),
        kind,
        value,
        at - _number_in(record["age_s"]),
        None if limit is None else float(limit),
        str(record["missing"]),
    )


def _out(value: Value) -> Any:
    if isinstance(value, tuple):
        return [{k: _number_out(v) if isinstance(v, float) else v for k, v in asdict(one).items()} for one in value]
    if isinstance(value, Pose):
        return {k: _number_out(v) if isinstance(v, float) else v for k, v in asdict(value).items()}
    return dict(value) if isinstance(value, Mapping) else value


def _in(kind: Kind, value: Any) -> Value:
    if kind is Kind.POSE:
        return Pose(_number_in(value["x"]), _number_in(value["y"]), _number_in(value["yaw"]), str(value["frame"]))
    if kind is Kind.SECTORS:
        return tuple(Sector(str(s["name"]), _number_in(s["distance"])) for s in value)
    if kind is Kind.OBJECTS:
        numbers = ("confidence", "bearing", "distance", "x", "y", "seen_s")
        return tuple(
            SeenObject(int(o["track_id"]), str(o["label"]), *(_number_in(o[number]) for number in numbers)) for o in value
        )
    if kind is Kind.TABLE:
        return {str(key): str(text) for key, text in value.items()}
    fitting = {Kind.BOOLEAN: bool, Kind.NUMBER: (int, float), Kind.TEXT: str}[kind]
    if not isinstance(value, fitting):  # type: ignore[arg-type]
        raise TypeError(f"{value!r} is no {kind.value}")
    return float(value) if kind is Kind.NUMBER else value


def _number_out(number: float) -> float | str | None:
    if math.isnan(number):
        return None
    return number if math.isfinite(number) else "inf" if number > 0 else "-inf"


def _number_in(number: Any) -> float:
    return math.nan if number is None else float(number)
