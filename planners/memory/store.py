# SPDX-License-Identifier: Apache-2.0
"""The one store of the memory: one thread writes in batches and acknowledges what is on disk; any thread reads."""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from planners.memory import query as queries
from planners.memory import schema
from planners.memory.query import Query
from planners.memory.records import Record, StoreError, Tier, named
from planners.memory.schema import connect, prepare, select
from skill_kernel.codes import MemoryCode

T = TypeVar("T")

QUERY_S = 2.0
"""A query that takes longer is ended with QUERY_TIMEOUT."""
_STEPS = 4000
"""SQLite looks at the deadline after so many of its instructions."""
BATCH = 2000
"""Records in one transaction at most: tens of milliseconds, in which no other program can write."""
RETRY_S = 2.0
"""Time between two tries of a write that failed for want of space or of a sound file."""
RAW_SHARE = 0.75
"""Raw observations are dropped once the queue is so full; the rest is for what can be measured only once."""
_OWN_FAULT = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.NotSupportedError)
"""Errors of SQLite that no other file or disk would mend."""


class Background:
    """Run steps on a thread of low priority: one after the other while there is work, then every `period_s`."""

    def __init__(
        self, step: Callable[[], bool], *, name: str, period_s: float, on_problem: Callable[[StoreError], None]
    ) -> None:
        self._step, self._period_s, self._on_problem = step, period_s, on_problem
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after the step that runs."""
        self._ending.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        _give_way()
        wait_s = 0.0
        while not self._ending.wait(wait_s):
            try:
                # A breath between two steps: readers and the writer's other work go first.
                wait_s = 0.002 if self._step() else self._period_s
            except Exception as error:  # noqa: BLE001 - the thread lives on; what failed is tried again
                fault = f"{type(error).__name__} in the memory's background work: {error}"
                self._on_problem(error if isinstance(error, StoreError) else StoreError(fault))
                wait_s = max(2.0, self._period_s)


def _give_way() -> None:
    with suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


class Ticket(Future[T]):
    """Follow a write under way."""

    def __init__(self, store: Store, job: Callable[[sqlite3.Connection], T], records: int = 0) -> None:
        super().__init__()
        self._store, self.job, self.records = store, job, records

    def result(self, timeout: float | None = 10.0) -> T:
        """Return what was written (for records, their ids), once it is on disk and survives a kill.

        Raises StoreError when it was refused or dropped, when writing fails at present (it may still be written later),
        or when the time [s] is over.
        """
        with self._store.changed:
            self._store.changed.wait_for(lambda: self.done() or self._store.state.problem is not None, timeout)
            if not self.done():
                late = f"the memory did not write within {timeout} s; its disk is slow or its queue long"
                raise self._store.state.problem or StoreError(late)
        return super().result(0)


@dataclass
class WriterState:
    """Count the records that wait, were written and dropped; `problem` is why nothing is written at present."""

    queued: int = 0
    written: int = 0
    dropped: int = 0
    problem: StoreError | None = None


class Store:
    """Write on a thread of its own: `put` and `do` return at once. All methods may be called from any thread.

    Raises StoreError for a file that cannot be used; `patient` tries it again and again instead. `on_problem` is told (on the
    writer's thread) when writing begins to fail, and with None when it works again.
    """

    def __init__(
        self,
        path: Path,
        *,
        power_safe: bool = True,
        max_queue: int = 20_000,
        patient: bool = False,
        on_problem: Callable[[StoreError | None], None] = lambda _: None,
    ) -> None:
        self.path = path
        self._power_safe, self._max_queue, self._on_problem = power_safe, max_queue, on_problem
        self.state = WriterState()
        self.changed = threading.Condition()
        self._waiting: deque[Ticket[Any]] = deque()
        self._urgent: deque[Ticket[Any]] = deque()
        self._ending = False
        try:
            prepare(path)
        except StoreError as error:
            if not patient:
                raise
            self._tell(error)
        self._thread = threading.Thread(target=self._run, name="memory-writer", daemon=True)
        self._thread.start()

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, *records: Record) -> Ticket[list[int]]:
        """Queue records; they are written together or not at all. Never waits: when the queue is full they are dropped, which
        the ticket and `state` tell."""
        limit = self._max_queue * (RAW_SHARE if all(r.tier is Tier.M0 for r in records) else 1.0)
        ticket = Ticket(self, lambda file: schema.insert(file, records), len(records))
        return self._queue(ticket, self._waiting, limit)

    def do(self, job: Callable[[sqlite3.Connection], T], *, urgent: bool = False) -> Ticket[T]:
        """Queue a change in a transaction of its own, after all that was queued before, or `urgent`: before it, also while that
        cannot be written. What it raises, the ticket raises."""
        return self._queue(Ticket(self, job), self._urgent if urgent else self._waiting)

    def _queue(self, ticket: Ticket[T], line: deque[Ticket[Any]], limit: float = math.inf) -> Ticket[T]:
        with self.changed:
            if self._ending or self.state.queued + ticket.records > limit:
                why = "the memory is closed" if self._ending else f"{self.state.queued} records wait to be written already"
                self.state.dropped += ticket.records
                ticket.set_exception(self.state.problem or StoreError(f"{why}; these {ticket.records} are dropped"))
                return ticket
            self.state.queued += ticket.records
            line.append(ticket)
            self.changed.notify_all()
        return ticket

    def scrub(self) -> None:
        """Take forgotten words also out of the full text's index and the log file; takes seconds for a large memory."""
        self.do(lambda file: file.execute("INSERT INTO record_text (record_text) VALUES ('optimize')")).result(120.0)
        try:
            with closing(connect(self.path, write=True)) as file:
                file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise named(error, self.path) from error

    def close(self) -> None:
        """Write what is left, within 5 s, and close the file."""
        with self.changed:
            self._ending = True
            self.changed.notify_all()
        self._thread.join(5.0)

    # -- on the writer's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        _give_way()
        file: sqlite3.Connection | None = None
        while batch := self._next():
            try:
                if file is None:
                    prepare(self.path)
                    file = connect(self.path, write=True, power_safe=self._power_safe)
                self._write(file, batch)
            except Exception as error:  # noqa: BLE001 - without this thread nothing is ever kept again
                if file is not None:
                    file.close()
                    file = None
                self._tell(named(error, self.path))
                with self.changed:
                    self._waiting.extendleft(reversed(batch))
                    if self.changed.wait_for(lambda: self._ending, RETRY_S):
                        break
                continue
            if batch[0].records or not self._waiting:  # else it is not known yet whether what waits can be written now
                self._tell(None)
        if file is not None:
            file.close()
        with self.changed:
            for ticket in (*self._urgent, *self._waiting):
                ticket.set_exception(self.state.problem or StoreError("the memory was closed before this was written"))
            self._waiting.clear()
            self.state.dropped += self.state.queued
            self.state.queued = 0
            self.changed.notify_all()

    def _next(self) -> list[Ticket[Any]]:
        """Return the next tickets for one transaction: a job alone, or what records there are. Empty at the end."""
        with self.changed:
            while not self._waiting and not self._urgent and not self._ending:
                if self.state.problem is not None:
                    return [Ticket(self, lambda file: schema.set_meta(file, "probe", "1"))]
                self.changed.wait()
            if self._urgent:
                return [self._urgent.popleft()]
            batch: list[Ticket[Any]] = []
            while self._waiting and (
                not batch or (batch[0].records and self._waiting[0].records and sum(t.records for t in batch) < BATCH)
            ):
                batch.append(self._waiting.popleft())
            return batch

    def _write(self, file: sqlite3.Connection, batch: Sequence[Ticket[Any]]) -> None:
        done: list[Any] = []
        file.execute("BEGIN IMMEDIATE")
        try:
            for ticket in batch:
                file.execute("SAVEPOINT ticket")
                try:
                    done.append(ticket.job(file))
                except Exception as error:  # a job's own fault is for whoever asked for it
                    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, _OWN_FAULT):
                        raise
                    file.execute("ROLLBACK TO ticket")
                    why = f"it cannot be stored: {type(error).__name__}: {error}"
                    done.append(error if isinstance(error, StoreError) else StoreError(why, MemoryCode.QUERY_INVALID))
                file.execute("RELEASE ticket")
            file.execute("COMMIT")
        except BaseException:
            if file.in_transaction:
                file.execute("ROLLBACK")
            raise
        with self.changed:
            for ticket, value in zip(batch, done, strict=True):
                failed = isinstance(value, StoreError)
                if failed:
                    ticket.set_exception(value)
                else:
                    ticket.set_result(value)
                self.state.queued -= ticket.records
                self.state.written += 0 if failed else ticket.records
                self.state.dropped += ticket.records if failed else 0
            self.changed.notify_all()

    def _tell(self, problem: StoreError | None) -> None:
        with self.changed:
            fresh = getattr(self.state.problem, "code", None) is not getattr(problem, "code", None)
            self.state.problem = problem
            self.changed.notify_all()
        if fresh:
            self._on_problem(problem)

    # -- reading ------------------------------------------------------------------------------------------------------

    def find(self, query: Query) -> list[Record]:
        """Return the records that fit, newest first; with a text the best first."""
        return self.search(query)[0]

    def search(self, query: Query, *, every: bool = False) -> tuple[list[Record], bool]:
        """Return the records, and whether older ones cannot have been left out; see `query.find`."""
        with self.reading() as file:
            return queries.find(file, query, every=every)

    def all_ids(self, query: Query) -> list[int]:
        """Return the ids of all records that fit and hold all words of the query's text, whatever its limit."""
        with self.reading(60.0) as file:
            return queries.all_ids(file, query)

    def get(self, ids: Sequence[int]) -> list[Record]:
        """Return records by id, in that order; those that are no more are left out."""
        with self.reading() as file:
            return schema.by_ids(file, ids)

    def by_key(self, key: str) -> Record | None:
        """Return the shared record of a key, or None."""
        with self.reading() as file:
            return next(iter(select(file, "record WHERE key = ?", (f"\x1f{key}",))), None)

    @contextmanager
    def reading(self, deadline_s: float = QUERY_S) -> Iterator[sqlite3.Connection]:
        """Return a connection for reading. What SQLite raises comes out as StoreError."""
        end = time.monotonic() + deadline_s
        try:
            with closing(connect(self.path)) as file:
                file.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS)
                yield file
        except sqlite3.Error as error:
            raise named(error, self.path) from error
