# SPDX-License-Identifier: Apache-2.0
"""Runs processes side by side until they end or are stopped: output, respawn, and SIGINT, SIGTERM, SIGKILL in turn."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from ghostshell_ros.fork_server import Forked, ForkServer, die_with, forkable
from ghostshell_ros.launcher.specs import ProcessSpec

if TYPE_CHECKING:
    from typing_extensions import Self

_STAGES = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_NEVER = float("inf")
_GIVE_UP_S = 5.0
"""After SIGKILL: a process that has not ended by then cannot be ended by us."""
_LAST_WORDS_S = 1.0
"""How long the output of an ended process is read at most: what left its group may hold the pipe open."""
_LISTEN_S = 0.1
"""Time within which the waiting main thread heeds a signal."""
_MAX_LINE = 65536
"""Characters; a longer line is cut."""


@dataclass(frozen=True)
class Started:
    """A process runs."""

    name: str
    pid: int


@dataclass(frozen=True)
class Output:
    """A line of a process's output."""

    name: str
    stream: str
    line: str


@dataclass(frozen=True)
class Exited:
    """A process has ended; a negative code is minus the signal, as in `subprocess`."""

    name: str
    pid: int
    returncode: int
    command: str


@dataclass(frozen=True)
class Report:
    """Something the runner itself says."""

    level: str
    name: str
    text: str


Event = Started | Output | Exited | Report
Process = subprocess.Popen[str] | Forked


@dataclass
class _Slot:
    """A process's place in the run, over all its respawns."""

    spec: ProcessSpec
    process: Process | None = None
    command: str = ""
    stage: int = -1
    next_stage_s: float = _NEVER
    start_s: float = 0.0
    respawns: int = 0


