# SPDX-License-Identifier: Apache-2.0
"""Conversion of one value, a string or JSON, to an annotated type: T(v) of GhostShell 3.4.2."""

from __future__ import annotations

import difflib
import json
import math
import re
import types
from collections.abc import Callable
from enum import Enum, EnumMeta
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo

from skill_kernel.skills.skill import Limited

_TRUE, _FALSE = frozenset({"true", "1", "yes", "on"}), frozenset({"false", "0", "no", "off"})
_NONE = frozenset({"", "none", "null"})
_NUMBER = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.{0,15})?", re.ASCII)
_RANGE_ERRORS = frozenset(
    {
        "greater_than",
        "greater_than_equal",
        "less_than",
        "less_than_equal",
        "multiple_of",
        "finite_number",
        "too_short",
        "too_long",
        "string_too_short",
        "string_too_long",
    }
)
_UNITS = {
    "deg": ("°", "degree", "degrees"),
    "rad": ("radian", "radians"),
    "%": ("percent",),
    "cm": ("centimeter", "centimeters", "centimetre", "centimetres"),
    "m": ("meter", "meters", "metre", "metres"),
    "mm": ("millimeter", "millimeters", "millimetre", "millimetres"),
    "s": ("sec", "secs", "second", "seconds"),
    "ms": ("millisecond", "milliseconds"),
    "Hz": ("hertz",),
    "times": ("time", "x"),
    "m/s": (),
    "cm/s": (),
    "mm/s": (),
    "deg/s": ("°/s",),
    "rad/s": (),
    "N": (),
    "kg": (),
    "g": (),
}
_UNIT_OF = {alias.casefold(): unit for unit, aliases in _UNITS.items() for alias in (unit, *aliases)}
_NUMBER_WORDS: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class ValueFault(ValueError):
    """A value does not fit its type; the text says what fits. `out_of_range`: the type is right, the size is not."""

    def __init__(self, message: str, *, out_of_range: bool = False) -> None:
        super().__init__(message)
        self.out_of_range = out_of_range


