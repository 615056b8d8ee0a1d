# SPDX-License-Identifier: Apache-2.0
"""Turn an element's attributes into typed arguments of a skill, and check those of a call (GhostShell 3.4.2)."""

import difflib
import functools
import json
import math
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, EnumMeta
from inspect import Parameter
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError
from pydantic_core import to_json as _pydantic_json

from skill_kernel.codes import CallCode
from skill_kernel.config.sections import nearest, shown
from skill_kernel.skills.skill import Limited, Skill, SkillDefinitionError, content_marker, plain_value

BOOLEANS = {**dict.fromkeys(("true", "1", "yes", "on"), True), **dict.fromkeys(("false", "0", "no", "off"), False)}
_NONE = frozenset({"", "none", "null"})
_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.{0,15})?", re.ASCII)
LIKE = 0.8
"""Likeness (0 to 1) from which on a word that is no choice is taken for one."""
CLAMP = 0.05
"""Share of a bound by which a number may pass it and is taken for it."""
_RANGE_ERRORS = ("than", "than_equal", "multiple_of", "finite_number", "too_short", "too_long")
"""Endings of pydantic's names for errors about the size of a value of the right type."""
_UNITS = (
    "deg ° degree degrees",
    "rad radian radians",
    "% percent",
    "cm centimeter centimeters centimetre centimetres",
    "m meter meters metre metres",
    "mm millimeter millimeters millimetre millimetres",
    "s sec secs second seconds",
    "ms millisecond milliseconds",
    "Hz hertz",
    "times time x",
    "deg/s °/s",
    *("m/s", "cm/s", "mm/s", "rad/s", "N", "kg", "g"),
)
"""Each unit with its other names behind it."""
_UNIT_OF = {alias.casefold(): names.split()[0] for names in _UNITS for alias in names.split()}
_NO_UNITS = ("time", "x")
"""Words with which a description may begin that names no unit, though they stand behind a number for one."""
_WORDS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class ValueFault(ValueError):
    """Report a value that does not fit; the text says what does. `out_of_range`: its type is right, its size is not."""

    def __init__(self, message: str, *, out_of_range: bool = False) -> None:
        super().__init__(message)
        self.out_of_range = out_of_range


def opened(annotation: Any) -> tuple[Any, list[Any]]:
    """Return a type without `Annotated`, and what was annotated to it, a pydantic Field laid open."""
    info = FieldInfo.from_annotation(annotation)
    grouped = ([*m] if isinstance(m, annotated_types.GroupedMetadata) else [m] for m in info.metadata)
    return info.annotation, [
        *([info.description] if info.description else []),
        *(piece for group in grouped for piece in group),
    ]


def choices(plain: Any) -> tuple[Any, ...]:
    """Return the members of an Enum or of a Literal; none of another type."""
    if isinstance(plain, EnumMeta):
        return tuple(plain)
    return get_args(plain) if get_origin(plain) is Literal else ()


