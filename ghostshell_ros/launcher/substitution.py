# SPDX-License-Identifier: Apache-2.0
"""The `$(name argument …)` grammar of launch files: text in, templates of text and calls out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ghostshell_ros.launcher.specs import LaunchError, Place, nearest

ARITY = {"var": (1, 2), "env": (1, 2), "find-pkg-share": (1, 1), "find-pkg-prefix": (1, 1), "dirname": (0, 0), "eval": (1, 1)}
"""The substitutions that are known, with the least and the most arguments each takes."""

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Call:
    """One `$(name argument …)`."""

    name: str
    arguments: tuple[Template, ...]


@dataclass(frozen=True)
class Template:
    """Text with substitutions, to be performed later."""

    pieces: tuple[str | Call, ...]
    place: Place

    @property
    def fixed(self) -> str | None:
        """Return the text when there is no substitution in it, else None."""
        if any(isinstance(piece, Call) for piece in self.pieces):
            return None
        return "".join(str(piece) for piece in self.pieces)


def parse(text: str, place: Place) -> Template:
    """Return the template of `text`.

    A backslash takes the meaning from the character after it. An argument ends at one blank or at the closing
    bracket unless it is quoted; quotes inside a quoted argument are of the other kind or escaped.
    Raises LaunchError when the text does not follow the grammar or names an unknown substitution.
    """
    scanner = _Scanner(text, place)
    return scanner.template(None)


def unescape(text: str) -> str:
    """`text` without the backslashes that take the meaning from the character after them."""
    return _ESCAPED.sub(r"\1", text)


class _Scanner:
    def __init__(self, text: str, place: Place) -> None:
        self._text = text
        self._place = place
        self._at = 0

    def template(self, quote: str | None) -> Template:
        pieces: list[str | Call] = []
        run = ""
        while self._at < len(self._text) and (quote is None or self._char() != quote):
            if self._call_begins():
                pieces, run = self._closed(pieces, run), ""
                pieces.append(self._call(quote))
            else:
                run += self._literal(quote)
        if quote is not None and self._at >= len(self._text):
            raise self._error(f"the closing {quote} is missing")
        return Template(tuple(self._closed(pieces, run)), self._place)

    def _call(self, quote: str | None) -> Call:
        self._at += 2
        match = _IDENTIFIER.match(self._text, self._at)
        if match is None:
            raise self._error(f"a substitution's name must follow '$(' but '{self._rest()}' does")
        name = match.group()
        self._at = match.end()
        arguments: list[Template] = []
        while self._char() == " ":
            self._at += 1
            arguments.append(self._argument(quote))
        if self._char() != ")":
            raise self._error(f"')' or one blank expected in $({name} …) before '{self._rest()}'")
        self._at += 1
        if name not in ARITY:
            raise LaunchError(f"substitution '$({name} …)' is not known here; {nearest(name, ARITY)}", self._place)
        least, most = ARITY[name]
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} or {most}"
            raise LaunchError(f"$({name} …) takes {wanted} argument(s), {len(arguments)} given", self._place)
        return Call(name, tuple(arguments))

    def _argument(self, quote: str | None) -> Template:
        if quote is None and self._char() in ("'", '"'):
            inner = self._char()
            self._at += 1
            template = self.template(inner)
            self._at += 1
            return template
        quotes = ("'", '"') if quote is None else (quote,)
        pieces: list[str | Call] = []
        run = ""
        while self._char() and not (self._char() in " )" and not (self._char() == ")" and self._escaped())):
            if self._call_begins():
                pieces, run = self._closed(pieces, run), ""
                pieces.append(self._call(quote))
            elif self._char() in quotes or (self._char() == "(" and not self._escaped()):
                raise self._error(f"'{self._char()}' must be escaped or the whole argument quoted")
            else:
                run += self._literal(*quotes)
        pieces = self._closed(pieces, run)
        if not pieces:
            raise self._error("an argument is missing: arguments are parted by exactly one blank")
        return Template(tuple(pieces), self._place)

    def _literal(self, *quotes: str | None) -> str:
        length = 2 if self._char() == "\\" and self._text[self._at + 1 : self._at + 2] in quotes else 1
        taken = self._text[self._at : self._at + length]
        self._at += length
        return taken

    def _call_begins(self) -> bool:
        return self._text.startswith("$(", self._at) and not self._escaped()

    def _escaped(self) -> bool:
        return self._at > 0 and self._text[self._at - 1] == "\\"

    def _char(self) -> str:
        return self._text[self._at : self._at + 1]

    def _rest(self) -> str:
        return self._text[self._at : self._at + 20]

    def _error(self, message: str) -> LaunchError:
        return LaunchError(f"in '{self._text}' at character {self._at + 1}: {message}", self._place)

    @staticmethod
    def _closed(pieces: list[str | Call], run: str) -> list[str | Call]:
        return [*pieces, unescape(run)] if run else pieces
