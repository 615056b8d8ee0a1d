# SPDX-License-Identifier: Apache-2.0
"""`ghostshell bench interactgen`: tasks of an office with robots and people, with tables as in the InteractGen paper."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.commands.options import fail, show, words

if TYPE_CHECKING:
    from bench.evaluation.runner import Results
    from bench.office.variants import Job

SIMULATED = "simulated"
ALL = "team,no_perceiver,no_validator,no_manager,no_planner,react"
CHUNK = 64
"""Runs that are handed out before the limit of time is looked at again."""


def interactgen(
    variants: Annotated[str, typer.Option(help=f"which of {ALL}")] = ALL,
    tiers: Annotated[str, typer.Option(help="which of basic, ambiguous, dynamic")] = "basic,ambiguous,dynamic",
    tasks: Annotated[int, typer.Option(min=0, help="only the first so many tasks of each tier; 0: all")] = 0,
    held_out: Annotated[bool, typer.Option("--held-out", help="only the 300 tasks on which nothing was made")] = False,
    runs: Annotated[int, typer.Option(min=1, max=100, help="runs of each task and variant")] = 1,
    model: Annotated[str, typer.Option(help="a name of models.yaml, openai:…, or simulated")] = SIMULATED,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="processes that run tasks")] = 1,
    ray: Annotated[bool, typer.Option("--ray", help="run tasks on a Ray cluster, or on one that is started here")] = False,
    out: Annotated[Path, typer.Option(help="folder of results.jsonl and tables")] = Path("out/interactgen"),
    limit: Annotated[float, typer.Option(min=0, help="stop after so many seconds; the same command goes on later")] = 0.0,
    report: Annotated[bool, typer.Option("--report", help="run nothing: only the tables of what is there")] = False,
) -> None:
    """Run tasks of an office by strategy `team`, its ablations and a single agent, on a virtual clock, and judge them by what
    was true.

    What broke off goes on where it ended. Exit status: 0 everything was run, 1 something is left, 2 it could not be begun.
    """
    from bench.evaluation.models import table_hash
    from bench.evaluation.runner import Results
    from bench.office.collection import CollectionError, load
    from bench.office.collection import held_out as kept_back
    from bench.office.tables import write
    from bench.office.variants import VARIANTS, Job

    for name in words(variants):
        if name not in VARIANTS:
            fail(f"there is no variant '{name}'; there is: {', '.join(VARIANTS)}")
    try:
        known, back = load(), kept_back()
    except (CollectionError, OSError) as error:
        fail(str(error))
    wanted = []
    for tier in words(tiers):
        some = [task.id for task in known if task.tier == tier and (not held_out or task.id in back)]
        wanted += (some[:tasks] if tasks else some) or fail(f"there is no tier '{tier}', or nothing of it is held out")
    setup = table_hash() if model == SIMULATED else model
    keys = ("task", "variant", "run", "model", "setup")
    results = Results(out / "results.jsonl", lambda line: tuple(line.get(key) for key in keys))
    todo = [Job(t, v, r, model) for r in range(runs) for t in wanted for v in words(variants)]
    todo = [job for job in todo if not results.done((*job.key.values(), setup))]
    if todo and not report:
        print(f"{len(todo)} runs; results: {results.path}", flush=True)
        _run(todo, results, setup, limit, jobs, ray)
    chosen = set(wanted)
    shown = [
        x
        for x in results.lines
        if x.get("setup") == setup and x["model"] == model and x["task"] in chosen and x["variant"] in words(variants)
    ]
    if not shown:
        fail(f"there are no results of this model in {results.path}")
    for one in write(shown, out, f"Model: {model} ({setup}). Tasks: {len(chosen)}."):
        show(one)
    print(f"tables: {out / 'tables.md'}")
    raise typer.Exit(0 if report or all(results.done((*job.key.values(), setup)) for job in todo) else 1)


def _run(todo: list[Job], results: Results, setup: str, limit: float, jobs: int, ray: bool) -> None:
    begun = time.monotonic()
    try:
        for number, line in enumerate(_lines(todo, limit, begun, jobs, ray), start=1):
            results.add({**line, "setup": setup})
            if number % 100 == 0:
                print(f"{number} of {len(todo)} ({time.monotonic() - begun:.0f} s)", flush=True)
    except KeyboardInterrupt:
        print("broken off; the same command goes on from here", file=sys.stderr)


def _lines(todo: list[Job], limit: float, begun: float, jobs: int, ray: bool) -> Iterator[dict[str, Any]]:
    from bench.office.variants import in_processes, in_turn, on_cluster

    size = CHUNK * max(jobs, 1) if limit else len(todo)
    left = iter(todo)
    while chunk := list(itertools.islice(left, size)):
        if limit and time.monotonic() - begun > limit:
            return
        if ray:
            try:
                yield from on_cluster(chunk)
            except ImportError as error:
                fail(f"--ray needs Ray ({error}); run pip install -r requirements/cluster.txt")
        else:
            yield from in_processes(chunk, jobs) if jobs > 1 else in_turn(chunk)