class Converter:
    """Make values of one annotated type. Raises TypeError when no value of the type can be made from JSON.

    `base` is the type without its annotations, `expected` says in words what fits, `description` what was annotated, `unit` is
    the declared unit or "", `limit` the `Limited` mark if any. `lower` and `upper` are bounds of a number, each with whether it
    lies outside, `words` the choices as they are written. Of Literal and Enum that value counts whose text, or whose name, was
    written; of a union the first member that the value fits, in the order they stand.
    """

    def __init__(self, annotation: Any) -> None:
        self.base, metadata = opened(annotation)
        base = self.base
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        except (PydanticSchemaGenerationError, PydanticUserError, SchemaError) as error:
            raise TypeError(f"{annotation!r} is no type for a value in JSON") from error
        self._plain = base in _WORDS and all(isinstance(m, (str, Limited)) for m in metadata)
        self.unit = _unit(metadata)
        self.limit = next((m for m in metadata if isinstance(m, Limited)), None)
        self.expected = _expected(base, metadata, self.unit)
        self.description = next((m for m in metadata if isinstance(m, str)), "")
        self.lower, self.upper = _bounds(metadata, "ge", "gt"), _bounds(metadata, "le", "lt")
        self.words: tuple[str, ...] = ("true", "false") if base is bool else ()
        self._choices: dict[str, Any] = {}
        self._members: list[Converter] = []
        self._none = False
        if get_origin(base) in (Union, types.UnionType):
            self._none = type(None) in get_args(base)
            self._members = [Converter(m) for m in get_args(base) if m is not type(None)]
            self.limit = self.limit or next((m.limit for m in self._members if m.limit), None)
            self.expected = " or ".join([m.expected for m in self._members] + (["none"] if self._none else []))
        elif members := choices(base):
            for member in members:
                self._choices.setdefault(str(plain_value(member)), member)
            self.words = tuple(self._choices)
            self.expected = f"one of {', '.join(self.words)}"
            for member in members:
                self._choices.setdefault(member.name if isinstance(member, Enum) else str(member), member)

    @property
    def only(self) -> "Converter":
        """Return the converter of what may also be none, or else itself."""
        return self._members[0] if len(self._members) == 1 else self

    def convert(self, value: Any, *, written: bool) -> Any:
        """Return the value that came from JSON, or that a model has `written` as an attribute's text. Raises ValueFault."""
        if self._members:
            none = value.strip().casefold() in _NONE if written else value is None
            return None if self._none and none else self._first(value, written)
        if self._choices:
            return self._chosen(value)
        base = self.base
        if written:
            value = self._read(value)
        elif base is float and isinstance(value, int) and not isinstance(value, bool):
            value = self._finite(value)
        elif base is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        elif base in _WORDS and type(value) is not base:
            raise self._fault()
        _refuse_not_finite(value)
        return self._checked(value)

    def mended(self, text: str) -> Any:
        """Return the one value that a text can only mean though `convert` refuses it: the only choice that is much like it, or
        the bound that it passes by at most a twentieth (semantics 2.2); None where there is not exactly one."""
        if self._members:
            values = [value for member in self._members if (value := member.mended(text)) is not None]
            return values[0] if len(values) == 1 else None
        if self._choices:
            folded = {choice.casefold(): member for choice, member in self._choices.items()}
            near = difflib.get_close_matches(text.strip().casefold()[:80], folded, n=3, cutoff=LIKE)
            members = [folded[one] for one in near]
            # Another beginning, as of "unhappy" or "anticlockwise", is no slip: it may mean the opposite.
            begins_alike = bool(near) and near[0][:1] == text.strip().casefold()[:1]
            return members[0] if begins_alike and all(member is members[0] for member in members) else None
        if self.base not in (int, float):
            return None
        try:
            value = self._read(text)
        except ValueFault:
            return None
        passed = [bound for bound, outside in self.lower if not outside and value < bound]
        passed += [bound for bound, outside in self.upper if not outside and value > bound]
        near_bounds = [self.base(bound) for bound in passed if abs(value - bound) <= CLAMP * abs(bound)]
        return near_bounds[0] if len(near_bounds) == 1 else None

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the type, with its unit."""
        schema = self._adapter.json_schema()
        if self.unit:
            schema.setdefault("description", self.unit)
        return schema

    def _fault(self, more: str = "", *, first: str = "it", out_of_range: bool = False) -> ValueFault:
        return ValueFault(f"{first} must be {self.expected}{more}", out_of_range=out_of_range)

    def _chosen(self, value: Any) -> Any:
        for member in self._choices.values():
            plain = plain_value(member)
            if value is member or (type(plain) is type(value) and plain == value):
                return member
        if not isinstance(value, str):
            raise self._fault()
        for text in (value, value.strip()):
            if text in self._choices:
                return self._choices[text]
        raise self._fault(nearest(value.strip(), self._choices))

    def _first(self, value: Any, written: bool) -> Any:
        """Return what the first member makes of the value that it fits."""
        faults = []
        for member in self._members:
            try:
                return self._checked(member.convert(value, written=written))
            except ValueFault as error:
                faults.append(error)
        of_range = [fault for fault in faults if fault.out_of_range]
        if of_range or len(faults) == 1:
            raise (of_range or faults)[-1]
        raise self._fault()

    def _read(self, text: str) -> Any:
        """Return what an attribute's text says, as JSON would have it."""
        stripped = text.strip()
        if self.base is bool:
            if stripped.casefold() not in BOOLEANS:
                raise self._fault()
            return BOOLEANS[stripped.casefold()]
        if self.base in (int, float):
            return self._number(stripped)
        if self.base in (str, Any) or stripped[:1] not in ("{", "["):
            return text  # a type that a plain string can stand for (a date, a path) does without JSON
        try:
            return json.loads(stripped)
        except (ValueError, RecursionError) as error:
            raise self._fault(f", but this is not valid JSON ({error})") from error

    def _number(self, text: str) -> int | float:
        match = _NUMBER.fullmatch(text)
        if match is None:
            raise self._fault()
        digits, unit = match.groups()
        if unit is not None and not (unit[0].isalpha() or unit[0] in "°%"):  # such as "1,000" or "1/2"
            raise self._fault(first="write the number alone, as in '1000.5'; it")
        if unit is not None and not (self.unit and _UNIT_OF.get(unit.casefold()) == self.unit):
            how = (
                f"convert it to {self.unit} and write the number alone" if self.unit else f"write the number alone, '{digits}'"
            )
            raise self._fault(first=f"{how}; it")
        if self.base is float:
            return self._finite(digits)
        if digits.lstrip("+-").isdigit():
            try:
                return int(digits)
            except ValueError as error:  # more digits than Python converts
                raise self._fault(first="it is too large; it", out_of_range=True) from error
        value = self._finite(digits)
        if not value.is_integer():
            raise self._fault()
        return int(value)

    def _finite(self, number: str | int) -> float:
        try:
            value = float(number)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self._fault(first="it is too large; it", out_of_range=True)
        return value

    def _checked(self, value: Any) -> Any:
        if self._plain:
            return value
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            inside = ".".join(str(part) for part in first["loc"])
            why = f": {f'at {inside} ' if inside else ''}{first['msg'][0].lower()}{first['msg'][1:]}"
            if not inside and (" at " in self.expected or " than " in self.expected):
                why = ""
            raise self._fault(why, out_of_range=first["type"].endswith(_RANGE_ERRORS)) from error
        except RecursionError as error:
            raise self._fault(first="it is nested too deeply; it") from error


