# SPDX-License-Identifier: Apache-2.0
"""Test the common part of the benchmarks: percentiles, targets, the report, and the loop on the steady clock."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from bench import common
from bench.common import Table, Target, percentile, report, spread_of
from bench.loop import Loop


def test_percentiles_are_measured_values() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (50.0, 99.0, 100.0)
    assert percentile([7.0], 99) == 7.0
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_spread_is_in_milliseconds() -> None:
    expected = {"min_ms": 1.0, "median_ms": 2.0, "p99_ms": 3.0, "max_ms": 3.0, "trials": 3}
    assert spread_of([0.001, 0.002, 0.003]) == expected


def test_a_target_is_a_bound_from_above_or_below() -> None:
    assert Target("t", 1.0, 2.0).met and not Target("t", 3.0, 2.0).met
    assert Target("t", 3.0, 2.0, least=True).met and not Target("t", 1.0, 2.0, least=True).met


def test_the_report_prints_a_table_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "OUT", tmp_path)
    table = Table("times [ms]", ("what", "value"), [["a [b]", 1.5], ["none", None]])
    path = report("x", {"figures": [1]}, [table], [Target("speed", 3.0, 2.0, "ms")])
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["bench"] == "x" and document["figures"] == [1] and document["machine"]["cores"] >= 1
    assert document["targets"][0]["met"] is False
    shown = capsys.readouterr().out
    assert "times [ms]" in shown and "a [b]" in shown and "MISSED" in shown
    report("x", {"figures": [1]}, [table], as_json=True)
    assert json.loads(capsys.readouterr().out)["figures"] == [1]


def test_the_loop_serves_posts_from_other_threads_and_timers_in_order() -> None:
    loop, seen = Loop(), []
    loop.call_later(0.0, lambda: seen.append("timer"))
    cancelled = loop.call_later(0.0, lambda: seen.append("cancelled"))
    cancelled.cancel()
    threading.Thread(target=lambda: loop.post(lambda: seen.append("post"))).start()
    assert loop.run_until(lambda: len(seen) == 2, 5.0)
    assert sorted(seen) == ["post", "timer"]
    assert not loop.run_until(lambda: False, 0.0)
