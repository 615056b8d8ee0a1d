# SPDX-License-Identifier: Apache-2.0
"""The console scripts: each names a module that is there, and a Ctrl-C while it is imported is no traceback."""

from __future__ import annotations

import configparser
import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ghostshell_ros import executables

pytestmark = pytest.mark.component

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


def test_a_node_that_cannot_be_imported_says_so_and_is_not_started_again() -> None:
    program = """
import sys
from ghostshell_ros import executables
sys.modules["ghostshell_ros.nodes.observer.node"] = None
sys.argv = ["observer"]
sys.exit(executables.run("observer"))
"""
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert ended.returncode == os.EX_CONFIG and ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("observer cannot be imported (") and "run make setup" in ended.stderr


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


NODE = """
import os, signal, threading, time
from ghostshell_ros import executables

def come_up(_):
    if os.environ["DEAF"]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(os.getpid(), len(threading.enumerate()), flush=True)
    time.sleep(30)

executables.GONE_S = 0.1
executables.import_module = come_up
executables.run("sim")
"""
LAUNCHER = """
import subprocess, sys, threading, time
starter = threading.Thread(target=subprocess.Popen, args=([sys.executable, "-c", sys.argv[1]],))
starter.start()
starter.join()
print("0 0", flush=True)
time.sleep(30)
"""


@pytest.mark.parametrize("deaf", ["", "deaf"])
def test_a_node_ends_with_its_launcher_and_not_with_the_thread_that_started_it(deaf: str) -> None:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, NODE],
        env={**os.environ, "PYTHONPATH": path, "DEAF": deaf},
        stdout=subprocess.PIPE,
        text=True,
    )
    with launcher:
        assert launcher.stdout is not None
        _, (node, _) = sorted(tuple(map(int, launcher.stdout.readline().split())) for _ in range(2))
        os.kill(node, 0)
        began = time.monotonic()
        launcher.kill()
        assert launcher.stdout.read() == ""  # the node held the other end
        assert time.monotonic() - began < 2.0


def test_a_node_whose_launcher_ended_before_it_could_be_watched_ends_and_one_that_may_outlive_it_watches_nobody() -> None:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "DEAF": ""}
    late = [sys.executable, "-c", "from ghostshell_ros import executables; executables._end_with(1)"]
    assert subprocess.run(late, env=environment, timeout=20).returncode == -signal.SIGTERM
    outliving = {**environment, "GHOSTSHELL_OUTLIVE": "true"}
    with subprocess.Popen([sys.executable, "-c", NODE], env=outliving, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        assert node.stdout.readline().split() == [str(node.pid), "1"]
        node.kill()


def test_a_process_that_has_given_back_its_code_holds_less_memory_and_goes_on() -> None:
    program = """if True:
        from ghostshell_ros.executables import drop_code

        def held():
            lines = open("/proc/self/smaps_rollup").read().splitlines()
            return int(next(line.split()[1] for line in lines if line.startswith("Rss:")))

        import json, lxml.etree
        before = held()
        drop_code()
        print(held() < before - 1000, json.loads(json.dumps([len(lxml.etree.fromstring("<a><b/></a>"))])))
    """
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert done.stdout.split() == ["True", "[1]"], done.stderr
