# SPDX-License-Identifier: Apache-2.0
"""Prompts as no planner writes them: whatever stands in the blocks, the simulated model answers, and its server goes on."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from layer_prompts import JUDGE, S1, S1P, S2, S3, baseline, stream_planner

from bench.baselines import PlanAndExecutePlanner, ReactPlanner
from bench.simulated_model import service
from bench.simulated_model.layers import answer
from bench.simulated_model.model_dialects import RecordedRequest
from bench.simulated_model.prompt import Question
from bench.simulated_model.table import load_table
from bench.simulated_model.where import default_table
from planners.prompts.blocks import block

WORDS = (
    "go to the kitchen look for a ball if you find one then bark take picture of it stop resume when see person otherwise and"
    ' , . left behind report where return start x 0 y 1 sit nod three times every room there is none , say " hello how many'
    " do not turn 90 degrees 5 metres 我 <b> {} ' hallway check what is on your"
).split()
FUNCTIONS = ("goto_waypoint", "search", "approach", "rotate", "take_pic", "text", "sit", "nav", "step", "if", "zzz", None, 3)
ARGUMENTS = ({}, {"waypoint": "mars"}, {"target": "ball"}, {"angle_deg": None}, {"times": 2}, {"x_m": "a"}, [], "s", None)
MESSAGES = ("", "turned 43 of 90 degrees", "walked 0 m of 0 m", None, 5)
SOURCES = (
    "<step><nod/></step>",
    "<step>…",
    "<subtask_complete/>",
    "<a><b>",
    "hello <",
    "<step><else><sit/></else></step>",
    "<step><if cond=\"visible('ball')\"><sit/></if></step>",
    "<step><if><sit/></if></step>",
    4,
    None,
)
FIELDS: dict[str, tuple[Any, ...]] = {
    "pose": ({"x_m": 1, "y_m": 2}, {"stale_s": 3, "last": {"x_m": 1}}, {"missing": "x"}, {"x_m": "a", "y_m": None}, 1),
    "room": ("kitchen", "hallway", {"missing": "n"}, "", None, 3),
    "object_detections": ([], [{"label": "ball", "distance_m": 1.2}], [{"label": 4}], [{}], [1], {"missing": "n"}, "s", None),
    "battery": (10, {"missing": "x"}, "full"),
    "obstacles": ({"front": 0.3, "left": "free"}, {"stale_s": 1}, []),
}


def odd_prompt(r: random.Random) -> str:
    def said(most: int = 25) -> str:
        return " ".join(r.choice(WORDS) for _ in range(r.randrange(most)))

    def call() -> dict[str, Any]:
        return {
            "function": r.choice(FUNCTIONS),
            "arguments": r.choice(ARGUMENTS),
            "message": r.choice(MESSAGES),
            "outcome": r.choice(("DONE", "FAILED", "INTERRUPTED", "DROPPED", "RUNNING", "", None, 7)),
        }

    def step() -> Any:
        return r.choice(({"step": r.choice(SOURCES), "calls": [call()]}, r.choice(SOURCES), call()))

    status = ("DONE", "PENDING", None)
    plan = [{"id": f"t{i}", "description": said(), "status": r.choice(status)} for i in range(r.randrange(4))]
    observed = {name: r.choice(values) for name, values in FIELDS.items() if r.random() < 0.8}
    titles: dict[str, list[Any]] = {
        "TASK": r.choice(([{"instruction": said()}], [], ["text"], [{"instruction": None, "at_start": 3}])),
        "PLAN": plan,
        "SUBTASK": plan[-1:],
        "FIRED": [{"response": said()}] if r.random() < 0.2 else [],
        "DONE": [call() for _ in range(r.randrange(6))] + [3],
        "RUNNING": [step()],
        "QUEUE": [step()],
        "MAY ADD": [r.choice((1, 3, "x", 0))],
        "CONDITION": [r.choice((said(), {"condition": said()}, 3))],
        "INSTRUCTION": [{"instruction": said()}][: r.randrange(2)],
        "PROCESSES": [{"process": "p1"}, {}, 3],
        "GUIDELINES": [{"name": "g", "sentence": said()}, {"sentence": None}],
        "ADDED": [{"sentence": said()}][: r.randrange(2)],
        "OBSERVATION": [observed],
    }
    return "\n".join(block(title, items) for title, items in titles.items() if r.random() < 0.8)


def systems() -> list[str]:
    makers = (baseline(ReactPlanner), baseline(PlanAndExecutePlanner), stream_planner())
    return [S1, S1P, S2, S3, JUDGE, "", "LAYER s1\n", "LAYER nobody\n", *(m.begin("x").system for m in makers)]


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in range(3, 8))])
def test_every_prompt_however_odd_is_answered(seed: int) -> None:
    r, fronts = random.Random(seed), systems()
    for _ in range(60):
        question = Question(r.choice(fronts), (odd_prompt(r),))
        assert answer(question, greedy=r.random() < 0.5)


def test_a_fault_of_the_policy_is_told_and_the_client_is_answered(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> str:
        raise KeyError("a bug")

    monkeypatch.setattr(service, "answer", broken)
    body = {"model": "planner", "messages": [{"role": "system", "content": S1}, {"role": "user", "content": "hello"}]}
    model = service.SimulatedModel(load_table(default_table()))
    assert model(RecordedRequest("/v1/chat/completions", {}, body, time.monotonic())).text == service.APOLOGY
    assert "a bug" in caplog.text
