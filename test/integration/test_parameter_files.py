# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a node's file of parameters: a key given twice keeps it from starting, a misspelt one is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ros_support import Processes, wait_until


def test_a_key_given_twice_keeps_the_node_from_starting(
    processes: Processes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text("/**/safety_gate:\n  ros__parameters:\n    robot: coco\n    command_hz: 50.0\n    robot: kalos\n")
    gate = processes.start("safety_gate", params_file=file)
    assert gate.wait(timeout=20) == os.EX_CONFIG
    said = capfd.readouterr().err
    assert f"{file}, line 5: the key 'robot' is given twice; remove one of them" in said and "Traceback" not in said


def test_a_misspelt_key_is_told_with_the_nearest_one(
    processes: Processes, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text("/**/safety_gate:\n  ros__parameters:\n    robott: kalos\n")
    processes.start("safety_gate", params_file=file)
    said = ""

    def told() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "there is no parameter 'robott', it is ignored; did you mean 'robot'?" in said

    wait_until(told, 20.0, "the node tells it")
