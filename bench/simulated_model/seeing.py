# SPDX-License-Identifier: Apache-2.0
"""What an observation in a prompt says; a field that is stale or missing says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.simulated_model.goals import a

Facts = Mapping[str, Any]


def fresh(facts: Facts, field: str) -> Any:
    """The value of a field, or None where it is not known now."""
    value = facts.get(field)
    if isinstance(value, Mapping) and ("missing" in value or "stale_s" in value):
        return None
    return value


def things(facts: Facts) -> list[Mapping[str, Any]] | None:
    """What is in sight; None where nobody can tell."""
    for field in facts:
        value = fresh(facts, field)
        if isinstance(value, list) and (all(isinstance(v, Mapping) and "label" in v for v in value)):
            return [v for v in value if isinstance(v, Mapping)]
    return None


def in_sight(facts: Facts, label: str) -> Mapping[str, Any] | None:
    """The nearest thing of a label that is in sight."""
    found = [t for t in things(facts) or [] if t.get("label") == label]
    return min(found, key=_distance, default=None)


def point(facts: Facts) -> tuple[float, float] | None:
    """Where the robot is, metres in the map."""
    for field in ("pose", *facts):
        value = fresh(facts, field)
        x, y = (value.get("x_m"), value.get("y_m")) if isinstance(value, Mapping) else (None, None)
        if isinstance(x, (int, float)) and isinstance(y, (int, float)):
            return float(x), float(y)
    return None


def room(facts: Facts) -> str:
    """The room it is in; empty where it is not known."""
    value = fresh(facts, "room")
    return value if isinstance(value, str) else ""


def told(facts: Facts) -> str:
    """What is in sight, as a sentence."""
    seen = things(facts)
    if seen is None:
        return "I cannot see at the moment"
    parts = list(_parts(seen))
    if not parts:
        return "I see nothing that I know"
    return "I see " + (", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else parts[0])


def _parts(seen: list[Mapping[str, Any]]) -> Iterator[str]:
    for thing in seen[:4]:
        far = thing.get("distance_m")
        yield a(str(thing["label"])) + (f" {far:.1f} metres away" if isinstance(far, (int, float)) else "")


def _distance(thing: Mapping[str, Any]) -> float:
    far = thing.get("distance_m")
    return float(far) if isinstance(far, (int, float)) else 1e9
