# SPDX-License-Identifier: Apache-2.0
"""Find what texts of a launch file stand for: the grammar of `$(name argument …)`, typed values and truth values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from ghostshell_ros.launcher.specs import LaunchError
from skill_kernel.config.sections import nearest

ARITY = {
    **dict.fromkeys(("var", "env", "command"), (1, 2)),
    **dict.fromkeys(("find-pkg-share", "find-pkg-prefix", "file-content"), (1, 1)),
    "dirname": (0, 0),
    "equals": (2, 2),
}
"""Known substitutions with their minimum and maximum argument counts."""

_CALL_START = re.compile(r"\$\(([A-Za-z][A-Za-z0-9_-]*)")
_TOP_LEVEL_TEXT = re.compile(r"(?:(?!\$\().)+", re.DOTALL)
"""Text outside any call, up to the next one."""
_QUOTED_TEXT = {quote: re.compile(rf"(?:(?!\$\()[^{quote}])+") for quote in ("'", '"')}
"""By its quote, the text of a quoted argument up to the closing quote or a call."""
_UNQUOTED_TEXT = {quotes: re.compile(rf"(?:(?!\$\()[^ (){quotes}])+") for quotes in ("'", '"', "'\"")}
"""By the quotes that may not stand in it, the text of an argument without quotes of its own: up to a space, a parenthesis, a
quote or a call. Inside a quoted argument only the enclosing quote is excluded."""


@dataclass(frozen=True)
class Call:
    """One `$(name argument …)`."""

    name: str
    arguments: tuple[Template, ...]


Template = tuple["str | Call", ...]
"""Text with substitutions, evaluated later."""


def parse(text: str, place: str) -> Template:
    """Parse a text into a template.

    An argument ends at a single space or at the closing parenthesis unless it is quoted; quotes inside a quoted argument are
    of the other kind. Raises LaunchError when the text does not follow the grammar, names an unknown substitution, or holds a
    backslash, by which launch escapes a character.
    """
    if "\\" in text:
        raise LaunchError(f"'{text}' has a backslash, by which ros2 launch escapes what follows: not known here", place)
    scanner = _Scanner(text, place)
    template = scanner.template(_TOP_LEVEL_TEXT, "")
    if not scanner.at_end:
        raise scanner.error("a substitution's name must follow '$('")
    return template


class _Scanner:
    def __init__(self, text: str, place: str) -> None:
        self._text = text
        self._place = place
        self._pos = 0

    @property
    def at_end(self) -> bool:
        return self._pos == len(self._text)

    def template(self, text: re.Pattern[str], enclosing_quote: str) -> Template:
        pieces: list[str | Call] = []
        while True:
            if match := text.match(self._text, self._pos):
                self._pos = match.end()
                pieces.append(match.group())
            elif match := _CALL_START.match(self._text, self._pos):
                self._pos = match.end()
                pieces.append(self._call(match.group(1), enclosing_quote))
            else:
                return tuple(pieces)

    def _call(self, name: str, enclosing_quote: str) -> Call:
        arguments: list[Template] = []
        while self._take(" "):
            arguments.append(self._argument(enclosing_quote))
        if not self._take(")"):
            raise self.error(f"')' or one space expected in $({name} …)")
        if name not in ARITY:
            raise LaunchError(
                f"substitution '$({name} …)' is not known here{nearest(name, ARITY, else_known=True)}", self._place
            )
        least, most = ARITY[name]
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} or {most}"
            raise LaunchError(f"$({name} …) takes {wanted} argument(s), {len(arguments)} given", self._place)
        return Call(name, tuple(arguments))

    def _argument(self, enclosing_quote: str) -> Template:
        opening = self._text[self._pos : self._pos + 1]
        if not enclosing_quote and opening in _QUOTED_TEXT:
            self._pos += 1
            template = self.template(_QUOTED_TEXT[opening], opening)
            if not self._take(opening):
                raise self.error(f"the closing {opening} is missing")
            return template
        template = self.template(_UNQUOTED_TEXT[enclosing_quote or "'\""], enclosing_quote)
        if not template:
            raise self.error("an argument is missing: arguments are separated by exactly one space")
        return template

    def _take(self, character: str) -> bool:
        if not self._text.startswith(character, self._pos):
            return False
        self._pos += 1
        return True

    def error(self, message: str) -> LaunchError:
        rest = self._text[self._pos : self._pos + 20] or "the end"
        return LaunchError(f"in '{self._text}' at character {self._pos + 1}: {message}; found '{rest}'", self._place)


TRUTH = {"true": True, "1": True, "false": False, "0": False}
_CONVERSIONS: dict[str, Callable[[str], Any]] = {
    "yaml": lambda text: yaml.safe_load(text) if text else text,
    "bool": lambda text: TRUTH[text.strip().lower()],
    "int": int,
    "float": float,
    "str": str,
}


def typed(text: str, kind: str, place: str) -> Any:
    """Return the value of a text without substitutions; raises LaunchError when it is not of `kind`."""
    if kind not in _CONVERSIONS:
        raise LaunchError(f"parameter type '{kind}' is not known{nearest(kind, _CONVERSIONS, else_known=True)}", place)
    try:
        value = _CONVERSIONS[kind](text)
    except (yaml.YAMLError, KeyError, ValueError, RecursionError) as error:
        hint = '; add type="str" if it is a text' if kind == "yaml" else ""
        raise LaunchError(f"'{text}' is not of type {kind}{hint}", place) from error
    kinds = {type(item) for item in (value if isinstance(value, list) else [value])}
    if len(kinds) > 1 or not kinds <= {bool, int, float, str}:
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
