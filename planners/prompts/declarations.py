# SPDX-License-Identifier: Apache-2.0
"""Declare to a model the parameters of a skill with type, range, unit and default, never its implementation
(GhostShell 3.2)."""

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter as Signed
from typing import Annotated, Any, Literal

from skill_kernel.skills.arguments import Limits, choices, opened
from skill_kernel.skills.skill import Limited, Skill, content_marker, plain_value

ParameterKind = Literal["int", "float", "bool", "choice", "text", "other"]
NO_LIMITS: Limits = {}


@dataclass(frozen=True)
class Declared:
    """Hold one parameter as it is declared. `choices` are the values of a Literal, Enum or bool as the model writes them;
    `lower` and `upper` bound a number, the robot's limits included (`open_lower`, `open_upper`: the bound itself is
    outside)."""

    name: str
    type_text: str
    kind: ParameterKind
    required: bool
    default: Any = None
    choices: tuple[str, ...] = ()
    lower: float | None = None
    upper: float | None = None
    open_lower: bool = False
    open_upper: bool = False
    description: str = ""
    content: bool = False

    @property
    def is_number(self) -> bool:
        """Return whether its values are numbers."""
        return self.kind in ("int", "float")

    def admits(self, value: float) -> bool:
        """Return whether a number lies in the declared range."""
        above = self.lower is None or value > self.lower or (value == self.lower and not self.open_lower)
        below = self.upper is None or value < self.upper or (value == self.upper and not self.open_upper)
        return above and below

    def range_text(self) -> str:
        """Return the range in words, empty when there is none."""
        if self.lower is not None and self.upper is not None and self.open_lower:
            return f"above {self.lower:g}, {'below' if self.open_upper else 'at most'} {self.upper:g}"
        if self.lower is not None and self.upper is not None:
            return f"{self.lower:g} to {self.upper:g}"
        if self.lower is not None:
            return f"{'more than' if self.open_lower else 'at least'} {self.lower:g}"
        if self.upper is not None:
            return f"{'less than' if self.open_upper else 'at most'} {self.upper:g}"
        return ""


def declared(skill: Skill, limits: Limits = NO_LIMITS) -> tuple[Declared, ...]:
    """Return the visible parameters of a skill in order; `limits` are the robot's bounds for parameters marked `Limited`."""
    return tuple(_declared(p, skill, limits) for p in skill.signature.parameters.values())


def _declared(parameter: Signed, skill: Skill, limits: Limits) -> Declared:
    plain, extras = _unwrapped(parameter.annotation)
    has_default = parameter.default is not Signed.empty
    content = content_marker(parameter.annotation) is not None
    # A bound and whether it lies outside; of two bounds the tighter one holds.
    lower: list[tuple[float, bool]] = []
    upper: list[tuple[float, bool]] = []
    for extra in extras:
        low, high = limits.get(extra.limit, (None, None)) if isinstance(extra, Limited) else (None, None)
        lows = ((low, False), (getattr(extra, "ge", None), False), (getattr(extra, "gt", None), True))
        highs = ((high, False), (getattr(extra, "le", None), False), (getattr(extra, "lt", None), True))
        lower += [(float(bound), is_open) for bound, is_open in lows if isinstance(bound, (int, float))]
        upper += [(float(bound), is_open) for bound, is_open in highs if isinstance(bound, (int, float))]
    (low, open_lower) = max(lower, default=(None, False))
    (high, open_upper) = min(upper, key=lambda bound: (bound[0], not bound[1]), default=(None, False))
    return Declared(
        name=parameter.name,
        type_text="str" if content else _type_text(plain),
        kind="text" if content else _kind(plain),
        required=not has_default and parameter.name != skill.content,
        default=plain_value(parameter.default) if has_default else None,
        choices=() if content else _choices(plain),
        lower=None if content else low,
        upper=None if content else high,
        open_lower=open_lower,
        open_upper=open_upper,
        description="" if content else next((extra for extra in extras if isinstance(extra, str)), ""),
        content=content,
    )


def _unwrapped(annotation: Any) -> tuple[Any, list[Any]]:
    """Return a type without `Annotated` and `None`, and what was annotated to it, constraints of a pydantic Field laid
    open."""
    plain, extras = opened(annotation)
    members = [a for a in typing.get_args(plain) if a is not type(None)]
    if _is_union(plain) and len(members) == 1:
        inner, more = _unwrapped(members[0])
        return inner, [*more, *extras]
    return plain, extras


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


_KINDS: Mapping[Any, ParameterKind] = {bool: "bool", int: "int", float: "float", str: "text"}


def _kind(plain: Any) -> ParameterKind:
    return _KINDS.get(plain) or ("choice" if _choices(plain) else "other")


def _choices(plain: Any) -> tuple[str, ...]:
    return ("true", "false") if plain is bool else tuple(str(plain_value(member)) for member in choices(plain))


def _type_text(plain: Any) -> str:
    if _is_union(plain):
        return " | ".join(_type_text(a) for a in typing.get_args(plain))
    if members := choices(plain):
        return f"Literal[{', '.join(repr(plain_value(member)) for member in members)}]"
    if typing.get_origin(plain) is Annotated:
        return _type_text(plain.__origin__)
    if arguments := typing.get_args(plain):
        name = getattr(typing.get_origin(plain), "__name__", str(plain))
        return f"{name}[{', '.join(_type_text(a) for a in arguments)}]"
    if plain is type(None):
        return "None"
    return getattr(plain, "__name__", str(plain))
