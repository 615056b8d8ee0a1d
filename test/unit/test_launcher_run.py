# SPDX-License-Identifier: Apache-2.0
"""Real child processes under the launch runner: output, exit codes, respawn, escalation, and none that survives."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ghostshell_ros import launcher
from ghostshell_ros.cli import launch as console
from ghostshell_ros.launcher import Event, InlineParameters, ProcessSpec

pytestmark = pytest.mark.component

DEADLINE_S = 10.0
REPOSITORY = Path(__file__).resolve().parents[2]

WAITING = "import signal; print('ready', flush=True); signal.pause()"
POLITE = "import signal, sys; signal.signal(signal.SIGINT, lambda *_: sys.exit(3)); print('ready', flush=True); signal.pause()"
DEAF_TO_SIGINT = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready', flush=True)\nwhile True: signal.pause()"
)
DEAF = (
    "import signal; [signal.signal(n, lambda *_: None) for n in (signal.SIGINT, signal.SIGTERM)]\n"
    "print('ready', flush=True)\nwhile True: signal.pause()"
)


class LaunchRun(launcher.LaunchRun):
    """Queues its events, unless a listener takes them."""

    def __init__(self, specs: list[ProcessSpec], listener: Callable[[Event], None] | None = None) -> None:
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        super().__init__(specs, listener=listener or self.events.put)

    def poll(self, timeout_s: float = 0.0) -> Event | None:
        try:
            return self.events.get(timeout=timeout_s)
        except queue.Empty:
            return None


def python(code: str, name: str = "child-1", *words: str | InlineParameters) -> ProcessSpec:
    return ProcessSpec(name, (sys.executable, "-I", "-S", "-c", code, *words), dict(os.environ))


def until(run: LaunchRun, wanted: Callable[[Event], bool]) -> list[Event]:
    """Return the events up to the one wanted; fails when it does not come."""
    events: list[Event] = []
    end_s = time.monotonic() + DEADLINE_S
    while (left_s := end_s - time.monotonic()) > 0:
        event = run.poll(left_s)
        if event is not None:
            events.append(event)
            if wanted(event):
                return events
    pytest.fail(f"not seen within {DEADLINE_S} s, only {events}")


def ready(run: LaunchRun, count: int = 1) -> None:
    for _ in range(count):
        until(run, lambda event: not event.level and event.text == "ready")


def started(event: Event) -> bool:
    return event.pid > 0 and not exited(event)


def exited(event: Event) -> bool:
    return event.returncode is not None


def finish(run: LaunchRun) -> list[Event]:
    """Return the events that remain once all has ended."""
    assert run.wait(DEADLINE_S)
    events = []
    while (event := run.poll()) is not None:
        events.append(event)
    return events


def test_output_comes_line_by_line_and_before_the_exit_code() -> None:
    code = "import sys; print('ä\\nb', flush=True); print('err', file=sys.stderr); sys.stdout.write('end'); sys.exit(4)"
    with LaunchRun([python(code)]) as run:
        run.start()
        events = finish(run)
    assert [event.text for event in events if not event.level] == ["ä", "b", "err", "end"]
    assert started(events[0])
    assert exited(events[-1])
    assert (events[-1].returncode, events[-1].pid) == (4, events[0].pid)


def test_lines_are_cut_where_they_end_however_the_bytes_come() -> None:
    code = (
        "import os, time\nfor byte in 'ä\\r\\nb\\n'.encode(): os.write(1, bytes([byte])); time.sleep(0.01)\n"
        "os.write(1, b'x' * 70_000 + b'\\xff')"
    )
    with LaunchRun([python(code)]) as run:
        run.start()
        lines = [event.text for event in finish(run) if not event.level]
    assert lines[:2] == ["ä", "b"]
    assert "".join(lines[2:]) == "x" * 70_000 + "\ufffd"
    assert len(lines[2]) == 65_536


def test_processes_run_at_the_same_time(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = python(f"open({str(fifo)!r}, 'w').write('met')", "writer-1")
    reader = python(f"print(open({str(fifo)!r}).read())", "reader-2")
    with LaunchRun([writer, reader]) as run:
        run.start()
        assert Event("reader-2", "met") in finish(run)


def test_inline_parameters_reach_the_process_as_a_file_that_is_gone_afterwards() -> None:
    code = "import sys; print(sys.argv[1]); print(open(sys.argv[1]).read())"
    with LaunchRun([python(code, "child-1", InlineParameters("/ns/node", {"p": "1"}))]) as run:
        run.start()
        lines = [event.text for event in finish(run) if not event.level]
    assert lines[1:4] == ["/ns/node:", "  ros__parameters:", "    p: '1'"]
    assert not os.path.exists(lines[0])


def test_a_process_gets_its_environment() -> None:
    spec = replace(python("import os; print(os.environ['WORD'])"), environment={**os.environ, "WORD": "hello"})
    with LaunchRun([spec]) as run:
        run.start()
        assert [event.text for event in finish(run) if not event.level] == ["hello"]


def test_stopping_interrupts_every_process() -> None:
    with LaunchRun([python(POLITE, "a-1"), python(POLITE, "b-2")]) as run:
        run.start()
        ready(run, 2)
        run.stop()
        codes = {event.name: event.returncode for event in finish(run) if event.returncode is not None}
    assert codes == {"a-1": 3, "b-2": 3}


@pytest.mark.parametrize(("code", "ended_by"), [(DEAF_TO_SIGINT, signal.SIGTERM), (DEAF, signal.SIGKILL)])
def test_a_deaf_process_is_terminated_and_then_killed(code: str, ended_by: signal.Signals) -> None:
    spec = replace(python(code), sigterm_timeout_s=0.2, sigkill_timeout_s=0.2)
    with LaunchRun([spec]) as run:
        run.start()
        ready(run)
        start_s = time.monotonic()
        run.stop()
        took_s = time.monotonic() - start_s
        events = finish(run)
    assert [event.returncode for event in events if event.returncode is not None] == [-ended_by]
    steps = [event.text for event in events if event.level and not event.pid]
    assert [step.rsplit(" ", 1)[1] for step in steps] == ["SIGTERM", "SIGKILL"][: 1 if ended_by == signal.SIGTERM else 2]
    assert took_s >= 0.2 * len(steps)


def test_further_requests_to_stop_do_not_wait_for_the_time_outs() -> None:
    with LaunchRun([replace(python(DEAF), sigterm_timeout_s=60.0, sigkill_timeout_s=60.0)]) as run:
        run.start()
        ready(run)
        for _ in range(3):
            run.request_stop()
        assert run.wait(DEADLINE_S)
        assert [event.returncode for event in finish(run) if event.returncode is not None] == [-signal.SIGKILL]


def test_a_respawning_process_comes_back_after_its_delay_and_not_after_a_stop() -> None:
    with LaunchRun([replace(python("print('ready')"), respawn=True, respawn_delay_s=0.1)]) as run:
        run.start()
        until(run, exited)
        start_s = time.monotonic()
        until(run, started)
        assert time.monotonic() - start_s >= 0.05
        run.stop()
        assert run.wait(DEADLINE_S)


def test_respawns_end_with_their_number() -> None:
    with LaunchRun([replace(python("pass"), respawn=True, respawn_max_retries=2)]) as run:
        run.start()
        assert sum(started(event) for event in finish(run)) == 3


def test_what_cannot_start_is_not_started_again_and_ends_the_launch() -> None:
    wrong = replace(python(f"raise SystemExit({os.EX_CONFIG})", "wrong-2"), respawn=True)
    with LaunchRun([python(POLITE, "other-1"), wrong]) as run:
        run.start()
        events = finish(run)
        assert run.refused
    assert [event.name for event in events if started(event)].count("wrong-2") == 1
    assert any(event.level == "ERROR" and "wrong-2] cannot start" in event.text for event in events)


@pytest.mark.parametrize(("code", "status"), [(0, 0), (1, 0), (os.EX_CONFIG, 1)])
def test_a_refused_start_is_told_by_the_exit_status(code: int, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run([python(f"raise SystemExit({code})")]) == status
    assert ("cannot start, as it says above" in capsys.readouterr().out) is bool(status)


def test_the_end_of_a_required_process_ends_the_others() -> None:
    required = replace(python("input()", "required-2"), shutdown_on_exit=True)
    with LaunchRun([python(POLITE, "other-1"), required]) as run:
        run.start()
        events = finish(run)
    assert {event.name for event in events if event.returncode is not None} == {"other-1", "required-2"}
    assert any(event.level == "INFO" and "required-2]" in event.text for event in events)


def test_a_command_that_cannot_be_started_is_reported_and_the_others_run() -> None:
    with LaunchRun([ProcessSpec("no-1", ("/no/such/program",), {}), python("print('ready')", "yes-2")]) as run:
        run.start()
        events = finish(run)
    assert Event("no-1", "cannot start '/no/such/program': No such file or directory", "ERROR") in events
    assert Event("yes-2", "ready") in events


def test_what_a_process_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    left_over = f"import signal; f = open({str(fifo)!r}, 'w'); signal.pause()"
    code = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {left_over!r}], "
        "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\ninput_ready = open("
        f"{str(fifo)!r}).read(0)"
    )
    with LaunchRun([python(code)]) as run:
        run.start()
        with fifo.open() as alive:
            assert run.wait(DEADLINE_S)
            assert _ended(alive.fileno())


def test_a_listener_that_fails_ends_the_processes_and_is_heard() -> None:
    def fail(event: Event) -> None:
        if not event.level:
            raise RuntimeError("listener")

    with pytest.raises(RuntimeError, match="listener"), LaunchRun([python(WAITING)], listener=fail) as run:
        run.start()
        run.wait(DEADLINE_S)


def test_a_run_that_was_never_started_can_be_left() -> None:
    with LaunchRun([python(WAITING)]) as run:
        assert run.poll() is None


RUNNER = """
import signal, sys
from ghostshell_ros.launcher import ProcessSpec
from ghostshell_ros.cli.launch import run
deaf, fifo, hangs_up = sys.argv[1:]
signal.signal(signal.SIGHUP, getattr(signal, hangs_up))
sys.exit(run([ProcessSpec("child-1", (sys.executable, "-I", "-S", "-c", deaf, fifo), {},
                          sigterm_timeout_s=0.1, sigkill_timeout_s=0.1)]))
