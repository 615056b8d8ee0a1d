# SPDX-License-Identifier: Apache-2.0
"""Runs processes side by side until they end or are stopped: output, respawn, and SIGINT, SIGTERM, SIGKILL in turn."""

from __future__ import annotations

import contextlib
import os
import queue
import selectors
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from ghostshell_ros.launcher.child import Child
from ghostshell_ros.launcher.specs import ProcessSpec

if TYPE_CHECKING:
    from typing_extensions import Self

_LAUNCH = "launch"
_STAGES = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_GIVE_UP_S = 5.0
"""After SIGKILL: a process that has not ended by then cannot be ended by us."""
_READ_SIZE = 65536


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


@dataclass
class _Slot:
    """A process's place in the run, over all its respawns."""

    spec: ProcessSpec
    child: Child | None = None
    stage: int = -1
    next_stage_s: float = float("inf")
    start_s: float = float("inf")
    respawns: int = 0


class LaunchRun:
    """Starts processes and stays responsible for them until the last has ended.

    As a context manager it stops them when the block is left. One thread of its own does all the work; events go
    to `listener` in that thread or, without one, wait for `poll`. Whatever happens to the runner, nothing it
    started survives it: on Linux not even when it is killed outright.
    """

    def __init__(self, specs: Sequence[ProcessSpec], *, listener: Callable[[Event], None] | None = None) -> None:
        self._slots = [_Slot(spec) for spec in specs]
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._tell = listener or self._events.put
        self._exits: queue.SimpleQueue[Child] = queue.SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        self._stop_requests = 0
        self._stops_done = 0
        self._finished = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="launch-run", daemon=True)
        self._started = False

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
            return self._events.get(timeout=timeout_s) if timeout_s > 0 else self._events.get_nowait()
        except queue.Empty:
            return None

    def request_stop(self) -> None:
        """Begins the end: SIGINT to all, then SIGTERM, then SIGKILL. Every further request takes the next step at once.

        Returns at once and may be called from a signal handler or a listener.
        """
        self._stop_requests += 1
        self._wake()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether everything has ended, waiting for it up to `timeout_s` seconds (None: without limit).

        Raises what the listener raised, if it did.
        """
        ended = self._finished.wait(timeout_s)
        if ended and self._failure is not None:
            raise self._failure
        return ended

    def stop(self) -> None:
        """Stop everything and return when it has ended, after the processes' time-outs at the latest."""
        if not self._started:
            self._close()
        elif not self._finished.is_set():
            if not self._stop_requests:
                self.request_stop()
            self.wait()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"\0")

    def _run(self) -> None:
        try:
            with tempfile.TemporaryDirectory(prefix="launch_params_") as folder:
                self._supervise(Path(folder))
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may stay behind
            self._failure = error
            self._kill_all()
        finally:
            self._close()
            self._finished.set()

    def _close(self) -> None:
        self._selector.close()
        ends, self._wake_write = (self._wake_read, self._wake_write), -1
        for end in ends:
            with contextlib.suppress(OSError):
                os.close(end)

    def _kill_all(self) -> None:
        for slot in self._slots:
            if slot.child is not None:
                slot.child.reap()

    def _supervise(self, folder: Path) -> None:
        for slot in self._slots:
            slot.start_s = 0.0
        while True:
            now_s = time.monotonic()
            self._take_stop_requests(now_s)
            for slot in self._slots:
                if slot.start_s <= now_s:
                    self._start(slot, folder)
                elif slot.next_stage_s <= now_s:
                    self._escalate(slot, now_s)
            due_s = [
                min(slot.start_s, slot.next_stage_s)
                for slot in self._slots
                if slot.child is not None or slot.start_s < float("inf")
            ]
            if not due_s:
                return
            until_s = min(due_s)
            timeout_s = None if until_s == float("inf") else max(0.0, until_s - time.monotonic())
            for key, _ in self._selector.select(timeout_s):
                if key.fd == self._wake_read:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, _READ_SIZE)
                else:
                    child, stream = key.data
                    self._read(child, stream)
            self._take_exits()

    def _take_stop_requests(self, now_s: float) -> None:
        while self._stops_done < self._stop_requests:
            self._stops_done += 1
            for slot in self._slots:
                slot.start_s = float("inf")
                if slot.child is not None:
                    self._escalate(slot, now_s)

    def _start(self, slot: _Slot, folder: Path) -> None:
        slot.start_s = float("inf")
        try:
            child = Child(slot.spec, folder, self._on_exit)
        except OSError as error:
            self._report("ERROR", f"cannot start '{slot.spec.command[0]}': {error.strerror}", slot.spec.name)
            if slot.spec.shutdown_on_exit:
                self._shut_down(slot)
            return
        slot.child = child
        slot.stage, slot.next_stage_s = -1, float("inf")
        for stream, pipe in child.streams.items():
            self._selector.register(pipe, selectors.EVENT_READ, (child, stream))
        self._tell(Started(slot.spec.name, child.pid))

    def _on_exit(self, child: Child) -> None:
        self._exits.put(child)
        self._wake()

    def _take_exits(self) -> None:
        while True:
            try:
                child = self._exits.get_nowait()
            except queue.Empty:
                return
            slot = next(slot for slot in self._slots if slot.child is child)
            returncode = child.reap()
            for stream, pipe in child.streams.items():
                self._read(child, stream)
                self._end_stream(child, stream, pipe)
            slot.child, slot.next_stage_s = None, float("inf")
            self._tell(Exited(slot.spec.name, child.pid, returncode, child.command))
            if slot.spec.shutdown_on_exit:
                self._shut_down(slot)
            if (
                slot.spec.respawn
                and not self._stop_requests
                and (slot.spec.respawn_max_retries < 0 or slot.respawns < slot.spec.respawn_max_retries)
            ):
                slot.respawns += 1
                slot.start_s = time.monotonic() + slot.spec.respawn_delay_s

    def _shut_down(self, slot: _Slot) -> None:
        if not self._stop_requests:
            self._report("INFO", f"process[{slot.spec.name}] was required: shutting down the others")
            self.request_stop()

    def _escalate(self, slot: _Slot, now_s: float) -> None:
        """Take the next of SIGINT, SIGTERM, SIGKILL, and give up a process that even the last did not end."""
        name = slot.spec.name
        if slot.child is None:
            return
        if slot.stage + 1 >= len(_STAGES):
            if now_s >= slot.next_stage_s:
                self._report("ERROR", f"process[{name}] does not end even by SIGKILL, giving up", name)
                slot.child, slot.next_stage_s = None, float("inf")
            return
        slot.stage += 1
        number = _STAGES[slot.stage]
        if slot.stage > 0:
            self._report(
                "ERROR", f"process[{name}] has not ended by {_STAGES[slot.stage - 1].name}, sending {number.name}", name
            )
        slot.child.signal(number)
        slot.next_stage_s = now_s + (slot.spec.sigterm_timeout_s, slot.spec.sigkill_timeout_s, _GIVE_UP_S)[slot.stage]

    def _read(self, child: Child, stream: str) -> None:
        pipe = child.streams[stream]
        if pipe.closed:
            return
        while True:
            try:
                data = os.read(pipe.fileno(), _READ_SIZE)
            except BlockingIOError:
                return
            if not data:
                self._end_stream(child, stream, pipe)
                return
            self._tell_lines(child, stream, child.cutters[stream].feed(data))

    def _end_stream(self, child: Child, stream: str, pipe: IO[bytes]) -> None:
        if not pipe.closed:
            self._selector.unregister(pipe)
            pipe.close()
            self._tell_lines(child, stream, child.cutters[stream].feed(b"", last=True))

    def _tell_lines(self, child: Child, stream: str, lines: list[str]) -> None:
        for line in lines:
            self._tell(Output(child.spec.name, stream, line))

    def _report(self, level: str, text: str, name: str = _LAUNCH) -> None:
        self._tell(Report(level, name, text))
