# SPDX-License-Identifier: Apache-2.0
"""``python -m bench.office.scale``: many tasks at once in an office of 50 robots and 200 people: how long the strategy takes
beyond its models, and whether memory stays as it is."""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import random
import resource
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

from bench.evaluation.propositions import evaluate
from bench.evaluation.virtual_models import Models
from bench.office.families import FAMILIES, Binder, UnfitError
from bench.office.layout import drawn
from bench.office.run import DEADLINE_S, STEP_S, Process
from bench.office.simulator import OfficeSimulator
from bench.office.tasks import Task, criterion
from bench.office.vocabulary import PEOPLE, PROFILES
from bench.office.world import Layout, Office
from bench.simulated_model.service import SimulatedModel
from bench.simulated_model.table import load_table
from bench.simulated_model.where import default_table
from bench.virtual_clock import VirtualClock
from bench.virtual_door import settings_of
from planners.strategies.team.strategy import Team

ROBOTS, STAFF, TASKS, ROUNDS = 50, 200, 20, 5
FIRST, LAST = (
    ("Bo", "Da", "Fei", "Gui", "Hai", "Jun", "Kai", "Mei", "Nan", "Pei", "Qi", "Rui", "Tao", "Wei"),
    (*("an", "bin", "dan", "feng", "guo", "hua", "jie", "kun", "lan", "min", "ning", "ping", "rong", "shan"),),
)
"""Beginnings and ends of names."""


@dataclass
class Round:
    """Hold one round: its tasks, how many were done, the longest turn of the strategy [s], and memory in use after it [MiB]."""

    tasks: int
    done: int
    ended: int
    longest_s: float
    prompt_tokens: float
    memory_mib: float


def big(seed: int) -> Layout:
    """Return an office of 50 robots and 200 people."""
    kinds = list(PROFILES)
    team = {f"{kinds[i % len(kinds)]}_{i // len(kinds) + 1}": kinds[i % len(kinds)] for i in range(ROBOTS)}
    names = (f"{first}{last}" for first in FIRST for last in LAST)
    people = (*PEOPLE, *itertools.islice((name for name in names if name not in PEOPLE), STAFF - len(PEOPLE)))
    return drawn(seed, people, team)


def rounds(number: int, at_once: int) -> Iterator[Round]:
    """Run so many rounds of tasks at once, each in an office of its own; yield what each came to."""
    table, strategy = load_table(default_table()), Team()
    tracemalloc.start()
    for seed in range(number):
        clock, layout = VirtualClock(), big(seed)
        office = OfficeSimulator(Office(layout), clock)
        processes = []
        for n, task in enumerate(_tasks(layout, seed, at_once)):
            process = Process(office, task, settings_of(strategy.parameters), f"p{n}", keep_prompts=False)
            process.model = Models(SimulatedModel(table.with_options(seed=n)), table, clock, process.hear)
            processes.append((process, task))
        for process, _ in processes:
            process.start(strategy)
        while clock.now() < DEADLINE_S and not all(process.ended for process, _ in processes):
            clock.run(clock.now() + STEP_S)
        done = 0
        for process, task in processes:
            process.close("the deadline has passed")
            done += evaluate(criterion(task.steps, layout), process.judged().moments).success
        prompts = [a.prompt_tokens for process, _ in processes for a in process.result.trace.answers]
        longest = max(max(process.result.busy_s) for process, _ in processes)
        ended = sum(bool(process.result.trace.status) for process, _ in processes)
        del office, processes, process
        gc.collect()
        memory = tracemalloc.get_traced_memory()[0] / 2**20
        yield Round(at_once, done, ended, longest, sum(prompts) / max(1, len(prompts)), memory)


def _tasks(layout: Layout, seed: int, number: int) -> Iterator[Task]:
    """Yield tasks of an office, each about other things."""
    chance, used, made = random.Random(f"scale {seed}"), set[str](), 0
    families = [f for f in FAMILIES if f not in ("gather", "locker_fetch")]
    for _ in range(100 * number):
        if made == number:
            return
        sender, family = chance.choice(sorted(layout.people)), chance.choice(families)
        try:
            draft = FAMILIES[family](Binder(layout, sender, chance))
        except UnfitError:
            continue
        items = {step.item for step in draft.steps}
        if items & used:
            continue
        used |= items
        made += 1
        yield Task("basic", family, seed, sender, draft.said(draft.sentences[0]), {}, tuple(draft.steps))
    raise UnfitError(f"the office has things for {made} tasks, not for {number}")


def main() -> None:
    """Print each round as JSON, and at the end the most memory that was used [MiB]."""
    parser = argparse.ArgumentParser(description="Many tasks at once in a big office.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tasks", type=int, default=TASKS, help="tasks at once")
    given = parser.parse_args()
    for one in rounds(given.rounds, given.tasks):
        print(json.dumps(vars(one)), flush=True)
    print(json.dumps({"peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)}))


if __name__ == "__main__":
    main()