class LaunchRun:
    """Starts processes and stays responsible for them until the last has ended.

    As a context manager it stops them when the block is left. Events go to `listener`, one at a time and on threads of
    its own, or, without one, wait for `poll`. Whatever happens to the runner, nothing it started survives it: on Linux
    not even when it is killed outright.
    """

    def __init__(self, specs: Sequence[ProcessSpec], *, listener: Callable[[Event], None] | None = None) -> None:
        self._slots = [_Slot(spec) for spec in specs]
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._listener = listener or self._events.put
        self._telling = threading.Lock()
        self._inbox: queue.SimpleQueue[Process | Exception | None] = queue.SimpleQueue()
        """Processes that have ended, what a listener raised, and requests to stop (None)."""
        self._stopping = False
        self._finished = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="launch-run", daemon=True)
        self._started = False
        self._forks: ForkServer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start all processes, in order and without waiting for any; return at once."""
        self._started = True
        self._thread.start()

    def poll(self, timeout_s: float = 0.0) -> Event | None:
        """Return the next event, or None when there is none within `timeout_s` seconds."""
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def request_stop(self) -> None:
        """Begin the end: SIGINT to all, then SIGTERM, then SIGKILL. Every further request takes the next step at once.

        Returns at once and may be called from a signal handler or a listener.
        """
        self._stopping = True
        self._inbox.put(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether everything has ended, waiting for it up to `timeout_s` seconds (None: without limit).

        Raises what the listener raised, if it did.
        """
        deadline_s = _NEVER if timeout_s is None else time.monotonic() + timeout_s
        # In slices: the handler of a signal that met another thread runs only when the main thread wakes.
        while not (ended := self._finished.wait(min(_LISTEN_S, max(0.0, deadline_s - time.monotonic())))):
            if time.monotonic() >= deadline_s:
                break
        if ended and self._failure is not None:
            raise self._failure
        return ended

    def stop(self) -> None:
        """Stop everything and return when it has ended, after the processes' time-outs at the latest."""
        if self._started and not self._finished.is_set():
            if not self._stopping:
                self.request_stop()
            self.wait()

    def _run(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="launch_params_") as folder:
                self._supervise(Path(folder))
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may stay behind
            self._failure = error
            for slot in self._slots:
                if slot.process is not None:
                    _signal(slot.process, signal.SIGKILL)
                    slot.process.wait()
        finally:
            self._end_forks()
            self._finished.set()

    def _supervise(self, folder: Path) -> None:
        """On one thread until the end, because on Linux a process dies with the thread that started it."""
        while True:
            now_s = time.monotonic()
            for slot in self._slots:
                if slot.start_s <= now_s and not self._stopping:
                    self._start(slot, folder)
                elif slot.next_stage_s <= now_s:
                    self._escalate(slot, now_s)
            if all(slot.process is None and slot.start_s == _NEVER for slot in self._slots):
                return
            until_s = min(min(slot.start_s, slot.next_stage_s) for slot in self._slots)
            try:
                item = self._inbox.get(timeout=None if until_s == _NEVER else max(0.0, until_s - time.monotonic()))
            except queue.Empty:
                continue
            if isinstance(item, Exception):
                raise item
            if item is not None:
                self._ended(item)
                continue
            for slot in self._slots:
                slot.start_s = _NEVER
                self._escalate(slot, time.monotonic())

    def _start(self, slot: _Slot, folder: Path) -> None:
        spec = slot.spec
        argv = spec.argv(folder)
        slot.command, slot.start_s = " ".join(argv), _NEVER
        try:
            process = self._fork(spec, argv) or _spawn(spec, argv)
        except OSError as error:
            self._tell(Report("ERROR", spec.name, f"cannot start '{spec.command[0]}': {error.strerror}"))
            self._shut_down_after(slot)
            return
        slot.process, slot.stage, slot.next_stage_s = process, -1, _NEVER
        self._tell(Started(spec.name, process.pid))
        threading.Thread(target=self._follow, args=(spec.name, process), name=f"wait-{spec.name}", daemon=True).start()

    def _fork(self, spec: ProcessSpec, argv: Sequence[str]) -> Forked | None:
        """Start one of the project's nodes as a fork; None for other programs and environments, and where the server died."""
        if spec.shell or not forkable(argv):
            return None
        try:
            self._forks = self._forks or ForkServer(spec.environment)
            return self._forks.start(argv, spec.cwd) if self._forks.environment == spec.environment else None
        except OSError:  # what is wrong with the imports the node says when it runs by itself
            self._end_forks()
            return None

    def _end_forks(self) -> None:
        if self._forks is not None:
            self._forks.close()
            self._forks = None

    def _follow(self, name: str, process: Process) -> None:
        """Pass on what a process says, and that it has ended."""
        readers = [
            threading.Thread(target=self._read, args=(name, stream, pipe), name=f"{stream}-{name}", daemon=True)
            for stream, pipe in (("stdout", process.stdout), ("stderr", process.stderr))
        ]
        for reader in readers:
            reader.start()
        if isinstance(process, Forked):
            process.wait()
        else:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                # What it left in its group; until it is reaped, the group's number cannot belong to another.
                _signal(process, signal.SIGKILL)
        for reader in readers:
            reader.join(_LAST_WORDS_S)
        self._inbox.put(process)

    def _read(self, name: str, stream: str, pipe: IO[str]) -> None:
        try:
            with pipe:
                while line := pipe.readline(_MAX_LINE):
                    self._tell(Output(name, stream, line.removesuffix("\n")))
        except Exception as error:  # noqa: BLE001 - raised again by `wait`
            self._inbox.put(error)

    def _ended(self, process: Process) -> None:
        slot = next((slot for slot in self._slots if slot.process is process), None)
        if slot is None:
            return  # given up before
        slot.process, slot.next_stage_s = None, _NEVER
        self._tell(Exited(slot.spec.name, process.pid, process.wait(), slot.command))
        self._shut_down_after(slot)
        most = slot.spec.respawn_max_retries
        if slot.spec.respawn and not self._stopping and (most < 0 or slot.respawns < most):
            slot.respawns += 1
            slot.start_s = time.monotonic() + slot.spec.respawn_delay_s

    def _shut_down_after(self, slot: _Slot) -> None:
        if slot.spec.shutdown_on_exit and not self._stopping:
            self._tell(Report("INFO", "launch", f"process[{slot.spec.name}] was required: shutting down the others"))
            self.request_stop()

    def _escalate(self, slot: _Slot, now_s: float) -> None:
        """Take the next of SIGINT, SIGTERM, SIGKILL, and give up a process that even the last did not end."""
        name = slot.spec.name
        if slot.process is None:
            return
        if slot.stage + 1 >= len(_STAGES):
            if now_s >= slot.next_stage_s:
                self._tell(Report("ERROR", name, f"process[{name}] does not end even by SIGKILL, giving up"))
                slot.process, slot.next_stage_s = None, _NEVER
            return
        slot.stage += 1
        number = _STAGES[slot.stage]
        if slot.stage > 0:
            before = _STAGES[slot.stage - 1].name
            self._tell(Report("ERROR", name, f"process[{name}] has not ended by {before}, sending {number.name}"))
        _signal(slot.process, number)
        slot.next_stage_s = now_s + (slot.spec.sigterm_timeout_s, slot.spec.sigkill_timeout_s, _GIVE_UP_S)[slot.stage]

    def _tell(self, event: Event) -> None:
        with self._telling:
            self._listener(event)


def _signal(process: Process, number: int) -> None:
    """Send a signal to a process and everything in its group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _spawn(spec: ProcessSpec, argv: Sequence[str]) -> subprocess.Popen[str]:
    """Start any program."""
    parent = os.getpid()

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a Ctrl-C reaches it
        die_with(parent)

    return subprocess.Popen(
        " ".join(argv) if spec.shell else argv,
        shell=spec.shell,
        cwd=spec.cwd,
        env=dict(spec.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        preexec_fn=prepare,
    )
