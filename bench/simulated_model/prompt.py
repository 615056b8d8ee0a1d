# SPDX-License-Identifier: Apache-2.0
"""Reads a prompt: who asks, the robot it shows, the task, what was done, what is queued, and what is observed."""

from __future__ import annotations

import functools
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from xml.sax.saxutils import escape

from bench.reading import layer_of, read_blocks
from bench.simulated_model.model_dialects import RecordedRequest, texts_of
from bench.simulated_model.robot import Robot, Spot, skills_in, spot_of
from planners.language.compose import tag
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport

TEXT = "text"
SPOKEN = (TEXT, "speak")
FRAMES = frozenset({"step", "subtask_complete", "replace_steps", "nothing", "wait", "plan_done", "observe"})
"""Tags around calls, and tags that are no calls."""
_OBSERVED = re.compile(r"^OBSERVATION[^\n]*:\n- (.*)$", re.MULTILINE)
_TURN = re.compile(r"TURN (\d+)\n")
_TURNS = re.compile(r"^TURN (\d+)$", re.MULTILINE)
_RESULTS = re.compile(r"^RESULTS of [^\n]*:\n((?:- [^\n]*\n)+)", re.MULTILINE)
_INSTRUCTION = "INSTRUCTION from "
_NAME = re.compile(r"\b(?:control|plan the tasks of|System \d of|for|move|make|drive|of) ([A-Za-z][\w-]*)[.:,;]")


def turn_of(prompt: str) -> int:
    """Return which turn a prompt made by `build_turn_prompt` is for; 0 for any other text."""
    found = _TURN.match(prompt)
    return int(found.group(1)) if found else 0


def _last_turn(text: str) -> int:
    """Return the turn of the last of several prompts made by `build_turn_prompt` in one message."""
    return max((int(number) for number in _TURNS.findall(text)), default=0)


def instruction_of(prompt: str) -> str:
    """Return the instruction in a prompt made by `build_turn_prompt`; any other text is its own instruction."""
    lines = prompt.rstrip("\n").split("\n")
    if len(lines) < 2 or not _TURN.match(prompt) or not lines[-2].startswith(_INSTRUCTION):
        return prompt
    return str(json.loads(lines[-1]))


def results_of(prompt: str) -> list[CallReport]:
    """Return what happened, as told in a prompt made by `build_turn_prompt`."""
    found = _RESULTS.search(prompt) if _TURN.match(prompt) else None
    facts = [json.loads(line[2:]) for line in found.group(1).splitlines()] if found else []
    return [CallReport(**fact) for fact in facts]


@dataclass(frozen=True)
class Call:
    """A call and how it stands: an outcome, RUNNING or QUEUED. A choice has branches instead: condition and calls."""

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    state: str = "QUEUED"
    message: str = ""
    branches: tuple[tuple[str, tuple[Call, ...]], ...] = ()

    @property
    def pending(self) -> bool:
        return self.state in ("RUNNING", "QUEUED", "STARTED")

    @property
    def well(self) -> bool:
        return self.state == "DONE"

    @property
    def bad(self) -> bool:
        return self.state in ("FAILED", "REFUSED")

    @property
    def values(self) -> dict[str, str]:
        """The arguments as they are written."""
        return {name: f"{v:g}" if isinstance(v, float) else str(v) for name, v in self.arguments.items()}

    @property
    def source(self) -> str:
        """The call as function tokens."""
        if not self.branches:
            return escape(self.values["text"]) if self.function == TEXT else tag(self.function, self.values)
        (condition, first), *others = self.branches
        text = tag("if", {"cond": condition}, ending=">") + "".join(call.source for call in first) + "</if>"
        return text + "".join(f"<else>{''.join(call.source for call in calls)}</else>" for _, calls in others)


def said(text: str) -> Call:
    """Return the call that says a sentence."""
    return Call(TEXT, {"text": text})


def calls_in(source: str) -> tuple[Call, ...]:
    """Return the calls of function tokens; none where they are no XML."""
    try:
        return tuple(_inside(ET.fromstring(f"<r>{source}</r>")))
    except (ET.ParseError, ValueError):
        return ()


