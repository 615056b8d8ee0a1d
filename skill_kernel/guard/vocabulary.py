# SPDX-License-Identifier: Apache-2.0
"""The names guarded code may use: accessors of the observation, skills, two actions of S0's own and a few pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skill_kernel.observation.accessors import Accessor
from skill_kernel.skills.arguments import Limits
from skill_kernel.skills.registry import SkillRegistry

FUNCTIONS = ("abs", "all", "any", "len", "lower", "max", "min", "range", "round", "sum")
"""Pure functions; `lower` is `str.lower`, the others are Python's. `round` leaves an infinite number as it is."""

STOP, WAIT = "stop", "wait"
LONGEST_WAIT_S = 60.0
OWN_ACTIONS = {
    STOP: 'def stop() -> None:\n    """Stand still at once, and as long as this reflex acts."""',
    WAIT: (
        f"def wait(seconds: float) -> None:\n"
        f'    """Wait before the next call. seconds: more than 0, at most {LONGEST_WAIT_S:g}."""'
    ),
}
"""What an action may call besides skills, as Python stubs."""


@dataclass(frozen=True)
class Vocabulary:
    """What a robot's rules may name. `limits` are the robot's bounds for parameters marked `Limited`; `base_subsystems` are
    those that motion of the base needs, which `stop` therefore takes."""

    accessors: Mapping[str, Accessor]
    skills: SkillRegistry = field(default_factory=SkillRegistry)
    limits: Limits = field(default_factory=dict)
    base_subsystems: tuple[str, ...] = ()

    def taken(self, name: str) -> str:
        """What a name already means, in words; "" for a free one."""
        if name in self.accessors:
            return "an accessor"
        if name in self.skills:
            return "a skill"
        if name in OWN_ACTIONS:
            return "an action"
        return "a function" if name in FUNCTIONS else ""
