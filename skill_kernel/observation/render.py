# SPDX-License-Identifier: Apache-2.0
"""Show an observation in a prompt: as one compact JSON value, in which a stale field says so, and its accessors."""

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from skill_kernel.config.observation import FieldConfig, Serialise
from skill_kernel.observation.accessors import Accessor
from skill_kernel.observation.model import FieldValue, Observation, Pose, Sector, SeenObject, Value


def facts(observation: Observation | None, fields: Mapping[str, FieldConfig], now: float) -> dict[str, Any]:
    """Return the observation by field, ready for JSON. Sensors' text is in it: show it only through `planners.prompts.blocks`.

    A fresh field is its value; a stale one is {"stale_s": age, "last": value}, a missing one {"missing": why}.
    """
    if observation is None or observation.stale(now):
        gone = "none has come yet" if observation is None else f"the last one is {now - observation.stamp:.1f} s old"
        return {"observation": {"missing": f"{gone}; the observer may not be running"}}
    told = {}
    for name, config in fields.items():
        if config.serialise.prompt and name in observation.fields:
            told[name] = _field(observation.fields[name], config.serialise, now)
    return told


def signatures(table: Mapping[str, Accessor]) -> str:
    """Return the accessors as Python stubs, for a prompt that asks for conditions."""
    return "\n\n".join(f'def {accessor.signature()}:\n    """{_doc(accessor)}"""' for accessor in table.values())


def _doc(accessor: Accessor) -> str:
    allowed = [f" {p.name}: one of {', '.join(p.choices)}." for p in accessor.parameters if p.choices]
    text = " ".join(accessor.doc.split()) + "".join(allowed)
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _field(field: FieldValue, options: Serialise, now: float) -> Any:
    if field.value is None:
        return {"missing": field.missing}
    value = shown(field.value, options)
    return {"stale_s": round(field.age(now), 1), "last": value} if field.stale(now) else value


def shown(value: Value, options: Serialise) -> Any:
    """Return a field's value, ready for JSON and short enough for people and prompts."""
    digits = options.digits
    if isinstance(value, Pose):
        x, y = round(value.x, digits), round(value.y, digits)
        return {"x_m": x, "y_m": y, "heading_deg": round(math.degrees(value.yaw)), "frame": value.frame}
    if isinstance(value, Mapping):
        return dict(list(value.items())[: options.at_most])
    if isinstance(value, tuple):
        sectors = {s.name: _metres(s.distance, digits) for s in value if isinstance(s, Sector)}
        if sectors:
            return sectors
        return list(_things((o for o in value if isinstance(o, SeenObject)), options))
    if isinstance(value, float):
        return round(value, digits)
    return value


def _things(objects: Iterable[SeenObject], options: Serialise) -> Iterable[dict[str, Any]]:
    for thing in islice(objects, options.at_most):
        one = {"id": thing.track_id, "label": thing.label, "bearing_deg": round(math.degrees(thing.bearing))}
        one["distance_m"] = _metres(thing.distance, options.digits)
        if not math.isnan(thing.x):
            one["x_m"], one["y_m"] = round(thing.x, options.digits), round(thing.y, options.digits)
        yield one


def _metres(distance: float, digits: int) -> float | str:
    if math.isnan(distance):
        return "unknown"
    return "free" if math.isinf(distance) else round(distance, digits)
