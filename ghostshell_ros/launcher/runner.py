# SPDX-License-Identifier: Apache-2.0
"""Run processes in parallel: forward their output, respawn them, and stop them with SIGINT, SIGTERM and SIGKILL."""

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

from ghostshell_ros.executables import outlives
from ghostshell_ros.fork_server import Forked, ForkServer, die_with, forkable, kill_group
from ghostshell_ros.launcher.specs import ProcessSpec

if TYPE_CHECKING:
    from typing_extensions import Self

_STAGES = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_NEVER = float("inf")
_GIVE_UP_S = 5.0
"""Time after SIGKILL before a process is abandoned."""
_DRAIN_S = 1.0
"""Maximum wait for the last output after an exit: what left the process's group may hold the pipe open."""
_SIGNAL_POLL_S = 0.1
_MAX_LINE = 65536
"""Characters; a longer line is split."""
_NO_SIGNAL = -1


@dataclass(frozen=True)
class Event:
    """Tell a line that a process wrote, to whichever of its streams, or what the runner itself says (then with a `level`)."""

    name: str
    text: str
    level: str = ""
    pid: int = 0
    """Of a process that was started or has ended."""
    returncode: int | None = None
    """Of one that has ended; a negative code is minus the signal number, as in `subprocess`."""

    def __str__(self) -> str:
        return f"[{self.level}] [{self.name}]: {self.text}" if self.level else f"[{self.name}] {self.text}"


Process = subprocess.Popen[str] | Forked


@dataclass
class _Slot:
    """A process's place in the run, over all its respawns."""

    spec: ProcessSpec
    process: Process | None = None
    command: str = ""
    stage: int = _NO_SIGNAL
    """Index of the last signal sent, of `_STAGES`."""
    next_stage_s: float = _NEVER
    start_s: float = 0.0
    """Time at which it is due to start, on the steady clock: at first at once."""
    respawns: int = 0


