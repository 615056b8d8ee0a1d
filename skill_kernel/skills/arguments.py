# SPDX-License-Identifier: Apache-2.0
"""From an element's attributes to typed arguments of a skill, and the kernel's own check (GhostShell 3.4.2)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_core import to_json as _pydantic_json

from skill_kernel.codes import CallCode
from skill_kernel.config.sections import nearest
from skill_kernel.skills.conversion import Converter, ValueFault
from skill_kernel.skills.skill import Skill, SkillDefinitionError, content_marker

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


def parse_json(function: str, text: str) -> dict[str, Any]:
    """Return the arguments of a call as they travel; "" means none. Raises ArgumentError when the text is no JSON object."""
    try:
        values = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise ArgumentError(CallCode.INVALID_ARGUMENT, f"{function}: the arguments are not JSON ({error})") from error
    if not isinstance(values, dict):
        raise ArgumentError(CallCode.INVALID_ARGUMENT, f"{function}: the arguments must be a JSON object, not {text[:80]}")
    return values


def to_json(values: Mapping[str, Any]) -> str:
    """Return typed arguments as the JSON object that `parse_json` and `bind_typed` read back."""
    return _pydantic_json(dict(values)).decode()


def parameters_schema(skill: Skill) -> dict[str, Any]:
    """Return the JSON Schema of the parameters a model may write, the content parameter included."""
    properties = {name: converter.json_schema() for name, converter in converters(skill).items()}
    defaults = {p.name: p.default for p in skill.signature.parameters.values() if p.default is not p.empty}
    for name, default in defaults.items():
        properties[name]["default"] = json.loads(_pydantic_json(default, fallback=str))
    required = [name for name in properties if name not in defaults and name != skill.content]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def signature_text(skill: Skill) -> str:
    """Return the signature in Python's notation, types alone: `walk(cm: float, side: Literal['left', 'right'] = 'left')`."""
    of = converters(skill)
    shown = [p.replace(annotation=of[p.name].base) for p in skill.signature.parameters.values()]
    signature = skill.signature.replace(parameters=shown, return_annotation=skill.signature.empty)
    return f"{skill.name}{signature}".replace("typing.", "")


def unknown_limits(skill: Skill, limits: Limits) -> list[str]:
    """Return the names of limits the skill refers to that the robot does not have."""
    return [c.limit.limit for c in converters(skill).values() if c.limit and c.limit.limit not in limits]


_CONVERTERS: WeakKeyDictionary[Callable[..., Any], tuple[Signature, dict[str, Converter]]] = WeakKeyDictionary()
"""What was worked out once for a skill's function and signature."""


def converters(skill: Skill) -> dict[str, Converter]:
    """Return the converter of each parameter. Raises SkillDefinitionError for an annotation that no value can be made of."""
    known = _CONVERTERS.get(skill.function)
    if known is not None and known[0] is skill.signature:
        return known[1]
    made = {}
    for p in skill.signature.parameters.values():
        try:
            made[p.name] = Converter(str if content_marker(p.annotation) else p.annotation)
        except TypeError as error:
            why = f"parameter '{p.name}' cannot be written by a model ({error})"
            raise SkillDefinitionError(f"skill '{skill.name}': {why}") from error
    _CONVERTERS[skill.function] = (skill.signature, made)
    return made


def _bind(skill: Skill, given: Mapping[str, Any], limits: Limits, convert: Callable[[Converter, Any], Any]) -> BoundArguments:
    of, parameters = converters(skill), skill.signature.parameters
    for name in given:
        if name not in of:
            why = f"{skill.name} has no parameter '{name[:80]}'{nearest(name, of)}"
            raise ArgumentError(CallCode.UNKNOWN_ARGUMENT, f"{why} (it takes {', '.join(of) or 'none'})")
    bound = BoundArguments({})
    for name, converter in of.items():
        if name in given:
            try:
                value = convert(converter, given[name])
            except ValueFault as fault:
                code = CallCode.OUT_OF_RANGE if fault.out_of_range else CallCode.INVALID_ARGUMENT
                raise ArgumentError(code, f"{skill.name}: {name} is {_shown(given[name])}; {fault}") from fault
        elif name == skill.content:
            continue
        elif parameters[name].default is not Parameter.empty:
            value = parameters[name].default
        else:
            raise ArgumentError(CallCode.MISSING_ARGUMENT, f"{skill.name} needs {name}: {converter.expected}")
        if converter.limit is not None and (bounds := limits.get(converter.limit.limit)) is not None:
            value, before = _clamp(value, bounds), value
            if value != before:
                bound.clamped.append(f"{skill.name}: {name} {before} was limited to {value} ({converter.limit.limit})")
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


def _shown(value: Any) -> str:
    text = f"'{value}'" if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:76] + "…" + text[-1]
