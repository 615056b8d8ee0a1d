# SPDX-License-Identifier: Apache-2.0
"""The Behavioral Correctness Metric (GhostShell 4.1, equations 13 and 14), computed from a schedule instead of by eye.

What a task expects is a set of calls with their arguments and relations between their times. C(t) is 1.0 when all of it
holds and nothing forbidden happened, 0.5 when at least half of it holds, else 0.0. Equation 13 knows only these three
values, yet table 1 has tenths for the two long instructions; a task with `steps: true` gets the fraction that holds,
rounded down to tenths. A subjective task has a rubric instead: statements that a person or a model judges (rubric.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.calls import CallRun
from skill_kernel.codes import Outcome
from skill_kernel.config.yaml_text import read_yaml

EPS_S = 0.05
"""Times closer than this count as the same instant."""
TOGETHER_S = 0.1
RESET_S = 1.0
"""A call that lasts until another ends may need so long to be reset; the longest stop time of CoCo's skills is 0.9 s."""
NEUTRAL = frozenset({"wait", "sleep", "observe", "plan_done", "speech_role"})
"""Functions that are never counted as an extra action."""
RESTRICTED = frozenset({"legs", "bgm"})
"""Channels on which a call nobody asked for is a fault; an added smile or nod is none."""
MOTION = frozenset({"legs", "head", "ear_left", "ear_right"})
"""Channels on which an exact task allows no other call."""
AMOUNTS = frozenset({"times", "distance", "angle"})
"""Arguments that add up: four waves are also twice two waves."""

Pattern = Literal["sequential", "parallel", "condition", "event"]
Relation = Literal["before", "overlaps", "during", "together", "until"]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Shape(_Data):
    """Pattern of a call: `call` names the function or `text` is a regular expression for an utterance. A
    value in `args` is the value itself, a list of possible ones, or {near, within}, {min}, {max}, {like: regex}."""

    call: str = ""
    text: str = ""
    args: dict[str, Any] = Field(default_factory=dict)

    def matches(self, record: CallRun) -> bool:
        """Return whether the call has this shape."""
        if self.text:
            return record.function == "text" and re.search(self.text, _spoken(record)) is not None
        return record.function == self.call and all(
            name in record.arguments and _fits(record.arguments[name], wanted) for name, wanted in self.args.items()
        )


class Expected(Shape):
    """An expected action: a shape, or a class of interchangeable calls (`is`), and how it must end."""

    of_class: str = Field(default="", alias="is")
    outcome: str = "DONE"

    @model_validator(mode="after")
    def _one_of(self) -> Expected:
        if sum(map(bool, (self.call, self.text, self.of_class))) != 1:
            raise ValueError("an expected action needs exactly one of `call`, `text` and `is`")
        return self


class Turn(_Data):
    """Messages before the instruction."""

    user: str
    stream: str


class SavedRoutine(_Data):
    """A routine the robot has already been taught."""

    name: str
    description: str = ""
    source: str


class Setup(_Data):
    """The situation before the instruction."""

    turns: tuple[Turn, ...] = ()
    routines: tuple[SavedRoutine, ...] = ()


class Task(_Data):
    """One of the 34 tasks. `order` holds relations as [name, first, second, …]; `interrupt_s` is when an external event
    interrupts everything. `exact` forbids every motion that is not expected; `steps` scores in tenths. `rubric` is what must
    be true of the performance of a subjective task."""

    name: str
    kind: Literal["objective", "subjective"]
    pattern: Pattern
    language: Literal["en", "cn"] = "en"
    instruction: str
    reference: str
    setup: Setup = Setup()
    expect: dict[str, Expected] = Field(default_factory=dict)
    order: tuple[tuple[str, ...], ...] = ()
    interrupt_s: float | None = None
    exact: bool = False
    steps: bool = False
    rubric: tuple[str, ...] = ()
    actions: int = 0
    """|A(t)| of a subjective task; that of an objective one is the number of its expected actions."""

    @model_validator(mode="after")
    def _consistent(self) -> Task:
        names = set(self.expect)
        for relation, *ids in self.order:
            if relation not in ("before", "overlaps", "during", "together", "until") or len(ids) < 2:
                raise ValueError(f"{self.name}: '{relation}' is no relation of two or more actions")
            if unknown := sorted(set(ids) - names):
                raise ValueError(f"{self.name}: the order names '{unknown[0]}', which is not expected")
        if (self.kind == "objective") != bool(self.expect) or (self.kind == "subjective") != bool(self.rubric):
            raise ValueError(f"{self.name}: an objective task needs `expect`, a subjective one a `rubric`")
        return self

    @property
    def size(self) -> int:
        """|A(t)|, the number of coordinated actions."""
        return len(self.expect) or self.actions

    @property
    def level(self) -> str:
        """Basic, Medium or Complex, by |A(t)|."""
        return {2: "Basic", 5: "Medium", 10: "Complex"}[s_max(self.size)]


