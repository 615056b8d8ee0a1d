# SPDX-License-Identifier: Apache-2.0
"""Generate the tasks of the office from seeds: basic ones, ambiguous ones with a field left out, dynamic ones with people,
robots and facilities that are not available (InteractGen IV). The list is ours, and the same for the same numbers.

Each task is kept only if the independent planner finds a plan that the simulator carries out and the judge accepts; one to
`report` only if the planner shows that there is none.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from multiprocessing import get_context
from typing import Any

from bench.office.acts import Act
from bench.office.collection import AMBIGUOUS, BASIC, DYNAMIC, write
from bench.office.families import FAMILIES, Binder, Draft, UnfitError
from bench.office.judging import replay
from bench.office.layout import office
from bench.office.oracle import TooHardError, solve
from bench.office.tasks import Task
from bench.office.world import Absence, AbsenceKind, Layout

OFFICES = 25
"""Offices, each with one basic task of every family."""
REPORTED, DRAWS = 4, 4
"""One in so many dynamic tasks cannot be done; draws for each of them."""
LATER_S = 240.0
FROM_S = (0.0, 0.0, 30.0, 120.0)
"""Times from which somebody is not available, drawn evenly [s]."""
TRIES = 400


class Bound:
    """A task in the making: its draft, and the sentence that was drawn for it."""

    def __init__(self, seed: int, family: str, number: int) -> None:
        chance = random.Random(f"{family} {seed} {number}")
        layout = office(seed)
        sender = chance.choice(sorted(layout.people))
        binder = Binder(layout, sender, chance)
        self.draft: Draft = FAMILIES[family](binder)
        self.sentence = chance.choice(self.draft.sentences)
        schema = {"origin": [sender], **self.draft.schema}
        self.task = Task("basic", family, seed, sender, self.draft.said(self.sentence), schema, tuple(self.draft.steps))


def generate(jobs: int = 1) -> Iterator[Task]:
    """Yield all tasks, tier by tier; what comes out does not hang on the number of processes."""
    with get_context("spawn").Pool(jobs) as pool:
        made: list[tuple[Bound, list[Act]]] = []
        for bound, plan in basic(pool.imap):
            made.append((bound, plan))
            yield replace(bound.task, asks=asks_in(plan))
            if len(made) == BASIC:
                break
        yield from ambiguous([bound for bound, _ in made], [plan for _, plan in made])
        yield from dynamic([(bound.task, plan) for bound, plan in made], pool.imap)


Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Apply a function to each, in order: `map`, or that of some processes."""


def basic(each: Map = map, number_of_offices: int = OFFICES) -> Iterator[tuple[Bound, list[Act]]]:
    """Yield tasks that can be done with their plans: one of each family and office, then more where an office has nothing for
    a family."""
    seen: set[str] = set()
    for number in range(TRIES):
        wanted = [(seed, family, number) for seed in range(number_of_offices) for family in FAMILIES]
        for bound, plan in filter(None, each(_basic, wanted)):
            if bound.task.instruction not in seen:
                seen.add(bound.task.instruction)
                yield bound, plan


def _basic(wanted: tuple[int, str, int]) -> tuple[Bound, list[Act]] | None:
    try:
        bound = Bound(*wanted)
        plan = None if trivial(bound.task) else proven(bound.task)
    except (UnfitError, TooHardError):
        return None
    return None if plan is None else (bound, plan)


def proven(task: Task) -> list[Act] | None:
    """Return the planner's plan if the simulator carries it out and the judge calls it a success."""
    plan = solve(task)
    if plan is None:
        return None
    report, failed = replay(task, plan)
    if failed or not report.success:
        found = "; ".join(f"{act}: {failure}" for act, failure in failed) or "; ".join(report.reasons)
        raise RuntimeError(f"the planner's domain and the simulator disagree on {task.instruction!r}: {found}")
    return plan


def trivial(task: Task) -> bool:
    """Return whether a task is done before anybody did anything."""
    return replay(replace(task, absences={}), ())[0].success


def asks_in(plan: Sequence[Act]) -> int:
    """Return how many requests to people a plan has."""
    return sum(act.deed is not None for act in plan)


def ambiguous(bounds: Sequence[Bound], plans: Sequence[Sequence[Act]]) -> Iterator[Task]:
    """Yield variants with one field left out, of which at least two candidates remain; each field of each task first once."""
    seen = {bound.task.instruction for bound in bounds}
    left = AMBIGUOUS
    for turn in range(6):
        for bound, plan in zip(bounds, plans, strict=True):
            fields = sorted(bound.draft.masks)
            order = random.Random(f"mask {bound.task.id}").sample(fields, len(fields))
            for sentence in bound.draft.sentences:
                if not left or turn >= len(order) or f"{{{bound.draft.masks[order[turn]].slot}}}" not in sentence:
                    continue
                mask = bound.draft.masks[order[turn]]
                text = bound.draft.said(sentence, order[turn])
                if text in seen:
                    continue
                seen.add(text)
                left -= 1
                yield replace(
                    bound.task,
                    tier="ambiguous",
                    instruction=text,
                    masked=order[turn],
                    question=mask.question,
                    answer=mask.answer,
                    asks=asks_in(plan),
                )


