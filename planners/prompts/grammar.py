# SPDX-License-Identifier: Apache-2.0
"""Write what a robot understands for servers: its streams as a formal grammar, to keep a model to them (GhostShell 3.2), and
its functions as tools, for a model that was trained to call such.

A model bound to the grammar writes only calls that the mapper takes: known functions, typed arguments in their ranges, elements
that nest, and no channel inside an element that holds it (law C7).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from function_tokens.builtins import BUILTINS
from function_tokens.markup import attribute
from function_tokens.routines import Routine
from planners.prompts.prompt import PROMPTS, Declared, GrammarOptions, RobotFacts, build_tools_prompt, channel_text, declared
from skill_kernel.skills.arguments import parameters_schema
from skill_kernel.skills.registry import SYNC
from skill_kernel.skills.skill import MAIN, Skill

UNBOUNDED = 9999.0
"""Largest number that is written where neither the skill nor the robot bounds one."""
HUNDREDTHS = 100
"""Numbers have two decimals at most."""
_LETTERS = "_a-z~¡°¿À-ɏͰ-ͷΈ-ϿЀ-ҁא-תء-يअ-हก-ฮぁ-ゖァ-ヺ一-鿿가-힣–—‘’“”…"
_TEXT = f"[ !#-%'-;=?-Z{_LETTERS}]"
"""Characters that may be spoken: no markup, nothing that JSON escapes, no line break, fence or bracket of a chat template."""
_VALUE = f"[ !#-%(-;=?-Z{_LETTERS}]"
"""The same without either quote."""
VALUE_CHARS = 60
"""Characters of a text in an attribute."""

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(\[[^\]]*\])|([a-z][a-z0-9-]*)|([|()?*+]|\{[0-9,]+\})|\s+')


@dataclass(frozen=True)
class Tool:
    """A function that a provider offers the model as its own; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


class StreamGrammar:
    """Describe all streams of one set of skills, made when a form of it is first asked for.

    `routines` are the names that may be performed.
    """

    def __init__(self, skills: Iterable[Skill], options: GrammarOptions, routines: Iterable[str] = ()) -> None:
        self._skills, self._options, self._routines = tuple(skills), options, sorted(routines)

    @cached_property
    def rules(self) -> Mapping[str, str]:
        """Return the right-hand sides by name, `root` first, in GBNF."""
        return _Writer(self._options).rules(self._skills, self._routines)

    def gbnf(self) -> str:
        """Return the grammar as llama.cpp reads it, and vLLM as EBNF."""
        return "".join(f"{name} ::= {rule}\n" for name, rule in self.rules.items())

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a text that holds a stream, for servers that take no other grammar.

        Values are in single quotes, which JSON does not escape, and an open element holds text alone, or the pattern would be
        too long.
        """
        return {"type": "string", "pattern": f"^{self._regex('root')}$"}

    def tools(self) -> tuple[Tool, ...]:
        """Return the functions that a model can call in its provider's own way: all but those that hold other elements."""
        offered = [(skill.name, skill) for skill in self._skills]
        lone = ("sleep", "observe", "stop", "plan_done", *(["run"] if self._routines else []))
        offered += [(self._options.tag(name), BUILTINS[name]) for name in lone]
        return tuple(self._tool(name, skill) for name, skill in offered)

    def _tool(self, name: str, skill: Skill) -> Tool:
        schema = parameters_schema(skill)
        properties: dict[str, Any] = schema["properties"]
        for p in declared(skill, self._options.limits):
            low, high = ("exclusiveMinimum", "exclusiveMaximum") if p.open_lower else ("minimum", "maximum")
            bounds = {low: p.lower, high: p.upper} if p.is_number else {}
            properties[p.name] |= {key: bound for key, bound in bounds.items() if bound is not None}
            if p.content:
                schema["required"].append(p.name)
        if skill is BUILTINS["run"]:
            properties["name"]["enum"] = self._routines
        if skill.name not in BUILTINS:
            properties[SYNC] = {"type": "boolean", "description": "true: what follows waits for this call"}
        return Tool(name, f"{skill.description}\nChannel: {channel_text(skill, self._options.limits)}", schema)

    def _regex(self, name: str) -> str:
        """Return a rule with all that it refers to as a regular expression; rules do not refer to themselves."""
        parts = []
        for literal, characters, rule, operator in _TOKEN.findall(self.rules[name]):
            if rule.startswith("inside-"):
                parts.append(f"({self._regex('text')})?")
            elif rule:
                parts.append(f"({self._regex(rule)})")
            elif literal:
                written = re.sub(r"\\(.)", r"\1", literal).replace('"', "'")
                parts.append(re.sub(r"([\\^$.|?*+(){}\[\]])", r"\\\1", written))
            else:
                parts.append(characters or operator)
        return "".join(parts)


