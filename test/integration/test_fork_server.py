# SPDX-License-Identifier: Apache-2.0
"""Nodes as forks of one process: command line, environment, output and end are those of a process of their own."""

from __future__ import annotations

import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ghostshell_ros.launcher import Event, LaunchRun, ProcessSpec
from ros_support import ROOT, wait_until

UP_S = 20.0
NODE = "memory"


def spec(tmp_path: Path, number: int = 1, **changes: object) -> ProcessSpec:
    """Describe a node that has a log line of its own when it is up: it names a parameter that it does not know."""
    found = shutil.which(NODE, path=str(ROOT / "install" / "ghostshell" / "lib" / "ghostshell"))
    assert found is not None
    command = (found, "--ros-args", "-r", f"__ns:=/fork{number}", "-p", f"no_such_parameter_{number}:=1")
    if number > 1:
        command = (*command, "-p", f"data_dir:={tmp_path / str(number)}")
    environment = {**os.environ, "GHOSTSHELL_DATA": str(tmp_path)}
    return replace(ProcessSpec(f"{NODE}-{number}", command, environment), **changes)  # type: ignore[arg-type]


class Watched:
    """A launch, and what was heard of it so far."""

    def __init__(self, *specs: ProcessSpec) -> None:
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.events: list[Event] = []
        self.run = LaunchRun(specs, listener=self._queue.put)

    def wait_for(self, wanted: Callable[[Event], bool], what: str, count: int = 1) -> list[Event]:
        """Return the events that are wanted once there are so many."""

        def seen() -> bool:
            while not self._queue.empty():
                self.events.append(self._queue.get())
            return len([event for event in self.events if wanted(event)]) >= count

        wait_until(seen, UP_S, what)
        return [event for event in self.events if wanted(event)]

    def up(self, number: int = 1, count: int = 1) -> int:
        """Wait until the node runs; gives its pid."""
        self.wait_for(lambda event: not event.level and f"no_such_parameter_{number}" in event.text, "it is up", count)
        return [event.pid for event in self.events if event.pid and event.name.endswith(f"-{number}")][-1]

    def ends(self, count: int = 1) -> list[int]:
        """Return the exit codes of so many processes."""
        ended = self.wait_for(lambda event: event.returncode is not None, "it ends", count)
        return [event.returncode for event in ended if event.returncode is not None]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    launch = Watched(spec(tmp_path))
    with launch.run as run:
        run.start()
        yield launch


def server_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))


def gone(pid: int) -> bool:
    """Return whether a process has ended; one that lost its parent may wait for somebody to take note of it."""
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "State:\tZ" in status.read_text(encoding="utf-8")


def test_a_fork_has_the_command_line_and_environment_it_was_started_with(watched: Watched, tmp_path: Path) -> None:
    pid = watched.up()
    assert f"/lib/ghostshell/{NODE} --ros-args -r __ns:=/fork1" in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
    assert Path(f"/proc/{server_of(pid)}/cmdline").read_bytes().startswith(b"fork_server")
    assert os.getsid(pid) == pid
    assert list(tmp_path.rglob("memory.sqlite3"))
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)]
    assert links[0] == "/dev/null"
    assert all(link.startswith("pipe:") for link in links[1:])


def test_a_node_with_an_environment_of_its_own_is_no_fork(tmp_path: Path) -> None:
    other = spec(tmp_path, 2)
    launch = Watched(spec(tmp_path, 1), replace(other, environment={**other.environment, "PYTHONOPTIMIZE": "1"}))
    with launch.run as run:
        run.start()
        forked, alone = launch.up(1), launch.up(2)
        assert server_of(forked) != os.getpid()
        assert server_of(alone) == os.getpid()
        assert b"PYTHONOPTIMIZE=1" in Path(f"/proc/{alone}/environ").read_bytes()


def test_a_fork_ends_by_sigint_with_code_0_and_leaves_no_server(watched: Watched) -> None:
    pid = watched.up()
    server = server_of(pid)
    os.kill(server, signal.SIGTERM)  # as a service manager does to all at once: with the server its nodes would be killed
    watched.run.stop()
    assert watched.ends() == [0]
    wait_until(lambda: gone(pid) and gone(server), 5.0, "nothing is left")


LAUNCHER = """
import os, sys
from dataclasses import replace
from pathlib import Path
sys.path[:0] = [{tests!r}, {integration!r}]
from ghostshell_ros.launcher import InlineParameters
from ghostshell_ros.cli.launch import run
from test_fork_server import spec
specs = [spec(Path({folder!r}), number) for number in (1, 2)]
parameters = ("--params-file", InlineParameters("/**", {{"at_hand": 1}}))
outliving = {{**specs[1].environment, "GHOSTSHELL_OUTLIVE": "true"}}
run([replace(specs[0], command=(*specs[0].command, *parameters)), replace(specs[1], environment=outliving)])
"""


