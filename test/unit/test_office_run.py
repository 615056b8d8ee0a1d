# SPDX-License-Identifier: Apache-2.0
"""Runs of tasks in the office: by a team and by one agent, with what is hidden from both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.evaluation.virtual_models import Models
from bench.office.collection import AMBIGUOUS, BASIC, DYNAMIC, HELD_OUT, held_out, load
from bench.office.measures import line, unvalidated
from bench.office.run import Run, perform
from bench.office.tasks import Task
from bench.office.variants import VARIANTS, ClientModels, strategy_of
from bench.simulated_model.service import SimulatedModel, serve
from bench.simulated_model.table import load_table
from bench.simulated_model.where import default_table
from bench.virtual_door import settings_of
from planners.models.base import Surroundings
from planners.models.config import parse_spec
from planners.models.factory import make_client

pytestmark = pytest.mark.component

TABLE = load_table(default_table())


def run(task: Task, variant: str = "team", seed: int = 1) -> Run:
    """Run a task once."""
    table = TABLE.with_options(seed=seed)
    strategy = strategy_of(variant)
    settings = settings_of(strategy.parameters, **VARIANTS[variant])
    return perform(task, strategy, settings, lambda clock, hear: Models(SimulatedModel(table), table, clock, hear))


def some(tier: str, number: int, **is_so: object) -> list[Task]:
    """Return some tasks that are not held out, from all over the list."""
    found = [t for t in load() if t.tier == tier and t.id not in held_out()]
    found = [t for t in found if all(getattr(t, name) == value for name, value in is_so.items())]
    return found[:: max(1, len(found) // number)][:number]


def test_list_has_the_papers_numbers_and_no_task_twice() -> None:
    tasks = load()
    tiers = [task.tier for task in tasks]
    assert [tiers.count(t) for t in ("basic", "ambiguous", "dynamic")] == [BASIC, AMBIGUOUS, DYNAMIC]
    assert len({task.id for task in tasks}) == len(tasks) and len(held_out()) == HELD_OUT
    for task in tasks:
        assert Task.read(task.plain()) == task
        assert task.schema["origin"] == [task.sender] and task.sender not in task.absences
        assert (task.masked != "") == (task.tier == "ambiguous") and (not task.masked or task.question)
        assert bool(task.absences) == (task.tier == "dynamic") and bool(task.blocked) == (task.label == "report")
        assert set(task.blocked) <= set(task.absences)


@pytest.mark.parametrize("variant", list(VARIANTS))
def test_variant_brings_a_task_to_its_end_and_nothing_begins_unvalidated(variant: str) -> None:
    for task in some("basic", 3):
        done = run(task, variant)
        figures = line(done)
        assert done.trace.status and figures["tokens"] > 0 and figures["total_s"] > 0
        assert not list(unvalidated(done))


def test_same_seed_gives_the_same_run() -> None:
    task = some("dynamic", 1)[0]
    one, other = (line(run(task, seed=3)) | {"busy_s": 0} for _ in range(2))
    assert one == other


@pytest.mark.parametrize("variant", ["team", "react"])
def test_what_is_not_available_is_in_no_prompt_before_somebody_met_it(variant: str) -> None:
    """Without the absences every prompt is the same, up to the first reply or failure that comes of one."""
    met_any = 0
    for task in some("dynamic", 12):
        hidden, plain = run(task, variant), run(replace(task, absences={}), variant)
        met = [done.ended_s for done in hidden.done if done.failure]
        met += [asked.at_s for asked in hidden.requests if asked.kind == "request"]
        first = min(met, default=float("inf"))
        before = [prompt for prompt in hidden.prompts if prompt[0] < first]
        met_any += len(before) < len(hidden.prompts)
        assert before == plain.prompts[: len(before)] and before
    assert met_any > 0


def test_busy_person_is_replaced_and_what_cannot_be_done_is_reported_by_name() -> None:
    recovered = [line(run(task)) for task in some("dynamic", 6, label="recoverable")]
    reported = [run(task) for task in some("dynamic", 6, label="report")]
    assert sum(figures["success"] for figures in recovered) >= 3
    named = [any(name in done.trace.message for name in done.task.blocked) for done in reported if done.trace.code]
    assert sum(named) >= 3


def test_what_is_left_out_is_asked_of_who_wants_it() -> None:
    asked = [line(run(task)) for task in some("ambiguous", 6)]
    assert sum(figures["questions"] for figures in asked) >= 5 and sum(figures["success"] for figures in asked) >= 3


def test_real_client_is_asked_over_its_protocol() -> None:
    quick = TABLE.with_options(scales=dict.fromkeys(TABLE.rows, 0.001))
    strategy = strategy_of("team")
    with serve(quick) as server:
        client = make_client(parse_spec(f"openai:planner@{server.openai_url}"), surroundings=Surroundings(environ={}))
        make_model = lambda clock, hear: ClientModels(client, clock, hear)  # noqa: E731 - a word for it
        done = perform(some("basic", 1)[0], strategy, settings_of(strategy.parameters), make_model)
        client.close()
    assert done.trace.status and len(done.trace.answers) >= 5
    assert all(answer.prompt_tokens > 100 and answer.completion_tokens > 0 for answer in done.trace.answers)
