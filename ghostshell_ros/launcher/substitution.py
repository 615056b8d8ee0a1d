# SPDX-License-Identifier: Apache-2.0
"""The `$(name argument …)` grammar of launch files: text in, pieces of text and calls out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ghostshell_ros.launcher.specs import LaunchError, nearest

ARITY = {"var": (1, 2), "env": (1, 2), "find-pkg-share": (1, 1), "find-pkg-prefix": (1, 1), "dirname": (0, 0), "equals": (2, 2)}
"""The substitutions that are known, with the least and the most arguments each takes."""

_CALL = re.compile(r"(?<!\\)\$\(")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ESCAPED = re.compile(r"\\(.)")
_TEXT = {quote: re.compile(rf"(?:\\{quote}|(?!(?<!\\)\$\()[^{quote}])+") for quote in ("'", '"')}
"""Text within quotes, up to the closing one or a call."""
_WHOLE = re.compile(r"(?:(?!(?<!\\)\$\().)+", re.DOTALL)
_WORD = {quotes: re.compile(rf"(?:\\[{quotes}]|(?<=\\)[()]|(?!(?<!\\)\$\()[^ (){quotes}])+") for quotes in ("'", '"', "'\"")}
"""Text of an argument that is not quoted itself, within these quotes or (both) within none."""


@dataclass(frozen=True)
class Call:
    """One `$(name argument …)`."""

    name: str
    arguments: tuple[Template, ...]


Template = tuple["str | Call", ...]
"""Text with substitutions, to be performed later."""


def parse(text: str, place: str) -> Template:
    """Return the template of `text`.

    A backslash takes the meaning from the character after it. An argument ends at one blank or at the closing
    bracket unless it is quoted; quotes inside a quoted argument are of the other kind or escaped.
    Raises LaunchError when the text does not follow the grammar or names an unknown substitution.
    """
    return _Scanner(text, place).template(_WHOLE, "")


def unescape(text: str) -> str:
    """Return `text` without the backslashes that take the meaning from the character after them."""
    return _ESCAPED.sub(r"\1", text)


class _Scanner:
    def __init__(self, text: str, place: str) -> None:
        self._text = text
        self._place = place
        self._at = 0

    def template(self, run: re.Pattern[str], quote: str) -> Template:
        pieces: list[str | Call] = []
        while True:
            if match := run.match(self._text, self._at):
                self._at = match.end()
                pieces.append(unescape(match.group()))
            elif match := _CALL.match(self._text, self._at):
                self._at = match.end()
                pieces.append(self._call(quote))
            else:
                return tuple(pieces)

    def _call(self, quote: str) -> Call:
        match = _IDENTIFIER.match(self._text, self._at)
        if match is None:
            raise self._error(f"a substitution's name must follow '$(' but '{self._rest()}' does")
        name = match.group()
        self._at = match.end()
        arguments: list[Template] = []
        while self._take(" "):
            arguments.append(self._argument(quote))
        if not self._take(")"):
            raise self._error(f"')' or one blank expected in $({name} …) before '{self._rest()}'")
        if name not in ARITY:
            raise LaunchError(f"substitution '$({name} …)' is not known here; {nearest(name, ARITY)}", self._place)
        least, most = ARITY[name]
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} or {most}"
            raise LaunchError(f"$({name} …) takes {wanted} argument(s), {len(arguments)} given", self._place)
        return Call(name, tuple(arguments))

    def _argument(self, quote: str) -> Template:
        own = self._text[self._at : self._at + 1]
        if not quote and own in _TEXT:
            self._at += 1
            template = self.template(_TEXT[own], own)
            if not self._take(own):
                raise self._error(f"the closing {own} is missing")
            return template
        template = self.template(_WORD[quote or "'\""], quote)
        after = self._text[self._at : self._at + 1]
        if after not in ("", " ", ")"):
            raise self._error(f"'{after}' must be escaped or the whole argument quoted")
        if not template:
            raise self._error("an argument is missing: arguments are parted by exactly one blank")
        return template

    def _take(self, character: str) -> bool:
        taken = self._text.startswith(character, self._at)
        self._at += taken
        return taken

    def _rest(self) -> str:
        return self._text[self._at : self._at + 20]

    def _error(self, message: str) -> LaunchError:
        return LaunchError(f"in '{self._text}' at character {self._at + 1}: {message}", self._place)
