# SPDX-License-Identifier: Apache-2.0
"""Score the local model beside the offline parser: on 200 paraphrases and 100 instructions for skills that were not trained on,
and on the paper's 34 tasks, of which those are scored that need no judge. The model is served here and bound to the grammar."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.bench_coco_tasks import TASKS, average, measure
from bench.bench_coco_tasks import offline as offline_for_tasks
from bench.common import Table, percentile, report
from bench.performing import SETTINGS, Robot
from bench.scoring import TaskFile
from planners.language.client import OfflineClient
from planners.models.base import CancelToken, ModelClient, ModelError, TextDelta
from planners.models.factory import make_client
from planners.strategies.stream.stream_planner import StreamPlanner
from training.pairs import Pair, held_out_paraphrases, held_out_skills
from training.robots import robot
from training.serving import local, serve
from training.streams import same, stream_reward

SHORT = {**SETTINGS, "prompt": "short", "max_output_tokens": 200, "deadline_s": 120.0}
SETS = ("paraphrases", "skills", "tasks")
PATIENT = {"first_token_s": 120.0, "silence_s": 60.0}
"""Waits [s] on a machine that does something else besides."""


def answer(client: ModelClient, pair: Pair) -> tuple[str, float, float, str]:
    """Return a contestant's stream, the seconds to its first token and to its end, and why it gave none."""
    request = StreamPlanner(robot(pair.robot).facts, list, SHORT).begin(pair.instruction)
    began, first, said = time.monotonic(), 0.0, ""
    try:
        for event in client.stream(replace(request, deadline_s=120.0), cancel=CancelToken()):
            if isinstance(event, TextDelta):
                first = first or time.monotonic() - began
                said += event.text
    except ModelError as error:
        return "", 0.0, time.monotonic() - began, error.code.name
    return said, first, time.monotonic() - began, ""


def scored(pairs: Sequence[Pair], client_of: Callable[[Pair], ModelClient]) -> dict[str, Any]:
    """Return how many instructions were carried out rightly, with all answers. What a robot cannot do is to be refused."""
    answers: list[dict[str, Any]] = []
    # Those of one robot follow one another: the server has read its prompt then.
    for pair in sorted(pairs, key=lambda one: one.robot):
        said, first_s, whole_s, error = answer(client_of(pair), pair)
        body = robot(pair.robot)
        refused = pair.kind == "cannot" and error == "MODEL_NOT_UNDERSTOOD"
        right = refused or same(said, pair.stream, body, pair.also)
        answers.append(
            {
                "robot": pair.robot,
                "kind": pair.kind,
                "instruction": pair.instruction,
                "reference": pair.stream,
                "answer": said or error,
                "right": right,
                "reward": 4.0 if right else stream_reward(said, pair.stream, body),
                "first_s": first_s,
                "whole_s": whole_s,
            }
        )
    kinds = sorted({pair.kind for pair in pairs})
    return {
        "right": sum(one["right"] for one in answers),
        "of": len(answers),
        "refused": sum(one["answer"] == "MODEL_NOT_UNDERSTOOD" for one in answers),
        "reward": round(sum(one["reward"] for one in answers) / len(answers), 2),
        "kinds": {kind: [sum(a["right"] for a in answers if a["kind"] == kind), _count(pairs, kind)] for kind in kinds},
        "first_s": round(percentile((one["first_s"] for one in answers), 50), 3),
        "first_95_s": round(percentile((one["first_s"] for one in answers), 95), 3),
        "whole_s": round(percentile((one["whole_s"] for one in answers), 50), 3),
        "answers": answers,
    }


def _whoever(client: ModelClient, _: Pair) -> ModelClient:
    """Return one client for the pairs of all robots."""
    return client


def _count(pairs: Sequence[Pair], kind: str) -> int:
    return sum(pair.kind == kind for pair in pairs)


def main() -> int:
    """Measure, print, write out/bench/local_model.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the JSON instead of the tables")
    parser.add_argument("--adapter", type=Path, help="GGUF file of the adapter")
    parser.add_argument("--base", action="store_true", help="score the model without an adapter, too")
    parser.add_argument("--threads", type=int, default=2, help="processor cores of the model")
    parser.add_argument("--pairs", type=int, default=200, help="paraphrases; half as many of other skills")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS, help="what to score; default: all")
    chosen = parser.parse_args()
    sets = {"paraphrases": held_out_paraphrases(chosen.pairs), "skills": held_out_skills(max(1, chosen.pairs // 2))}
    sets = {name: pairs for name, pairs in sets.items() if name in chosen.sets}
    tasks, coco = TaskFile.load(TASKS), Robot.coco()
    objective = [task for task in tasks.tasks if task.kind == "objective"]
    results: dict[str, Any] = {}

    def of_offline(pair: Pair) -> ModelClient:
        return OfflineClient(robot(pair.robot).facts)

    results["offline"] = {name: scored(pairs, of_offline) for name, pairs in sets.items()}
    if "tasks" in chosen.sets:
        told = measure(tasks, coco, {"offline": lambda store: offline_for_tasks(store, coco)}, 1)["offline"]
        results["offline"]["tasks"] = {"bcm": average(told, objective), "by_task": told}
    contestants = {"local": chosen.adapter} if chosen.adapter else {}
    for name, adapter in {**contestants, **({"base": None} if chosen.base else {})}.items():
        server = serve(0, adapter, chosen.threads)
        client = make_client(local().model_copy(update={"base_url": f"{server.listening_address}/v1", **PATIENT}))
        client.prepare()
        results[name] = {part: scored(pairs, partial(_whoever, client)) for part, pairs in sets.items()}
        if "tasks" in chosen.sets:
            told = measure(tasks, coco, {name: client}, 1, prompt="short")[name]
            results[name]["tasks"] = {"bcm": average(told, objective), "by_task": told}
        client.close()
        del server
    report("local_model", {"results": results}, _tables(results, list(sets)), as_json=chosen.json)
    return 0


def _tables(results: dict[str, Any], sets: Sequence[str]) -> list[Table]:
    rows: list[list[object]] = []
    for name, told in results.items():
        for part in sets:
            one = told[part]
            rows.append(
                [name, part, f"{one['right']}/{one['of']}", one["reward"], one["first_s"], one["first_95_s"], one["whole_s"]]
            )
        if "tasks" in told:
            rows.append([name, "BCM of the tasks", f"{told['tasks']['bcm']:.2f}", "", "", "", ""])
    columns = ("who", "what", "right", "mean reward", "first token [s]", "95 %", "answer [s]")
    kinds = [
        [part, kind, *(f"{told[part]['kinds'][kind][0]}/{told[part]['kinds'][kind][1]}" for told in results.values())]
        for part in sets
        for kind in results["offline"][part]["kinds"]
    ]
    return [Table("local model", columns, rows), Table("by kind of instruction", ("set", "kind", *results), kinds)]


if __name__ == "__main__":
    sys.exit(main())
