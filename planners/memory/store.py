# SPDX-License-Identifier: Apache-2.0
"""The one store of the memory: written by one thread in batches, read by any thread, each on a connection of its own."""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from planners.memory import fulltext, schema
from planners.memory.query import Query
from planners.memory.records import Record, StoreError, Tier, named
from planners.memory.schema import COLUMNS, connect, prepare, record_of
from planners.memory.writer import Ticket, Writer, WriterState

DAY_S = 86_400.0
CHUNK = 200
"""Records dropped in one transaction."""


@dataclass(frozen=True)
class Retention:
    """Seconds that the records of each tier are kept (inf: for ever), and how many raw observations at most. A record's own
    `keep_until_s` overrules it. Raw observations that were not consolidated yet are never dropped."""

    raw_s: float = DAY_S
    sentences_s: float = 30 * DAY_S
    episodes_s: float = 365 * DAY_S
    knowledge_s: float = math.inf
    max_raw: int = 500_000

    def of(self, tier: Tier) -> float:
        """Of a tier."""
        return (self.raw_s, self.sentences_s, self.episodes_s, self.knowledge_s)[tier]


def expired(file: sqlite3.Connection, retention: Retention, now_s: float, consolidated: int) -> list[int]:
    """Ids of some records whose time is over, at most `CHUNK`; the oldest of a tier first."""
    found = [
        i
        for (i,) in file.execute(
            "SELECT id FROM record WHERE keep_until IS NOT NULL AND keep_until < ? AND (tier > 0 OR id <= ?) LIMIT ?",
            (now_s, consolidated, CHUNK),
        )
    ]
    for tier in Tier:
        before = now_s - retention.of(tier)
        if tier is Tier.M0:
            kept = file.execute(
                "SELECT time FROM record INDEXED BY record_tier WHERE tier = 0 ORDER BY time DESC LIMIT 1 OFFSET ?",
                (retention.max_raw,),
            ).fetchone()
            before = max(before, math.nextafter(kept[0], math.inf) if kept else -math.inf)
        if len(found) < CHUNK and before > -math.inf:
            found += [
                i
                for (i,) in file.execute(
                    "SELECT id FROM record INDEXED BY record_tier WHERE tier = ? AND time < ? AND keep_until IS NULL AND "
                    "(tier > 0 OR id <= ?) ORDER BY time LIMIT ?",
                    (int(tier), before, consolidated, CHUNK - len(found)),
                )
            ]
    return list(dict.fromkeys(found))


T = TypeVar("T")

QUERY_S = 2.0
"""A query that takes longer is ended with QueryTimeoutError."""
_STEPS = 4000
"""SQLite looks at the deadline after so many of its instructions."""