class Converter:
    """Makes values of one annotated type. `base` is the type without its annotations, `expected` says in words what
    fits, `unit` is the declared unit or "", `limit` the `Limited` mark if any."""

    def __init__(self, annotation: Any, *, base: Any, metadata: tuple[Any, ...]) -> None:
        self._annotation = annotation
        self.base = base
        self._adapter = _adapter(annotation)
        self._constrained = any(not isinstance(m, (str, Limited)) for m in metadata)
        self.unit = _unit(metadata)
        self.limit = next((m for m in metadata if isinstance(m, Limited)), None)
        self.expected = _expected(base, metadata, self.unit)

    def from_text(self, text: str) -> Any:
        """The value a model wrote as an attribute. Raises ValueFault."""
        return self._checked(self._read(text))

    def from_json(self, value: Any) -> Any:
        """The value as it was parsed from JSON. Raises ValueFault."""
        base = self.base
        if base is float and isinstance(value, int) and not isinstance(value, bool):
            value = _finite(value, self.expected)
        elif base is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        elif base in _NUMBER_WORDS and type(value) is not base:
            raise ValueFault(f"it must be {self.expected}")
        _refuse_not_finite(value)
        return self._checked(value)

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema of the type, with its unit."""
        schema = self._adapter.json_schema()
        if self.unit:
            schema.setdefault("description", self.unit)
        return schema

    def _read(self, text: str) -> Any:
        base = self.base
        if base is str or base is Any:
            return text
        stripped = text.strip()
        if base is bool:
            return _boolean(stripped, self.expected)
        if base is int or base is float:
            return self._number(stripped)
        return self._structure(text, stripped)

    def _number(self, text: str) -> int | float:
        match = _NUMBER.fullmatch(text)
        if match is None:
            raise ValueFault(f"it must be {self.expected}")
        digits, unit = match.groups()
        if unit is not None and (not self.unit or _UNIT_OF.get(unit.casefold()) != self.unit):
            raise ValueFault(f"write the number alone, '{digits}'; it must be {self.expected}")
        if self.base is float:
            return _finite(digits, self.expected)
        if digits.lstrip("+-").isdigit():
            return _whole(digits, self.expected)
        value = _finite(digits, self.expected)
        if not value.is_integer():
            raise ValueFault(f"it must be {self.expected}")
        return int(value)

    def _structure(self, text: str, stripped: str) -> Any:
        """A value with parts is JSON; a type that a plain string can stand for (a date, a path) may do without."""
        if stripped[:1] in ("{", "["):
            try:
                value = json.loads(stripped)
            except (ValueError, RecursionError) as error:
                raise ValueFault(f"it must be {self.expected}, but this is not valid JSON ({error})") from error
            _refuse_not_finite(value)
            return value
        return text

    def _checked(self, value: Any) -> Any:
        if self.base in _NUMBER_WORDS and not self._constrained:
            return value
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            raise _fault(error, self.expected) from error
        except RecursionError as error:
            raise ValueFault(f"it is nested too deeply; it must be {self.expected}") from error


class _Choice(Converter):
    """Literal and Enum: the member whose value, or whose name, was written."""

    def __init__(self, annotation: Any, *, base: Any, metadata: tuple[Any, ...]) -> None:
        members: list[Any] = list(base) if isinstance(base, EnumMeta) else list(get_args(base))
        self._by_text: dict[str, Any] = {}
        for member in members:
            self._by_text.setdefault(_text_of(member), member)
        self._allowed = list(self._by_text)
        for member in members:
            if isinstance(member, Enum):
                self._by_text.setdefault(member.name, member)
        super().__init__(annotation, base=base, metadata=metadata)
        self.expected = f"one of {', '.join(self._allowed)}"

    def from_text(self, text: str) -> Any:
        value = self._by_text.get(text, self._by_text.get(text.strip(), self))
        if value is self:
            folded = {known.casefold(): known for known in reversed(self._by_text)}
            near = difflib.get_close_matches(text.strip().casefold()[:80], folded, n=1, cutoff=0.5)
            hint = f"did you mean '{folded[near[0]]}'? It" if near else "it"
            raise ValueFault(f"{hint} must be {self.expected}")
        return value

    def from_json(self, value: Any) -> Any:
        for member in self._by_text.values():
            plain = member.value if isinstance(member, Enum) else member
            if value is member or (type(plain) is type(value) and plain == value):
                return member
        if isinstance(value, str):
            return self.from_text(value)
        raise ValueFault(f"it must be {self.expected}")


class _OneOf(Converter):
    """Optional and other unions: the first member the value fits, in the order they stand."""

    def __init__(self, annotation: Any, *, base: Any, metadata: tuple[Any, ...]) -> None:
        super().__init__(annotation, base=base, metadata=metadata)
        members = get_args(base)
        self._none = type(None) in members
        self._members = [converter_for(m) for m in members if m is not type(None)]
        self.limit = self.limit or next((m.limit for m in self._members if m.limit), None)
        self.expected = " or ".join([m.expected for m in self._members] + (["none"] if self._none else []))

    def from_text(self, text: str) -> Any:
        if self._none and text.strip().casefold() in _NONE:
            return None
        return self._first(lambda member: member.from_text(text))

    def from_json(self, value: Any) -> Any:
        if self._none and value is None:
            return None
        return self._first(lambda member: member.from_json(value))

    def _first(self, convert: Callable[[Converter], Any]) -> Any:
        fault: ValueFault | None = None
        for member in self._members:
            try:
                made = convert(member)
            except ValueFault as error:
                fault = error if fault is None or error.out_of_range else fault
            else:
                return self._checked(made)
        if fault is not None and (fault.out_of_range or len(self._members) == 1):
            raise fault
        raise ValueFault(f"it must be {self.expected}")


def converter_for(annotation: Any) -> Converter:
    """The converter of an annotated type. Raises TypeError when no value of the type can be made from JSON."""
    base, metadata = annotation, ()
    while get_origin(base) is Annotated:
        base, *extra = get_args(base)
        metadata = (*extra, *metadata)
    kind: type[Converter] = Converter
    if get_origin(base) in (Union, types.UnionType):
        kind = _OneOf
    elif get_origin(base) is Literal or (get_origin(base) is None and isinstance(base, type) and issubclass(base, Enum)):
        kind = _Choice
    return kind(annotation, base=base, metadata=metadata)


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise TypeError(f"{annotation!r} is no type for a value in JSON") from error


def _boolean(text: str, expected: str) -> bool:
    folded = text.casefold()
    if folded in _TRUE:
        return True
    if folded in _FALSE:
        return False
    raise ValueFault(f"it must be {expected}")


def _finite(number: str | int, expected: str) -> float:
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueFault(f"it is too large; it must be {expected}", out_of_range=True)
    return value


def _whole(digits: str, expected: str) -> int:
    try:
        return int(digits)
    except ValueError as error:  # more digits than Python converts
        raise ValueFault(f"it is too large; it must be {expected}", out_of_range=True) from error


def _refuse_not_finite(value: Any) -> None:
    """Raise ValueFault for NaN and infinity anywhere inside a JSON value."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float) and not math.isfinite(item):
            raise ValueFault(f"{item} is no number a robot can use; write a finite one")
        if isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(item.values())


def _text_of(member: Any) -> str:
    return str(member.value) if isinstance(member, Enum) else str(member)


def _unit(metadata: tuple[Any, ...]) -> str:
    """The unit is the first word of a bare string or a `Field` description that names one."""
    for mark in metadata:
        words = mark if isinstance(mark, str) else (mark.description or "") if isinstance(mark, FieldInfo) else ""
        unit = _UNIT_OF.get(words.split()[0].strip(",;.:()[]").casefold()) if words.split() else None
        if unit:
            return unit
    return ""


def _expected(base: Any, metadata: tuple[Any, ...], unit: str) -> str:
    word = _NUMBER_WORDS.get(base) if isinstance(base, type) else None
    if word is None:
        name = getattr(base, "__name__", str(base)) if get_origin(base) is None else str(base).replace("typing.", "")
        word = f"JSON for {name}"
    flat = [c for m in metadata for c in (m.metadata if isinstance(m, FieldInfo) else [m])]
    bounds = [
        f"{text} {bound:g}" if isinstance(bound, (int, float)) else f"{text} {bound}"
        for key, text in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than"))
        for mark in flat
        if (bound := getattr(mark, key, None)) is not None
    ]
    return word + (f" {' and '.join(bounds)}" if bounds else "") + (f" in {unit}" if unit else "")


def _fault(error: ValidationError, expected: str) -> ValueFault:
    first = error.errors(include_url=False)[0]
    inside = ".".join(str(part) for part in first["loc"])
    out_of_range = first["type"] in _RANGE_ERRORS
    reason = first["msg"][0].lower() + first["msg"][1:]
    if not inside and expected.count(" at ") + expected.count(" than "):
        return ValueFault(f"it must be {expected}", out_of_range=out_of_range)
    where = f"at {inside} " if inside else ""
    return ValueFault(f"it must be {expected}: {where}{reason}", out_of_range=out_of_range)
