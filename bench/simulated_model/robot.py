# SPDX-License-Identifier: Apache-2.0
"""The robot as a prompt shows it: its skills, read back from their lines, the things it knows and the named places."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from function_tokens.builtins import BUILTINS
from planners.language.parser import CommandParser
from planners.prompts.prompt import Declared, declared
from skill_kernel.skills.skill import ContentMarker, Skill

Spot = tuple[float, float]
SYNONYMS = {
    "person": "people somebody someone anybody anyone man woman human visitor me user us",
    "ball": "football basketball",
    "chair": "seat stool armchair",
    "bottle": "flask",
    "west": "western",
    "east": "eastern",
    "middle": "center centre",
    "hallway": "corridor hall",
}
_PLAIN = {other: word for word, others in SYNONYMS.items() for other in others.split()}
_CHANNEL = re.compile(r"^# channel (.+)$", re.MULTILINE)
_LINE = re.compile(r"^([\w.:\-]+)\((.*)\)  # (.*)$", re.MULTILINE)
_PARAMETER = re.compile(r"(\w+): ([^\[,=]+?)(?:\[([^\]]*)\])?(?: = ([^,]+))?(?:, |$)")
_NUMBER = r"(-?\d[\d.]*(?:e[+-]?\d+)?)"
_RANGE = re.compile(rf"(?:{_NUMBER} to {_NUMBER}|at least {_NUMBER}|more than {_NUMBER}|at most {_NUMBER})(?:; )?")
_CONTENT = "the text between the element's tags"


def plain_words(text: str) -> list[str]:
    """Return the words of a text in lower case, each by its most common synonym."""
    return [_PLAIN.get(word, word) for word in re.findall(r"[a-z0-9]+", text.lower())]


class Robot:
    """Names and deeds that a task may mean."""

    def __init__(self, skills: Sequence[Skill], places: Sequence[Mapping[str, Any]] = (), name: str = "") -> None:
        self.skills = {skill.name: skill for skill in skills}
        self.parser = CommandParser(skills, (), None, name)
        self.places: dict[str, Mapping[str, Any]] = {str(place.get("name", "")): place for place in places}
        if names := self.choices("goto_waypoint", "waypoint"):
            self.places = {name: self.places.get(name, {}) for name in names}

    @cached_property
    def things(self) -> tuple[str, ...]:
        """The labels that it can look for or go up to."""
        return tuple(dict.fromkeys((*self.choices("search", "target"), *self.choices("approach", "target"))))

    def parameters(self, skill: str) -> dict[str, Declared]:
        """Return the parameters of a skill by name."""
        return {p.name: p for p in declared(self.skills[skill])} if skill in self.skills else {}

    def choices(self, skill: str, parameter: str) -> tuple[str, ...]:
        """Return the values that a parameter allows."""
        found = self.parameters(skill).get(parameter)
        return found.choices if found is not None else ()

    def thing_in(self, text: str) -> str:
        """Return the first thing that a text names, or nothing."""
        named = (word if word in self.things else word.removesuffix("s") for word in plain_words(text))
        return next((word for word in named if word in self.things), "")

    def places_in(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return the places that a text names: in words, and as waypoints."""
        named: dict[str, tuple[str, ...]] = {}
        for part in re.split(r"\b(?:or|and)\b|,", text):
            words = {form for word in plain_words(part) for form in (word, word.removesuffix("s"))}
            exact = [name for name in self.places if set(name.lower().split("_")) <= words]
            room = next((r for r in (name.lower().split("_")[0] for name in self.places) if r in words), "")
            if exact:
                best = max(exact, key=lambda name: len(name.split("_")))
                named[best.replace("_", " ")] = (best,)
            elif room:
                named[room] = tuple(name for name in self.places if name.lower().split("_")[0] == room)
        return " or the ".join(named), tuple(dict.fromkeys(point for points in named.values() for point in points))

    def away(self, place: str, spot: Spot | None) -> float:
        """Return the metres from a spot of the map to a place, infinity where one of them is unknown."""
        at = spot_of(self.places.get(place))
        return math.dist(at, spot) if at is not None and spot is not None else math.inf

    def near(self, spot: Spot | None, within_m: float = math.inf) -> str:
        """Return the place nearest to a spot, or nothing."""
        best = min(self.places, key=lambda place: self.away(place, spot), default="")
        return best if self.away(best, spot) < within_m else ""


