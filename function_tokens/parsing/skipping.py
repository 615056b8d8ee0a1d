# SPDX-License-Identifier: Apache-2.0
"""Skip comments, processing instructions, DOCTYPE and reasoning blocks: they give no tokens and are not stored."""

from __future__ import annotations

import re

from function_tokens.parsing.source import SPACE, Source, Step
from skill_kernel.codes import ParseCode

_outside = re.compile(r"[\"'\[>]").search
_subset = re.compile(r"[\]<]").search
_declaration = re.compile(r"[\"'>]").search


def skip_comment(source: Source) -> Step[None]:
    """Skip to behind `-->`. XML forbids `--` inside, which a lenient stream may have."""
    yield from source.find("--")
    while (char := (yield from source.peek())) != ">":
        source.violation(ParseCode.SYNTAX, "'--' inside a comment; end it with '-->'", source.at)
        source.at += 1
        if char != "-":
            yield from source.find("--")
    source.at += 1


def skip_instruction(source: Source) -> Step[None]:
    """Skip to behind `?>`."""
    yield from source.find("?>")


def skip_declaration(source: Source) -> Step[None]:
    """Skip `<!DOCTYPE … [ … ]>` or another markup declaration as a whole."""
    while (char := (yield from source.search(_outside))) != ">":
        if char == "[":
            yield from _skip_subset(source)
        else:
            yield from source.find(char)


def _skip_subset(source: Source) -> Step[None]:
    while (yield from source.search(_subset)) == "<":
        if (yield from source.skip_if("?")):
            yield from source.find("?>")
        elif (yield from source.skip_if("!")) and (yield from source.skip_if("-")) and (yield from source.skip_if("-")):
            yield from source.find("-->")
        else:
            while (char := (yield from source.search(_declaration))) != ">":
                yield from source.find(char)


def skip_reasoning(source: Source, name: str) -> Step[None]:
    """Skip to the literal end tag of a reasoning block, whatever stands before it (semantics 1.6)."""
    room = source.limits.reasoning_length
    start = source.at
    for _ in _find_end_tag(source, name):
        room = _spend(source, room, start, source.end)
        yield
        start = source.held
    _spend(source, room, start, source.at)


def _find_end_tag(source: Source, name: str) -> Step[None]:
    char = ""
    while char != ">":
        yield from source.find(f"</{name}")
        while (char := (yield from source.peek())) in SPACE:
            source.at += 1
    source.at += 1


def _spend(source: Source, room: int, start: int, end: int) -> int:
    if end - start > room:
        raise source.exceeded("reasoning_length", start + room)
    return room - (end - start)
