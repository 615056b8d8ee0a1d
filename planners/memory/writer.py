# SPDX-License-Identifier: Apache-2.0
"""The one writer of the memory's file: a bounded queue, one transaction a batch, an acknowledgement once it is on disk."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from planners.memory import schema
from planners.memory.records import Record, RecordRefusedError, StoreError, Tier, environmental, named
from planners.memory.schema import connect, prepare


class Background:
    """Runs steps on a thread of low priority: one after the other while there is work, then every `period_s`."""

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
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        wait_s = 0.0
        while not self._ending.wait(wait_s):
            try:
                # A breath between two steps: readers and the writer's other work go first.
                wait_s = 0.002 if self._step() else self._period_s
            except StoreError as error:
                self._on_problem(error)
                wait_s = max(2.0, self._period_s)
            except Exception as error:  # noqa: BLE001 - the thread lives on; what failed is tried again
                self._on_problem(StoreError(f"{type(error).__name__} in the memory's background work: {error}"))
                wait_s = max(10.0, self._period_s)


T = TypeVar("T")

BATCH = 2000
"""Records in one transaction at most: tens of milliseconds, in which no other program can write."""
RETRY_S = 2.0
"""How often a write that failed for want of space or of a sound file is tried again."""
RAW_SHARE = 0.75
"""Raw observations are dropped once the queue is so full; the rest is for what can be measured only once."""


class Ticket(Generic[T]):
    """A write under way."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._value: T | None = None
        self._error: StoreError | None = None
        self._done = self._withdrawn = False

    @property
    def done(self) -> bool:
        """Whether it is written, or never will be."""
        return self._done

    def result(self, timeout_s: float = 10.0) -> T:
        """What was written (for records, their ids), once it is on disk and survives a kill.

        Raises StoreError when it was refused or dropped, when writing fails at present (it may still be written later),
        or when the time is over.
        """
        return self._writer._wait(self, timeout_s)

    def withdraw(self) -> None:
        """Take a job that `Writer.do` queued back, unless it is being done at this moment."""
        self._writer._withdraw(self)

    def _finish(self, value: T | None, error: StoreError | None = None) -> None:
        self._value, self._error, self._done = value, error, True


@dataclass(frozen=True)
class _Item:
    ticket: Ticket[Any]
    records: tuple[Record, ...] = ()
    job: Callable[[sqlite3.Connection], Any] | None = None


@dataclass(frozen=True)
class WriterState:
    """How the writer fares: `queued` records wait, `problem` is why nothing is written at present ("" when all is well)."""

    queued: int
    written: int
    dropped: int
    problem: StoreError | None


