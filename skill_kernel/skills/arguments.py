# SPDX-License-Identifier: Apache-2.0
"""From an element's attributes to typed arguments of a skill, and the kernel's own check (GhostShell 3.4.2)."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_core import to_json as _pydantic_json

from skill_kernel.codes import CallCode
from skill_kernel.skills.conversion import Converter, ValueFault, converter_for
from skill_kernel.skills.skill import Limited, Skill, SkillDefinitionError, content_marker

Limits = Mapping[str, tuple[float, float]]


class ArgumentError(ValueError):
    """An argument is wrong, missing, unknown or out of range. `code` tells which, `message` what to write instead."""

    def __init__(self, code: CallCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class BoundArguments:
    """Typed arguments by name, defaults filled in (content only where an attribute gave it), and a note for each value
    that was clamped to the robot's limits."""

    values: dict[str, Any]
    clamped: list[str] = field(default_factory=list)


def bind(skill: Skill, attrs: Mapping[str, str], limits: Limits) -> BoundArguments:
    """T(v) of the paper: the attributes' strings become the types of the skill's parameters (semantics 2.2).

    Raises ArgumentError with UNKNOWN_ARGUMENT, MISSING_ARGUMENT, INVALID_ARGUMENT or OUT_OF_RANGE. A limit the robot
    does not have bounds nothing; `unknown_limits` finds those.
    """
    return _bind(skill, attrs, limits, lambda converter, text: converter.from_text(text))


def bind_typed(skill: Skill, values: Mapping[str, Any], limits: Limits) -> BoundArguments:
    """Check and clamp values that came as JSON, as `bind` does for strings; a string is no number here."""
    return _bind(skill, values, limits, lambda converter, value: converter.from_json(value))


def bind_json(skill: Skill, text: str, limits: Limits) -> BoundArguments:
    """`bind_typed` of a JSON object; raises ArgumentError as well when the text is none."""
    return bind_typed(skill, parse_json(skill.name, text), limits)


def parse_json(function: str, text: str) -> dict[str, Any]:
    """The arguments of a call as they travel; "" means none. Raises ArgumentError when the text is no JSON object."""
    try:
        values = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise ArgumentError(CallCode.INVALID_ARGUMENT, f"{function}: the arguments are not JSON ({error})") from error
    if not isinstance(values, dict):
        raise ArgumentError(CallCode.INVALID_ARGUMENT, f"{function}: the arguments must be a JSON object, not {text[:80]}")
    return values


def to_json(values: Mapping[str, Any]) -> str:
    """Typed arguments as the JSON object that `bind_json` reads back."""
    return _pydantic_json(dict(values)).decode()


def parameters_schema(skill: Skill) -> dict[str, Any]:
    """JSON Schema of the parameters a model may write, the content parameter included."""
    plan = _plan_of(skill)
    properties: dict[str, Any] = {}
    for name, parameter in plan.parameters.items():
        properties[name] = parameter.converter.json_schema()
        if parameter.has_default:
            properties[name]["default"] = json.loads(_pydantic_json(parameter.default, fallback=str))
    required = [n for n, p in plan.parameters.items() if not p.has_default and n != skill.content]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def signature_text(skill: Skill) -> str:
    """The signature in Python's notation, types alone: `walk(cm: float, side: Literal['left', 'right'] = 'left')`."""
    shown = []
    for p in skill.signature.parameters.values():
        plain = str if content_marker(p.annotation) else converter_for(p.annotation).base
        shown.append(p.replace(annotation=plain))
    signature = skill.signature.replace(parameters=shown, return_annotation=skill.signature.empty)
    return f"{skill.name}{signature}".replace("typing.", "")


def check_parameters(skill: Skill) -> None:
    """Raises SkillDefinitionError when a parameter's annotation is no type that a value can be made of."""
    _plan_of(skill)


def unknown_limits(skill: Skill, limits: Limits) -> list[str]:
    """Names of limits the skill refers to that the robot does not have."""
    return [p.limit.limit for p in _plan_of(skill).parameters.values() if p.limit and p.limit.limit not in limits]


@dataclass(frozen=True)
class _Parameter:
    converter: Converter
    has_default: bool
    default: Any
    limit: Limited | None


@dataclass(frozen=True)
class _Plan:
    """What binding needs to know of a skill, worked out once."""

    parameters: dict[str, _Parameter]
    signature: object


_PLANS: WeakKeyDictionary[Callable[..., Any], _Plan] = WeakKeyDictionary()


def _plan_of(skill: Skill) -> _Plan:
    plan = _PLANS.get(skill.function)
    if plan is None or plan.signature is not skill.signature:
        plan = _PLANS[skill.function] = _make_plan(skill)
    return plan


def _make_plan(skill: Skill) -> _Plan:
    parameters = {}
    for p in skill.signature.parameters.values():
        annotation = str if content_marker(p.annotation) else p.annotation
        try:
            converter = converter_for(annotation)
        except TypeError as error:
            raise SkillDefinitionError(
                f"skill '{skill.name}': parameter '{p.name}' cannot be written by a model ({error})"
            ) from error
        parameters[p.name] = _Parameter(converter, p.default is not p.empty, p.default, converter.limit)
    return _Plan(parameters, skill.signature)


def _bind(skill: Skill, given: Mapping[str, Any], limits: Limits, convert: Callable[[Converter, Any], Any]) -> BoundArguments:
    parameters = _plan_of(skill).parameters
    for name in given:
        if name not in parameters:
            raise ArgumentError(CallCode.UNKNOWN_ARGUMENT, _unknown(skill, name, list(parameters)))
    bound = BoundArguments({})
    for name, parameter in parameters.items():
        if name in given:
            try:
                value = convert(parameter.converter, given[name])
            except ValueFault as fault:
                code = CallCode.OUT_OF_RANGE if fault.out_of_range else CallCode.INVALID_ARGUMENT
                raise ArgumentError(code, f"{skill.name}: {name} is {_shown(given[name])}; {fault}") from fault
        elif name == skill.content:
            continue
        elif parameter.has_default:
            value = parameter.default
        else:
            raise ArgumentError(CallCode.MISSING_ARGUMENT, _missing(skill, name, parameter.converter))
        if parameter.limit is not None and (bounds := limits.get(parameter.limit.limit)) is not None:
            value, before = _clamp(value, bounds), value
            if value != before:
                bound.clamped.append(f"{skill.name}: {name} {before} was limited to {value} ({parameter.limit.limit})")
        bound.values[name] = value
    return bound


def _clamp(value: Any, bounds: tuple[float, float]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_clamp(item, bounds) for item in value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, int):
        return min(max(value, math.ceil(bounds[0])), math.floor(bounds[1]))
    return min(max(value, float(bounds[0])), float(bounds[1]))


def _unknown(skill: Skill, name: str, known: list[str]) -> str:
    if not known:
        return f"{skill.name} takes no parameter, not '{name[:80]}'"
    folded = {k.casefold(): k for k in known}
    near = difflib.get_close_matches(name.casefold()[:80], folded, n=1, cutoff=0.5)
    hint = f"did you mean '{folded[near[0]]}'? It" if near else "it"
    return f"{skill.name} has no parameter '{name[:80]}'; {hint} takes {', '.join(known)}"


def _missing(skill: Skill, name: str, converter: Converter) -> str:
    return f"{skill.name} needs {name}: {converter.expected}"


def _shown(value: Any) -> str:
    text = f"'{value}'" if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:76] + "…" + text[-1]
