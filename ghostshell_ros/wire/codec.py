# SPDX-License-Identifier: Apache-2.0
"""Convert messages of any interface to and from plain Python values, by the fields that the interface declares."""

import math
import operator
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from builtin_interfaces.msg import Duration, Time

from ghostshell_ros.wire.values import ros_text, seconds
from skill_kernel.config.sections import nearest, shown

_ARRAY = re.compile(r"sequence<(?P<of>[^,>]+)(?:, (?P<most>\d+))?>|(?P<fixed>[^\[]+)\[(?P<count>\d+)\]")
_WHOLE = re.compile(r"(?P<unsigned>u?)int(?P<bits>\d+)")
_NUMBERS = {"float", "double", "long double"}
TIMES = {"builtin_interfaces/Time": Time, "builtin_interfaces/Duration": Duration}
"""Interfaces that are numbers of seconds in Python."""


class FieldError(ValueError):
    """Raised for a value that does not fit its field; the message names the field and says what it takes."""


class UnknownFieldError(TypeError):
    """Raised for a field that a message does not have; the message names the nearest one."""


def interface(name: str) -> Any:
    """Return the class of `package/msg/Name`, `package/srv/Name` or `package/action/Name`. Raises ImportError."""
    package, kind, short = name.split("/")
    try:
        return getattr(import_module(f"{package}.{kind}"), short)
    except (ImportError, AttributeError) as error:
        raise ImportError(f"there is no interface {name} ({error}): correct its name, or source its package") from error


def filled(message: Any, values: Mapping[str, Any], where: str = "") -> Any:
    """Set fields of a message from Python values and return it.

    Nested messages are mappings, times and durations seconds. Raises UnknownFieldError and FieldError.
    """
    kinds = message.get_fields_and_field_types()
    for name, value in values.items():
        if name not in kinds:
            known = f"{nearest(name, kinds)} (its fields: {', '.join(kinds) or 'none'})"
            raise UnknownFieldError(f"{type(message).__name__} has no field '{where}{name}'{known}")
        setattr(message, name, _typed(kinds[name], value, f"{where}{name}"))
    return message


def plain(value: Any) -> Any:
    """Return a message as a mapping of its fields, with nested messages likewise, arrays as lists and times in seconds."""
    if isinstance(value, (Time, Duration)):
        return seconds(value)
    if hasattr(value, "get_fields_and_field_types"):
        return {name: plain(getattr(value, name)) for name in value.get_fields_and_field_types()}
    if isinstance(value, (str, bytes, bool, int, float)):
        return value
    return [plain(element) for element in value]


def _typed(kind: str, value: Any, where: str) -> Any:
    if array := _ARRAY.fullmatch(kind):
        if isinstance(value, (str, Mapping)) or not isinstance(value, Iterable):
            raise FieldError(f"{where} is {shown(repr(value))}; give a list")
        of = array["of"] or array["fixed"]
        elements = [_typed(of, element, f"{where}[{k}]") for k, element in enumerate(value)]
        if array["count"] and len(elements) != int(array["count"]):
            raise FieldError(f"{where} has {len(elements)} elements; give {array['count']}")
        if array["most"] and len(elements) > int(array["most"]):
            raise FieldError(f"{where} has {len(elements)} elements; give {array['most']} at most")
        return elements
    if "/" in kind:
        return _message(kind, value, where)
    if kind.startswith(("string", "wstring")):
        if isinstance(value, str):
            return ros_text(value)
        raise FieldError(f"{where} is {shown(repr(value))}; give a text")
    if kind == "boolean":
        if isinstance(value, bool):
            return value
        raise FieldError(f"{where} is {shown(repr(value))}; give true or false")
    try:
        return float(value) if kind in _NUMBERS else _whole(kind, operator.index(value), where)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, FieldError):
            raise
        raise FieldError(f"{where} is {shown(repr(value))}; give a number") from error


def _whole(kind: str, value: int, where: str) -> Any:
    octet = kind in ("octet", "byte")
    if whole := _WHOLE.fullmatch("uint8" if octet else kind):
        bits = int(whole["bits"])
        low, high = (0, 2**bits) if whole["unsigned"] else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        if not low <= value < high:
            raise FieldError(f"{where} is {value}; give {low} to {high - 1}")
    return bytes([value]) if octet else value


def _message(kind: str, value: Any, where: str) -> Any:
    if kind in TIMES and isinstance(value, (int, float)):
        return _time(TIMES[kind], float(value), where)
    package, short = kind.split("/")
    of = getattr(import_module(f"{package}.msg"), short)
    if isinstance(value, of):
        return value
    if isinstance(value, Mapping):
        return filled(of(), value, f"{where}.")
    raise FieldError(f"{where} is {shown(repr(value))}; give the fields of {kind} by name")


def _time(of: Any, value_s: float, where: str) -> Any:
    if not -(2.0**31) <= value_s < 2.0**31:
        word = "infinity" if math.isinf(value_s) else f"{value_s} s"
        raise FieldError(f"{where} is {word}; give seconds from -2e9 to 2e9")
    whole = math.floor(value_s)
    return of(sec=whole, nanosec=min(round((value_s - whole) * 1e9), 999_999_999))
