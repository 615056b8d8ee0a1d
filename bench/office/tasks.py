# SPDX-License-Identifier: Apache-2.0
"""Describe a task of the office: its schema as the paper has it, its steps with what each stands on, and its criterion."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from bench.evaluation.propositions import AtEnd, Criterion, Proposition, Reading, When
from bench.office.layout import office
from bench.office.world import Absence, Layout, Office

Tier = Literal["basic", "ambiguous", "dynamic"]
StepKind = Literal["get", "use", "sign", "deliver", "place"]
Label = Literal["recoverable", "report"]
UNTIL_END = float("inf")


@dataclass(frozen=True)
class Step:
    """One step of the gold plan: a human-atomic skill, and the numbers of the steps that it stands on (from 0).

    get: `item` is taken from `people[0]`, or from where it is. use: `action` at a facility of kind `facility`. sign: by one of
    `people`. deliver: to `people[0]`. place: at `place`.
    """

    kind: StepKind
    item: str
    people: tuple[str, ...] = ()
    facility: str = ""
    action: str = ""
    place: str = ""
    deps: tuple[int, ...] = ()

    @property
    def written(self) -> str:
        """Return it as a thought of action, without its number (InteractGen V)."""
        given = {
            "get": [self.item, *self.people[:1]],
            "use": [self.facility, self.action, self.item],
            "sign": [self.item, *(self.people if len(self.people) == 1 else ["lead"])],
            "deliver": [self.item, *self.people],
            "place": [self.item, self.place],
        }[self.kind]
        return f"{self.kind.capitalize()}({', '.join(given)})"


@dataclass(frozen=True)
class Task:
    """One task. `schema` has the paper's fields. `masked` is the field that the instruction leaves out, with a gold question
    and its answer. `absences` are hidden from who plans; a `report` task cannot be done, because of `blocked`. `asks`: requests
    to people in the oracle's plan."""

    tier: Tier
    family: str
    office: int
    sender: str
    instruction: str
    schema: Mapping[str, Any]
    steps: tuple[Step, ...]
    masked: str = ""
    question: str = ""
    answer: str = ""
    absences: Mapping[str, Absence] = field(default_factory=dict)
    label: Label = "recoverable"
    blocked: tuple[str, ...] = ()
    asks: int = 0

    @cached_property
    def id(self) -> str:
        """Return the hash of all that makes the task what it is."""
        own = {name: value for name, value in self.plain().items() if name != "asks"}
        return hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def layout(self) -> Layout:
        return office(self.office)

    def world(self) -> Office:
        """Return the office as it is at the start."""
        return Office(self.layout, self.absences)

    def plain(self) -> dict[str, Any]:
        """Return it as plain data."""
        data = asdict(self)
        data["steps"] = [{name: value for name, value in step.items() if value} for step in data["steps"]]
        for absence in data["absences"].values():
            if absence["until_s"] == UNTIL_END:
                del absence["until_s"]
        return data

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Task:
        """Return the task that plain data tells of."""
        steps = tuple(Step(**{**step, **{n: tuple(step.get(n, ())) for n in ("people", "deps")}}) for step in data["steps"])
        absences = {name: Absence(**absence) for name, absence in data["absences"].items()}
        return cls(**{**data, "steps": steps, "absences": absences, "blocked": tuple(data["blocked"])})

    @cached_property
    def criterion(self) -> Criterion:
        """Return what must have been true: every step in its order, and at the end what the last steps led to."""
        return criterion(self.steps, self.layout)


def criterion(steps: Sequence[Step], layout: Layout) -> Criterion:
    """Return the criterion of steps. That something was got counts for the share done alone."""
    last = [i for i, step in enumerate(steps) if not any(i in other.deps for other in steps)]
    made = [
        Proposition(_name(i, step), *_claim(step, layout), readings=_after(steps, step), step=step.kind == "get")
        for i, step in enumerate(steps)
    ]
    ends = tuple(_name(i, steps[i]) for i in last if steps[i].kind in ("deliver", "place"))
    return Criterion(tuple(made), (AtEnd(ends),) if ends else ())


def _after(steps: Sequence[Step], step: Step) -> tuple[Reading, ...]:
    others = tuple(_name(i, steps[i]) for i in step.deps if steps[i].kind != "get")
    return (Reading(When.AFTER, others),) if others else ()


def _name(number: int, step: Step) -> str:
    return f"{number + 1} {step.written}"


def _claim(step: Step, layout: Layout) -> tuple[str, tuple[tuple[str, ...], ...]]:
    if step.kind == "get":
        first = layout.at_first[step.item]
        takers = tuple(name for name in (*layout.robots, *layout.people) if first.state != "had" or name != first.name)
        return "held", ((step.item,), takers)
    if step.kind == "use":
        return "used", ((step.action,), (step.item,))
    if step.kind == "sign":
        return "signed", ((step.item,), step.people)
    if step.kind == "deliver":
        return "held", ((step.item,), step.people)
    return "at", ((step.item,), (step.place,))