def _refuse_not_finite(value: Any) -> None:
    """Raise ValueFault for NaN and infinity anywhere inside a JSON value."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueFault(f"{item} is no number a robot can use; write a finite one")
        if isinstance(item, (list, dict)):
            pending.extend(item.values() if isinstance(item, dict) else item)


def _bounds(metadata: list[Any], closed: str, outside: str) -> list[tuple[float, bool]]:
    found = [(getattr(mark, key, None), key == outside) for mark in metadata for key in (closed, outside)]
    return [(float(bound), lies_outside) for bound, lies_outside in found if isinstance(bound, (int, float))]


def _unit(metadata: list[Any]) -> str:
    """Return the unit: the first word of a bare string or of a `Field` description that names one."""
    words = (mark.split()[0].strip(",;.:()[]").casefold() for mark in metadata if isinstance(mark, str) and mark.split())
    return next((unit for word in words if word not in _NO_UNITS and (unit := _UNIT_OF.get(word))), "")


def _expected(base: Any, metadata: list[Any], unit: str) -> str:
    word = _WORDS.get(base) if isinstance(base, type) else None
    if word is None:
        name = getattr(base, "__name__", str(base)) if get_origin(base) is None else str(base).replace("typing.", "")
        word = f"JSON for {name}"
    bounds = [
        f"{text} {bound:g}" if isinstance(bound, (int, float)) else f"{text} {bound}"
        for key, text in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
        for mark in metadata
        if (bound := getattr(mark, key, None)) is not None
    ]
    return word + (f" {' and '.join(bounds)}" if bounds else "") + (f" in {unit}" if unit else "")


Limits = Mapping[str, tuple[float, float]]


class ArgumentError(ValueError):
    """Report an argument that is wrong, missing, unknown or out of range. `message` says what to write instead."""

    def __init__(self, code: CallCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class BoundArguments:
    """Hold typed arguments by name, and a note for each value that was mended or clamped to the robot's limits.

    Defaults are filled in. Content is there only where an attribute gave it.
    """

    values: dict[str, Any]
    clamped: list[str] = field(default_factory=list)


def bind(
    skill: Skill, given: Mapping[str, Any], limits: Limits, *, written: bool = True, mends: bool = False
) -> BoundArguments:
    """Turn the strings of `written` attributes, or else values that came as JSON, into the types of the skill's parameters:
    T(v) of the paper (semantics 2.2). With `mends` a written value that can only mean one that fits is taken for it.

    Raises ArgumentError with UNKNOWN_ARGUMENT, MISSING_ARGUMENT, INVALID_ARGUMENT or OUT_OF_RANGE. A limit the robot
    does not have bounds nothing; `unknown_limits` finds those.
    """
    of, parameters = converters(skill), skill.signature.parameters
    for name in given:
        if name not in of:
            why = f"{skill.name} has no parameter '{shown(name)}'{nearest(name, of)}"
            raise ArgumentError(CallCode.UNKNOWN_ARGUMENT, f"{why} (it takes {', '.join(of) or 'none'})")
    bound = BoundArguments({})
    for name, converter in of.items():
        if name in given:
            default = parameters[name].default
            try:
                value = converter.convert(given[name], written=written)
            except ValueFault as fault:
                value = converter.mended(given[name]) if mends else None
                if not written and type(given[name]) is type(default) and given[name] == default:
                    value = default  # it was left out where the call was written, and Python holds no default to its type
                elif value is None:
                    code = CallCode.OUT_OF_RANGE if fault.out_of_range else CallCode.INVALID_ARGUMENT
                    raise ArgumentError(code, f"{skill.name}: {name} is {_shown(given[name])}; {fault}") from fault
                else:
                    bound.clamped.append(f"{skill.name}: {name} {_shown(given[name])} was taken for {plain_value(value)}")
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


def bind_typed(skill: Skill, values: Mapping[str, Any], limits: Limits) -> BoundArguments:
    """Check and clamp values that came as JSON, as `bind` does for strings; a string is no number here."""
    return bind(skill, values, limits, written=False)


def parse_json(function: str, text: str) -> dict[str, Any]:
    """Return the arguments of a call as they travel; "" means none. Raises ArgumentError when the text is no JSON object."""
    try:
        values = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise ArgumentError(CallCode.INVALID_ARGUMENT, f"{function}: the arguments are not JSON ({shown(error)})") from error
    if not isinstance(values, dict):
        raise ArgumentError(CallCode.INVALID_ARGUMENT, f"{function}: the arguments must be a JSON object, not {shown(text)}")
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


@functools.lru_cache(maxsize=512)
def converters(skill: Skill) -> dict[str, Converter]:
    """Return the converter of each parameter. Raises SkillDefinitionError for an annotation that no value can be made of."""
    made = {}
    for p in skill.signature.parameters.values():
        if isinstance(p.default, FieldInfo):
            why = "is bounded by nothing, because its Field stands in the place of its default"
            hint = f"write {p.name}: Annotated[…, Field(…)] = …"
            raise SkillDefinitionError(f"skill '{skill.name}': parameter '{p.name}' {why}; {hint}")
        if _limited_inside(p.annotation):
            why = "has a Limited inside its type, where it clamps nothing; write Annotated[list[float], Limited(…)]"
            raise SkillDefinitionError(f"skill '{skill.name}': parameter '{p.name}' {why}")
        try:
            made[p.name] = Converter(str if content_marker(p.annotation) else p.annotation)
        except TypeError as error:
            why = f"parameter '{p.name}' cannot be written by a model ({error})"
            raise SkillDefinitionError(f"skill '{skill.name}': {why}") from error
    return made


def _limited_inside(annotation: Any) -> bool:
    """Return whether `Limited` marks a part of a type and not the whole."""
    base, _ = opened(annotation)
    if get_origin(base) in (Union, types.UnionType):
        return any(map(_limited_inside, get_args(base)))
    return any(map(_marks_limit, get_args(base)))


def _marks_limit(part: Any) -> bool:
    return isinstance(part, Limited) or any(map(_marks_limit, get_args(part)))


def _clamp(value: Any, bounds: tuple[float, float]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_clamp(item, bounds) for item in value)
    if isinstance(value, dict):
        return {key: _clamp(item, bounds) for key, item in value.items()}
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    if isinstance(value, int):
        return min(max(value, math.ceil(bounds[0])), math.floor(bounds[1]))
    return min(max(value, float(bounds[0])), float(bounds[1]))


def _shown(value: Any) -> str:
    return f"'{shown(value)}'" if isinstance(value, str) else shown(json.dumps(value, default=str))