def _inside(element: ET.Element) -> list[Call]:
    calls = [said(element.text.strip())] if element.text and element.text.strip() else []
    for child in element:
        if child.tag in ("if", "else"):
            before = calls.pop().branches if child.tag == "else" and calls and calls[-1].branches else ()
            condition = child.get("cond", "always") if child.tag == "if" else "always"
            calls.append(Call("if", branches=(*before, (condition, tuple(_inside(child))))))
        elif child.tag in FRAMES:
            calls += _inside(child)
        else:
            calls.append(Call(child.tag, dict(child.attrib)))
        if child.tail and child.tail.strip():
            calls.append(said(child.tail.strip()))
    return calls


class Facts:
    """An observation; a field that is stale or missing says nothing."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields

    def fresh(self, name: str) -> Any:
        """Return the value of a field, or None where it is not known now."""
        value = self.fields.get(name)
        return None if isinstance(value, Mapping) and ("missing" in value or "stale_s" in value) else value

    @cached_property
    def things(self) -> list[Mapping[str, Any]] | None:
        """Return what is in sight, nearest first; None where nothing tells."""
        values = (self.fresh(name) for name in self.fields)
        return next(
            (v for v in values if isinstance(v, list) and all(isinstance(t, Mapping) and "label" in t for t in v)), None
        )

    def seen(self, label: str) -> Mapping[str, Any] | None:
        """Return the nearest thing of a label that is in sight."""
        return next((thing for thing in self.things or [] if thing["label"] == label), None)

    @property
    def spot(self) -> Spot | None:
        """Return where the robot is, in metres of the map."""
        spots = (spot_of(self.fresh(name)) for name in ("pose", *self.fields))
        return next((spot for spot in spots if spot is not None), None)

    @property
    def room(self) -> str:
        """The room that the robot is in; empty where it is not known."""
        value = self.fresh("room")
        return value if isinstance(value, str) else ""

    def told(self) -> str:
        """Return what is in sight as a sentence."""
        if self.things is None:
            return "I cannot see at the moment"
        parts = []
        for thing in self.things[:4]:
            far = metres(thing)
            parts.append(with_article(str(thing["label"])) + (f" {far:.1f} metres away" if far is not None else ""))
        return f"I see {' and '.join(part for part in (', '.join(parts[:-1]), *parts[-1:]) if part) or 'nothing that I know'}"


def metres(thing: Mapping[str, Any] | None) -> float | None:
    """Return how far a thing is, where that is told."""
    far = thing.get("distance_m") if thing is not None else None
    return far if isinstance(far, (int, float)) else None


def with_article(label: str) -> str:
    """Return the word with its article."""
    return f"an {label}" if label[:1] in "aeiou" else f"a {label}"


@dataclass(frozen=True)
class Question:
    """A request taken apart. `shown` is an observation, as JSON, that is believed instead of the one in the prompt; `said` are
    the earlier answers to the present instruction of a stream, `images` the pictures."""

    system: str
    users: tuple[str, ...]
    model: str = ""
    shown: str | None = None
    said: tuple[str, ...] = ()
    images: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, request: RecordedRequest) -> Question:
        """Read a request of either protocol."""
        system, users, said = texts_of(request.body.get("system")), list[str](), list[str]()
        for message in request.body.get("messages", []):
            texts = texts_of(message.get("content"))
            if message.get("role") in ("system", "developer"):
                system += texts
            elif message.get("role") == "user":
                users.append("\n".join(texts))
                said = [] if _last_turn(users[-1]) == 0 else said
            elif message.get("role") == "assistant":
                said.append("\n".join(texts))
        model = str(request.body.get("model", ""))
        return cls("\n".join(system), tuple(users), model, said=tuple(said), images=tuple(request.images))

    @cached_property
    def layer(self) -> Layer:
        """Return who asks: the stream of function tokens where the prompt names no layer."""
        return layer_of(self.system) or Layer.STREAM

    @cached_property
    def robot(self) -> Robot:
        """The skills and places that the prompt shows."""
        return _robot(self.system)

    @cached_property
    def blocks(self) -> Mapping[str, list[Any]]:
        """The data of the last message, by title."""
        return read_blocks(self.users[-1]) if self.users else {}

    def items(self, title: str) -> list[Mapping[str, Any]]:
        """Return the items of a block that are objects."""
        return [item for item in self.blocks.get(title, []) if isinstance(item, dict)]

    def text(self, title: str, *keys: str) -> str:
        """Return the first text that the first item of a block holds under one of these keys, or is itself."""
        item = next(iter(self.blocks.get(title, [])), "")
        found = (item.get(key) for key in keys) if isinstance(item, dict) else iter([item])
        return next((text for text in found if isinstance(text, str)), "")

    @property
    def turn(self) -> int:
        """Return which answer of a stream to its instruction this is, from 0."""
        return _last_turn(self.users[-1]) if self.users else 0

    @property
    def instruction(self) -> str:
        """Return what somebody told the robot to do."""
        if self.layer is Layer.STREAM and "TASK" not in self.blocks:
            return instruction_of(self.users[-1]) if self.users else ""
        return self.text("TASK", "instruction")

    @cached_property
    def facts(self) -> Facts:
        """The observation."""
        text, items = self.shown, self.items("OBSERVATION")
        if text is None and not items and (found := _OBSERVED.search(self.users[-1] if self.users else "")):
            text = found[1]
        try:
            fields = json.loads(text) if text is not None else next(iter(items), {})
        except json.JSONDecodeError:
            fields = {}
        return Facts(fields if isinstance(fields, dict) else {})

    @property
    def observed(self) -> str:
        """The observation as JSON."""
        return json.dumps(self.facts.fields, sort_keys=True)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Return what was done, what runs and what is queued, oldest first."""
        if self.layer is Layer.STREAM and "DONE" not in self.blocks:
            results = [result for turn in self._turns() for result in results_of(turn)]
            return tuple(Call(r.function, dict(r.arguments), r.outcome, r.message) for r in results)
        done = tuple(call for item in self.items("DONE") for call in _told(item))
        runs, step = [call for call in done if call.pending], self.text("CLAIM", "last_step")
        held = {name for call in calls_in(step) for name in _functions(call)} & {call.function for call in runs}
        last = _rest_of(step, runs) if held else ()
        queued = (call for item in self.blocks.get("QUEUE", []) for call in calls_in(_source(item)))
        return (*done, *self._running(), *last, *queued)

    def _turns(self) -> list[str]:
        """Return the messages that belong to the present instruction: those since its turn 0."""
        mine: list[str] = []
        for text in self.users:
            for part in re.split(r"(?m)^(?=TURN \d+$)", text):
                if part.strip():
                    mine = [part] if turn_of(part) == 0 else [*mine, part]
        return mine

    def _running(self) -> Iterator[Call]:
        """Yield what the running step still does: from its first running call on."""
        begun = [call for item in self.items("RUNNING") for call in _told(item, "RUNNING")]
        yield from begun
        for item in self.blocks.get("RUNNING", []):
            if isinstance(item, str):
                yield from _rest_of(item, begun)


