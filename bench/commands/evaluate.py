# SPDX-License-Identifier: Apache-2.0
"""`ghostshell bench typego`: the eight tasks of TypeGo in Kalos's simulated building, with tables as in the paper."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from bench.commands.clea import clea
from bench.commands.incremental import incremental
from bench.commands.interactgen import interactgen
from bench.commands.options import fail, show, words

if TYPE_CHECKING:
    from bench.evaluation.robot import Robot
    from bench.evaluation.runner import Plan, Results
    from bench.evaluation.trace import Trace

bench = typer.Typer(name="bench", help="Measure a simulated robot against what is published.", no_args_is_help=True)
SIMULATED, VIRTUAL = "simulated", "virtual"
SEED = 7


bench.command("clea")(clea)
bench.command("incremental")(incremental)
bench.command("interactgen")(interactgen)


@bench.command("typego")
def typego(
    model: Annotated[str, typer.Option(help="model of every layer: a name of models.yaml, openai:…, or simulated")] = SIMULATED,
    fast_model: Annotated[str, typer.Option(help="S1P's model; nothing: the simulated fast row, else the same model")] = "",
    trials: Annotated[int, typer.Option(min=1, max=1000, help="trials of each task and strategy")] = 10,
    tasks: Annotated[
        str, typer.Option(help="which tasks: T1 … T8, A6, A7 (the add-ons of T6 and T7), C1, C3, C5 (Chinese)")
    ] = "",
    strategies: Annotated[str, typer.Option(help="layered, react, plan_and_execute, layered_blind (no cost rules), stream")] = (
        "layered,react,plan_and_execute"
    ),
    errors: Annotated[str, typer.Option(help="error rates of the simulated model, 0 to 1")] = "0",
    fast_scales: Annotated[str, typer.Option(help="latencies of S1P's simulated model, as multiples of its row")] = "1",
    error_model: Annotated[str, typer.Option(help="what goes wrong: fair, or first (docs/simulated_model.md)")] = "fair",
    planning: Annotated[str, typer.Option(help="the simulated System 2's policy: done, words, naive or criteria")] = "done",
    virtual: Annotated[bool, typer.Option("--virtual", help="on a virtual clock: no nodes, no physics")] = False,
    out: Annotated[Path, typer.Option(help="folder of results.jsonl, traces, logs, tables and plots")] = Path("out/typego"),
    limit: Annotated[float, typer.Option(min=0, help="stop after so many seconds; the same command goes on later")] = 0.0,
    report: Annotated[bool, typer.Option("--report", help="run nothing: only the tables of what is there")] = False,
) -> None:
    """Run TypeGo's tasks by several strategies on the same skills and models, and judge them by the simulator's truth.

    What broke off goes on where it ended: a trial whose result is in OUT/results.jsonl is not run again.

    Exit status: 0 everything was run, 1 something is left, 2 it could not be begun.
    """
    if virtual:
        model = VIRTUAL if model == SIMULATED else fail("--virtual asks the simulated model; leave --model out")
    try:
        wanted = words(tasks) or (_main_tasks() if virtual else _all_tasks())
        rates, scales = _rates(errors, 1.0), _rates(fast_scales, 100.0)
    except ValueError as error:
        fail(str(error))
    _check(wanted, words(strategies), model, (rates, scales) == ([0.0], [1.0]))
    whole, table = True, ""
    if not report:
        options = _options(error_model, planning) if model in (SIMULATED, VIRTUAL) else {}
        table = _table(options) if model in (SIMULATED, VIRTUAL) else ""
        whole = _run(model, fast_model, trials, wanted, words(strategies), rates, scales, out, limit, table, options)
    from bench.evaluation.report import write_report

    tables = write_report(out, model, fast_model or None) if report else write_report(out, model, fast_model, table)
    for one in tables:
        show(one)
    print(f"tables: {out / 'tables.md'}" if tables else f"no results of the model '{model}' in {out / 'results.jsonl'}")
    raise typer.Exit(0 if whole else 1)


def _main_tasks() -> list[str]:
    from bench.evaluation.tasks import MAIN_TASKS

    return list(MAIN_TASKS)


def _options(error_model: str, planning: str) -> dict[str, Any]:
    """Return the simulated model's options, as its table takes them."""
    from bench.simulated_model.table import ErrorModel, Planning

    given = {"error_model": (error_model, get_args(ErrorModel)), "planning": (planning, get_args(Planning))}
    for name, (value, known) in given.items():
        if value not in known:
            fail(f"--{name.replace('_', '-')} is '{value}'; use one of {', '.join(known)}")
    return {name: value for name, (value, _) in given.items()}


