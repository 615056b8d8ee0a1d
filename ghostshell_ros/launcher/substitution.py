# SPDX-License-Identifier: Apache-2.0
"""Parse the `$(name argument …)` grammar of launch files into templates, in all cases as launch's own grammar does."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ghostshell_ros.launcher.specs import LaunchError
from skill_kernel.config.sections import nearest

ARITY = {
    **dict.fromkeys(("var", "env", "command"), (1, 2)),
    **dict.fromkeys(("find-pkg-share", "find-pkg-prefix"), (1, 1)),
    "dirname": (0, 0),
    "equals": (2, 2),
}
"""Known substitutions with their minimum and maximum argument counts."""

_CALL_START = re.compile(r"(?<!\\)\$\(")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ESCAPED = re.compile(r"\\(.)")
_QUOTED_TEXT = {quote: re.compile(rf"(?:\\{quote}|(?!(?<!\\)\$\()[^{quote}])+") for quote in ("'", '"')}
"""By its quote, the text of a quoted argument up to the closing quote or a call."""
_TOP_LEVEL_TEXT = re.compile(r"(?:(?!(?<!\\)\$\().)+", re.DOTALL)
"""Text outside any call, up to the next one."""
_UNQUOTED_TEXT = {
    quotes: re.compile(rf"(?:\\[{quotes}]|(?<=\\)[()]|(?!(?<!\\)\$\()[^ (){quotes}])+") for quotes in ("'", '"', "'\"")
}
"""By the quotes that may not stand in it, the text of an argument without quotes of its own: up to a space or parenthesis that
is not escaped, a quote or a call. Inside a quoted argument only the enclosing quote is excluded."""


@dataclass(frozen=True)
class Call:
    """One `$(name argument …)`."""

    name: str
    arguments: tuple[Template, ...]


Template = tuple["str | Call", ...]
"""Text with substitutions, evaluated later."""


def parse(text: str, place: str) -> Template:
    """Parse a text into a template.

    A backslash escapes a quote within quotes, a parenthesis within an argument and `$(` anywhere. An argument ends at a single
    space or at the closing parenthesis unless it is quoted; quotes inside a quoted argument are of the other kind or escaped.
    Raises LaunchError when the text does not follow the grammar or names an unknown substitution.
    """
    return _Scanner(text, place).template(_TOP_LEVEL_TEXT, "")


def unescape(text: str) -> str:
    """Return `text` without the backslashes that escape a character."""
    return _ESCAPED.sub(r"\1", text)


class _Scanner:
    def __init__(self, text: str, place: str) -> None:
        self._text = text
        self._place = place
        self._pos = 0

    def template(self, text: re.Pattern[str], enclosing_quote: str) -> Template:
        pieces: list[str | Call] = []
        while True:
            if match := text.match(self._text, self._pos):
                self._pos = match.end()
                pieces.append(unescape(match.group()))
            elif match := _CALL_START.match(self._text, self._pos):
                self._pos = match.end()
                pieces.append(self._call(enclosing_quote))
            else:
                return tuple(pieces)

    def _call(self, enclosing_quote: str) -> Call:
        match = _IDENTIFIER.match(self._text, self._pos)
        if match is None:
            raise self._error(f"a substitution's name must follow '$(', found '{self._rest()}'")
        name = match.group()
        self._pos = match.end()
        arguments: list[Template] = []
        while self._take(" "):
            arguments.append(self._argument(enclosing_quote))
        if not self._take(")"):
            raise self._error(f"')' or one space expected in $({name} …), found '{self._rest()}'")
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
                raise self._error(f"the closing {opening} is missing")
            return template
        template = self.template(_UNQUOTED_TEXT[enclosing_quote or "'\""], enclosing_quote)
        after = self._text[self._pos : self._pos + 1]
        if after not in ("", " ", ")"):
            raise self._error(f"'{after}' must be escaped or the whole argument quoted")
        if not template:
            raise self._error("an argument is missing: arguments are separated by exactly one space")
        return template

    def _take(self, character: str) -> bool:
        if not self._text.startswith(character, self._pos):
            return False
        self._pos += 1
        return True

    def _rest(self) -> str:
        return self._text[self._pos : self._pos + 20] or "the end"

    def _error(self, message: str) -> LaunchError:
        return LaunchError(f"in '{self._text}' at character {self._pos + 1}: {message}", self._place)
