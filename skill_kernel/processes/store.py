# SPDX-License-Identifier: Apache-2.0
"""Keeps process control blocks and their history on disk (SQLite), so that a restart shows every process as it was."""

from __future__ import annotations

import json
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from skill_kernel.processes.process import HISTORY, CallRecord, LayerUsage, Process, ProcessSource, ProcessStatus

VERSION = 1
"""Format of the file (SQLite's user_version)."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS process (
    process_id TEXT PRIMARY KEY, number INTEGER NOT NULL, status INTEGER NOT NULL, instruction TEXT NOT NULL,
    block TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS call (
    process_id TEXT NOT NULL, number INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (process_id, number)
) WITHOUT ROWID;
"""
_BUSY_S = 2.0
_T = TypeVar("_T", Process, CallRecord, LayerUsage)


class StoreError(RuntimeError):
    """Report that the file of processes cannot be read or written; the message says why and what to do."""


class ProcessStore:
    """Write processes on a thread of its own, in the order of `save`; what is saved together is one transaction.

    `on_problem` hears (on that thread) of the first write that fails, and nothing more is written. Raises StoreError when
    the file cannot be opened.
    """

    def __init__(self, path: Path, *, on_problem: Callable[[str], None], keep: int = 50) -> None:
        self._path = path
        self._on_problem = on_problem
        self._keep = keep
        self._queue: queue.SimpleQueue[Process | threading.Event | None] = queue.SimpleQueue()
        self._written: dict[str, int] = {}
        """How many calls of each process are on disk already."""
        self._number = 0
        self._numbers: dict[str, int] = {}
        self._ended = False
        self._found = self._open()
        self._thread = threading.Thread(target=self._run, name="process-store", daemon=True)
        self._thread.start()

    @property
    def found(self) -> list[Process]:
        """Return the processes that the file held when it was opened, oldest first."""
        return self._found

    def save(self, process: Process) -> None:
        """Note a process as it stands. Returns at once."""
        self._queue.put(process)

    def flush(self, timeout_s: float = 2.0) -> bool:
        """Wait until everything saved before is on disk; return false when that took too long."""
        done = threading.Event()
        self._queue.put(done)
        return done.wait(timeout_s)

    def close(self) -> None:
        """Write what is left and end."""
        self._queue.put(None)
        self._thread.join(timeout=2.0)

    def _open(self) -> list[Process]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connect()) as file:
                version = file.execute("PRAGMA user_version").fetchone()[0]
                if version not in (0, VERSION):
                    raise StoreError(f"{self._path} has format {version}, this program writes {VERSION}; move the file away")
                file.executescript(_SCHEMA)
                file.execute(f"PRAGMA user_version = {VERSION}")
                return self._load(file)
        except (OSError, sqlite3.Error, ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"the processes in {self._path} cannot be read ({error}); move the file away, a new one is made"
            ) from error

    def _connect(self) -> sqlite3.Connection:
        file = sqlite3.connect(self._path, timeout=_BUSY_S)
        # A killed node loses nothing so; only a power cut may take the last writes with it.
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = NORMAL")
        return file

    def _load(self, file: sqlite3.Connection) -> list[Process]:
        found = []
        for process_id, number, block in file.execute("SELECT process_id, number, block FROM process ORDER BY number"):
            newest = "SELECT record FROM call WHERE process_id = ? ORDER BY number DESC LIMIT ?"
            calls = file.execute(newest, (process_id, HISTORY)).fetchall()[::-1]
            self._numbers[process_id] = self._number = number
            found.append(_process(json.loads(block), [json.loads(record) for (record,) in calls]))
            self._written[process_id] = found[-1].calls
        return found

    def _run(self) -> None:
        try:
            with closing(self._connect()) as file:
                while not self._ended:
                    self._write(file, self._queue.get())
        except (OSError, sqlite3.Error) as error:
            self._on_problem(
                f"processes are no longer written to {self._path} ({error}); the robot goes on, but a restart will not know "
                "what is done from now on: free space or mend the file, then start the node anew"
            )
            while not self._ended:
                self._taken([self._queue.get()])

    def _write(self, file: sqlite3.Connection, item: Process | threading.Event | None) -> None:
        waiting = [item]
        while not self._queue.empty():
            waiting.append(self._queue.get())
        newest = {p.process_id: p for p in waiting if isinstance(p, Process)}
        try:
            with file:
                for process in newest.values():
                    self._put(file, process)
                if newest:
                    self._trim(file)
        finally:
            self._taken(waiting)

    def _taken(self, items: list[Process | threading.Event | None]) -> None:
        self._ended = self._ended or None in items
        for done in items:
            if isinstance(done, threading.Event):
                done.set()

    def _put(self, file: sqlite3.Connection, process: Process) -> None:
        number = self._numbers.setdefault(process.process_id, self._number + 1)
        self._number = max(self._number, number)
        block = {k: v for k, v in asdict(process).items() if k != "history"}
        block["pause_causes"] = sorted(process.pause_causes)
        file.execute(
            "INSERT OR REPLACE INTO process VALUES (?, ?, ?, ?, ?)",
            (process.process_id, number, int(process.status), process.instruction, json.dumps(block)),
        )
        written = self._written.get(process.process_id, 0)
        # The history is a window on all calls, of which `calls` tells how many there were.
        fresh = process.history[len(process.history) - max(0, process.calls - written) :]
        file.executemany(
            "INSERT OR REPLACE INTO call VALUES (?, ?, ?)",
            [(process.process_id, process.calls - len(fresh) + n, json.dumps(asdict(c))) for n, c in enumerate(fresh)],
        )
        file.execute("DELETE FROM call WHERE process_id = ? AND number < ?", (process.process_id, process.calls - HISTORY))
        self._written[process.process_id] = process.calls

    def _trim(self, file: sqlite3.Connection) -> None:
        old = [
            r[0]
            for r in file.execute(
                "SELECT process_id FROM process WHERE status >= ? ORDER BY number DESC LIMIT -1 OFFSET ?",
                (int(ProcessStatus.SUCCESS), self._keep),
            )
        ]
        for process_id in old:
            file.execute("DELETE FROM call WHERE process_id = ?", (process_id,))
            file.execute("DELETE FROM process WHERE process_id = ?", (process_id,))
            self._numbers.pop(process_id, None)
            self._written.pop(process_id, None)


def _process(block: dict[str, Any], history: list[dict[str, Any]]) -> Process:
    block["source"], block["status"] = ProcessSource(block["source"]), ProcessStatus(block["status"])
    block["pause_causes"] = frozenset(block["pause_causes"])
    block["subsystems"] = tuple(block["subsystems"])
    block["running"] = tuple(_made(CallRecord, c) for c in block["running"])
    # A file of an earlier program lacks these, one of a later program may hold more.
    block["usage"] = tuple(_made(LayerUsage, u) for u in block.get("usage", ()))
    block["degraded"] = tuple((str(layer), str(how)) for layer, how in block.get("degraded", ()))
    block["fired_events"] = tuple(block.get("fired_events", ()))
    return _made(Process, {**block, "history": tuple(_made(CallRecord, c) for c in history)})


def _made(kind: type[_T], given: dict[str, Any]) -> _T:
    known = {f.name for f in fields(kind)}
    return kind(**{k: v for k, v in given.items() if k in known})