"""
HOLDER = (
    "import signal, sys; [signal.signal(n, lambda *_: None) for n in (signal.SIGINT, signal.SIGTERM)]\n"
    "alive = open(sys.argv[1], 'w'); print('ready', flush=True)\nwhile True: signal.pause()"
)


@pytest.mark.parametrize(
    ("number", "hangs_up", "status"),
    [
        (signal.SIGINT, "SIG_DFL", 0),
        (signal.SIGINT, "SIG_IGN", 0),
        (signal.SIGTERM, "SIG_DFL", 1),
        (signal.SIGHUP, "SIG_DFL", 1),
        pytest.param(
            signal.SIGKILL,
            "SIG_DFL",
            -signal.SIGKILL,
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its killed parent"),
        ),
    ],
)
def test_no_child_survives_the_runner(tmp_path: Path, number: signal.Signals, hangs_up: str, status: int) -> None:
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, HOLDER, str(fifo), hangs_up],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    watchdog = threading.Timer(DEADLINE_S, runner.kill)
    watchdog.start()
    try:
        with fifo.open() as alive:
            assert runner.stdout is not None
            while "[child-1] ready" not in runner.stdout.readline():
                assert runner.poll() is None
            if hangs_up == "SIG_IGN":
                runner.send_signal(signal.SIGHUP)  # under nohup it says nothing: heeded, it would set the status to 1
            runner.send_signal(number)
            assert _ended(alive.fileno())
        assert runner.wait(DEADLINE_S) == status
    finally:
        watchdog.cancel()
        runner.kill()
        runner.communicate()


def _ended(pipe: int) -> bool:
    """Return whether the last process that holds the pipe's other end ends before the deadline."""
    os.set_blocking(pipe, True)
    result: list[bytes] = []
    reader = threading.Thread(target=lambda: result.append(os.read(pipe, 1)), daemon=True)
    reader.start()
    reader.join(DEADLINE_S)
    return result == [b""]
