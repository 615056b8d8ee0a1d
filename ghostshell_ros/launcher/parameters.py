# SPDX-License-Identifier: Apache-2.0
"""Types of inline parameters: which value and type a `<param>`'s text stands for, by launch's rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import yaml

from ghostshell_ros.launcher import substitution
from ghostshell_ros.launcher.specs import LaunchError, Place, nearest
from ghostshell_ros.launcher.substitution import Template

Scalar = bool | int | float | str
Value = Scalar | list[Scalar]


@dataclass(frozen=True)
class Kind:
    """A declared parameter type; `item` None means that YAML's own rules find it."""

    name: str
    item: type[bool | int | float | str] | None
    is_list: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("yaml", None),
        Kind("bool", bool),
        Kind("int", int),
        Kind("float", float),
        Kind("str", str),
        Kind("list_of_bool", bool, True),
        Kind("list_of_int", int, True),
        Kind("list_of_float", float, True),
        Kind("list_of_str", str, True),
    )
}


@dataclass(frozen=True)
class ParameterValue:
    """The value of a `<param>` before its substitutions are performed."""

    kind: Kind
    content: Scalar | Template | tuple[Scalar | Template, ...]
    place: Place


def parse_kind(name: str, place: Place) -> Kind:
    """Return the kind called `name` in a `type` attribute; raises LaunchError for another name."""
    if name not in KINDS:
        raise LaunchError(f"parameter type '{name}' is not known; {nearest(name, KINDS)}", place)
    return KINDS[name]


def parse_value(text: str, kind: Kind, place: Place) -> ParameterValue:
    """Return the parameter value that `text` means; raises LaunchError when it cannot be of `kind`.

    The text is read as YAML first and its strings are searched for substitutions afterwards, so quotes inside the
    attribute keep a fixed text a string: value="'1'".
    """
    raw = _typed(text, kind, place, may_be_text=True)
    content: Scalar | Template | tuple[Scalar | Template, ...]
    if isinstance(raw, list):
        content = tuple(_template_or_text(item, place) for item in raw)
        fixed = {type(item) for item in content if not isinstance(item, Template)}
        if len(fixed) > 1:
            raise LaunchError(f"'{text}' mixes types in one list", place)
        items_fit = kind.item is None or fixed <= {kind.item}
    else:
        content = _template_or_text(raw, place)
        items_fit = isinstance(content, Template) or kind.item is None or isinstance(content, kind.item)
    if not items_fit:
        raise LaunchError(f"'{text}' is not of type {kind.name}", place)
    return ParameterValue(kind, content, place)


def evaluate(value: ParameterValue, perform: Callable[[Template], str]) -> Value:
    """Return the value with its substitutions performed; raises LaunchError when the result is not of the declared type."""
    if isinstance(value.content, Template):
        return _typed(perform(value.content), value.kind, value.place, may_be_text=False)
    if not isinstance(value.content, tuple):
        return value.content
    item_kind = Kind(value.kind.name, value.kind.item)
    items: list[Scalar] = []
    for item in value.content:
        done = _typed(perform(item), item_kind, value.place, may_be_text=False) if isinstance(item, Template) else item
        if isinstance(done, list):
            raise LaunchError(f"a list inside a list: {done}", value.place)
        items.append(done)
    if len({type(item) for item in items}) > 1:
        raise LaunchError(f"{items} mixes types in one list", value.place)
    return items


def boolean(text: str) -> bool:
    """Return the truth of `1`, `0` or a YAML boolean; raises ValueError for another text."""
    try:
        value = yaml.safe_load({"1": "true", "0": "false"}.get(text, text or "''"))
    except yaml.YAMLError as error:
        raise ValueError(f"'{text}' is neither true nor false") from error
    if value is True or value is False:
        return bool(value)
    raise ValueError(f"'{text}' is neither true nor false")


def _template_or_text(value: Scalar, place: Place) -> Scalar | Template:
    if not isinstance(value, str):
        return value
    template = substitution.parse(value, place)
    return template if template.fixed is None else template.fixed


def _typed(text: str, kind: Kind, place: Place, *, may_be_text: bool) -> Value:
    wrong = LaunchError(f"parameter value '{text}' is not of type {kind.name}", place)
    if kind.item is str and not kind.is_list:
        return text
    if kind.item in (int, float) and not kind.is_list:
        try:
            return int(text) if kind.item is int else float(text)
        except ValueError as error:
            if may_be_text:
                return text
            raise wrong from error
    if kind.item is bool and not kind.is_list:
        text = {"1": "true", "0": "false"}.get(text, text)
    value = _from_yaml(text, place, may_be_text=may_be_text)
    if kind.item is None:
        return value
    allowed = (kind.item, str) if may_be_text else (kind.item,)
    if isinstance(value, list) != kind.is_list:
        raise wrong
    if not all(isinstance(item, allowed) for item in (value if isinstance(value, list) else [value])):
        raise wrong
    return value


def _from_yaml(text: str, place: Place, *, may_be_text: bool) -> Value:
    if not text:
        return text
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        if may_be_text:
            return text
        raise LaunchError(f"parameter value '{text}' is not YAML; add type=\"str\" if it is a text", place) from error
    items = value if isinstance(value, list) else [value]
    others = {type(item) for item in items if not (may_be_text and isinstance(item, str))}
    if len(others) > 1 or not others <= {bool, int, float, str}:
        raise LaunchError(
            f"parameter value '{text}' is neither bool, int, float, string nor a list of one of them; "
            'add type="str" if it is a text',
            place,
        )
    return value
