# SPDX-License-Identifier: Apache-2.0
"""A dry run ends, whatever times its observations bear and however many they are."""

from __future__ import annotations

import pytest
from guard_corpus import rule
from reflex_kit import vocabulary

from reflexes import dry_run as dry_run_module
from reflexes.dry_run import DryRun, dry_run
from reflexes.rule import LoadedRule, Rule
from skill_kernel.guard.compiler import compile_guarded
from skill_kernel.observation.model import FieldValue, Kind, Observation, Sector


def tried(*stamps: float) -> DryRun:
    source = rule()
    kept = Rule(name="keep_off", sentence="keep off", source=source, model="by hand", created_s=0.0)
    loaded = LoadedRule(kept, compile_guarded(source, vocabulary()))
    return dry_run(loaded, [observation(stamp) for stamp in stamps], vocabulary())


def observation(stamp: float) -> Observation:
    free = FieldValue("obstacles", Kind.SECTORS, (Sector("front", 3.0),), stamp, 1.0)
    return Observation(stamp, 1, stamp, {"obstacles": free})


@pytest.mark.parametrize("stamps", [(1e18, 2e18), (1e18, 1e18 + 512.0), (0.0, 1e300), (1e11, 1e11 + 3.0)])
def test_it_ends_although_a_tick_more_is_the_same_time(stamps: tuple[float, float]) -> None:
    assert tried(*stamps).observations == 2


def test_a_gap_is_counted_once_and_whole() -> None:
    report = tried(0.0, 0.05, 0.35, 20.35)
    assert report.observations == 4 and report.held_s == 0.0
    assert report.unknown_s == pytest.approx(20.0 - 1.0, abs=0.11)


def test_too_many_observations_are_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run_module, "MOST_TICKS", 100)
    report = tried(*(4.0 * n for n in range(50)))
    assert report.observations < 10 and "left out" in report.text()
    assert "left out" not in tried(0.0, 1.0).text()
