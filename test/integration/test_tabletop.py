# SPDX-License-Identifier: Apache-2.0
"""An arm at a table of blocks and bowls over real nodes: what its functions return at a console, and that it learns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from ghostshell.msg import ProcessState

pytest.importorskip("mujoco")

from bench.simulated_model.model_server import ModelServer, RecordedRequest
from kill_support import ready
from pipeline_support import NODES, ROOT, brought_up, config_dir

WAIT = "wait_for_trigger()"
STATEMENTS = (
    "len(get_obj_names())",
    "get_obj_pos('blue block')",
    "denormalize_xy([0, 1])",
    "put_first_on_second('tea', 'orange bowl')",
    "put_first_on_second('red block', [3, 1])",
)


def test_its_functions_return_values_and_say_what_they_cannot_do(ros: None, tmp_path: Path) -> None:
    waiting, prompts = list(STATEMENTS), list[str]()

    def model(request: RecordedRequest) -> str:
        prompts.append(request.last_user_text)
        return waiting.pop(0) if waiting else WAIT

    with ModelServer(model) as server:
        served = {"provider": "openai", "model": "any", "base_url": server.openai_url, "silence_s": 5.0}
        config = config_dir(tmp_path, {"served": served})
        nodes = NODES - {"play_sound_driver", "show_face_driver"}
        with brought_up(tmp_path, config, launch="tabletop", nodes=nodes, model="served", strategy="console") as up:
            ready(up)
            result = up.observer.task("look around at the table").result(40.0)
    assert result.status == ProcessState.FAILED and "off the table" in result.error_msg, result
    shown = prompts[-1].rpartition("# This is the task at hand.")[2]
    assert ">>> len(get_obj_names())\n7\n" in shown
    assert ">>> get_obj_pos('blue block')\n[-0.2" in shown
    assert ">>> denormalize_xy([0, 1])\n[-0.3, 0.6]\n" in shown
    assert "there is no 'tea' on the table; use a name that get_obj_names() returns" in shown


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_what_was_corrected_once_is_right_from_then_on_and_after_a_restart(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ghostshell_ros.cli.main", "demo", "--robot", "tabletop", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=390.0, check=False)
    told = [line for line in done.stdout.splitlines() if "(the rule:" in line or line == "started anew"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert "missed" in told[0] and told[0].startswith("7."), told
    assert [line for line in told[1:] if "right (" in line] == [told[1], told[2], told[4]] and told[3] == "started anew", told
    assert (tmp_path / "tabletop.png").stat().st_size > 10_000