def test_a_fork_whose_launcher_is_killed_ends_itself_and_leaves_no_file_and_one_that_may_outlives_it(tmp_path: Path) -> None:
    code = LAUNCHER.format(tests=str(ROOT), integration=str(Path(__file__).parent), folder=str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    launcher = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    pids: dict[str, int] = {}
    said: set[str] = set()
    with launcher:
        assert launcher.stdout is not None
        while said != {"1", "2"}:
            line = launcher.stdout.readline()
            assert line, "the launcher ended"
            if started := re.search(r"\[memory-(\d)\]: process started with pid \[(\d+)\]", line):
                pids[started[1]] = int(started[2])
            elif up := re.search(r"no_such_parameter_(\d)", line):
                said.add(up[1])
        forked, outliving = pids["1"], pids["2"]
        server, log = server_of(forked), tmp_path / "memory" / "memory.sqlite3-wal"
        assert log.exists()
        assert list(tmp_path.glob("launch_params_*"))
        launcher.kill()
        try:
            wait_until(lambda: gone(forked) and gone(server), 2.0, "node and server end")
            assert not log.exists(), "it was killed: its database was not closed"
            assert not list(tmp_path.glob("launch_params_*"))
            assert not gone(outliving)
        finally:
            os.kill(outliving, signal.SIGKILL)


def test_a_killed_fork_is_told_with_its_signal_and_comes_back_where_it_should(tmp_path: Path) -> None:
    launch = Watched(spec(tmp_path, 1, respawn=True), spec(tmp_path, 2))
    with launch.run as run:
        run.start()
        first, other = launch.up(1), launch.up(2)
        os.kill(first, signal.SIGKILL)
        assert launch.ends() == [-signal.SIGKILL]
        assert launch.up(1, count=2) != first
        assert not gone(other)


def test_a_node_that_ends_leaves_the_others_alone_where_ends_of_children_are_ignored(tmp_path: Path) -> None:
    launch = Watched(spec(tmp_path), spec(tmp_path, 2))
    with launch.run as run:
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as some supervisors hand it down
        try:
            run.start()
            first = launch.up()
            second = launch.up(2)
        finally:
            signal.signal(signal.SIGCHLD, before)
        os.kill(first, signal.SIGKILL)
        launch.wait_for(
            lambda event: event.returncode is not None and event.returncode == -signal.SIGKILL, "the first has ended"
        )
        assert not gone(second) and not gone(server_of(second))


def test_nodes_end_with_their_server_and_come_back_without_one(tmp_path: Path) -> None:
    launch = Watched(spec(tmp_path, 1, respawn=True), spec(tmp_path, 2))
    with launch.run as run:
        run.start()
        first, other = launch.up(1), launch.up(2)
        server = server_of(first)
        assert server != os.getpid(), "no fork: without a server this process would be killed"
        os.kill(server, signal.SIGKILL)
        assert launch.ends(2) == [-signal.SIGKILL] * 2
        assert gone(other)
        again = launch.up(1, count=2)
        assert again not in (first, other)
        assert server_of(again) == os.getpid()


def test_a_server_that_can_fork_no_more_leaves_its_nodes_alone(tmp_path: Path) -> None:
    launch = Watched(spec(tmp_path, 1, respawn=True), spec(tmp_path, 2))
    with launch.run as run:
        run.start()
        first, other = launch.up(1), launch.up(2)
        server = server_of(first)
        # The end of a node frees two descriptors, and one of them lies beyond this: it cannot take both pipes of another one.
        most = len(os.listdir(f"/proc/{server}/fd")) - 4
        resource.prlimit(server, resource.RLIMIT_NOFILE, (most, most))
        os.kill(first, signal.SIGKILL)
        assert server_of(launch.up(1, count=2)) == os.getpid()
        assert not gone(other)


def test_a_wrong_argument_ends_a_fork_with_its_code_and_a_sentence(tmp_path: Path) -> None:
    bad = spec(tmp_path)
    launch = Watched(replace(bad, command=(*bad.command, "--params-file", str(tmp_path / "missing.yaml"))))
    with launch.run as run:
        run.start()
        assert launch.ends() == [os.EX_CONFIG]
        assert run.wait(UP_S)
    assert any("missing.yaml" in event.text for event in launch.events if not event.level)
    assert not any("Traceback" in event.text for event in launch.events if not event.level)


def test_where_the_server_cannot_import_the_node_itself_says_why(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('a broken numpy')\n")
    broken = spec(tmp_path)
    environment = {**broken.environment, "PYTHONPATH": f"{tmp_path}:{broken.environment.get('PYTHONPATH', '')}"}
    launch = Watched(replace(broken, environment=environment))
    with launch.run as run:
        run.start()
        assert launch.ends() == [os.EX_CONFIG], "it would fail the next time, too"
    assert any("a broken numpy" in event.text for event in launch.events if not event.level)


def test_a_module_in_the_folder_of_the_launch_shadows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "numpy.py").write_text("raise ImportError('a numpy of somebody else')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{os.environ['PYTHONPATH']}:")
    launch = Watched(spec(tmp_path, 1))
    with launch.run as run:
        run.start()
        assert Path(f"/proc/{launch.up()}/cwd").readlink() == tmp_path


def test_a_stop_while_the_server_imports_ends_the_launch_soon(tmp_path: Path) -> None:
    launch = Watched(spec(tmp_path, 1), spec(tmp_path, 2))
    with launch.run as run:
        run.start()
        began = time.monotonic()
        run.stop()
        assert time.monotonic() - began < UP_S / 2
    assert not any("Traceback" in event.text for event in launch.events if not event.level)
