# SPDX-License-Identifier: Apache-2.0
"""Chinese on the whole robot: `ghostshell say`, process, layers, a model that reads the prompts, skills, and the answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("tf2_msgs.msg", reason="needs tf2_msgs: run make setup")

from layered_fault_support import Robot, planned_in_layers, ready
from skill_kernel.events import CallKind, ModelKind

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kalos(tmp_path_factory: pytest.TempPathFactory, ros: None) -> Iterator[Robot]:
    with planned_in_layers(tmp_path_factory.mktemp("chinese"), composed="true") as robot:
        yield robot


def say(robot: Robot, text: str, timeout_s: float = 90.0) -> tuple[int, str, str]:
    """Return the exit status of `ghostshell say`, what it printed and the id of the process."""
    ready(robot)
    watch, known = robot.watch, {process.process_id for process in robot.watch.processes}
    command = [sys.executable, "-m", "ghostshell_ros.cli.main", "say", text, "--robot", watch.get_namespace()[1:]]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    (process,) = (p for p in watch.processes if p.process_id not in known and p.instruction == text)
    return ran.returncode, f"{ran.stdout}{ran.stderr}", process.process_id


def done(robot: Robot, process_id: str) -> dict[str, str]:
    """Return the skills that ended, each with its last outcome."""
    return {e.function: e.outcome.name for e in robot.watch.of(process_id, CallKind.ENDED) if e.outcome is not None}


def test_a_choice_is_planned_in_layers_and_done(kalos: Robot) -> None:
    status, printed, process_id = say(kalos, "如果看到球就叫三声，否则坐下。")
    assert status in (0, 3), printed
    assert {"s1", "s2"} <= {e.layer for e in kalos.watch.of(process_id, ModelKind.ANSWERED)}
    ended = done(kalos, process_id)
    assert ended["search"] in ("DONE", "FAILED"), ended
    chosen, other = ("bark", "sit") if ended["search"] == "DONE" else ("sit", "bark")
    assert ended[chosen] == "DONE" and ended.get(other, "DROPPED") == "DROPPED", ended


def test_what_cannot_be_done_is_told_in_chinese(kalos: Robot) -> None:
    status, printed, _ = say(kalos, "去月球")
    assert status in (1, 3) and "我没听懂“去月球”。" in printed, printed