def stream_front(robot: RobotFacts, routines: Sequence[Routine], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what all requests of strategy `stream` have in common: `system`, and the `grammar` of the answers or `tools`."""
    grammar = StreamGrammar(robot.skills, robot.options, [routine.name for routine in routines])
    if settings["dialect"] == "tools":
        return {"system": build_tools_prompt(robot, routines), "tools": grammar.tools()}
    return {"system": PROMPTS[settings["prompt"]](robot, routines), "grammar": grammar}


class _Writer:
    """Write the rules of one grammar."""

    def __init__(self, options: GrammarOptions) -> None:
        self._options = options
        self._numbers: dict[str, str] = {}

    def rules(self, skills: Sequence[Skill], routines: Sequence[str]) -> dict[str, str]:
        """Return the right-hand sides that `root` needs, by name."""
        rules: dict[str, str] = {}
        groups: dict[frozenset[str], dict[str, Skill]] = {}
        for n, skill in enumerate(skills, 1):
            if (attributes := self._attributes(skill)) is not None:
                channels = frozenset(channel_text(skill, self._options.limits).split(", "))
                groups.setdefault(channels, {})[f"skill-{n}"] = skill
                rules[f"skill-{n}"] = _literal(f"<{skill.name}") + attributes
        moves = [self._builtin("sleep")]
        for n, (channels, group) in enumerate(groups.items(), 1):
            rules[f"calls-{n}"] = _either(f"{rule} {_ends(skill)}" for rule, skill in group.items())
            others = [f"calls-{m}" for m, theirs in enumerate(groups, 1) if not theirs & channels or theirs == {MAIN}]
            rules[f"inside-{n}"] = _mixed(_either(others)) if others else "text?"
            moves += [f"{rule} {_ends(skill, f'inside-{n}')}" for rule, skill in group.items()]
        channel = _quoted(sorted({MAIN, *(channel for held in groups for channel in held)}))
        others = [
            self._builtin("wait", f'">" moves {self._end_tag("wait")}'),
            self._builtin("stop", channel=channel),
            self._builtin("save", f'">" move moves {self._end_tag("save")}', name="routine"),
            *([self._builtin("run", name=_quoted(routines))] if routines else []),
        ]
        every = {
            "root": f"{_mixed('part')} end?",
            "part": f"move | {_either(others)}",
            "end": _either(self._builtin(name) for name in ("observe", "plan_done")),
            "moves": _mixed("move"),
            "move": _either(moves),
            **rules,
            **{name: rule for rule, name in self._numbers.items()},
            **_TEXTS,
        }
        used = ["root"]
        for rule in used:
            used += dict.fromkeys(name for _, _, name, _ in _TOKEN.findall(every[rule]) if name not in {"", *used})
        return {name: every[name] for name in used}

    def _builtin(self, name: str, end: str = '"/>"', /, **values: str) -> str:
        return f"{_literal(f'<{self._options.tag(name)}')}{self._attributes(BUILTINS[name], **values)} {end}"

    def _end_tag(self, builtin: str) -> str:
        return _literal(f"</{self._options.tag(builtin)}>")

    def _attributes(self, skill: Skill, **values: str) -> str | None:
        """Return the attributes of a call, None where a value that it needs cannot be described."""
        written = ""
        for parameter in declared(skill, self._options.limits):
            if parameter.content:
                continue
            if value := values.get(parameter.name) or self._value(parameter):
                one = f"{_literal(f' {parameter.name}=' + chr(34))} {value} {_literal(chr(34))}"
                written += f" {one}" if parameter.required else f" ({one})?"
            elif parameter.required:
                return None
        return written if skill.name in BUILTINS else f"{written} sync?"

    def _value(self, parameter: Declared) -> str:
        """Return what describes the values of a parameter; empty where nothing does."""
        if parameter.choices:
            return _quoted(parameter.choices)
        if parameter.kind == "text":
            return "value"
        if not parameter.is_number or not (rule := number(parameter)):
            return ""
        return self._numbers.setdefault(rule, f"number-{len(self._numbers) + 1}")


def _ends(skill: Skill, inside: str = "") -> str:
    """Return how a call ends; `inside` is what it may hold where it stands open."""
    end = f'">" {"text?" if skill.content else inside} {_literal(f"</{skill.name}>")}'
    if skill.content:
        return end
    return f'("/>" | {end})' if inside and "until_reset" in skill.injected else '"/>"'


def number(parameter: Declared) -> str:
    """Return a rule for the numbers in the range of a parameter, with two decimals at most; empty where there is none."""
    scale = 1 if parameter.kind == "int" else HUNDREDTHS
    upper = max(UNBOUNDED, parameter.lower or 0.0) if parameter.upper is None else parameter.upper
    lower = min(-UNBOUNDED, upper) if parameter.lower is None else parameter.lower
    least, most = math.ceil(Fraction(str(lower)) * scale), math.floor(Fraction(str(upper)) * scale)
    least += parameter.open_lower and least == Fraction(str(lower)) * scale
    most -= parameter.open_upper and most == Fraction(str(upper)) * scale
    if least > most:
        return ""
    if -least == most:
        return f'"-"? ({_size(0, most, scale)})'
    below = [f'"-" ({_size(max(1, -most), -least, scale)})'] if least < 0 else []
    above = [_size(max(0, least), most, scale)] if most >= 0 else []
    return _either(below + above)


def _size(least: int, most: int, scale: int) -> str:
    """Return a rule for the numbers between two, which are given in units of 1/scale and not negative."""
    if scale == 1:
        return _whole(least, most)
    (first, from_), (last, to) = divmod(least, scale), divmod(most, scale)
    if first == last:
        return _literal(str(first)) + _decimals(from_, to)
    ways = []
    if from_:
        ways.append(_literal(str(first)) + _decimals(from_, HUNDREDTHS - 1))
        first += 1
    if first < last:
        ways.append(f"({_whole(first, last - 1)}){_decimals(0, HUNDREDTHS - 1)}")
    ways.append(_literal(str(last)) + _decimals(0, to))
    return _either(ways)


def _decimals(least: int, most: int) -> str:
    """Return a rule for a point and hundredths between two; nothing may be written for 0."""
    if most == 0:
        return ""
    if (least, most) == (0, HUNDREDTHS - 1):
        return ' ("." [0-9] [0-9]?)?'
    tenths = range(-(-least // 10), most // 10 + 1)
    short = [f"[{tenths[0]}-{tenths[-1]}]"] if tenths else []
    written = f' "." ({_either([*short, _digits(f"{least:02}", f"{most:02}")])})'
    return written if least else f" ({written.strip()})?"


def _whole(least: int, most: int) -> str:
    """Return a rule for the whole numbers between two that are not negative."""
    bounds = {n: (max(least, 10 ** (n - 1) if n > 1 else 0), min(most, 10**n - 1)) for n in range(1, len(str(most)) + 1)}
    return _either(_digits(str(low), str(high)) for low, high in bounds.values() if low <= high)


def _digits(least: str, most: str) -> str:
    """Return a rule for the strings of digits between two of the same length."""
    first, last, rest = int(least[0]), int(most[0]), len(least) - 1
    if not rest:
        return f"[{first}-{last}]" if first < last else f'"{first}"'
    if first == last:
        return f'"{first}" ({_digits(least[1:], most[1:])})'
    ways = []
    if least[1:].strip("0"):
        ways.append(f'"{first}" ({_digits(least[1:], "9" * rest)})')
        first += 1
    below = [f'"{last}" ({_digits("0" * rest, most[1:])})'] if most[1:].strip("9") else []
    last -= len(below)
    if first <= last:
        ways.append(f"[{first}-{last}]{' [0-9]' * rest}")
    return _either(ways + below)


def _either(ways: Iterable[str]) -> str:
    return " | ".join(ways)


def _mixed(part: str) -> str:
    """Return a rule for text and parts, or nothing at all."""
    return f"text? (({part}) text?)*"


def _literal(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted(values: Iterable[str]) -> str:
    """Return a rule for one of these values as it stands between quotes."""
    return f"({_either(_literal(attribute('', v)[2:-1].replace(chr(39), '&apos;')) for v in values)})"


_TEXTS = {
    "sync": '(" sync=\\"true\\"")?',
    "text": f"{_TEXT}+",
    "value": f"{_VALUE}{{1,{VALUE_CHARS}}}",
    "routine": "[a-z] [a-z0-9_]{0,30}",
}