@functools.lru_cache(maxsize=16)
def _robot(system: str) -> Robot:
    """Return the same robot for the same static front."""
    told = [place for place in read_blocks(system).get("PLACES", []) if isinstance(place, dict)]
    keys = ("x_m", "y_m", "description")
    places = [{"name": name, **dict(zip(keys, values, strict=True))} for place in told for name, values in place.items()]
    name = _NAME.search(system)
    return Robot(skills_in(system), places, name[1] if name else "")


def _rest_of(step: str, begun: Sequence[Call]) -> Iterator[Call]:
    """Yield what a running step still does behind the calls of it that have begun."""
    names, calls = {call.function for call in begun}, calls_in(step)
    rest = next((i + 1 for i, call in enumerate(calls) if names & set(_functions(call))), 0)
    yield from (replace(call, state="RUNNING") for call in calls[rest:])


def _functions(call: Call) -> Iterator[str]:
    yield call.function
    yield from (inner.function for _, calls in call.branches for inner in calls)


def _told(item: Any, state: str = "RUNNING") -> Iterator[Call]:
    if isinstance(item, dict) and isinstance(item.get("function"), str):
        arguments = item.get("arguments")
        outcome = str(item.get("outcome") or state)
        yield Call(item["function"], arguments if isinstance(arguments, dict) else {}, outcome, str(item.get("message") or ""))


def _source(item: Any) -> str:
    text = item.get("step") or item.get("source") if isinstance(item, dict) else item
    return text if isinstance(text, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
