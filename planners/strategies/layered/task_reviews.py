# SPDX-License-Identifier: Apache-2.0
"""Decide when System 2 looks again: what it watches, what has happened, and when a plan gets nowhere."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from planners.plan import Subtask, plain
from skill_kernel.config.sections import SHOWN, shown

POSE_STEP_M = 1.0
NUMBER_STEPS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
"""A number has changed when it has passed one of these; so it is with distances, speeds and percents alike."""
ANY = "*"
"""Stands for every label."""
MENTIONED = "in sight"
"""Stands for the things that are in sight and that a subtask speaks of."""

Seen = Mapping[str, Any]
"""Values to compare, by what they are of."""


def watched(facts: Mapping[str, Any] | None, subtasks: Sequence[Subtask], known: Collection[str] = ()) -> dict[str, Any]:
    """Return the part of the facts (as `observation.render.facts` gives them) that these open subtasks depend on. Things that
    the first one speaks of are left to System 1, which is at it and sees them itself. Of watched lists of things those count
    that the watching subtask speaks of, all where it speaks of none of the `known` labels."""
    if facts is None:
        return {}
    fields: dict[str, set[str]] = {}
    for subtask in subtasks:
        said = f" {plain(f'{subtask.description} {subtask.criteria}')} "
        wanted = {label for label in known if _speaks_of(said, label)}
        for name in subtask.watch:
            fields[name] = fields.get(name, set()) | (wanted or {ANY})
    words = f" {' '.join(plain(f'{s.description} {s.criteria}') for s in subtasks[1:])} "
    seen = {name: _only(_coarse(facts[name]), wanted) for name, wanted in fields.items() if name in facts}
    mentioned = frozenset(label for label in labels(facts) if _speaks_of(words, label))
    return {**seen, MENTIONED: mentioned}


def _only(value: Any, wanted: Collection[str]) -> Any:
    return value & frozenset(wanted) if isinstance(value, frozenset) and ANY not in wanted else value


def differences(before: Seen, after: Seen, shown: Collection[str] = ()) -> list[str]:
    """Return what has changed, in words. What was or is not watched is no change, nor is a thing that has gone out of sight: it
    comes and goes while the robot turns. `shown` are labels of things it knows of."""
    told = []
    for name in before:
        old, new = before[name], after.get(name, before[name])
        if old == new:
            continue
        if isinstance(old, frozenset) and isinstance(new, frozenset):
            told += [f"{thing} has come into sight" for thing in sorted(new - old) if name == MENTIONED or thing not in shown]
        elif isinstance(old, (str, bool)) and isinstance(new, (str, bool)):
            told.append(f"{name} is {_shown(new)} now, it was {_shown(old)}")
        else:
            told.append(f"{name} has changed")
    return list(dict.fromkeys(told))


def _coarse(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "stale_s" in value or "missing" in value:
            return "not known"
        if "x_m" in value and "y_m" in value:
            return tuple(round(_number(value[axis]) / POSE_STEP_M) for axis in ("x_m", "y_m"))
        return tuple(sorted((str(k), _coarse(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        things = [_label(thing) for thing in value]
        return frozenset(t for t in things if t)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return sum(value >= step for step in NUMBER_STEPS) - sum(value <= -step for step in NUMBER_STEPS)
    return value


def labels(facts: Mapping[str, Any] | None) -> set[str]:
    """Return the labels of all things in sight."""
    lists = [value for value in (facts or {}).values() if isinstance(value, (list, tuple))]
    return {label for things in lists for thing in things if (label := _label(thing))}


def _label(thing: Any) -> str:
    return str(thing.get("label", ""))[:SHOWN] if isinstance(thing, Mapping) else ""


def _speaks_of(words: str, label: str) -> bool:
    name = plain(label)
    forms: Iterable[str] = (name, f"{name}s", f"{name}es")
    return bool(name) and any(f" {form} " in words for form in forms)


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def _shown(value: str | bool) -> str:
    return f"'{shown(value)}'" if isinstance(value, str) else str(value).lower()


NEWEST = 12
"""Reasons kept; the oldest go first."""


class Reasons:
    """Collect reasons to plan again until they are taken; `due_s` is when the first is to be answered at the latest."""

    def __init__(self) -> None:
        self._why: dict[str, bool] = {}
        self.due_s = float("inf")

    def __bool__(self) -> bool:
        return bool(self._why)

    def add(self, why: str, due_s: float) -> None:
        self.due_s = min(self.due_s, due_s)
        self._why[why] = False
        while len(self._why) > NEWEST:
            del self._why[next(iter(self._why))]

    def see(self, changes: Iterable[str], due_s: float) -> bool:
        """Return whether a change of the observation, and of nothing else, is news."""
        happened = [why for why, seen in self._why.items() if not seen]
        now = {**dict.fromkeys(changes, True), **dict.fromkeys(happened, False)}
        if now == self._why:
            return False
        self._why = now
        self.due_s = min(self.due_s, due_s) if now else float("inf")
        return True

    def take(self) -> tuple[str, ...]:
        """Return all reasons and keep none."""
        why = tuple(self._why)
        self._why, self.due_s = {}, float("inf")
        return why

    def give_back(self, why: Iterable[str], due_s: float) -> None:
        """Put reasons back that were taken in vain."""
        self._why = {**dict.fromkeys(why, False), **self._why}
        self.due_s = min(self.due_s, due_s)


TOGETHER_S = 1.0
"""Failures within so long count as one."""


class Progress:
    """Count failures since the last subtask was done. `repeats`: failures under one and the same plan, `failures`: under
    whatever plans, before a task is given up."""

    def __init__(self, repeats: int, failures: int) -> None:
        self._max_repeats, self._max_failures = repeats, failures
        self._failures = 0
        self._under: dict[tuple[str, ...], int] = {}
        self._last_s = float("-inf")
        self._last = ""

    def achieved(self) -> None:
        self._failures, self._under, self._last_s = 0, {}, float("-inf")

    def failed(self, signature: tuple[str, ...], why: str, now: float) -> None:
        self._last = why
        if now - self._last_s >= TOGETHER_S:
            self._failures += 1
            self._under[signature] = self._under.get(signature, 0) + 1
            self._last_s = now

    def hopeless(self) -> str:
        """Return why the task is to be given up whatever the next answer says; empty while it is not."""
        if self._failures < self._max_failures:
            return ""
        return f"{self._failures} failures in a row without any progress; the last one: {self._last}"

    def repeated(self, signature: tuple[str, ...]) -> str:
        """Return why to give up when this is to be the plan once more; empty while it may."""
        times = self._under.get(signature, 0)
        if times < self._max_repeats:
            return ""
        return f"the same plan has failed {times} times; the last failure: {self._last}"
