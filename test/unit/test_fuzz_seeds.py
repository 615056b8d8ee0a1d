# SPDX-License-Identifier: Apache-2.0
"""The seeds of the fuzzers, among them what these have found, break no law any more."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "fuzz"
_spec = importlib.util.spec_from_file_location("fuzz", FOLDER / "fuzz.py")
assert _spec is not None and _spec.loader is not None
fuzz = importlib.util.module_from_spec(_spec)
sys.modules["fuzz"] = fuzz
_spec.loader.exec_module(fuzz)

SEEDS = sorted((FOLDER / "corpus").glob("*/*"))


@pytest.mark.parametrize("seed", SEEDS, ids=[f"{seed.parent.name}/{seed.name}" for seed in SEEDS])
def test_a_seed_breaks_no_law(seed: Path) -> None:
    fuzz.TARGETS[seed.parent.name](seed.read_bytes())


def test_every_target_has_seeds_and_every_loader_one() -> None:
    assert {seed.parent.name for seed in SEEDS} == set(fuzz.TARGETS)
    first = {seed.read_bytes()[0] % len(fuzz.LOADERS) for seed in SEEDS if seed.parent.name == "loaders"}
    assert len(first) == len(fuzz.LOADERS)
