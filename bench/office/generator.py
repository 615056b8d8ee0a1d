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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from bench.office.acts import Act
from bench.office.collection import write
from bench.office.families import FAMILIES, Binder, Draft, UnfitError
from bench.office.judging import replay
from bench.office.layout import office
from bench.office.oracle import TooHardError, solve
from bench.office.tasks import Task
from bench.office.world import Absence, AbsenceKind, Layout

BASIC, AMBIGUOUS, DYNAMIC = 300, 800, 1000
OFFICES = 25
"""Offices, each with one basic task of every family."""
REPORTED = 0.25
"""Share of the dynamic tasks that cannot be done."""
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


def generate(say: Callable[[str], None] = lambda line: None) -> Iterator[Task]:
    """Yield all tasks, tier by tier."""
    bounds, plans = [], []
    for bound, plan in basic():
        bounds.append(bound)
        plans.append(plan)
        yield replace(bound.task, asks=asks_in(plan))
        if len(bounds) == BASIC:
            break
    say(f"{len(bounds)} basic")
    yield from ambiguous(bounds, plans)
    say(f"{AMBIGUOUS} ambiguous")
    yield from dynamic([bound.task for bound in bounds], plans)
    say(f"{DYNAMIC} dynamic")


def basic(number_of_offices: int = OFFICES) -> Iterator[tuple[Bound, list[Act]]]:
    """Yield tasks that can be done with their plans: one of each family and office, then more where an office has nothing for
    a family."""
    seen: set[str] = set()
    number = 0
    while number < TRIES:
        for seed in range(number_of_offices):
            for family in FAMILIES:
                try:
                    bound = Bound(seed, family, number)
                    plan = None if bound.task.instruction in seen else proven(bound.task)
                except (UnfitError, TooHardError):
                    continue
                if plan is not None and not trivial(bound.task):
                    seen.add(bound.task.instruction)
                    yield bound, plan
        number += 1


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


def dynamic(tasks: Sequence[Task], plans: Sequence[Sequence[Act]]) -> Iterator[Task]:
    """Yield variants in which somebody or something that the plan of the basic task needs is not available."""
    seen: set[str] = set()
    reports = 0
    for turn in range(TRIES):
        for task, plan in zip(tasks, plans, strict=True):
            if len(seen) == DYNAMIC:
                return
            chance = random.Random(f"dynamic {task.id} {turn}")
            wanted = reports < REPORTED * (len(seen) + 1)
            made = _reported(task, plan, chance) if wanted else _recoverable(task, plan, chance)
            if made is None or made.id in seen:
                continue
            seen.add(made.id)
            reports += made.label == "report"
            yield made


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
    """Write the list anew, in a process whose sets have one order: the planner's plans hang on it."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, "-m", "bench.office.generator"], {**os.environ, "PYTHONHASHSEED": "0"})
    print(write(generate(say=lambda line: print(line, flush=True))))


if __name__ == "__main__":
    main()
