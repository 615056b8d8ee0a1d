# SPDX-License-Identifier: Apache-2.0
"""The generator and the independent planner of the office's tasks, on a sample of the list."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("unified_planning", reason="pip install -r requirements/office.txt")
pytest.importorskip("up_pyperplan")

from bench.office.collection import load
from bench.office.generator import proven
from bench.office.oracle import solve
from bench.office.tasks import Task

AGAIN = """
import itertools, json
from bench.office.generator import asks_in, basic
from dataclasses import replace
for bound, plan in itertools.islice(basic(number_of_offices=1), 3):
    print(json.dumps(replace(bound.task, asks=asks_in(plan)).plain(), sort_keys=True))
"""


def test_planner_finds_a_plan_that_the_simulator_carries_out() -> None:
    tasks = [task for task in load() if task.label == "recoverable" and task.family in ("fetch", "print", "store", "place")]
    for task in tasks[:: len(tasks) // 4]:
        assert proven(task) is not None


def test_planner_shows_that_a_task_to_report_cannot_be_done_and_could_be_without_its_absences() -> None:
    tasks = [task for task in load() if task.label == "report" and task.family in ("fetch", "borrow", "print", "store")]
    for task in tasks[:: len(tasks) // 3]:
        assert solve(task) is None
        assert solve(replace(task, absences={})) is not None


@pytest.mark.slow
def test_generator_writes_the_same_tasks_again() -> None:
    """Each in a process whose sets have one order, as the list was written."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    made = subprocess.run(
        [sys.executable, "-c", AGAIN], env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=100
    )
    assert [Task.read(json.loads(row)) for row in made.stdout.splitlines()] == list(load()[:3])