class TaskFile(_Data):
    """bench/coco_tasks.yaml. A class lists shapes that mean the same to an onlooker."""

    classes: dict[str, tuple[Shape, ...]]
    tasks: tuple[Task, ...]

    @model_validator(mode="after")
    def _classes_exist(self) -> TaskFile:
        for task in self.tasks:
            if unknown := sorted({e.of_class for e in task.expect.values()} - set(self.classes) - {""}):
                raise ValueError(f"{task.name}: there is no class '{unknown[0]}'; known: {', '.join(self.classes)}")
        return self

    @classmethod
    def load(cls, path: Path) -> TaskFile:
        """Read and check the tasks; raises pydantic's ValidationError."""
        return cls.model_validate(read_yaml(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Score:
    """C(t) with what was missing or wrong."""

    correctness: float
    held: int
    of: int
    missing: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    matched: Mapping[str, CallRun] = field(default_factory=dict)

    def raw(self, task: Task) -> float:
        """S(t), equation 13."""
        return s_max(task.size) * self.correctness

    def bcm(self, task: Task) -> float:
        """Return the normalised score, equation 14; S_min is 0."""
        return self.raw(task) / s_max(task.size)


def s_max(actions: int) -> int:
    """Return the highest raw score of a task with so many coordinated actions."""
    return 2 if actions <= 2 else 5 if actions <= 5 else 10


def score(
    task: Task,
    records: Sequence[CallRun],
    classes: Mapping[str, Sequence[Shape]],
    error: str = "",
    *,
    rated: Mapping[str, bool] | None = None,
    slack_s: float = 0.0,
) -> Score:
    """C(t) of a schedule. `error` is what ended the stream, if something did: then it is not fully correct. `rated` is what a
    judge says of a subjective task's rubric, `slack_s` how far apart measured times may be that are one instant.

    Raises ValueError for a subjective task that nobody has judged: its calls alone say nothing of it.
    """
    faults = [f"{r.function}: {r.outcome_name} {r.error}".strip() for r in records if r.outcome in ("REFUSED", "FAILED")]
    if task.interrupt_s is None:
        faults += [f"{r.function}: {r.outcome_name}" for r in records if r.outcome in ("DROPPED", "INTERRUPTED")]
    if error:
        faults.append(error)
    if task.kind == "subjective":
        if rated is None:
            raise ValueError(f"{task.name} is judged by a person or a model, with its rubric")
        return _graded(task, rated, faults, {})
    ways = (_compared(task, way, classes, faults, slack_s) for way in (records, joined(records, slack_s)))
    return max(ways, key=lambda scored: scored.correctness)


def _compared(
    task: Task, records: Sequence[CallRun], classes: Mapping[str, Sequence[Shape]], faults: Sequence[str], slack_s: float
) -> Score:
    matched = _Matcher(task, records, classes, slack_s).best()
    verdicts = {name: name in matched for name in task.expect}
    verdicts.update({" ".join(rule): _holds(rule, matched, slack_s) for rule in task.order})
    used = {r.call_id for r in matched.values()}
    extra = [
        f"{r.function} was not asked for"
        for r in records
        if r.call_id not in used and r.start_s is not None and _is_extra(r, task)
    ]
    return _graded(task, verdicts, [*faults, *extra], matched)


def joined(records: Sequence[CallRun], slack_s: float = 0.0) -> list[CallRun]:
    """Return the calls with those as one that follow each other at once and differ in an amount of the same sign alone."""
    parts: list[CallRun] = []
    for record in sorted(records, key=lambda r: (r.start_s is None, r.start_s or 0.0)):
        at = next((i for i in reversed(range(len(parts))) if set(parts[i].channels) & set(record.channels)), None)
        before = parts[at] if at is not None else None
        if at is None or before is None or not _goes_on(before, record, slack_s):
            parts.append(record)
            continue
        sums = {n: v + record.arguments[n] if n in AMOUNTS else v for n, v in before.arguments.items()}
        parts[at] = replace(before, arguments=sums, end_s=record.end_s)
    return parts


def _goes_on(before: CallRun, after: CallRun, slack_s: float) -> bool:
    if before.function != after.function or {before.outcome, after.outcome} != {Outcome.DONE}:
        return False
    if before.end_s is None or after.start_s is None or abs(after.start_s - before.end_s) > EPS_S + slack_s:
        return False
    one, two = before.arguments, after.arguments
    amounts = AMOUNTS & set(one)
    same = one.keys() == two.keys() and all(one[name] == two[name] for name in one.keys() - amounts)
    return bool(amounts) and same and all(one[name] * two[name] > 0 for name in amounts)


def shape_matches(expected: Expected, record: CallRun, classes: Mapping[str, Sequence[Shape]]) -> bool:
    """Return whether the call is what is expected, its class of interchangeable calls included."""
    if record.outcome != expected.outcome or record.start_s is None:
        return False
    if not expected.of_class:
        return expected.matches(record)
    extra = Shape(call=record.function, args=expected.args)
    return any(s.matches(record) for s in classes[expected.of_class]) and extra.matches(record)


def _graded(task: Task, verdicts: Mapping[str, bool], faults: Sequence[str], matched: Mapping[str, CallRun]) -> Score:
    held, total = sum(verdicts.values()), len(verdicts) + len(faults)
    share = held / total
    if task.steps:
        correctness = math.floor(share * 10 + 1e-9) / 10
    else:
        correctness = 1.0 if share == 1.0 else 0.5 if share >= 0.5 else 0.0
    missing = tuple(name for name, holds in verdicts.items() if not holds)
    return Score(correctness, held, total, missing, tuple(faults), matched)


def _is_extra(record: CallRun, task: Task) -> bool:
    if record.function in NEUTRAL or record.function == "text":
        return False
    return bool((RESTRICTED | MOTION if task.exact else RESTRICTED) & set(record.channels))


def _holds(rule: Sequence[str], matched: Mapping[str, CallRun], slack_s: float = 0.0) -> bool:
    relation, *names = rule
    if any(name not in matched for name in names):
        return False
    calls = [matched[name] for name in names]
    spans = [(r.start_s or 0.0, r.end_s or 0.0) for r in calls]
    pairs = list(zip(spans, spans[1:], strict=False))
    instant_s = EPS_S + slack_s
    if relation == "before":
        return all(a[1] <= b[0] + instant_s for a, b in pairs)
    if relation == "together":
        starts = [s[0] for s in spans]
        return max(starts) - min(starts) <= TOGETHER_S + slack_s
    if relation == "overlaps":
        return all(min(a[1], b[1]) - max(a[0], b[0]) > EPS_S for a, b in pairs)
    (begin, end), inner = spans[0], spans[1:]
    if relation == "during":
        return all(b - instant_s <= begin and end <= e + instant_s for b, e in inner)
    last = max(e for _, e in inner)
    return begin <= min(b for b, _ in inner) + instant_s and last - instant_s <= end <= last + RESET_S + slack_s


class _Matcher:
    """Finds which call fulfils which expectation, so that as many expectations and relations hold as possible. Alike
    expectations are met in order of time, in which a task lists them."""

    LIMIT = 4000

    def __init__(
        self, task: Task, records: Sequence[CallRun], classes: Mapping[str, Sequence[Shape]], slack_s: float = 0.0
    ) -> None:
        ordered = sorted((r for r in records if r.start_s is not None), key=lambda r: r.start_s or 0.0)
        self._task, self._slack_s = task, slack_s
        self._records = ordered
        self._names = list(task.expect)
        self._shapes = [task.expect[n].model_dump_json() for n in self._names]
        self._fits = [[i for i, r in enumerate(ordered) if shape_matches(task.expect[n], r, classes)] for n in self._names]
        self._best: dict[str, int] = {}
        self._best_value = -1
        self._leaves = 0

    def best(self) -> dict[str, CallRun]:
        """Return the best assignment found, expectation's name to call."""
        self._search(0, {})
        return {name: self._records[i] for name, i in self._best.items()}

    def _search(self, k: int, taken: dict[str, int]) -> None:
        possible = len(taken) + (len(self._names) - k) + len(self._task.order)
        if possible <= self._best_value or self._leaves >= self.LIMIT:
            return
        if k == len(self._names):
            self._leaves += 1
            matched = {name: self._records[i] for name, i in taken.items()}
            value = len(taken) + sum(_holds(rule, matched, self._slack_s) for rule in self._task.order)
            if value > self._best_value:
                self._best, self._best_value = dict(taken), value
            return
        name, used = self._names[k], set(taken.values())
        alike = [
            taken[n] for n, s in zip(self._names[:k], self._shapes[:k], strict=True) if s == self._shapes[k] and n in taken
        ]
        free = [i for i in self._fits[k] if i not in used and i > max(alike, default=-1)]
        for i in free:
            taken[name] = i
            self._search(k + 1, taken)
            del taken[name]
        if not free:
            self._search(k + 1, taken)


def _spoken(record: CallRun) -> str:
    return " ".join(str(record.arguments.get("text", "")).split())


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return any(_fits(value, one) for one in wanted)
    if not isinstance(wanted, Mapping):
        if isinstance(value, (int, float)) and isinstance(wanted, (int, float)):
            return abs(value - wanted) < 1e-6
        return bool(value == wanted)
    if "like" in wanted:
        return re.search(wanted["like"], str(value)) is not None
    if not isinstance(value, (int, float)):
        return False
    if "near" in wanted:
        return bool(abs(value - wanted["near"]) <= wanted["within"])
    return bool(wanted.get("min", -math.inf) <= value <= wanted.get("max", math.inf))
