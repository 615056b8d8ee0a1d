# SPDX-License-Identifier: Apache-2.0
"""The bench of TypeGo's tasks on a real simulated robot: arranged, told, judged by what was true, put back for the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("tf2_msgs.msg", reason="needs tf2_msgs: run make setup")

from bench.evaluation.robot import brought_up
from bench.evaluation.runner import Key, Plan, Results, run
from bench.evaluation.settings import settings
from bench.evaluation.trace import Trace
from ghostshell_ros.runtime.data import config_folder

pytestmark = pytest.mark.slow


@pytest.mark.timeout(240)
def test_a_direct_command_is_done_and_one_that_is_not_understood_is_not(tmp_path: Path) -> None:
    config = settings(config_folder(), tmp_path / "config", {})
    arguments = {"model": "offline", "config_dir": str(config)}
    plan = Plan(("T2", "T4"), ("stream",), 1, (0.0,), (1.0,), "offline")
    results = Results(tmp_path / "results.jsonl")

    assert run(plan, results, lambda data, error, scale: brought_up(arguments, data, tmp_path / "nodes.log"), print)

    nods, picture = results.lines
    assert nods["success"], nods["reasons"]
    assert nods["steps"] == 4 and nods["ttfa_s"] < 1.0 < nods["total_s"] and nods["status"] == "SUCCESS"
    assert not picture["success"] and picture["reasons"] == ["no picture was taken"]
    assert results.done(Key("T4", "stream", 0, model="offline"))
    trace = Trace.read(tmp_path / "traces" / picture["trace"])
    start = trace.poses[0]
    assert (start.x, start.y) == pytest.approx((0.9, 2.3), abs=0.2), "it was put into the kitchen after the task before"
