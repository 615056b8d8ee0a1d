# SPDX-License-Identifier: Apache-2.0
"""Define the names that guarded code may use, and compiled pieces: closures with a type, a greatest cost and a constant."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Protocol

from pydantic import Field

from skill_kernel.guard.reading import RuleFault
from skill_kernel.observation.accessors import Accessor
from skill_kernel.skills.arguments import Limits
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.skill import Skill, robot_skill

FUNCTIONS = ("abs", "all", "any", "len", "lower", "max", "min", "range", "round", "sum")
"""Pure functions; `lower` is `str.lower`, the others are Python's. `round` takes one number."""

STOP, WAIT = "stop", "wait"
LONGEST_WAIT_S = 60.0


@robot_skill(STOP, nominal_s=0.0)
def stop() -> None:
    """Stand still at once, and as long as this reflex acts."""


@robot_skill(WAIT, nominal_s=lambda seconds: seconds)
def wait(seconds: Annotated[float, Field(gt=0, le=LONGEST_WAIT_S, description="seconds")]) -> None:
    """Wait before the next call."""


OWN_ACTIONS: dict[str, Skill] = {skill.name: skill for skill in (stop.__robot_skill__, wait.__robot_skill__)}  # type: ignore[attr-defined]
"""Calls that an action may make besides the robot's skills. They take no subsystem of their own."""


@dataclass(frozen=True)
class Vocabulary:
    """Hold what a robot's rules may name.

    `limits` are the robot's bounds for parameters marked `Limited`. `base_subsystems` are those that motion of the base needs;
    `stop` takes them.
    """

    accessors: Mapping[str, Accessor]
    skills: SkillRegistry = field(default_factory=SkillRegistry)
    limits: Limits = field(default_factory=dict)
    base_subsystems: tuple[str, ...] = ()

    def needed(self, skill: Skill, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the subsystems that a call takes. Raises KeyError with the parameter that would tell."""
        if skill in OWN_ACTIONS.values():
            return self.base_subsystems if skill.name == STOP else ()
        return skill.subsystems_for(arguments)

    def taken(self, name: str) -> str:
        """Return what a name already means, in words; "" for a free one."""
        if name in self.accessors:
            return "an accessor"
        if name in self.skills:
            return "a skill"
        if name in OWN_ACTIONS:
            return "an action"
        return "a function" if name in FUNCTIONS else ""


Kind = type[bool] | type[float] | type[str]


@dataclass(frozen=True)
class Type:
    """Describe a value of a kind, or with `length` a list of at most so many. Every number is a float: unlike a whole number of
    Python it cannot grow without end, and with it the time that one product takes."""

    kind: Kind
    length: int | None = None

    @property
    def is_list(self) -> bool:
        return self.length is not None

    @property
    def item(self) -> Type:
        return Type(self.kind)

    def __str__(self) -> str:
        return f"list of {self.kind.__name__}" if self.is_list else self.kind.__name__

    def takes(self, other: Type) -> bool:
        """Return whether a value of the other type fits where this one is wanted, but for the length of a list."""
        return self.kind is other.kind and self.is_list == other.is_list

    def joined(self, other: Type) -> Type | None:
        """Return the narrowest type that takes both; None when there is none."""
        return max(self, other, key=lambda t: t.length or 0) if self.takes(other) else None


BOOL, FLOAT, STR = Type(bool), Type(float), Type(str)
OF_PYTHON: dict[object, Type] = {bool: BOOL, int: FLOAT, float: FLOAT, str: STR}


Value = Any
"""bool, int, float, str, or a list of one of these."""


class Caller(Protocol):
    """Answer accessors, as `View.call` does."""

    def __call__(self, name: str, /, *arguments: Any) -> Value: ...


@dataclass(slots=True)
class Frame:
    """Hold the state of one evaluation: who answers accessors, and the local variables by name."""

    call: Caller
    values: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class SkillRequest:
    """Ask for a call: a skill of the robot, or one of S0's own actions, with typed arguments.

    With `bound` the action keeps whether the call succeeded, and so decides itself what follows a failure.
    """

    name: str
    arguments: dict[str, Any]
    bound: bool = False


Evaluate = Callable[[Frame], Value]
UNKNOWN = object()


@dataclass(frozen=True)
class Code:
    """Hold a compiled expression. `steps` bounds what one evaluation costs; `constant` is its value as written when that is
    known."""

    type: Type
    run: Evaluate
    steps: int
    constant: Value = UNKNOWN

    def __post_init__(self) -> None:
        if self.type == FLOAT:
            run = self.run
            object.__setattr__(self, "run", lambda frame: _float(run(frame)))


def _float(value: Value) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    raise RuleFault(f"a number was expected, but a {type(value).__name__} came")


class Signal(Enum):
    """Tell where a block goes on."""

    NEXT = "next"
    BREAK = "break"
    CONTINUE = "continue"
    RETURN = "return"


Steps = Generator[SkillRequest, bool, Signal]
Perform = Callable[[Frame], Steps]


@dataclass(frozen=True)
class Block:
    """Hold compiled statements. `ends`: nothing that follows them is ever reached."""

    perform: Perform
    steps: int
    calls: int
    ends: bool = False
