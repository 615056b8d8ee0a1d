# SPDX-License-Identifier: Apache-2.0
"""The skills that a prompt shows, read back from their Python stubs."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Annotated, Any, Literal

from pydantic import Field

from function_tokens.builtins import BUILTINS
from skill_kernel.skills.skill import ContentMarker, Skill

_FENCE = re.compile(r"```python\n(.*?)\n```", re.DOTALL)
_CHANNEL = re.compile(r"^# channel (.+)$", re.MULTILINE)
_STUB = re.compile(r'^def (?P<name>[\w.:\-]+)\((?P<inside>.*?)\) -> [^\n]*:\n    """(?P<doc>.*?)"""', re.MULTILINE | re.DOTALL)
_PARAMETER = re.compile(r"^\s*(\w+): (.+?)(?: = (.+?))?,?(?:\s+# (.*))?$")
_NUMBER = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_RANGE = re.compile(rf"^(?:{_NUMBER} to {_NUMBER}|at least {_NUMBER}|more than {_NUMBER}|at most {_NUMBER})")
_TYPES: dict[str, Any] = {"int": int, "float": float, "str": str, "bool": bool}
CONTENT_NOTE = "the text between the element's tags"


def skills_in(system: str) -> tuple[Skill, ...]:
    """The skills whose stubs stand below a `# channel` line of a prompt; built-ins are left out."""
    found: list[Skill] = []
    for fence in _FENCE.findall(system):
        parts = _CHANNEL.split(fence)
        for channel, text in zip(parts[1::2], parts[2::2], strict=True):
            found += [_skill(m, channel) for m in _STUB.finditer(text) if m["name"] not in BUILTINS]
    return tuple(found)


def _skill(stub: re.Match[str], channel: str) -> Skill:
    inside = stub["inside"]
    lines = inside.strip().split("\n") if "\n" in inside else _split(inside)
    parameters = [p for line in lines if line.strip() and (p := _parameter(line)) is not None]
    content = next((p.name for p in parameters if _is_content(p)), None)
    return Skill(
        name=stub["name"],
        function=_nothing,
        description=stub["doc"].replace("\n    ", "\n"),
        subsystems=tuple(channel.split(" + ")),
        nominal_s=1.0,
        stop_s=None,
        on_failure="end_turn",
        speaks_text=content is not None,
        signature=inspect.Signature(parameters),
        content=content,
        content_streams=False,
        injected=frozenset(),
        interface_only=True,
    )


def _nothing() -> None:
    """Stands for the implementation, which a model never sees."""


def _split(inside: str) -> list[str]:
    """Parameters of a one-line stub; a comma inside brackets or quotes separates nothing."""
    if not inside.strip():
        return []
    stub = ast.parse(f"def f({inside}): ...").body[0]
    assert isinstance(stub, ast.FunctionDef)
    arguments = stub.args
    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
    return [
        (f"{a.arg}: {ast.unparse(a.annotation)}" if a.annotation else a.arg) + (f" = {ast.unparse(d)}" if d is not None else "")
        for a, d in zip(arguments.args, defaults, strict=True)
    ]


def _parameter(line: str) -> inspect.Parameter | None:
    found = _PARAMETER.match(line)
    if found is None:
        return None
    name, kind, default, note = found.groups()
    if note and note.startswith(CONTENT_NOTE):
        annotation: Any = Annotated[str, ContentMarker(streams=False)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
    value: Any = inspect.Parameter.empty
    if default is not None:
        value = ast.literal_eval(default)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=_annotation(kind, note or ""))


def _annotation(kind: str, note: str) -> Any:
    if kind.startswith("Literal["):
        return Literal[ast.literal_eval(f"({kind[len('Literal[') : -1]},)")]
    plain = _TYPES.get(kind, str)
    limits = _RANGE.match(note)
    if plain not in (int, float) or limits is None:
        return Annotated[plain, Field(description=note)] if note else plain
    low, high, least, above, most = (None if g is None else plain(float(g)) for g in limits.groups())
    unit = note[limits.end() :].lstrip("; ")
    return Annotated[
        plain,
        Field(ge=low if low is not None else least, gt=above, le=high if high is not None else most, description=unit or None),
    ]


def _is_content(parameter: inspect.Parameter) -> bool:
    return any(isinstance(m, ContentMarker) for m in getattr(parameter.annotation, "__metadata__", ()))
