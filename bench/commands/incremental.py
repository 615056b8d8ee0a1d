# SPDX-License-Identifier: Apache-2.0
"""`ghostshell bench incremental`: what a console learns at a table from a person's corrections, with and without memory."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bench.commands.options import fail, show, words

if TYPE_CHECKING:
    from bench.evaluation.runner import Results
    from bench.tabletop.virtual import MakeModel

FIRST_SEED = 1000
"""Seeds of the measurement begin here; the simulated model was made with others."""
SIMULATED = "simulated"
Chain = tuple[str, str, int, bool]
"""Template, attributes, number and whether there is a memory."""


def incremental(
    model: Annotated[str, typer.Option(help="a name of models.yaml, openai:…, or simulated")] = SIMULATED,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="tasks of a template, one after the other")] = 10,
    chains: Annotated[int, typer.Option(min=1, max=1000, help="how often that is begun anew with an empty memory")] = 3,
    tasks: Annotated[str, typer.Option(help="which templates, separated by commas (docs/incremental.md); nothing: all")] = "",
    attributes: Annotated[str, typer.Option(help="seen, unseen or both")] = "seen,unseen",
    memory: Annotated[str, typer.Option(help="on, off or both")] = "on,off",
    out: Annotated[Path, typer.Option(help="folder of results.jsonl and tables")] = Path("out/incremental"),
    limit: Annotated[float, typer.Option(min=0, help="stop after so many seconds; the same command goes on later")] = 0.0,
    report: Annotated[bool, typer.Option("--report", help="run nothing: only the tables of what is there")] = False,
) -> None:
    """Give tasks at a table of blocks and bowls, correct in plain words what is wrong, confirm what is learned, and give the
    next task: with and without memory in the same scenes, on a virtual clock, judged by what was true.

    What broke off goes on where it ended. Exit status: 0 everything was run, 1 something is left, 2 it could not be begun.
    """
    from bench.evaluation.models import table_hash
    from bench.evaluation.runner import Results
    from bench.tabletop.tables import write
    from bench.tabletop.tasks import ATTRIBUTES, TEMPLATES

    wanted = [one.strip() for one in tasks.split(",") if one.strip()] or list(TEMPLATES)
    for given, known, what in ((wanted, TEMPLATES, "template"), (words(attributes), ATTRIBUTES, "set of attributes")):
        for name in given:
            if name not in known:
                fail(f"there is no {what} '{name}'; there is: {', '.join(known)}")
    switches = {"on": True, "off": False}
    if wrong := [word for word in words(memory) if word not in switches]:
        fail(f"--memory is '{wrong[0]}'; use on, off or both")
    memories = [switches[word] for word in words(memory)]
    setup = table_hash() if model == SIMULATED else model
    keys = ("template", "attributes", "chain", "memory", "round", "setup")
    results = Results(out / "results.jsonl", lambda line: tuple(line.get(key) for key in keys))
    todo = [(t, a, c, m) for c in range(chains) for t in wanted for a in words(attributes) for m in memories]
    todo = [one for one in todo if not results.done((*one, rounds - 1, setup))]
    whole = not todo if report else _run(todo, results, setup, rounds, limit, model)
    shown = [x for x in results.lines if x.get("setup") == setup and x["template"] in wanted]
    if not shown:
        fail(f"there are no results of this model in {results.path}")
    for one in write(shown, out, f"Model: {setup}."):
        show(one)
    print(f"tables: {out / 'tables.md'}")
    raise typer.Exit(0 if whole else 1)


def _run(todo: list[Chain], results: Results, setup: str, rounds: int, limit: float, model: str) -> bool:
    from planners.models.base import ModelError

    begun = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ghostshell-incremental-")))
        make = _simulated() if model == SIMULATED else _real(model, stack)
        for chain in todo:
            if limit and time.monotonic() - begun > limit:
                return False
            try:
                # A chain counts as a whole: what its memory holds is gone when it breaks off.
                lines = list(_chain(chain, rounds, make, folder))
            except (KeyboardInterrupt, ModelError) as error:
                why = f" ({error})" if str(error) else ""
                print(f"broken off{why}; the same command goes on from here", file=sys.stderr)
                return False
            for line in lines:
                results.add({**line, "setup": setup})
            template, attributes, number, memory = chain
            told = " ".join("–" if line["n"] is None else str(line["n"]) for line in lines)
            print(f"{template}, {attributes}, chain {number}, memory {'on' if memory else 'off'}: n = {told}", flush=True)
    return True


def _chain(chain: Chain, rounds: int, make: Callable[[int], MakeModel], folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the results of one template's tasks, one after the other, the memory empty at first."""
    from contextlib import nullcontext

    from bench.tabletop.oracle import judged
    from bench.tabletop.tasks import trial
    from bench.tabletop.virtual import Robot, lessons, perform

    template, attributes, number, memory = chain
    robot, before = Robot(), list[Any]()
    with lessons(folder) if memory else nullcontext() as learned:
        for k in range(rounds):
            seed = FIRST_SEED + 100 * number + k
            one = trial(template, attributes, seed, before[-1:])
            before.append(one.binding)
            done = perform(one, robot, make(seed), learned, folder)
            yield {
                "template": template,
                "attributes": attributes,
                "chain": number,
                "memory": memory,
                "round": k,
                "seed": seed,
                "instruction": one.instruction,
                "binding": dict(one.binding),
                "n": done.first,
                "corrections": len(done.corrections),
                "confirmed": done.confirmed,
                "oracle": judged(one).success,
                "idle": judged(one, idle=True).success,
                "asked": done.asked,
                "ended": done.ended,
                "talk": done.talk,
            }


def _simulated() -> Callable[[int], MakeModel]:
    from bench.evaluation.virtual_models import Models
    from bench.simulated_model.service import SimulatedModel
    from bench.simulated_model.table import load_table
    from bench.simulated_model.where import default_table

    table = load_table(default_table())
    return lambda seed: lambda clock: Models(SimulatedModel(table.with_options(seed=seed)), table, clock, lambda _: None)


def _real(name: str, stack: ExitStack) -> Callable[[int], MakeModel]:
    from bench.tabletop.asking import RealModel
    from ghostshell_ros.runtime.data import config_folder
    from planners.models.base import ModelError
    from planners.models.config import ConfigError, load_models, parse_spec
    from planners.models.factory import make_client

    try:
        client = make_client(parse_spec(name, load_models(config_folder() / "models.yaml")))
        stack.callback(client.close)
        client.prepare()
    except (ConfigError, ModelError) as error:
        fail(str(error))
    return lambda seed: lambda clock: RealModel(client, clock)
