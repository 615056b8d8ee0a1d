# SPDX-License-Identifier: Apache-2.0
"""Find the committed table of the simulated model."""

from __future__ import annotations

from pathlib import Path


def default_table() -> Path:
    """Return the table that lies in this package."""
    return Path(__file__).resolve().parents[1] / "typego_models.yaml"