def spot_of(value: Any) -> Spot | None:
    """Return the point of the map, in metres, that an item of a prompt holds."""
    x, y = (value.get("x_m"), value.get("y_m")) if isinstance(value, Mapping) else (None, None)
    return (float(x), float(y)) if isinstance(x, (int, float)) and isinstance(y, (int, float)) else None


def skills_in(system: str) -> tuple[Skill, ...]:
    """Return the skills that stand on lines below a `# channel` line of a prompt, without the built-in ones."""
    found: list[Skill] = []
    for fence in re.findall(r"```python\n(.*?)\n```", system, re.DOTALL):
        parts = _CHANNEL.split(fence)
        for channel, text in zip(parts[1::2], parts[2::2], strict=True):
            for name, parameters, meaning in _LINE.findall(text):
                if name not in BUILTINS:
                    found.append(_brief_skill(name, parameters, meaning, channel))
    return tuple(found)


def _brief_skill(name: str, parameters: str, meaning: str, channel: str) -> Skill:
    """Return the skill that stands on one line."""
    lines = []
    for parameter, kind, bounds, default in _PARAMETER.findall(parameters):
        choices = f"Literal[{', '.join(map(repr, kind.split('|')))}]" if "|" in kind else kind
        number = re.fullmatch(rf"{_NUMBER} to {_NUMBER}(?: (.*))?|(.*)", bounds)
        assert number is not None
        remark = f"{number[1]} to {number[2]}; {number[3] or ''}" if number[1] else bounds
        value = repr(default) if default and "|" in kind else default
        remark = _CONTENT if kind == "Content" else remark
        kind = "str" if kind == "Content" else choices
        lines.append(f"    {parameter}: {kind}{f' = {value}' if value else ''},  # {remark}\n")
    body = "".join(lines)
    return _skill(name, f'(\n{body}) -> None:\n    """{meaning}"""', channel)


def _skill(name: str, rest: str, channel: str) -> Skill:
    stub = ast.parse(f"def f{rest}").body[0]
    assert isinstance(stub, ast.FunctionDef)
    remarks = [line.partition("  # ")[2] for line in rest.split("\n")]
    defaults = [inspect.Parameter.empty] * len(stub.args.args) + [ast.literal_eval(d) for d in stub.args.defaults]
    parameters = [
        inspect.Parameter(
            argument.arg,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=_annotation(argument.annotation, remarks[argument.lineno - 1]),
        )
        for argument, default in zip(stub.args.args, defaults[len(stub.args.defaults) :], strict=True)
    ]
    content = next((p for p, remark in zip(stub.args.args, remarks[1:], strict=False) if remark.startswith(_CONTENT)), None)
    return Skill(
        name=name,
        function=lambda: None,
        description=(ast.get_docstring(stub, clean=False) or "").replace("\n    ", "\n"),
        subsystems=tuple(channel.split(" + ")),
        nominal_s=1.0,
        stop_s=0.0,
        on_failure="end_turn",
        speaks_text=content is not None,
        signature=inspect.Signature(parameters),
        content=content.arg if content is not None else None,
        content_streams=False,
        injected=frozenset(),
    )


def _annotation(kind: ast.expr | None, remark: str) -> Any:
    text = ast.unparse(kind) if kind is not None else "str"
    if remark.startswith(_CONTENT):
        return Annotated[str, ContentMarker(streams=False)]
    if text.startswith("Literal["):
        return Literal[ast.literal_eval(f"({text[8:-1]},)")]
    plain: Any = {"int": int, "float": float, "bool": bool}.get(text, str)
    limits = _RANGE.match(remark) if plain in (int, float) else None
    if limits is None:
        return Annotated[plain, Field(description=remark)] if remark else plain
    low, high, least, above, most = (None if limit is None else plain(float(limit)) for limit in limits.groups())
    unit = remark[limits.end() :] or None
    ge, le = low if low is not None else least, high if high is not None else most
    return Annotated[plain, Field(ge=ge, gt=above, le=le, description=unit)]