def dynamic(made: Sequence[tuple[Task, list[Act]]], each: Map = map) -> Iterator[Task]:
    """Yield variants in which somebody or something that the plan of the basic task needs is not available. One in four cannot
    be done."""
    seen: set[str] = set()
    for turn in range(TRIES):
        for task in filter(None, each(_dynamic, [(i, turn, *one) for i, one in enumerate(made)])):
            if task.id in seen:
                continue
            seen.add(task.id)
            yield task
            if len(seen) == DYNAMIC:
                return


def _dynamic(wanted: tuple[int, int, Task, list[Act]]) -> Task | None:
    number, turn, task, plan = wanted
    make = _reported if (number + turn) % REPORTED == 0 else _recoverable
    for again in range(DRAWS):
        made = make(task, plan, random.Random(f"dynamic {task.id} {turn} {again}"))
        if made is not None:
            return made
    return None


def needed(task: Task) -> set[str]:
    """Return who cannot be replaced: who must get or sign something, or has it."""
    people = {step.people[0] for step in task.steps if step.kind in ("get", "deliver") and step.people}
    return people | {step.people[0] for step in task.steps if step.kind == "sign" and len(step.people) == 1} - {""}


def _recoverable(task: Task, plan: Sequence[Act], chance: random.Random) -> Task | None:
    """Return a variant that another plan does: some of those whom the plan asks or sends are not available, or one who cannot
    be replaced is so later only."""
    layout = task.layout
    replaceable = {act.actor for act in plan} - needed(task) - {task.sender}
    machines = {act.deed.facility for act in plan if act.deed is not None and act.deed.facility}
    machines |= {act.arguments["facility"] for act in plan if "facility" in act.arguments}
    absences: dict[str, Absence] = {}
    if replaceable:
        for name in chance.sample(sorted(replaceable), chance.randint(1, len(replaceable))):
            absences[name] = _absence(name, layout, chance, needed(task) | {task.sender} | replaceable)
    for name in sorted(machines):
        others = [n for n, f in layout.facilities.items() if f.kind == layout.facilities[name].kind and n != name]
        if others and chance.random() < 0.5:
            absences[name] = Absence("down", chance.choice(FROM_S))
    if not absences or chance.random() < 0.2:
        person = chance.choice(sorted(needed(task) - {task.sender} - {""}) or [""])
        if not person:
            return None
        absences[person] = Absence("later", 0.0, LATER_S)
    bystanders = sorted(set(layout.people) - needed(task) - {task.sender} - set(absences))
    for name in chance.sample(bystanders, chance.randint(1, 5)):
        absences[name] = _absence(name, layout, chance, needed(task) | set(bystanders))
    changed = replace(task, tier="dynamic", absences=absences)
    try:
        found = proven(changed)
    except TooHardError:
        return None
    return None if found is None else replace(changed, asks=asks_in(found))


def _absence(name: str, layout: Layout, chance: random.Random, nobody: set[str]) -> Absence:
    since = chance.choice(FROM_S)
    if name not in layout.people:
        return Absence("down", since)
    kinds: tuple[AbsenceKind, ...] = ("busy", "busy", "away", "instead")
    kind = chance.choice(kinds)
    others = sorted(set(layout.people) - nobody - {name})
    if kind == "instead" and others:
        return Absence("instead", since, instead=chance.choice(others))
    return Absence("busy" if kind == "instead" else kind, since)


def _reported(task: Task, plan: Sequence[Act], chance: random.Random) -> Task | None:
    """Return a variant that nobody can do: who cannot be replaced is not available, or no facility of the kind is."""
    layout, blocked = task.layout, set[str]()
    people = sorted(needed(task) - {task.sender} - {""})
    kinds = [{n for n, f in layout.facilities.items() if f.kind == step.facility} for step in task.steps if step.facility]
    if people and (not kinds or chance.random() < 0.6):
        blocked.add(chance.choice(people))
    elif kinds:
        blocked |= chance.choice(kinds)
    else:
        return None
    absences: dict[str, Absence] = {}
    for name in sorted(blocked):
        absences[name] = Absence(chance.choice(("busy", "away")) if name in layout.people else "down")
    bystanders = sorted(set(layout.people) - set(people) - {task.sender} - blocked)
    for name in chance.sample(bystanders, chance.randint(0, 3)):
        absences[name] = _absence(name, layout, chance, set(people) | set(bystanders))
    changed = replace(task, tier="dynamic", absences=absences, label="report", blocked=tuple(sorted(blocked)), asks=0)
    try:
        return changed if solve(changed) is None else None
    except TooHardError:
        return None


def main() -> None:
    """Write the list anew, by so many processes, whose sets have one order: the planner's plans hang on it."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        again = [sys.executable, "-m", "bench.office.generator", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})
    print(write(_told(generate(int(sys.argv[1]) if len(sys.argv) > 1 else 1))))


def _told(tasks: Iterable[Task]) -> Iterator[Task]:
    for number, task in enumerate(tasks, start=1):
        yield task
        if number % 100 == 0:
            print(f"{number} tasks", flush=True)


if __name__ == "__main__":
    main()
