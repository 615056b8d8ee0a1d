# SPDX-License-Identifier: Apache-2.0
"""Support tests of reflexes: the vocabulary of Kalos, and a caller that answers its accessors from a table."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from functools import cache
from typing import Any

from skill_kernel.guard.code import SkillRequest, Vocabulary
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry


@cache
def kalos() -> tuple[RobotConfig, SkillRegistry]:
    """Return the shipped robot and its skills."""
    config = RobotConfig.load("kalos")
    return config, SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)


@cache
def vocabulary() -> Vocabulary:
    """Return what rules of Kalos may name."""
    config, skills = kalos()
    assert config.base is not None
    return Vocabulary(accessors_of(config), skills, config.limits, config.base.subsystems)


class Answers:
    """Answers accessors from a table: a value, or values by the first argument. Checks arguments as the real ones do."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = dict(table)
        self.asked: list[tuple[Any, ...]] = []

    def __call__(self, name: str, /, *arguments: Any) -> Any:
        vocabulary().accessors[name].check(arguments)
        self.asked.append((name, *arguments))
        if name in ("stale", "age_s"):
            return False if name == "stale" else 0.1
        if name == "value":
            return {"battery": self.table["battery_percent"]}[arguments[0]]
        value = self.table[name]
        return value[arguments[0]] if isinstance(value, Mapping) else value


def written(request: SkillRequest) -> str:
    """Return a call as it could stand in an action."""
    return f"{request.name}({', '.join(f'{k}={v!r}' for k, v in request.arguments.items())})"


def perform(action: Generator[SkillRequest, bool, None], *, succeeds: bool = True) -> list[str]:
    """All calls of an action whose skills all end so."""
    calls: list[str] = []
    try:
        request = next(action)
        while True:
            calls.append(written(request))
            request = action.send(succeeds)
    except StopIteration:
        return calls


def same(one: object, other: object) -> bool:
    """Equal, and NaN equal to NaN."""
    both = isinstance(one, float) and isinstance(other, float)
    return one == other or (both and math.isnan(one) and math.isnan(other))  # type: ignore[arg-type]
