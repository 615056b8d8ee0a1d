# SPDX-License-Identifier: Apache-2.0
"""The simulated model as named models, with the prices of its table."""

from __future__ import annotations

from bench.simulated_model.table import load_table
from bench.simulated_model.where import default_table
from planners.models.config import ModelConfig

PORT = 8741
"""Port on 127.0.0.1 where `ghostshell simulated-model` listens by default."""


def entry(row: str, url: str) -> ModelConfig:
    """Return the configuration of a row of the table that is served at `url`. Raises TableError."""
    return ModelConfig(provider="openai", model=row, base_url=url, prices=load_table(default_table()).rows[row].prices)


def simulated() -> ModelConfig:
    """Return the model of the planning layers."""
    return entry("planner", f"http://127.0.0.1:{PORT}/v1")


def simulated_fast() -> ModelConfig:
    """Return the model of the first action."""
    return entry("fast", f"http://127.0.0.1:{PORT}/v1")
