# SPDX-License-Identifier: Apache-2.0
"""Runs of CLEA's trials on a virtual clock: what is measured, and that all variants meet the same."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner

from bench.clea.kitchen import ATLAS, HEBE, Kitchen
from bench.clea.measures import kind_of, line
from bench.clea.tables import tables
from bench.clea.trials import TRIALS, Disturbance, Setting, setting
from bench.clea.virtual import VARIANTS, Run, VirtualTeam
from bench.commands.clea import FIRST_SEED
from bench.commands.evaluate import bench
from bench.evaluation.models import table_hash
from bench.evaluation.propositions import Moment, evaluate
from bench.evaluation.trace import Call, ModelAnswer, Trace
from bench.simulated_model.model_dialects import RecordedRequest
from bench.simulated_model.service import SimulatedModel
from bench.simulated_model.table import load_table
from bench.simulated_model.where import default_table

pytestmark = pytest.mark.component

THINGS = {"orange": "table", "vitamins": "drawer_middle", "tea": "fridge", "apple": "table", "hamburger": "oven"}
ORANGE = [(HEBE, "pick_from", {"object": "orange", "space": "table"}), (HEBE, "go_to", {"point": "in_front_of_sink"})]
ORANGE += [(HEBE, "release_to", {"space": "sink"})]
VITAMINS = [(ATLAS, "open", {"what": "drawer_middle"}), (ATLAS, "pick_from", {"object": "vitamins", "space": "drawer_middle"})]
VITAMINS += [(ATLAS, "release_to", {"space": "trash_can"})]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> VirtualTeam:
    return VirtualTeam(load_table(default_table()), tmp_path_factory.mktemp("clea"))


def done(*acts: tuple[str, str, dict[str, str]], moved: str = "") -> list[Moment]:
    """Return what was true while somebody did M3, and at last somebody moved the orange."""
    kitchen = Kitchen(dict(THINGS))
    moments = [Moment(0.0, frozenset(kitchen.facts()))]
    for act in acts:
        assert not kitchen.attempt(*act)
        moments.append(Moment(float(len(moments)), frozenset(kitchen.facts())))
    if moved:
        kitchen.put("orange", moved)
        moments.append(Moment(99.0, frozenset(kitchen.facts())))
    return moments


@pytest.mark.parametrize(
    ("moments", "complete", "success"),
    [
        (done(), 0.0, False),
        (done(*ORANGE[:1]), 1 / 5, False),
        (done(*ORANGE), 2 / 5, False),
        (done(*ORANGE, *VITAMINS[:2]), 4 / 5, False),
        (done(*ORANGE, *VITAMINS), 1.0, True),
        (done(*ORANGE, *VITAMINS, moved="table"), 4 / 5, False),
    ],
)
def test_scores_of_golden_logs(moments: list[Moment], complete: float, success: bool) -> None:
    report = evaluate(TRIALS["M3"].criterion, moments)
    assert report.complete == pytest.approx(complete) and report.success is success


def test_all_variants_meet_the_same_world_disturbance_and_mistakes(team: VirtualTeam) -> None:
    trial, seed = TRIALS["M3"], 5
    assert setting(trial, seed).disturbance.kind == "moved"
    runs = {variant: team.perform(trial, seed, variant) for variant in VARIANTS}
    assert len({runs[v].moments[0].facts for v in runs}) == 1
    assert all(len(run.happened) == 1 for run in runs.values())
    begun = [[c.arguments for c in runs[v].trace.calls[:1]] for v in ("full", "on_doubt", "no_critic")]
    assert begun[0] == begun[1] == begun[2] != [[]]
    again = team.perform(trial, seed, "full")
    assert again.trace.calls == runs["full"].trace.calls and again.notices == runs["full"].notices
    lines = [{**line(run, trial), "trial": "M3", "seed": seed, "variant": v, "kind": "moved"} for v, run in runs.items()]
    for told in lines:
        assert (told["moved_though_rejected"], told["invalid_at_driver"]) == (0, 0)
    asked = {told["variant"]: told["asked"].get("critic", 0) for told in lines}
    assert asked["full"] >= lines[0]["actions"] > asked["on_doubt"] and asked["no_critic"] == asked["open_loop"] == 0
    assert len(tables(lines)) == 6


@pytest.mark.parametrize(("hidden", "plans"), [("drawer_top", 2), ("fridge", 1)])
def test_the_baseline_plans_anew_once_after_an_error_and_only_then(team: VirtualTeam, hidden: str, plans: int) -> None:
    world = Setting({**setting(TRIALS["I1"], 0).things, "tea": hidden}, Disturbance("nothing"))
    # A model without mistakes supposes the tea in the fridge.
    run = team.perform(TRIALS["I1"], 2, "open_loop", world)
    failed = [c for c in run.trace.calls if c.outcome == "FAILED"]
    assert sum(a.layer == "planner" for a in run.trace.answers) == plans and bool(failed) is (plans == 2)
    assert not any(a.layer in ("critic", "observer", "summarizer") for a in run.trace.answers)


def test_a_thing_that_is_moved_in_the_last_half_second_is_reached_for_by_nobody_but_who_has_no_critic(
    team: VirtualTeam,
) -> None:
    trial = TRIALS["M1"]
    # The second action opens the fridge; the third one would take the tea.
    world = Setting(setting(trial, 0).things, Disturbance("moved", 2, "tea", ("sink",)))
    runs = {variant: team.perform(trial, 0, variant, world) for variant in ("full", "on_doubt", "no_critic")}
    failed = {v: [c.told for c in run.trace.calls if c.outcome == "FAILED"] for v, run in runs.items()}
    assert failed == {"full": [], "on_doubt": [], "no_critic": ["the tea is not in fridge"]}
    for run in runs.values():
        (at, what), opened = run.happened[0], run.trace.calls[1]
        assert what == "somebody moved the tea to sink" and opened.function == "open"
        assert 0.0 < opened.ended - at < 0.6 and evaluate(trial.criterion, run.moments).success
    for variant in ("full", "on_doubt"):
        assert [kind_of(text) for _, layer, text in runs[variant].notices if layer == "critic"] == ["outdated"]


class Asked:
    """Keep what the critic was asked."""

    def __init__(self) -> None:
        self.requests: list[RecordedRequest] = []

    def __call__(self, model: SimulatedModel, request: RecordedRequest) -> Any:
        if "LAYER critic" in request.prompt and '\n- "pick_from' in request.prompt.rpartition("ACTION")[2]:
            self.requests.append(request)
        return ANSWER(model, request)


ANSWER = SimulatedModel.__call__


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    kept = Asked()
    monkeypatch.setattr(SimulatedModel, "__call__", lambda model, request: kept(model, request))
    yield kept


def blank(request: RecordedRequest) -> RecordedRequest:
    """Return the request with all its pictures black."""
    written = io.BytesIO()
    Image.new("RGB", (320, 240)).save(written, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"
    system, user = request.body["messages"]
    parts = [{**p, "image_url": {"url": url}} if p["type"] == "image_url" else p for p in user["content"]]
    return replace(request, body={**request.body, "messages": [system, {**user, "content": parts}]})


def test_the_critic_goes_by_the_pixels(team: VirtualTeam, asked: Asked) -> None:
    team.perform(TRIALS["M3"], 4, "full", Setting(setting(TRIALS["M3"], 4).things, Disturbance("nothing")))
    assert asked.requests and all(len(request.images) == 2 for request in asked.requests)
    sure = SimulatedModel(team.table)
    seen = [request for request in asked.requests if "Suitability: True" in ANSWER(sure, request).text]
    assert seen
    for request in seen:
        told = ANSWER(sure, blank(request)).text
        assert "Suitability: False" in told and "nothing can be made out" in told


def test_rejections_have_the_reasons_of_table_two() -> None:
    said = {
        'open(robot="hebe", what="oven") was rejected (world): oven is open already': "redundant",
        'pick_from(robot="hebe", object="tea", space="fridge") was rejected (model): the tea is not in fridge': "outdated",
        'pick_from(robot="hebe", object="tea", space="fridge") was rejected (world): tea is in sink, not in fridge': "outdated",
        'grasp(robot="hebe") was rejected (static): there is no function': "invalid",
        "no plan could be read: the answer of the model could not be used twice": "invalid",
        'release_to(robot="hebe", space="sink") was rejected (world): the hand of hebe is empty': "wrong",
        "the task is not done, though “done” was claimed: the tea is not in sink": "claim",
        'go_to(robot="hebe", point="in_front_of_oven") was rejected (model): it does not serve the task now': "other",
    }
    assert {text: kind_of(text) for text in said} == said


@pytest.mark.parametrize(
    ("started", "ended", "moved"), [(4.0, 6.0, 1), (5.5, 9.0, 1), (1.0, 2.0, 0), (8.0, 9.0, 0), (math.inf, 0, 0)]
)
def test_a_rejected_action_that_ran_would_be_counted(started: float, ended: float, moved: int) -> None:
    run = Run(Trace(asked=0.0, end=10.0), done())
    run.trace.answers.append(ModelAnswer("p1", "planner", 7.0, 1.0, 0, 0, 0, 0.0))
    run.notices.append((5.0, "critic", 'open(robot="hebe", what="oven") was rejected (world): oven is open already'))
    if math.isfinite(started):
        run.trace.calls.append(Call("p1", "open", {"robot": "hebe", "what": "oven"}, (), started, ended, "DONE"))
    assert line(run, TRIALS["M3"])["moved_though_rejected"] == moved


def test_idle_time_is_what_no_model_and_no_robot_fills() -> None:
    run = Run(Trace(asked=0.0, end=10.0), done())
    for started, ended in ((0.0, 2.0), (1.0, 3.0), (6.0, 7.0)):
        run.trace.calls.append(Call("p1", "open", {"robot": "hebe", "what": "oven"}, (), started, ended, "DONE"))
    run.trace.answers += [ModelAnswer("p1", layer, 5.0, 1.5, 0, 0, 0, 0.0) for layer in ("observer", "planner")]
    assert line(run, TRIALS["M3"])["idle_s"] == [pytest.approx(1.5)]


def test_the_command_writes_tables_of_what_is_there_and_runs_nothing_twice(tmp_path: Path) -> None:
    def bench_clea(*words: str) -> tuple[int, str]:
        told = CliRunner().invoke(bench, ["clea", "--out", str(tmp_path), "--trials", "1", "--tasks", "M3", *words])
        return told.exit_code, told.output

    assert bench_clea("--report")[0] == 2 and bench_clea("--critic", "sometimes")[0] == 2
    assert bench_clea("--tasks", "M9")[0] == 2 and bench_clea("--model", "openai:any")[0] == 2
    run = Run(Trace(asked=0.0, end=10.0, status="SUCCESS"), done(*ORANGE, *VITAMINS))
    key = {"trial": "M3", "seed": FIRST_SEED, "setup": table_hash(), "kind": "nothing"}
    kept = [json.dumps({**key, "variant": variant, **line(run, TRIALS["M3"])}) for variant in VARIANTS]
    (tmp_path / "results.jsonl").write_text("\n".join(kept) + "\n")
    code, output = bench_clea()
    assert code == 0 and "100.0 [20.7, 100.0] (1)" in output and "open loop" in (tmp_path / "tables.md").read_text()
    assert bench_clea("--report", "--trials", "2")[0] == 1, "half of it is not run"
