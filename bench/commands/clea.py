# SPDX-License-Identifier: Apache-2.0
"""`ghostshell bench clea`: CLEA's twelve trials with two robots in a kitchen, with tables as in the paper."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.options import fail, show, words

if TYPE_CHECKING:
    from bench.clea.trials import Trial
    from bench.clea.virtual import Run
    from bench.evaluation.runner import Results

FIRST_SEED = 1000
"""Seeds of the measurement begin here; the simulated model was made with others."""
SIMULATED = "simulated"
CRITICS = {"always": "full", "on_doubt": "on_doubt", "never": "no_critic"}


def clea(
    critic: Annotated[
        str, typer.Option(help="when the critic's model is asked: always, on_doubt, never (several: one row each)")
    ] = ("always,on_doubt,never"),
    open_loop: Annotated[bool, typer.Option(help="the paper's baseline as well: one whole plan, one replan")] = True,
    trials: Annotated[int, typer.Option(min=1, max=1000, help="seeded runs of each of the twelve trials")] = 34,
    tasks: Annotated[str, typer.Option(help="which trials, such as S1,M2,I3,J1 (docs/closed_loop.md); nothing: all")] = "",
    simulator: Annotated[
        bool, typer.Option("--simulator", help="over real nodes, with physics and in real time: some minutes a run")
    ] = False,
    model: Annotated[str, typer.Option(help="with --simulator: a name of models.yaml, openai:…, or simulated")] = SIMULATED,
    out: Annotated[Path, typer.Option(help="folder of results.jsonl and tables")] = Path("out/clea"),
    limit: Annotated[float, typer.Option(min=0, help="stop after so many seconds; the same command goes on later")] = 0.0,
    report: Annotated[bool, typer.Option("--report", help="run nothing: only the tables of what is there")] = False,
) -> None:
    """Run CLEA's trials by the closed loop, without its critic and by the open loop, in the same worlds, with the same
    disturbances and the same simulated models, on a virtual clock, and judge them by what was true.

    What broke off goes on where it ended. Exit status: 0 everything was run, 1 something is left, 2 it could not be begun.
    """
    from bench.clea.tables import write
    from bench.clea.trials import TRIALS
    from bench.evaluation.models import table_hash
    from bench.evaluation.runner import Results

    variants = [CRITICS.get(word) or fail(f"--critic is '{word}'; use {', '.join(CRITICS)}") for word in words(critic)]
    variants += ["open_loop"] if open_loop else []
    wanted = words(tasks) or list(TRIALS)
    for task in wanted:
        if task not in TRIALS:
            fail(f"there is no trial '{task}'; there is: {', '.join(TRIALS)}")
    if model != SIMULATED and not simulator:
        fail("the virtual clock knows the simulated model alone; add --simulator, or leave --model out")
    setup = f"{table_hash()}{' in the simulator' if simulator else ''}" if model == SIMULATED else f"{model} in the simulator"
    keys = ("trial", "seed", "variant", "setup")
    results = Results(out / "results.jsonl", lambda line: tuple(line.get(key) for key in keys))
    seeds = range(FIRST_SEED, FIRST_SEED + trials)
    todo = [(t, s, v) for s in seeds for t in wanted for v in variants if not results.done((t, s, v, setup))]
    whole = not todo
    if todo and not report:
        whole = _run(todo, results, setup, limit, out, "" if model == SIMULATED else model, simulator)
    shown = [x for x in results.lines if x.get("setup") == setup and x["trial"] in wanted and x["variant"] in variants]
    if not shown:
        fail(f"there are no results of this model in {results.path}")
    for one in write(shown, out, f"Model: {setup}."):
        show(one)
    print(f"tables: {out / 'tables.md'}")
    raise typer.Exit(0 if whole else 1)


def _run(
    todo: list[tuple[str, int, str]], results: Results, setup: str, limit: float, out: Path, model: str, simulator: bool
) -> bool:
    from bench.clea.measures import line
    from bench.clea.trials import TRIALS, setting
    from bench.evaluation.faults import HungError

    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ghostshell-clea-") as folder:
        perform = _simulated(out, model) if simulator else _virtual(Path(folder))
        for trial_id, seed, variant in todo:
            if limit and time.monotonic() - begun > limit:
                return False
            trial = TRIALS[trial_id]
            key = {"trial": trial_id, "seed": seed, "variant": variant, "setup": setup}
            try:
                run = perform(trial, seed, variant)
            except KeyboardInterrupt:
                print("broken off; the same command goes on from here", file=sys.stderr)
                return False
            except HungError as error:
                print(f"{trial_id} {seed} {variant}: does not count: {error}", flush=True)
                continue
            kept = {**key, "kind": setting(trial, seed).disturbance.kind, **line(run, trial)}
            results.add(kept)
            why = "" if kept["success"] else f" ({'; '.join(kept['reasons'])})"
            print(f"{trial_id} {seed} {variant}: {'done' if kept['success'] else 'NOT DONE'}{why}", flush=True)
    return all(results.done((*key, setup)) for key in todo)


def _virtual(folder: Path) -> Callable[[Trial, int, str], Run]:
    from bench.clea.virtual import VirtualTeam
    from bench.simulated_model.table import load_table
    from bench.simulated_model.where import default_table

    return VirtualTeam(load_table(default_table()), folder).perform


def _simulated(out: Path, model: str) -> Callable[[Trial, int, str], Run]:
    # A domain of this run's own, unless one was chosen: no other robots are meant.
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    try:
        from bench.clea.pictures import Cameras
        from bench.clea.simulator import perform
    except ImportError as error:
        fail(f"needs the ROS packages and the simulator ({error}); run make setup and the command as ./ghostshell")
    return partial(perform, model=model, cameras=Cameras(), log=out / "nodes.log")
