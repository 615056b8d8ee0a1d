# SPDX-License-Identifier: Apache-2.0
"""What a request asks, read from its text: whose prompt it is, the data in it, and the words of the robot it shows."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.simulated_model.calls import Seen, steps_of
from bench.simulated_model.model_dialects import RecordedRequest, texts_of
from bench.simulated_model.stubs import skills_in
from bench.simulated_model.vocabulary import Vocabulary
from planners.prompts.blocks import Layer, layer_of, read_blocks
from planners.prompts.prompt import instruction_of, results_of, turn_of

_OBSERVED = re.compile(r"^OBSERVATION[^\n]*:\n- (.*)$", re.MULTILINE)
_ROBOT = re.compile(r"\b(?:control|plan the tasks of|System \d of|for|move|make|drive|of) ([A-Za-z][\w-]*)[.:,;]")


@dataclass(frozen=True)
class Question:
    """A request taken apart. `layer` is STREAM where the prompt names no layer."""

    system: str
    users: tuple[str, ...]
    model: str = ""
    shown: str | None = None
    """An observation that is believed instead of the one in the prompt, as JSON."""

    @classmethod
    def of(cls, request: RecordedRequest) -> Question:
        """The request as it came, in either protocol."""
        system = texts_of(request.body.get("system"))
        users: list[str] = []
        for message in request.body.get("messages", []):
            said = texts_of(message.get("content"))
            if message.get("role") in ("system", "developer"):
                system += said
            elif message.get("role") == "user":
                users.append("\n".join(said))
        return cls("\n".join(system), tuple(users), str(request.body.get("model", "")))

    @cached_property
    def layer(self) -> Layer:
        """Who asks."""
        return layer_of(self.system) or Layer.STREAM

    @property
    def user(self) -> str:
        """The last message."""
        return self.users[-1] if self.users else ""

    @cached_property
    def blocks(self) -> Mapping[str, list[Any]]:
        """The data of the last message, by title."""
        return read_blocks(self.user)

    @cached_property
    def words(self) -> Vocabulary:
        """Skills and places that the prompt shows."""
        return _vocabulary(self.system)

    @cached_property
    def task(self) -> Mapping[str, Any]:
        """The item of TASK."""
        items = self.blocks.get("TASK", [])
        return items[0] if items and isinstance(items[0], dict) else {}

    @property
    def instruction(self) -> str:
        """What somebody said to the robot."""
        if self.layer is Layer.STREAM and "TASK" not in self.blocks:
            return instruction_of(self.user)
        return str(self.task.get("instruction", ""))

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The observation, by field."""
        if self.shown is not None:
            return dict(json.loads(self.shown))
        items = self.blocks.get("OBSERVATION", [])
        if not items and (found := _OBSERVED.search(self.user)):
            try:
                items = [json.loads(found.group(1))]
            except json.JSONDecodeError:
                items = []
        return items[0] if items and isinstance(items[0], dict) else {}

    @property
    def observed(self) -> str:
        """The observation as JSON."""
        return json.dumps(self.facts, sort_keys=True)

    @cached_property
    def calls(self) -> tuple[Seen, ...]:
        """What was done, what runs and what is queued, oldest first."""
        if self.layer is Layer.STREAM and "DONE" not in self.blocks:
            told = [r for text in self._turns() for r in results_of(text)]
            return tuple(Seen(r.function, dict(r.arguments), r.outcome, r.message) for r in told)
        done = [s for item in self.items("DONE") if (s := _seen(item)) is not None]
        return (*done, *self._running(), *(s for item in self.blocks.get("QUEUE", []) for s in steps_of(_source(item))))

    def items(self, title: str) -> list[Mapping[str, Any]]:
        """The items of a block that are objects."""
        return [item for item in self.blocks.get(title, []) if isinstance(item, dict)]

    def _turns(self) -> list[str]:
        """The messages that belong to the present instruction: since its turn 0."""
        mine: list[str] = []
        for text in self.users:
            for part in re.split(r"(?m)^(?=TURN \d+$)", text):
                if part.strip():
                    mine = [part] if turn_of(part) == 0 else [*mine, part]
        return mine

    def _running(self) -> Sequence[Seen]:
        """What the running step still does: from its first running call on."""
        running: list[Seen] = []
        step: list[Seen] = []
        for item in self.blocks.get("RUNNING", []):
            if isinstance(item, dict) and (seen := _seen(item, "RUNNING")) is not None:
                running.append(seen)
                continue
            step += steps_of(_source(item))
            calls = item.get("calls", []) if isinstance(item, dict) else []
            running += [s for c in calls if isinstance(c, dict) and (s := _seen(c, "RUNNING")) is not None]
        names = {s.function for s in running}
        for index, seen in enumerate(step):
            if seen.function in names or any(o.function in names for _, others in seen.branches for o in others):
                return (*running, *step[index + 1 :])
        return (*step, *running)


@functools.lru_cache(maxsize=16)
def _vocabulary(system: str) -> Vocabulary:
    """One for each static front, for it is the same in every request of a layer."""
    places = read_blocks(system).get("PLACES", [])
    robot = _ROBOT.search(system)
    return Vocabulary(skills_in(system), [p for p in places if isinstance(p, dict)], robot[1] if robot else "")


def _seen(item: Mapping[str, Any], state: str = "") -> Seen | None:
    function = item.get("function")
    if not isinstance(function, str):
        return None
    arguments = item.get("arguments")
    outcome = str(item.get("outcome") or state or "RUNNING")
    return Seen(function, dict(arguments) if isinstance(arguments, dict) else {}, outcome, str(item.get("message") or ""))


def _source(item: Any) -> str:
    if isinstance(item, dict):
        return str(item.get("step") or item.get("source") or "")
    return item if isinstance(item, str) else ""
