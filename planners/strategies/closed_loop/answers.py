# SPDX-License-Identifier: Apache-2.0
"""Read what the roles answer: texts, and YAML as models write it, with or without a fence, with prose around it and colons in
it."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

import yaml

from planners.models.model_call import AnswerError
from planners.strategies.closed_loop.actions import HOW, Action, read_action
from planners.strategies.closed_loop.pictures import Box
from planners.strategy import RobotView
from skill_kernel.config.sections import shown
from skill_kernel.config.yaml_text import read_yaml

THOUGHT, SUBGOAL, PLAN, STATUS = "Thought", "Subgoal", "Action Plan", "Status"
SUITABILITY, FEEDBACK, REGION = "Action Suitability", "Feedback", "Region"
_FENCE = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)
_ITEM = re.compile(r"^[ \t]*(?:[-*]|\d+[.)])[ \t]+(.*\S)", re.MULTILINE)
_HOLDS = {"true": True, "yes": True, "suitable": True, "false": False, "no": False, "unsuitable": False, "not suitable": False}


class Status(str, Enum):
    """Say how the planner sees the task."""

    CONTINUE = "continue"
    DONE = "done"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True)
class PlanAnswer:
    """Hold what the planner answered."""

    subgoal: str
    actions: tuple[Action, ...]
    status: Status


@dataclass(frozen=True)
class Judgement:
    """Hold what the critic answered. `regions`: where in whose picture it looked; none where it does not say."""

    suits: bool
    feedback: str
    regions: Mapping[str, Box]


def read_text(text: str) -> str:
    """Return a paragraph. Raises AnswerError for an empty one."""
    if not text.strip():
        raise AnswerError("the answer is empty")
    return text.strip()


def read_plan(text: str, robots: Mapping[str, RobotView], most: int, *, checked: bool = True) -> PlanAnswer:
    """Return a plan of at most so many actions; what is beyond them is left out. Raises AnswerError for what cannot be read,
    and where `checked` for an action that its robot can never do."""
    fields = _fields(text, THOUGHT, SUBGOAL, PLAN, STATUS)
    actions = tuple(read_action(item, robots) for item in _items(fields.get(PLAN, ""))[:most])
    for action in actions if checked else ():
        if fault := action.fault(robots):
            raise AnswerError(f"{action}: {fault}")
    said = _word(fields.get(STATUS, Status.CONTINUE.value))
    if said not in list(Status):
        raise AnswerError(f"{STATUS} is '{shown(said)}'; it must be {', '.join(Status)}")
    status = Status(said)
    if bool(actions) != (status is Status.CONTINUE):
        raise AnswerError(f"{PLAN} must hold actions exactly where {STATUS} is {Status.CONTINUE.value}; {HOW}")
    return PlanAnswer(_text(fields.get(SUBGOAL, "")), actions, status)


def read_judgement(text: str, pictures: Collection[str]) -> Judgement:
    """Return what the critic says. Raises AnswerError where it does not say whether the action suits."""
    fields = _fields(text, THOUGHT, SUITABILITY, FEEDBACK, REGION)
    value = _value(fields.get(SUITABILITY, ""))
    suits = value if isinstance(value, bool) else _HOLDS.get(_word(fields.get(SUITABILITY, "")))
    if suits is None:
        raise AnswerError(f"the answer must hold '{SUITABILITY}: True' or '{SUITABILITY}: False'")
    region = _value(fields.get(REGION, ""))
    if isinstance(region, list) and len(pictures) == 1:
        region = {next(iter(pictures)): region}
    boxes = region if isinstance(region, Mapping) else {}
    known = {name: box for name in pictures if (box := _box(boxes.get(name)))}
    return Judgement(suits, _text(fields.get(FEEDBACK, "")), known if len(known) == len(boxes) else {})


def _box(value: Any) -> Box | None:
    if not isinstance(value, list) or len(value) != 4:
        return None
    if not all(isinstance(x, (int, float)) and 0 <= x <= 1 for x in value) or value[0] >= value[2] or value[1] >= value[3]:
        return None
    left, top, right, bottom = map(float, value)
    return (left, top, right, bottom)


def _fields(text: str, *keys: str) -> dict[str, str]:
    """Return the text behind each key that begins a line: in the last fence that has any, else in the whole answer. Raises
    AnswerError for a key that is there twice."""
    key = re.compile(rf"^[ \t>*\"'-]*({'|'.join(keys)})[*\"']*[ \t]*:\**", re.MULTILINE | re.IGNORECASE)
    bodies = [body for body in _FENCE.findall(text) if key.search(body)]
    body = bodies[-1] if bodies else text.replace("```", "")
    found, fields = [*key.finditer(body)], dict[str, str]()
    names = {name.casefold(): name for name in keys}
    for one, end in pairwise([*found, None]):
        assert one is not None  # only the last is
        name = names[one[1].casefold()]
        if name in fields:
            raise AnswerError(f"'{name}' is there twice; write one YAML block")
        fields[name] = body[one.end() : end.start() if end is not None else len(body)]
    return fields


def _value(text: str) -> Any:
    """Return the value that a text is as YAML, or the text where it is none."""
    try:
        return read_yaml(text, strict=True)
    except (yaml.YAMLError, RecursionError):
        return text.strip()


def _text(text: str) -> str:
    value = _value(text)
    return " ".join((value if isinstance(value, str) else text).split())


def _word(text: str) -> str:
    """Return the first word or words of the first line up to a stop; prose may follow."""
    line = _text(text.strip().partition("\n")[0])
    return re.split(r"[.,;:!(—]| - ", line.strip("*\"'`"), maxsplit=1)[0].strip().strip("*\"'`").casefold()


def _items(text: str) -> list[str]:
    """Return the items of a list, also of one that is no YAML because of what its items hold."""
    value = _value(text)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    items = [item.strip("\"'` ") for item in _ITEM.findall(text)]
    if not items and value not in (None, "", []):
        raise AnswerError(f"{PLAN} is no list of actions; {HOW}")
    return items