class LaunchRun:
    """Start processes and supervise them until all have exited.

    As a context manager it stops them when the block is left. Events are passed to `listener` one at a time, from internal
    threads; it must not call `stop` or `wait`. No process it started survives the runner: on Linux not even when the runner is
    killed, unless its environment says otherwise (`executables.outlives`).
    """

    def __init__(self, specs: Sequence[ProcessSpec], *, listener: Callable[[Event], None]) -> None:
        self._slots = [_Slot(spec) for spec in specs]
        self._listener = listener
        self._emit_lock = threading.Lock()
        self._inbox: queue.SimpleQueue[Process | Exception | None] = queue.SimpleQueue()
        """Processes that have ended, what a listener raised, and requests to stop (None)."""
        self._stopping = False
        self.refused = False
        """True when a node has ended because it cannot start as it is configured."""
        self._finished = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="launch-run", daemon=True)
        self._forks: ForkServer | None = None
        self._fork_failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start all processes, in order and without waiting for any; return at once."""
        self._thread.start()

    def request_stop(self) -> None:
        """Request shutdown: SIGINT to all, then SIGTERM, then SIGKILL. Every further request escalates immediately.

        Returns at once and may be called from a signal handler or a listener.
        """
        self._stopping = True
        self._inbox.put(None)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether everything has ended, waiting for it up to `timeout_s` seconds (None: without limit).

        Raises what ended the supervision before its time, such as an exception of the listener.
        """
        deadline_s = _NEVER if timeout_s is None else time.monotonic() + timeout_s
        # Wait in slices: Python runs signal handlers only when the main thread wakes.
        while not (ended := self._finished.wait(min(_SIGNAL_POLL_S, max(0.0, deadline_s - time.monotonic())))):
            if time.monotonic() >= deadline_s:
                break
        if ended and self._failure is not None:
            raise self._failure
        return ended

    def stop(self) -> None:
        """Stop everything and return when it has ended, after the processes' timeouts at the latest. Raises as `wait` does."""
        if self._thread.ident is not None:
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
                if isinstance(slot.process, subprocess.Popen):
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        slot.process.wait(_GIVE_UP_S)
        finally:
            if self._forks is not None:
                self._forks.close()
            self._finished.set()

    def _supervise(self, folder: Path) -> None:
        """Run the supervision loop. It stays on one thread, because on Linux a process dies with the thread that started it."""
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
            process = self._fork(spec, argv, folder) or _spawn(spec, argv)
        except OSError as error:
            self._emit(Event(spec.name, f"cannot start '{spec.command[0]}': {error.strerror}", "ERROR"))
            self._shut_down_after(slot)
            return
        slot.process, slot.stage, slot.next_stage_s = process, _NO_SIGNAL, _NEVER
        self._emit(Event(spec.name, f"process started with pid [{process.pid}]", "INFO", process.pid))
        threading.Thread(target=self._follow, args=(spec.name, process), name=f"wait-{spec.name}", daemon=True).start()

    def _fork(self, spec: ProcessSpec, argv: Sequence[str], folder: Path) -> Forked | None:
        """Fork a node. Return None where the program or its environment is unsuitable, and once a fork has failed."""
        if self._fork_failed or not forkable(argv):
            return None
        try:
            self._forks = self._forks or ForkServer(spec.environment, folder)
            if self._forks.environment != spec.environment:
                return None
            return self._forks.start(argv, lambda: self._stopping)
        except OSError:  # where an import is broken, the node reports it when it is started by itself
            self._fork_failed = True
            return None

    def _follow(self, name: str, process: Process) -> None:
        """Forward the output and the exit of a process."""
        reader = threading.Thread(target=self._read, args=(name, process.stdout), name=f"read-{name}", daemon=True)
        reader.start()
        if isinstance(process, Forked):
            process.wait()
        else:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
                # Kill leftovers in its group; the unreaped leader keeps the number of the group reserved.
                _signal(process, signal.SIGKILL)
        reader.join(_DRAIN_S)
        self._inbox.put(process)

    def _read(self, name: str, pipe: IO[str]) -> None:
        try:
            with pipe:
                while line := pipe.readline(_MAX_LINE):
                    self._emit(Event(name, line.removesuffix("\n")))
        except Exception as error:  # noqa: BLE001 - raised again by `wait`
            self._inbox.put(error)

    def _ended(self, process: Process) -> None:
        slot = next((slot for slot in self._slots if slot.process is process), None)
        if slot is None:
            return  # already abandoned
        slot.process, slot.next_stage_s = None, _NEVER
        code, pid = process.wait(), process.pid
        died = f"process has died [pid {pid}, exit code {code}, cmd '{slot.command}']."
        how = (died, "ERROR") if code else (f"process has finished cleanly [pid {pid}]", "INFO")
        self._emit(Event(slot.spec.name, *how, pid, code))
        if code == os.EX_CONFIG and not self._stopping:
            self._emit(Event("launch", f"process[{slot.spec.name}] cannot start, as it says above: shutting down", "ERROR"))
            self.refused = True
            self.request_stop()
        self._shut_down_after(slot)
        most = slot.spec.respawn_max_retries
        if slot.spec.respawn and not self._stopping and (most < 0 or slot.respawns < most):
            slot.respawns += 1
            slot.start_s = time.monotonic() + slot.spec.respawn_delay_s

    def _shut_down_after(self, slot: _Slot) -> None:
        if slot.spec.shutdown_on_exit and not self._stopping:
            self._emit(Event("launch", f"process[{slot.spec.name}] was required: shutting down the others", "INFO"))
            self.request_stop()

    def _escalate(self, slot: _Slot, now_s: float) -> None:
        """Take the next of SIGINT, SIGTERM, SIGKILL, and give up a process that even the last did not end."""
        name = slot.spec.name
        if slot.process is None:
            return
        if slot.stage + 1 >= len(_STAGES):
            if now_s >= slot.next_stage_s:
                self._emit(Event(name, f"process[{name}] is still running after SIGKILL; giving up", "ERROR"))
                slot.process, slot.next_stage_s = None, _NEVER
            return
        slot.stage += 1
        number = _STAGES[slot.stage]
        _signal(slot.process, number)
        slot.next_stage_s = now_s + (slot.spec.sigterm_timeout_s, slot.spec.sigkill_timeout_s, _GIVE_UP_S)[slot.stage]
        if slot.stage > 0:
            before = _STAGES[slot.stage - 1].name
            self._emit(Event(name, f"process[{name}] has not ended by {before}, sending {number.name}", "ERROR"))

    def _emit(self, event: Event) -> None:
        with self._emit_lock:
            self._listener(event)


def _signal(process: Process, number: int) -> None:
    """Send a signal to a process that has not been reaped, and everything in its group."""
    if process.returncode is None:
        kill_group(process.pid, number)


def _spawn(spec: ProcessSpec, argv: Sequence[str]) -> subprocess.Popen[str]:
    """Start any program."""
    parent = os.getpid()

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a launch in the background has it ignored
        if not outlives(spec.environment):
            die_with(parent, signal.SIGTERM if forkable(argv) else signal.SIGKILL)  # a node stops its motion first

    return subprocess.Popen(
        argv,
        env=dict(spec.environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
        preexec_fn=prepare,
    )