def _all_tasks() -> list[str]:
    from bench.evaluation.tasks import CHINESE, TASKS

    return [task for task in TASKS if task not in CHINESE]


def _check(tasks: Sequence[str], strategies: Sequence[str], model: str, plain: bool) -> None:
    from bench.evaluation.runner import BLIND
    from bench.evaluation.tasks import TASKS
    from planners.strategy import strategy_names

    for given, known, what in ((tasks, TASKS, "task"), (strategies, (*strategy_names(), BLIND), "strategy")):
        for name in given:
            if name not in known:
                fail(f"there is no {what} '{name}'; there is: {', '.join(known)}")
    if model not in (SIMULATED, VIRTUAL) and not plain:
        fail("--errors and --fast-scales are those of the simulated model; leave them out or leave --model out")


def _table(options: dict[str, Any]) -> str:
    """Return the hash of the simulated model's table with these options."""
    from bench.evaluation.models import table_hash
    from bench.simulated_model.table import TableError

    try:
        return table_hash(**options)
    except TableError as error:
        fail(str(error))


def _run(
    model: str,
    fast_model: str,
    trials: int,
    tasks: Sequence[str],
    strategies: Sequence[str],
    errors: Sequence[float],
    fast_scales: Sequence[float],
    out: Path,
    limit: float,
    table: str,
    options: dict[str, Any],
) -> bool:
    from bench.evaluation.runner import Plan, Results

    plan = Plan(tasks, strategies, trials, errors, fast_scales, model, fast_model, table)
    results = Results(out / "results.jsonl")
    if model == VIRTUAL:
        return _run_virtually(plan, results, limit, options)
    # A domain of this run's own, unless one was chosen: no other robot is meant.
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))
    os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
    try:
        from bench.evaluation.models import ModelProcessError, Models, simulated
        from bench.evaluation.robot import brought_up
        from bench.evaluation.runner import run
        from bench.evaluation.settings import settings
        from ghostshell_ros.launcher import LaunchError
        from ghostshell_ros.runtime.data import config_folder
    except ImportError as error:
        fail(f"needs the ROS packages and the simulator ({error}); run make setup and the command as ./ghostshell")
    log = out / "nodes.log"

    @contextmanager
    def bring_up(data: Path, error: float, scale: float) -> Iterator[Robot]:
        with ExitStack() as stack:
            models = Models(model, fast_model)
            if model == SIMULATED:
                words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
                models = stack.enter_context(simulated(error, scale, SEED, out / "model.log", words))
            folder = settings(config_folder(), data / "config", models.entries)
            arguments = {"model": models.model, "config_dir": str(folder)}
            if fast := fast_model or models.fast_model:
                arguments["fast_model"] = fast
            yield stack.enter_context(brought_up(arguments, data, log))

    try:
        return run(plan, results, bring_up, lambda line: print(line, flush=True), limit_s=limit)
    except (ModelProcessError, LaunchError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        print("broken off; the same command goes on from here", file=sys.stderr)
        return False


def _run_virtually(plan: Plan, results: Results, limit: float, options: dict[str, Any]) -> bool:
    from bench.evaluation.runner import Key, run
    from bench.evaluation.tasks import TASKS, setting
    from bench.evaluation.virtual import VirtualRobot
    from bench.simulated_model.__main__ import FAST
    from bench.simulated_model.table import load_table
    from bench.simulated_model.where import default_table

    @contextmanager
    def bring_up(data: Path, error: float, scale: float) -> Iterator[VirtualRobot]:
        scales = {FAST: scale} if scale != 1.0 else {}
        yield VirtualRobot(
            load_table(default_table()).with_options(errors=error, scales=scales, **options), data, remembers=True
        )

    def perform(robot: VirtualRobot, key: Key) -> tuple[Trace, Collection[int]]:
        aware, seed = key.planner == key.strategy, f"{SEED} {key.task} {key.trial}"
        return robot.perform(TASKS[key.task], setting(key.task, key.trial), key.planner, cost_aware=aware, seed=seed)

    try:
        return run(plan, results, bring_up, lambda line: print(line, flush=True), perform=perform, limit_s=limit)
    except KeyboardInterrupt:
        print("broken off; the same command goes on from here", file=sys.stderr)
        return False


def _rates(text: str, most: float) -> list[float]:
    """Check the options; raise ValueError."""
    rates = [float(word) for word in words(text)]
    if not rates or not all(0.0 <= rate <= most for rate in rates):
        raise ValueError(f"'{text}' is no list of numbers from 0 to {most:g}, such as 0,0.1,0.2")
    return rates