class Store:
    """Records on disk. All methods may be called from any thread.

    Raises StoreError where the file cannot be used; with `patient` it is then tried again in the background, and until
    that succeeds every method raises what is wrong.
    """

    def __init__(
        self,
        path: Path,
        *,
        power_safe: bool = True,
        max_queue: int = 20_000,
        patient: bool = False,
        on_problem: Callable[[StoreError | None], None] = lambda _: None,
        max_pages: int = 0,
    ) -> None:
        self.path = path
        self._local = threading.local()
        self._open: dict[int, sqlite3.Connection] = {}
        self._open_lock = threading.Lock()
        problem: StoreError | None = None
        try:
            prepare(path)
        except StoreError as error:
            if not patient:
                raise
            problem = error
            on_problem(error)
        self._writer = Writer(
            path, power_safe=power_safe, max_queue=max_queue, on_problem=on_problem, problem=problem, max_pages=max_pages
        )

    # -- writing ------------------------------------------------------------------------------------------------------

    def put(self, *records: Record) -> Ticket[list[int]]:
        """Queue records; they are written together or not at all. Never waits; see `Writer.put`."""
        return self._writer.put(records)

    def do(self, job: Callable[[sqlite3.Connection], T], *, urgent: bool = False) -> Ticket[T]:
        """Queue a change of several rows that belong together, such as those in `rows`; see `Writer.do`."""
        return self._writer.do(job, urgent=urgent)

    def revoke(self, ids: Iterable[int], *, now_s: float, who: str, why: str = "") -> Ticket[list[int]]:
        """Forget records and what was made of them; the ticket tells which."""
        chosen = list(ids)
        return self._writer.do(lambda file: schema.revoke(file, chosen, now_s, who, why))

    def scrub(self, timeout_s: float = 120.0) -> None:
        """Also take forgotten words out of the full text's index and the log file; takes seconds for a large memory."""
        merged = "INSERT INTO record_text (record_text) VALUES ('optimize')"
        self._writer.do(lambda file: file.execute(merged)).result(timeout_s)
        try:
            with closing(connect(self.path, write=True)) as file:
                file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise named(error, self.path) from error

    @property
    def state(self) -> WriterState:
        """How writing fares."""
        return self._writer.state

    def flush(self, timeout_s: float = 10.0) -> None:
        """Wait until all that was put before is on disk. Raises StoreError."""
        self._writer.do(lambda _: None).result(timeout_s)

    def close(self) -> None:
        """Write what is left and close the file."""
        self._writer.close()
        with self._open_lock:
            for file in self._open.values():
                file.close()
            self._open.clear()

    # -- reading ------------------------------------------------------------------------------------------------------

    def find(self, query: Query, *, deadline_s: float = QUERY_S) -> list[Record]:
        """The records that fit, newest first; with a text the best first."""
        return self.search(query, deadline_s=deadline_s)[0]

    def search(self, query: Query, *, deadline_s: float = QUERY_S) -> tuple[list[Record], list[float], bool]:
        """Records, how well the text of each fits, and whether older ones cannot have been left out."""
        with self.reading(deadline_s) as file:
            found = fulltext.find(file, query)
        return [record_of(row) for row in found.rows], found.scores, found.complete

    def find_words(self, query: Query, *, deadline_s: float = QUERY_S) -> tuple[list[Record], bool]:
        """The newest records that hold all words of the query's text, and whether older ones cannot have been left out."""
        with self.reading(deadline_s) as file:
            found = fulltext.search(file, query, newest_only=True)
        return sorted((record_of(row) for row in found.rows), key=lambda r: (-r.time_s, -r.id)), found.complete

    def all_ids(self, query: Query, *, deadline_s: float = 60.0) -> list[int]:
        """The ids of all records that fit and hold all words of the query's text, whatever its limit."""
        with self.reading(deadline_s) as file:
            return fulltext.all_ids(file, query)

    def get(self, ids: Sequence[int], *, parents: bool = False) -> list[Record]:
        """Records by id, in that order; those that are no more are left out."""
        with self.reading() as file:
            found = {row[0]: row for row in fulltext.by_id(file, list(ids))}
            made_of = {i: _parents(file, i) if parents else () for i in found}
        return [record_of(found[i], made_of[i]) for i in ids if i in found]

    def by_key(self, key: str, scope: str = "") -> Record | None:
        """The record of a key, or None."""
        with self.reading() as file:
            row = file.execute(f"SELECT {COLUMNS} FROM record WHERE key = ?", (f"{scope}\x1f{key}",)).fetchone()
        return record_of(row) if row else None

    def newest(self, prefix: str, scope: str = "") -> Record | None:
        """The record, with its parents, whose key is the last of those that begin so, or None."""
        bounds = f"{scope}\x1f{prefix}", f"{scope}\x1f{prefix}\U0010ffff"
        last = f"SELECT {COLUMNS} FROM record WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"
        with self.reading() as file:
            row = file.execute(last, bounds).fetchone()
            return record_of(row, _parents(file, row[0])) if row else None

    def after(self, record_id: int, limit: int) -> list[Record]:
        """The next records in the order they were stored, for background work."""
        with self.reading() as file:
            found = file.execute(f"SELECT {COLUMNS} FROM record WHERE id > ? ORDER BY id LIMIT ?", (record_id, limit))
            return [record_of(row) for row in found.fetchall()]

    @property
    def name(self) -> str:
        """The store's own name, which exports carry."""
        with self.reading() as file:
            return schema.meta(file, "name")

    @contextmanager
    def reading(self, deadline_s: float = QUERY_S) -> Iterator[sqlite3.Connection]:
        """A connection for reading on this thread. What SQLite raises comes out as StoreError."""
        end = time.monotonic() + deadline_s
        try:
            file = self._connection()
            file.set_progress_handler(lambda: int(time.monotonic() > end), _STEPS)
            yield file
        except sqlite3.Error as error:
            self._drop()
            raise named(error, self.path) from error

    def _connection(self) -> sqlite3.Connection:
        generation = self._writer.reopened
        made: tuple[int, sqlite3.Connection] | None = getattr(self._local, "made", None)
        if made is not None and made[0] == generation:
            return made[1]
        if made is not None:
            self._drop()
        problem = self._writer.state.problem
        if not self.path.exists() and problem is not None:
            raise problem
        file = connect(self.path)
        self._local.made = (generation, file)
        with self._open_lock:
            self._open[id(file)] = file
        return file

    def _drop(self) -> None:
        made: tuple[int, sqlite3.Connection] | None = getattr(self._local, "made", None)
        if made is not None:
            with self._open_lock:
                self._open.pop(id(made[1]), None)
            made[1].close()
            self._local.made = None


def _parents(file: sqlite3.Connection, record_id: int) -> tuple[int, ...]:
    return tuple(row[0] for row in file.execute("SELECT parent FROM link WHERE child = ? ORDER BY parent", (record_id,)))
