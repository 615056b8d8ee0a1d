# SPDX-License-Identifier: Apache-2.0
"""Take keys out of what a model's server says: found by their value, whole or in part, in whatever encoding it echoes them."""

import base64
import os
import re
from collections.abc import Iterable, Iterator, Mapping

from planners.prompts.blocks import INVISIBLE
from skill_kernel.config.sections import shown

REMOVED = "[key removed]"
LEAST = 8
"""Length of a value from which on it is looked for; a shorter one is an ordinary word."""
PIECE = 12
"""Length from which on a piece of a value is taken out, or less where a value is shorter."""
AHEAD = 4
"""Length from which on the end of a text is kept back, because it may be the beginning of a piece."""
MOST_KEPT = 300
"""Characters that are kept back at most; a piece is shorter even where each of its characters is escaped."""

_NAMED_LIKE_A_KEY = re.compile(r"(?i)(key|token|secret|password)s?(?![a-z])")
_LOOKS_LIKE_A_KEY = re.compile(r"(?i:\bbearer)\s+[^\s\"',}]{6,}|\b(?:sk|gsk|pk|rk)[-_][A-Za-z0-9_\-*.]{6,}")
_PASSED = rf"[\s\\\"':,;{INVISIBLE}]"
"""Characters passed over within a value: they may stand between the digits of two bytes."""
_CHARACTER = re.compile(
    r"(?:%(?:25){0,3}|\\{1,4}(?:u00|x)|&(?:amp;){0,3}#[xX]0{0,5})([0-9a-fA-F]{2})|&(?:amp;){0,3}#0{0,5}([0-9]{2,3})"
    rf"|{_PASSED}|(.)"
)
"""A character, escaped as in an address, JSON or XML, more than once even, or as it is."""
_BEGUN = re.compile(r"(?:%(?:25){0,3}[0-9a-fA-F]?|\\{1,4}(?:u(?:0|00.?)?|x.?)?|&(?:amp;){0,3}(?:a|am|amp|#\w{0,8})?)\Z")
"""An escape whose end may still come."""
_ALIKE = str.maketrans("-_" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "+/" + "abcdefghijklmnopqrstuvwxyz")
"""Both alphabets of base64 and both cases are one."""


def looks_removed(text: str, removed: str = REMOVED) -> str:
    """Return the text without what looks like a key, whoever's it is."""
    return _LOOKS_LIKE_A_KEY.sub(removed, text)


def known_secrets(environ: Mapping[str, str]) -> list[str]:
    """Return the values of the variables that are named like a key and hold neither a word, a number nor a path."""
    named = [value for name, value in environ.items() if _NAMED_LIKE_A_KEY.search(name)]
    return [v for v in named if not (v.isalpha() or v.isdigit() or os.path.exists(v))]


class Secrets:
    """Hold the values that nobody may see: those of LEAST characters and more, of printable ASCII without spaces."""

    def __init__(self, values: Iterable[str]) -> None:
        usable = {v for v in values if len(v) >= LEAST and v.isascii() and v.isprintable() and " " not in v}
        forms = {form for value in usable for form in _forms(value) if len(form) > AHEAD}
        self.piece = min([PIECE, *map(len, forms)])
        self._all = "\n".join(forms)
        self._short = {form[i : i + n] for form in forms for n in range(1, AHEAD + 1) for i in range(len(form) - n + 1)}

    def have(self, piece: str) -> bool:
        """Return whether characters as `_read` gives them stand in a value."""
        return piece in self._short if len(piece) <= AHEAD else piece in self._all

    def hidden(self, text: str, removed: str = REMOVED) -> str:
        """Return a whole text without them."""
        return Scrubber(self, removed).feed(text, last=True)

    def sentence(self, text: str) -> str:
        """Return a text on one line without them and without what else looks like a key, cut to 300 characters."""
        return shown(looks_removed(self.hidden(text)), 300)


def _forms(value: str) -> Iterator[str]:
    """Yield a value as it is, in hexadecimal digits and in base64, which differs with the place in what is encoded."""
    data = value.encode()
    encoded = [base64.b64encode(bytes(i) + data).decode()[-(-8 * i // 6) : 8 * (i + len(data)) // 6] for i in range(3)]
    for form in (value, data.hex(), *encoded):
        yield "".join(character for character, _, _ in _read(form, 0, len(form)))


def _read(text: str, begin: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Yield the characters that count in a part of a text, unescaped, each with its place."""
    for found in _CHARACTER.finditer(text, begin, end):
        if found.lastindex is not None:
            escaped = found[1] or found[2]
            character = chr(int(escaped, 16 if found[1] else 10)) if escaped else found[3]
            if not (escaped and re.match(_PASSED, character)):
                yield character.translate(_ALIKE), found.start(), found.end()


class Scrubber:
    """Take secrets out of one text that comes in pieces, in time that grows with the text alone."""

    def __init__(self, secrets: Secrets, removed: str = REMOVED) -> None:
        self._secrets, self._removed = secrets, removed
        self._kept, self._read_to = "", 0
        """Text not given out yet, and up to where it was read."""
        self._tail = ""
        self._places: list[int] = []
        """The longest end of the text read that stands in a secret, and where in `_kept` its characters begin."""
        self._within = False
        """True when the text given out last stands for a secret."""

    def feed(self, text: str, *, last: bool = False) -> str:
        """Return what can be given out now: all but what may be the beginning of a secret, and that, too, with the `last`."""
        text, out, given = self._kept + text, "", 0
        begun = None if last else _BEGUN.search(text, max(self._read_to, len(text) - 32))
        end = begun.start() if begun else len(text)
        for character, begin, stop in _read(text, self._read_to, end):
            self._tail += character
            self._places.append(begin)
            while self._tail and (len(self._tail) > self._secrets.piece or not self._secrets.have(self._tail)):
                self._tail = self._tail[1:]
                del self._places[0]
            if len(self._tail) == self._secrets.piece:
                first = max(0, self._places[0])
                if first > given or not self._within:
                    out += text[given:first] + self._removed
                given, self._within = stop, True
        keep = end
        if not last and len(self._tail) >= AHEAD and len(text) - self._places[0] < MOST_KEPT:
            keep = max(given, self._places[0])
        if given < keep:
            out += text[given:keep]
            self._within = False
        self._kept, self._read_to = text[keep:], end - keep
        self._places = [place - keep for place in self._places]
        return out
