# SPDX-License-Identifier: Apache-2.0
"""Find what texts of a launch file stand for: typed parameters and truth values, by launch's rules."""

import math
from collections.abc import Callable
from typing import Any

import yaml

from ghostshell_ros.launcher import substitution
from ghostshell_ros.launcher.specs import LaunchError
from ghostshell_ros.launcher.substitution import Template
from skill_kernel.config.sections import nearest

Scalar = bool | int | float | str
Value = Scalar | list[Scalar]

_TYPES: dict[str, type[Scalar] | None] = {"yaml": None, "bool": bool, "int": int, "float": float, "str": str}
"""Types of a parameter; None means that YAML's own rules find it."""
_BINARY = {"1": "true", "0": "false"}
TRUTH = {"true": True, "1": True, "false": False, "0": False}


def parameter(text: str, kind: str, place: str, perform: Callable[[Template], str]) -> Value:
    """Return the value that a parameter's text stands for; raises LaunchError when it is not of `kind`.

    The text is read as YAML first and its strings are searched for substitutions afterwards, so quotes inside the
    attribute keep a fixed text a string: value="'1'".
    """
    if kind not in _TYPES:
        raise LaunchError(f"parameter type '{kind}' is not known{nearest(kind, _TYPES, else_known=True)}", place)
    raw = typed(text, kind, place, may_be_text=True)

    def performed(value: Scalar, kind: str) -> Value:
        if not isinstance(value, str):
            return value
        template = substitution.parse(value, place)
        done = perform(template)
        if any(not isinstance(piece, str) for piece in template):
            return typed(done, kind, place)
        if kind not in ("yaml", "str"):
            raise LaunchError(f"'{text}' is not of type {kind}", place)
        return done

    if not isinstance(raw, list):
        return performed(raw, kind)
    items: list[Scalar] = []
    for item in raw:
        done = performed(item, kind)
        if isinstance(done, list):
            raise LaunchError(f"a list inside a list: {done}", place)
        items.append(done)
    if len({type(item) for item in items}) > 1:
        raise LaunchError(f"'{text}' mixes types in one list", place)
    return items


def typed(text: str, kind: str, place: str, *, may_be_text: bool = False) -> Any:
    """Return the value of a text without substitutions; raises LaunchError when it is not of `kind`.

    With `may_be_text`, what is no such value stays a text, because a substitution in it may make it one.
    """
    wrong = LaunchError(f"'{text}' is not of type {kind}", place)
    wanted = _TYPES[kind]
    if kind == "str":
        return text
    if kind in ("int", "float"):
        try:
            return int(text) if kind == "int" else float(text)
        except ValueError as error:
            if may_be_text:
                return text
            raise wrong from error
    value = _from_yaml(_BINARY.get(text, text) if kind == "bool" else text, place, may_be_text=may_be_text)
    if wanted is not None:
        allowed = (wanted, str) if may_be_text else wanted
        if not isinstance(value, allowed):
            raise wrong
    return value


def _from_yaml(text: str, place: str, *, may_be_text: bool) -> Value:
    try:
        value: Value = yaml.safe_load(text) if text else text
    except (yaml.YAMLError, ValueError, RecursionError) as error:
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


def equal(left: str, right: str) -> str:
    """Return `true` where two texts, two truth values or two numbers are equal, else `false`, as launch's `$(equals …)`."""
    if left.lower() in TRUTH and right.lower() in TRUTH:
        same = TRUTH[left.lower()] is TRUTH[right.lower()]
    else:
        try:
            same = math.isclose(float(left), float(right))
        except ValueError:
            same = left == right
    return "true" if same else "false"
