# SPDX-License-Identifier: Apache-2.0
"""The paper's 34 tasks, scored with its Behavioral Correctness Metric: our reference streams, the offline command parser
as a baseline, or a real model (`--model openai:gpt-4.1`, several `--trials`). The subjective ones are scored where somebody
judges them (`--judge person`, or a model). `--moving` has the references performed by the simulated robot as well."""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.common import OUT, ROOT, Table, Target, arguments, report
from bench.mutations import equivalent, mutants
from bench.performing import Performance, Robot, ask, perform
from bench.rubric import Judge, JudgeError, by_model, by_person
from bench.scoring import NEUTRAL, Score, Task, TaskFile, score
from function_tokens.routines import RoutineStore
from planners.language.client import OfflineClient
from planners.models.base import ModelClient
from planners.models.config import ConfigError, load_models, parse_spec
from planners.models.factory import make_client
from planners.prompts.prompt import PROMPTS, RobotFacts
from skill_kernel.codes import Outcome

TASKS = Path(__file__).resolve().parent / "coco_tasks.yaml"
PAPER = {"Claude-4-Sonnet": 0.85, "GPT-4.1": 0.83, "DeepSeek-V3": 0.66, "Doubao-Seed-1.6": 0.65}
"""GhostShell table 1, averages over its 34 tasks: judged by people on the real robot, on its own definitions."""


def offline(store: RoutineStore, robot: Robot) -> ModelClient:
    """Return the offline parser over CoCo's skills."""
    return OfflineClient(RobotFacts(robot.config.name, "", robot.registry, robot.options), store)


def measure(
    tasks: TaskFile, robot: Robot, contestants: dict[str, Any], trials: int, judge: Judge | None = None, *, prompt: str = "full"
) -> dict[str, dict[str, Any]]:
    """Scores of each contestant by task, none for a subjective one without a judge. A contestant is None (the reference stream)
    or what `ask` takes, as it takes `prompt`."""
    results: dict[str, dict[str, Any]] = {}
    for name, client in contestants.items():
        by_task: dict[str, Any] = {}
        for task in (t for t in tasks.tasks if t.kind == "objective" or judge is not None):
            runs = [
                perform(task, task.reference, robot) if client is None else ask(task, client, robot, prompt=prompt)
                for _ in range(1 if client is None or name == "offline" else trials)
            ]
            by_task[task.name] = [_as_json(task, run, _score(task, run, tasks, judge)) for run in runs]
        results[name] = by_task
    return results


def _score(task: Task, run: Performance, tasks: TaskFile, judge: Judge | None) -> Score:
    rated = judge(task, run.calls) if judge is not None and task.kind == "subjective" else None
    return score(task, run.calls, tasks.classes, run.error, rated=rated)


