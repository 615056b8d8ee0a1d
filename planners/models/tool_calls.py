# SPDX-License-Identifier: Apache-2.0
"""Turn native calls of a provider into function tokens while they are streamed, and function tokens of an earlier answer back
into native calls."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from function_tokens.markup import attribute, value_text
from function_tokens.parsing.lexer import NAME, NAME_START
from function_tokens.parsing.parser import REASONING_TAGS, StreamingParser
from function_tokens.parsing.tokens import TokenKind
from planners.models.base import Message, NativeCall
from planners.prompts.blocks import quoted
from planners.prompts.prompt import CallReport
from skill_kernel.skills.registry import SYNC

MAX_ARGUMENTS = 65_536
"""Characters of the arguments of one call, as many as an attribute may have."""
NO_OBJECT = "no.JSON.object"
"""Attribute that no function has: a call with such arguments is refused like any other that nobody understands."""
_NONE = object()


class CallWriter:
    """Write the calls of one answer as function tokens, each as soon as its arguments are complete (semantics 1.8).

    A call ends where another one or text begins. An id only tells two calls apart: whatever it is, each call counts.
    """

    def __init__(self) -> None:
        self._index: object = _NONE
        self._id = self._name = self._arguments = ""
        self._due = False
        """True while there is something of a call that has not been written."""

    def feed(self, index: object, call_id: str, name: str, piece: str) -> str:
        """Return what the next piece of a call completes. Raises ValueError for parts that are no text."""
        if not all(isinstance(part, str) for part in (call_id, name, piece)):
            raise ValueError("a call of which id, name or arguments are no text")
        another = index != self._index or (call_id and self._id and call_id != self._id)
        written = ""
        if another or (name and piece.strip() and not self._due):
            written = self.end()
            self._index, self._id, self._name, self._arguments, self._due = index, call_id, name, "", True
        if len(self._arguments) <= MAX_ARGUMENTS and (self._due or piece.strip()):
            self._arguments, self._due = self._arguments + piece, True
            if len(self._arguments) > MAX_ARGUMENTS or (piece.rstrip().endswith("}") and _read(self._arguments) is not None):
                written += self._written(self._arguments)
        return written

    def end(self, *, cut: bool = False) -> str:
        """Return the call that is open. One without any arguments is a whole one, unless the answer was `cut` off."""
        written = self._written(self._arguments.strip() or ("" if cut else "{}")) if self._due else ""
        self._index, self._id = _NONE, ""
        return written

    def _written(self, arguments: str) -> str:
        self._due = False
        members = _read(arguments)
        pairs = [(NO_OBJECT, arguments)] if members is None else members
        # A function of that name would be a thought that nobody hears of.
        name = f"{self._name}." if self._name in REASONING_TAGS else self._name
        return f"<{as_name(name)}{''.join(f' {attribute(as_name(k), value_text(v))}' for k, v in pairs)}/>"


class _Object(dict[str, Any]):
    """A JSON object with its members as they are written, doubles too."""

    def __init__(self, members: list[tuple[str, Any]]) -> None:
        super().__init__(members)
        self.members = members


def _read(text: str) -> list[tuple[str, Any]] | None:
    """Return the members of a JSON object, None where the text is none."""
    try:
        value = json.loads(text, object_pairs_hook=_Object, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return value.members if isinstance(value, _Object) else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def as_name(name: str) -> str:
    """Return a name as XML can have it: a dot, which no function has in its name, for each character that it cannot."""
    name = re.sub(f"[^{NAME}]", ".", name)
    return name if re.match(f"[{NAME_START}]", name) else f"_.{name}"


def answered(text: str) -> Message:
    """Return an earlier answer, written as function tokens, as what was said and the native calls in it."""
    parser = StreamingParser()
    said, calls, depth = "", list[NativeCall](), 0
    for token in [*parser.feed(text), *parser.close()]:
        depth += (token.kind is TokenKind.AF) - (token.kind is TokenKind.RF)
        if token.kind is TokenKind.SCF and not depth:
            calls.append(NativeCall(token.name, {name: _typed(value) for name, value in token.attrs.items()}))
        else:
            said += text[token.start : token.end]
    return Message("assistant", said.strip(), calls=tuple(calls))


def _typed(value: str) -> Any:
    """Return the value that JSON would have for what an attribute says."""
    try:
        typed = json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return value
    return value if isinstance(typed, str) else typed


def with_results(
    calls: Sequence[NativeCall], reports: Sequence[CallReport], builtin_names: Mapping[str, str]
) -> tuple[tuple[NativeCall, ...], list[CallReport]]:
    """Return the calls with what is reported of them, and the reports that belong to none."""
    left, told = list(reports), list[NativeCall]()
    for call in calls:
        given = {name: value for name, value in call.arguments.items() if name != SYNC}.items()
        same = [report for report in left if report.function == builtin_names.get(call.name, call.name)]
        found = next((report for report in same if given <= dict(report.arguments).items()), same[0] if same else None)
        if found is not None:
            left.remove(found)
            call = replace(call, result=quoted(found.shown()))
        told.append(call)
    return tuple(told), left
