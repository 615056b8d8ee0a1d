# SPDX-License-Identifier: Apache-2.0
"""A prompt that the model's context cannot hold is warned of at the start, with the remedy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from planners.models.config import ModelConfig, ModelsFile

pytest.importorskip("rclpy", reason="the node's part is of ROS")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces")

from ghostshell_ros.nodes.action_planner.node import ActionPlanner
from planners.prompts.prompt import RobotFacts


def warnings(context_tokens: int | None) -> list[str]:
    told: list[str] = []
    robot = SimpleNamespace(facts=lambda: RobotFacts("desk", "A robot. " * 400, []), routines=SimpleNamespace(list=list))
    desk = SimpleNamespace(settings={"prompt": "full", "dialect": "xml", "history_tokens": 3000, "max_output_tokens": 2048})
    node: Any = SimpleNamespace(_robot=robot, _desk=desk, get_logger=lambda: SimpleNamespace(warning=told.append))
    config = ModelConfig(provider="openai", model="qwen", base_url="http://127.0.0.1:11434/v1", context_tokens=context_tokens)
    ActionPlanner._check_context(node, config)
    return told


def test_a_context_that_is_too_short_is_warned_of_with_the_remedy() -> None:
    (told,) = warnings(4096)
    assert "4096" in told and "openai:qwen" in told and "OLLAMA_CONTEXT_LENGTH" in told and "history_tokens" in told


@pytest.mark.parametrize("context_tokens", [None, 16_384])
def test_one_that_is_long_enough_or_not_known_is_not(context_tokens: int | None) -> None:
    assert warnings(context_tokens) == []


def test_the_length_is_given_in_the_file_of_models() -> None:
    file = {"default": "a", "models": {"a": {"provider": "openai", "model": "m", "context_tokens": 8192}}}
    assert ModelsFile.model_validate(file).models["a"].context_tokens == 8192