def measure_moving(tasks: TaskFile, judge: Judge | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Have the simulated robot perform the references: their scores, and how many of the calls the body bore out."""
    from bench.body import SLACK_S
    from bench.evaluation.faults import HungError
    from bench.moving import answers, coco
    from bench.moving import perform as perform_moving

    by_task: dict[str, Any] = {}
    body: dict[str, Any] = {"calls": 0, "borne_out": 0, "faults": []}
    with coco(answers(tasks.tasks), OUT / "coco_moving.log") as (robot, heard):
        for task in tasks.tasks:
            try:
                calls = perform_moving(robot, heard, task)
            except HungError as error:
                raise SystemExit(f"{task.name}: {error}; {OUT / 'coco_moving.log'} says more") from error
            begun = [c for c in calls if c.start_s is not None and c.function not in NEUTRAL]
            belied = [c for c in begun if c.outcome not in (Outcome.DONE, Outcome.INTERRUPTED)]
            body["calls"] += len(begun)
            body["borne_out"] += len(begun) - len(belied)
            body["faults"] += [f"{task.name}: {c.function}: {c.error}" for c in belied]
            told = ""
            if task.kind == "objective" or judge is not None:
                rated = judge(task, calls) if judge is not None and task.kind == "subjective" else None
                scored = score(task, calls, tasks.classes, rated=rated, slack_s=SLACK_S)
                by_task[task.name] = [_as_json(task, Performance(calls), scored)]
                told = f" {scored.bcm(task):.1f} {'; '.join((*scored.missing, *scored.faults))}"
            print(f"{task.name}:{told}", file=sys.stderr, flush=True)
    return by_task, body


def mutation_scores(tasks: TaskFile, robot: Robot) -> dict[str, Any]:
    """Return how many mutants of the objective tasks' reference streams score less than 1.0; equivalent ones are left out."""
    counts = {"mutants": 0, "equivalent": 0, "scored_less": 0}
    survivors: list[str] = []
    for task in (t for t in tasks.tasks if t.kind == "objective"):
        original = perform(task, task.reference, robot)
        for what, stream in mutants(task.reference, robot):
            mutant = perform(task, stream, robot)
            counts["mutants"] += 1
            if equivalent(original, mutant, tasks.classes):
                counts["equivalent"] += 1
            elif score(task, mutant.calls, tasks.classes, mutant.error).correctness < 1.0:
                counts["scored_less"] += 1
            else:
                survivors.append(f"{task.name}: {what}")
    return {**counts, "survivors": survivors}


def average(by_task: dict[str, Any], tasks: Sequence[Task]) -> float:
    """Mean normalised BCM over tasks and trials."""
    return statistics.fmean(run["bcm"] for task in tasks for run in by_task[task.name])


def main() -> int:
    """Measure, print, write out/bench/coco_tasks.json."""
    parser = arguments(__doc__)
    parser.add_argument("--model", default="", help="provider:model, as for the planner; default: references and offline")
    parser.add_argument("--trials", type=int, default=3, help="answers of a model a task (default 3, as in the paper)")
    parser.add_argument("--prompt", choices=tuple(PROMPTS), default="full", help="what a model is shown of the functions")
    parser.add_argument("--judge", default="", help="who judges the subjective tasks: person, or provider:model")
    parser.add_argument(
        "--moving", action="store_true", help="have the simulated robot perform the references too (10 minutes)"
    )
    parser.add_argument("--mutations", action=argparse.BooleanOptionalAction, default=True, help="mutate the references")
    options = parser.parse_args()
    robot, tasks = Robot.coco(), TaskFile.load(TASKS)
    contestants: dict[str, Any] = {"reference": None, "offline": lambda store: offline(store, robot)}
    judge = by_person() if options.judge == "person" else None
    try:
        models = load_models(ROOT / "config" / "models.yaml")
        if options.model:
            config = parse_spec(options.model, models)
            contestants[config.name] = make_client(config, offline=lambda: parser.error("offline always runs"))
        if options.judge and judge is None:
            judge = by_model(
                make_client(parse_spec(options.judge, models), offline=lambda: parser.error("offline is no judge"))
            )
        results = measure(tasks, robot, contestants, max(1, options.trials), judge, prompt=options.prompt)
        body = None
        if options.moving:
            contestants["moving"] = None
            results["moving"], body = measure_moving(tasks, judge)
    except (ConfigError, JudgeError) as error:
        parser.error(str(error))
    mutations = mutation_scores(tasks, robot) if options.mutations else None
    names = list(contestants)
    rows: list[list[object]] = [
        [t.name, t.kind, t.pattern, t.language, t.size, *(_shown(results[n].get(t.name, ())) for n in names)]
        for t in tasks.tasks
    ]
    averages = {
        kind: {n: average(results[n], [t for t in tasks.tasks if kind in ("all", t.kind)]) for n in names}
        for kind in (("objective", "subjective", "all") if judge is not None else ("objective",))
    }
    rows += [[f"average, {kind}", "", "", "", "", *(f"{a[n]:.2f}" for n in names)] for kind, a in averages.items()]
    tables = [
        Table("BCM by task", ("task", "kind", "pattern", "lang", "|A|", *names), rows),
        Table(
            "beside it: averages of the paper (judged by people on the real robot; other definitions of the tasks)",
            ("paper's model", "BCM"),
            [[n, v] for n, v in PAPER.items()],
        ),
    ]
    targets = [Target("reference streams, lowest BCM", _lowest(results["reference"]), 1.0, least=True)]
    if mutations is not None:
        rest = mutations["mutants"] - mutations["equivalent"]
        print_row = [[mutations["mutants"], mutations["equivalent"], rest, mutations["scored_less"]]]
        tables.append(Table("mutants of the references", ("all", "equivalent", "others", "score < 1.0"), print_row))
        targets.append(Target("mutants that still score 1.0", float(len(mutations["survivors"])), 0.0))
    if body is not None:
        tables.append(Table("calls on the moving robot", ("begun", "borne out"), [[body["calls"], body["borne_out"]]]))
        tables.append(Table("what the body did not bear out", ("task, function, why",), [[fault] for fault in body["faults"]]))
    measured = {
        "scores": results,
        "body": body,
        "averages": averages,
        "mutations": mutations,
        "paper": {"averages": PAPER, "source": "GhostShell, table 1; manual assessment on the real robot"},
        "note": "structural scores of schedules on a virtual clock; the offline parser knows direct commands only",
    }
    report("coco_tasks", measured, tables, targets, as_json=options.json)
    return 0


def _as_json(task: Task, run: Performance, scored: Score) -> dict[str, Any]:
    return {
        "bcm": scored.bcm(task),
        "raw": scored.raw(task),
        "level": task.level,
        "held": scored.held,
        "of": scored.of,
        "missing": list(scored.missing),
        "faults": list(scored.faults),
        "error": run.error,
        "stream": run.stream,
    }


def _shown(runs: Sequence[dict[str, Any]]) -> str:
    return " ".join(f"{run['bcm']:.1f}" for run in runs) or "not judged"


def _lowest(by_task: dict[str, Any]) -> float:
    return min(run["bcm"] for runs in by_task.values() for run in runs)


if __name__ == "__main__":
    sys.exit(main())
