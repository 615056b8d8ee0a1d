# SPDX-License-Identifier: Apache-2.0
"""Character classes, names and references of XML 1.0 (fifth edition), as the parser needs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from skill_kernel.codes import ParseCode

# https://www.w3.org/TR/xml/#NT-NameStartChar
NAME_START = (
    r":A-Z_a-z\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u02FF\u0370-\u037D\u037F-\u1FFF\u200C\u200D\u2070-\u218F"
    r"\u2C00-\u2FEF\u3001-\uD7FF\uF900-\uFDCF\uFDF0-\uFFFD\U00010000-\U000EFFFF"
)
NAME_CHAR = NAME_START + r"\-.0-9\u00B7\u0300-\u036F\u203F\u2040"
"""Classes of characters that begin and go on a name."""

name_start = re.compile(f"[{NAME_START}]").match
name_chars = re.compile(f"[{NAME_CHAR}]*").match
_spaces = re.compile(r"[ \t\r\n]*").match
SPACE = " \t\r\n"

# https://www.w3.org/TR/xml/#NT-Char, negated
INVALID = r"\x00-\x08\x0B\x0C\x0E-\x1F\uD800-\uDFFF\uFFFE\uFFFF"
invalid_runs = re.compile(f"[{INVALID}]+").finditer

ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_REFERENCE = r"&(?:(lt|gt|amp|quot|apos)|#([0-9]+)|#x([0-9A-Fa-f]+));"
reference = re.compile(_REFERENCE).match
named_reference = re.compile(f"&[{NAME_START}][{NAME_CHAR}]*;").match
reference_begun = re.compile(r"&(?:l|lt|g|gt|a|am|amp|ap|apo|apos|q|qu|quo|quot|#|#[0-9]+|#x|#x[0-9A-Fa-f]+)?").fullmatch
"""Matches what may still become one of the references above."""
name_begun = re.compile(f"&[{NAME_START}][{NAME_CHAR}]*").fullmatch
_value_parts = re.compile(_REFERENCE + "|&").finditer
_to_space = str.maketrans("\t\r\n", "   ")


def spaces(text: str, at: int) -> int:
    """The index behind the white space at `at`."""
    return _spaces(text, at).end()  # type: ignore[union-attr]


Report = Callable[[ParseCode, str, int], None]


def resolve(match: re.Match[str]) -> str | None:
    """What a match of `reference` stands for, or None where it names no XML character."""
    entity, decimal, hexadecimal = match.groups()
    if entity:
        return ENTITIES[entity]
    digits, base = (decimal, 10) if decimal else (hexadecimal, 16)
    digits = digits.lstrip("0")
    number = int(digits, base) if 0 < len(digits) <= 7 else 0
    if number in (0x9, 0xA, 0xD) or 0x20 <= number <= 0xD7FF or 0xE000 <= number <= 0xFFFD:
        return chr(number)
    return chr(number) if 0x10000 <= number <= 0x10FFFF else None


def stray_ampersand(text: str, at: int) -> tuple[ParseCode, str]:
    """Code and message for an `&` at `at` that begins none of the references known here."""
    if named := named_reference(text, at):
        return ParseCode.UNKNOWN_REFERENCE, f"{named[0][:40]!r} is no reference; only lt, gt, amp, quot and apos are"
    return ParseCode.SYNTAX, "a bare '&'; write '&amp;'"


def normalise_newlines(text: str) -> str:
    """XML's end-of-line handling: `\\r\\n` and a lone `\\r` become `\\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def attribute_value(raw: str, report: Report) -> str:
    """The value of an attribute after XML's normalisation, with references resolved.

    `report(code, message, index)` is called for each violation; where it returns, a stray `&` stays as it is and a
    reference to no character is left out.
    """
    if "&" not in raw:
        return _spaced(raw)
    return "".join(_resolved(raw, report))


def _spaced(raw: str) -> str:
    return raw.replace("\r\n", "\n").translate(_to_space)


def _resolved(raw: str, report: Report) -> Iterator[str]:
    done = 0
    for match in _value_parts(raw):
        yield _spaced(raw[done : match.start()])
        done = match.end()
        if len(match[0]) == 1:
            report(*stray_ampersand(raw, match.start()), match.start())
            yield "&"
            continue
        char = resolve(match)
        if char is None:
            report(ParseCode.INVALID_CHARACTER, f"{match[0][:40]!r} names no XML character", match.start())
        else:
            yield char
    yield _spaced(raw[done:])
