# SPDX-License-Identifier: Apache-2.0
"""Offer a robot's skills as functions of the console: signatures for its prompt, and the call that a statement means."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planners.prompts.prompt import RobotFacts, declared, line
from planners.strategies.console.sandbox import SLEEP
from planners.strategies.console.transcript import WAIT

SAY, ASK, OBSERVE, LEARN = "say", "ask", "observe", "learn_from_interaction"
WAIT_NAME = WAIT.removesuffix("()")
_OWN = {
    WAIT_NAME: "def wait_for_trigger()  # Wait for what somebody says next, when there is nothing else to do; returns it.",
    OBSERVE: "def observe()  # Return what the robot observes now, as a dict.",
    SLEEP: "def sleep(seconds: float)  # Wait.",
}


_LEARNS = f"def {LEARN}()  # Learn from what somebody just said was wrong, so that it goes better next time."


class ApiError(TypeError):
    """Say why a call cannot be made, as Python would."""


@dataclass(frozen=True)
class SkillCall:
    """Hold the call of a skill."""

    skill: str
    arguments: Mapping[str, Any]


class Api:
    """Name what statements of a robot's console may call. The skill that speaks is `say`. `learns`: it learns from
    corrections."""

    def __init__(self, robot: RobotFacts, *, learns: bool = False) -> None:
        self._limits = robot.options.limits
        self._skills = {SAY if skill.speaks_text else skill.name: skill for skill in robot.skills if skill.name.isidentifier()}
        own = _OWN | ({LEARN: _LEARNS} if learns else {})
        self._own = {name: text for name, text in own.items() if name not in self._skills}

    @property
    def names(self) -> frozenset[str]:
        """Return the names of all functions."""
        return frozenset({*self._skills, *self._own})

    @property
    def lines(self) -> list[str]:
        """Return the signature of each function with its meaning, in the order of their names."""
        written = {
            name: f"def {line(skill, self._limits, name)}".replace(": Content", ": str") for name, skill in self._skills.items()
        }
        return [text for _, text in sorted((written | self._own).items())]

    @property
    def acts(self) -> frozenset[str]:
        """Return the names of the skills that need a part of the robot, but for those that speak or ask."""
        skills = self._skills.items()
        return frozenset(name for name, skill in skills if skill.subsystems and not skill.speaks_text and not skill.decides)

    @property
    def spoken(self) -> dict[str, str]:
        """Return the skill that speaks a text, and its parameter for it; empty where there is none."""
        return {skill.name: skill.content or "text" for skill in self._skills.values() if skill.speaks_text}

    def skill(self, name: str) -> bool:
        """Return whether a function is a skill of the robot, and not one of the console itself."""
        return name in self._skills

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> SkillCall:
        """Return the call of a skill with all its arguments by name. Raises ApiError for arguments that it does not take;
        what they may be is the kernel's business."""
        skill = self._skills[name]
        parameters = declared(skill)
        needed = [p.name for p in parameters if p.required or p.content]
        return SkillCall(skill.name, _bound(name, [p.name for p in parameters], needed, args, kwargs))


def _bound(
    name: str, parameters: Sequence[str], needed: Iterable[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    if len(args) > len(parameters):
        raise ApiError(f"{name}() takes {len(parameters)} arguments but {len(args)} were given")
    given = dict(zip(parameters, args, strict=False))
    for parameter in kwargs:
        if parameter not in parameters:
            raise ApiError(f"{name}() got an unexpected argument '{parameter}'; it takes {', '.join(parameters) or 'none'}")
        if parameter in given:
            raise ApiError(f"{name}() got '{parameter}' twice")
    given |= kwargs
    if missing := [parameter for parameter in needed if parameter not in given]:
        raise ApiError(f"{name}() lacks the argument '{missing[0]}'")
    return {parameter: value for parameter, value in given.items() if value is not None}


def plain(name: str, parameters: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of one of the console's own functions by name. Raises ApiError."""
    return _bound(name, parameters, parameters, args, kwargs)
