# SPDX-License-Identifier: Apache-2.0
"""Deadlines of a model stand in models.yaml, and the nodes that ask it take them from there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ghostshell_ros.runtime.model_setup import deadlines_of, declare_settings
from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode
from planners.models.config import Deadlines
from planners.strategy import Parameter

MODELS = """
default: slow
models:
  slow: {provider: openai, model: m, base_url: "http://127.0.0.1:1/v1", deadlines: {steps_s: 90, first_action_s: 0}}
  fast: {provider: openai, model: m, base_url: "http://127.0.0.1:1/v1", deadlines: {first_action_s: 1.5}}
"""


def node_with(folder: Path, **parameters: str) -> RuntimeNode:
    """Return a node of these parameters, whose changes nobody watches."""
    file = folder / "models.yaml"
    file.write_text(MODELS, encoding="utf-8")
    values: dict[str, Any] = {"models_file": str(file), "fast_model": "", **parameters}
    return cast(
        "RuntimeNode",
        SimpleNamespace(
            has_parameter=values.__contains__,
            get_parameter=lambda name: SimpleNamespace(value=values[name]),
            declare=lambda name, default, *_, **__: values.get(name, default),
            add_post_set_parameters_callback=lambda _: None,
        ),
    )


def test_deadlines_are_those_of_the_model_that_is_named(tmp_path: Path) -> None:
    node = node_with(tmp_path, model="slow")
    assert deadlines_of(node, "model") == Deadlines(steps_s=90, first_action_s=0)
    assert deadlines_of(node, "fast_model", "model").first_action_s == 0
    assert deadlines_of(node_with(tmp_path, model="slow", fast_model="fast"), "fast_model", "model").first_action_s == 1.5
    recorded = node_with(tmp_path, model=f"record:{tmp_path}/a.jsonl=slow")
    assert deadlines_of(recorded, "model").steps_s == 90


def test_a_parameter_that_is_given_goes_before_the_models_own(tmp_path: Path) -> None:
    parameters = [Parameter("step_deadline_s", 20.0, "time [s]"), Parameter("queue_steps", 3, "steps")]
    assert declare_settings(node_with(tmp_path), parameters, step_deadline_s=90.0) == {
        "step_deadline_s": 90.0,
        "queue_steps": 3,
    }
    given = node_with(tmp_path, step_deadline_s=cast("str", 4.0))
    assert declare_settings(given, parameters, step_deadline_s=90.0)["step_deadline_s"] == 4.0


def test_an_unknown_model_keeps_the_node_from_starting(tmp_path: Path) -> None:
    with pytest.raises(NodeStartError, match="parameter model: 'slwo' names no model; did you mean 'slow'"):
        deadlines_of(node_with(tmp_path, model="slwo"), "model")