class Writer:
    """Writes on a thread of its own. `put` and `do` may be called from any thread and return at once.

    `on_problem` is told (on the writer's thread) when writing begins to fail, and with None when it works again.
    """

    def __init__(
        self,
        path: Path,
        *,
        power_safe: bool = True,
        max_queue: int = 20_000,
        on_problem: Callable[[StoreError | None], None] = lambda _: None,
        problem: StoreError | None = None,
        max_pages: int = 0,
    ) -> None:
        self._path, self._power_safe, self._max_queue, self._max_pages = path, power_safe, max_queue, max_pages
        self._on_problem = on_problem
        self._changed = threading.Condition()
        self._items: deque[_Item] = deque()
        self._urgent: deque[_Item] = deque()
        self._queued = self._written = self._dropped = 0
        self._problem = problem
        self._ending = False
        self.reopened = 0
        """How often the file was opened anew; readers follow."""
        self._thread = threading.Thread(target=self._run, name="memory-writer", daemon=True)
        self._thread.start()

    def put(self, records: Sequence[Record]) -> Ticket[list[int]]:
        """Queue records for one transaction. When the queue is full they are dropped, which the ticket and `state` tell."""
        ticket: Ticket[list[int]] = Ticket(self)
        limit = self._max_queue
        if all(r.tier is Tier.M0 for r in records):
            limit = int(limit * RAW_SHARE)
        with self._changed:
            if self._ending or self._queued + len(records) > limit:
                self._dropped += len(records)
                why = "the memory is closed" if self._ending else f"{self._queued} records wait to be written already"
                ticket._finish(None, self._problem or StoreError(f"{why}; these {len(records)} are dropped"))
                return ticket
            self._queued += len(records)
            self._items.append(_Item(ticket, tuple(records)))
            self._changed.notify_all()
        return ticket

    def do(self, job: Callable[[sqlite3.Connection], T], *, urgent: bool = False) -> Ticket[T]:
        """Run a change in a transaction of its own, after all that was queued before, or `urgent`: before it, also while
        that cannot be written. What it raises, the ticket raises."""
        ticket: Ticket[T] = Ticket(self)
        with self._changed:
            if self._ending:
                ticket._finish(None, StoreError("the memory is closed"))
                return ticket
            (self._urgent if urgent else self._items).append(_Item(ticket, job=job))
            self._changed.notify_all()
        return ticket

    @property
    def state(self) -> WriterState:
        """How the writer fares now."""
        with self._changed:
            return WriterState(self._queued, self._written, self._dropped, self._problem)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what is left, within the time, and end."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(timeout_s)

    def _withdraw(self, ticket: Ticket[Any]) -> None:
        with self._changed:
            ticket._withdrawn = True
            self._items = deque(i for i in self._items if i.job is None or i.ticket is not ticket)

    def _wait(self, ticket: Ticket[T], timeout_s: float) -> T:
        with self._changed:
            self._changed.wait_for(lambda: ticket._done or self._problem is not None, timeout_s)
            if ticket._done:
                if ticket._error is not None:
                    raise ticket._error
                return cast(T, ticket._value)
            if self._problem is not None:
                raise self._problem
        raise StoreError(f"the memory did not write within {timeout_s:g} s; its disk is slow or its queue long")

    # -- on the writer's thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        file: sqlite3.Connection | None = None
        batch: list[_Item] = []
        while True:
            batch = [i for i in batch if i.job is None or not i.ticket._withdrawn]
            first = [self._urgent.popleft()] if self._urgent else []
            batch = batch or ([] if first else self._next())
            if not first and not batch:
                break
            try:
                if file is None:
                    file = self._open()
                self._write(file, first or batch)
            except Exception as error:  # noqa: BLE001 - without this thread nothing is ever kept again
                if file is not None:
                    file.close()
                    file = None
                for item in first:
                    item.ticket._finish(None, named(error, self._path))
                if not self._failed(named(error, self._path)):
                    break
                continue
            if not first or not batch:  # else it is not known yet whether what waits can be written now
                batch = []
                self._worked()
        if file is not None:
            file.close()
        with self._changed:
            for item in (*batch, *self._urgent, *self._items):
                item.ticket._finish(None, self._problem or StoreError("the memory was closed before this was written"))
            self._dropped += self._queued
            self._queued = 0
            self._items.clear()
            self._changed.notify_all()

    def _open(self) -> sqlite3.Connection:
        prepare(self._path)
        file = connect(self._path, write=True, power_safe=self._power_safe)
        if self._max_pages:
            file.execute(f"PRAGMA max_page_count = {self._max_pages}")
        self.reopened += 1
        return file

    def _next(self) -> list[_Item]:
        """The next items for one transaction: a job alone, or what records there are. Empty at the end."""
        with self._changed:
            while not self._items and not self._urgent and not self._ending:
                if self._problem is not None:
                    return [_Item(Ticket(self), job=_probe)]
                self._changed.wait(60.0)
            batch: list[_Item] = []
            count = 0
            if self._urgent:
                return [self._urgent.popleft()]
            while self._items and (not batch or (self._items[0].job is None and batch[0].job is None and count < BATCH)):
                batch.append(self._items.popleft())
                count += len(batch[-1].records)
            return batch

    def _write(self, file: sqlite3.Connection, batch: list[_Item]) -> None:
        try:
            done = self._commit(file, batch)
        except (sqlite3.Error, ValueError) as error:
            if isinstance(error, sqlite3.Error) and environmental(error):
                raise
            if len(batch) > 1:  # one of them is at fault: each by itself
                while batch:
                    self._write(file, batch[:1])
                    del batch[0]
                return
            done = [(None, RecordRefusedError(f"a record cannot be stored: {error}"))]
        except Exception as error:  # noqa: BLE001 - a job's own fault is for whoever asked for it
            done = [(None, error if isinstance(error, StoreError) else StoreError(f"{type(error).__name__}: {error}"))]
        with self._changed:
            for item, (value, failure) in zip(batch, done, strict=True):
                item.ticket._finish(value, failure)
                self._queued -= len(item.records)
                self._written += len(item.records) if failure is None else 0
                self._dropped += 0 if failure is None else len(item.records)
            self._changed.notify_all()

    @staticmethod
    def _commit(file: sqlite3.Connection, batch: list[_Item]) -> list[tuple[Any, StoreError | None]]:
        file.execute("BEGIN IMMEDIATE")
        try:
            if batch[0].job is not None:
                values: list[Any] = [batch[0].job(file)]
            else:
                ids = iter(schema.insert(file, [r for item in batch for r in item.records]))
                values = [[next(ids) for _ in item.records] for item in batch]
            file.execute("COMMIT")
        except BaseException:
            if file.in_transaction:
                file.execute("ROLLBACK")
            raise
        return [(value, None) for value in values]

    def _failed(self, problem: StoreError) -> bool:
        """Tell of it once and wait a while; false when the memory is being closed."""
        with self._changed:
            fresh = self._problem is None or type(self._problem) is not type(problem)
            self._problem = problem
            self._changed.notify_all()
        if fresh:
            self._on_problem(problem)
        with self._changed:
            if not self._ending:
                self._changed.wait_for(lambda: self._ending, RETRY_S)
            return not self._ending

    def _worked(self) -> None:
        with self._changed:
            if self._problem is None:
                return
            self._problem = None
        self._on_problem(None)


def _probe(file: sqlite3.Connection) -> None:
    """Whether the file can be written again."""
    schema.set_meta(file, "probe", "1")
