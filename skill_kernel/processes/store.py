# SPDX-License-Identifier: Apache-2.0
"""Keeps process control blocks with their history on disk (SQLite), so that a restart shows every process as it was."""

import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from pydantic import TypeAdapter

from skill_kernel.config.yaml_text import private
from skill_kernel.processes.process import Process, ProcessStatus

VERSION = 1
"""Format of the file (SQLite's user_version)."""

_TABLE = """
CREATE TABLE IF NOT EXISTS process (
    process_id TEXT PRIMARY KEY, number INTEGER NOT NULL, status INTEGER NOT NULL, instruction TEXT NOT NULL,
    block TEXT NOT NULL
);
"""
_PUT = """
INSERT INTO process VALUES (?, (SELECT IFNULL(MAX(number), 0) + 1 FROM process), ?, ?, ?)
ON CONFLICT (process_id) DO UPDATE SET status = excluded.status, block = excluded.block
"""
_TRIM = """
DELETE FROM process WHERE status >= :ended AND number NOT IN (
    SELECT number FROM process WHERE status >= :ended ORDER BY number DESC LIMIT :keep
)
"""
_BUSY_S = 2.0
_BLOCK = TypeAdapter(Process)
"""Fills in what an earlier program did not know, and leaves out what only a later one does."""


class StoreError(RuntimeError):
    """Report that the file of processes cannot be read or written; the message says why and what to do."""


class ProcessStore:
    """Write processes on a thread of its own, in the order of `save`; what is saved together is one transaction.

    `found` are those that the file held when it was opened, oldest first. `on_problem` hears (on that thread) of the first
    write that fails, and nothing more is written. Raises StoreError when the file cannot be opened.
    """

    def __init__(self, path: Path, *, on_problem: Callable[[str], None], keep: int = 50) -> None:
        self._path, self._on_problem, self._keep = path, on_problem, keep
        self._queue: queue.SimpleQueue[Process | None] = queue.SimpleQueue()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            open(path, "ab", opener=private).close()
            self._file = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)
            self.found = self._load()
        except (OSError, sqlite3.Error, ValueError) as error:
            raise StoreError(
                f"the processes in {path} cannot be read ({error}); move the file away, a new one is made"
            ) from error
        self._thread = threading.Thread(target=self._run, name="process-store", daemon=True)
        self._thread.start()

    def save(self, process: Process) -> None:
        """Note a process as it stands. Returns at once."""
        self._queue.put(process)

    def close(self) -> None:
        """Write what is left and end."""
        self._queue.put(None)
        self._thread.join(timeout=2.0)

    def _load(self) -> list[Process]:
        version = self._file.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise StoreError(f"{self._path} has format {version}, this program writes {VERSION}; move the file away")
        # A killed node loses nothing so; only a power cut may take the last writes with it.
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = NORMAL")
        self._file.execute(_TABLE)
        self._file.execute(f"PRAGMA user_version = {VERSION}")
        return [_BLOCK.validate_json(block) for (block,) in self._file.execute("SELECT block FROM process ORDER BY number")]

    def _run(self) -> None:
        writes, ended = True, False
        while not ended:
            waiting = [self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get())
            newest = {item.process_id: item for item in waiting if item is not None}
            try:
                if newest and writes:
                    self._write(newest.values())
            except Exception as error:  # noqa: BLE001 - without this thread no process is ever kept again
                writes = False
                self._on_problem(
                    f"processes are no longer written to {self._path} ({error}); the robot goes on, but a restart will not "
                    "know what is done from now on: free space or mend the file, then start the node anew"
                )
            ended = None in waiting
        self._file.close()

    def _write(self, processes: Iterable[Process]) -> None:
        with self._file as file:
            for process in processes:
                block = _BLOCK.dump_json(process).decode()
                file.execute(_PUT, (process.process_id, int(process.status), process.instruction, block))
            file.execute(_TRIM, {"ended": int(ProcessStatus.SUCCESS), "keep": self._keep})
