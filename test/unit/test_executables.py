# SPDX-License-Identifier: Apache-2.0
"""The console scripts: each names a module that is there, and a Ctrl-C while it is imported is no traceback."""

from __future__ import annotations

import configparser
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ghostshell_ros import executables

ROOT = Path(__file__).resolve().parents[2]


def test_setup_cfg_and_the_executables_name_the_same() -> None:
    cfg = configparser.ConfigParser()
    cfg.read(ROOT / "setup.cfg")
    scripts = dict(line.split(" = ") for line in cfg["options.entry_points"]["console_scripts"].strip().splitlines())
    names = (*executables.NODES, "drivers", "mind")
    assert scripts == {name: f"ghostshell_ros.executables:{name}" for name in (*names, "ghostshell")}
    assert set(executables.MIND) <= set(executables.NODES)
    for name, node in executables.NODES.items():
        module = importlib.util.find_spec(f"ghostshell_ros.nodes.{name}.node")
        assert module is not None and module.origin is not None, name
        assert f"\nclass {node}(" in Path(module.origin).read_text(encoding="utf-8"), name
    for name in names:
        assert callable(getattr(executables, name))
    with pytest.raises(AttributeError, match="no executable 'simm'"):
        executables.simm  # noqa: B018


def test_a_node_that_is_none_is_named_with_those_there_are() -> None:
    command = [sys.executable, "-m", "ghostshell_ros.executables", "observer simm", "--ros-args"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert ended.returncode == 1 and "no node 'simm'" in ended.stderr and "sim, drivers" in ended.stderr


@pytest.mark.parametrize(
    ("name", "number", "status"),
    [("sim", "SIGINT", 0), ("sim", "SIGTERM", 0), ("ghostshell", "SIGINT", 130), ("ghostshell", "SIGTERM", 143)],
)
def test_a_signal_while_it_is_imported_ends_it_without_a_word(name: str, number: str, status: int) -> None:
    program = (
        "import os, signal, sys, time\nfrom ghostshell_ros import executables\n"
        f"executables.import_module = lambda _: (os.kill(os.getpid(), signal.{number}), time.sleep(10))\n"
        f"sys.exit(executables.{name}())\n"
    )
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=20
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")
