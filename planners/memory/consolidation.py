# SPDX-License-Identifier: Apache-2.0
"""Active consolidation (TypeGo 9): in the background, in small transactions, records become sentences, summaries and
knowledge, and what has served its time goes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from planners.memory import graph, rows
from planners.memory.distil import SOURCE, Distiller
from planners.memory.episodes import HOUR_S, Summariser, hour_digest, task_episode
from planners.memory.errors import RecordRefusedError, StoreError
from planners.memory.knowledge import habits_of
from planners.memory.query import MAX_LIMIT, Query
from planners.memory.records import Kind, Record, Tier, Viewer, Visibility
from planners.memory.remaking import nodes_anew, sentences_anew, summaries_anew
from planners.memory.retention import Retention, expired
from planners.memory.store import Store
from planners.memory.writer import Ticket

CHUNK = 300
"""Records looked at in one step; a step writes once."""
SUMMARY_SENTENCES = 2000
_SENTENCES = (Kind.VISIT.value, Kind.SIGHTING.value, Kind.CALL.value)
_CURSOR = "consolidated"


@dataclass(frozen=True)
class ConsolidationSettings:
    """`people` and `facilities` are the labels of the detector that are such; `knowledge_every_s` is how often knowledge is
    made anew [s]."""

    retention: Retention = field(default_factory=Retention)
    people: frozenset[str] = frozenset({"person"})
    facilities: frozenset[str] = frozenset()
    gap_s: float = 20.0
    knowledge_every_s: float = 60.0


class Consolidator:
    """One step at a time; `Background` calls it on a thread. What a step read and what it made of it is written in one
    transaction with the place it came to, so a kill between two steps repeats and loses nothing; and it is not written at
    all when something was forgotten in between."""

    def __init__(
        self,
        store: Store,
        settings: ConsolidationSettings | None = None,
        *,
        wall: Callable[[], float],
        summariser: Summariser | None = None,
        on_problem: Callable[[StoreError], None] = lambda _: None,
    ) -> None:
        self._on_problem = on_problem
        self._singly_until = 0
        self.skipped = 0
        """Records that could not be worked with."""
        self._store, self._wall, self._summariser = store, wall, summariser
        self._settings = settings or ConsolidationSettings()
        self._distiller = Distiller(store.newest, self._settings.gap_s)
        self._clocks: dict[str, float] = {}
        """Newest time of each robot's records: its own clock, which may be simulated."""
        self._knowledge_due = True
        self._knowledge_at = float("-inf")
        self._revision = ""
        self._freeing: Ticket[None] | None = None
        self._digested: set[str] = set()
        """Robots without an hour to sum up, until something new comes."""

    def step(self) -> bool:
        """Do the next piece of work; false when there was nothing to do. Raises StoreError."""
        with self._store.reading() as file:
            revision = rows.meta(file, rows.REVISION, "0")
        if revision != self._revision:
            self._distiller.forget()
            self._revision = revision
        if self._store.state.problem is not None and (self._freeing is None or self._freeing.done):
            old = self._old()  # it would wait behind what has no room
            self._freeing = self._store.do(lambda file: rows.delete(file, old), urgent=True) if old else None
        return self._redo() or self._advance() or self._digest() or self._know() or self._expire()

    def _commit(
        self, write: Callable[[sqlite3.Connection], object], still: Callable[[sqlite3.Connection], bool] = lambda _: True
    ) -> bool:
        """Write what was made, if nothing was forgotten since it was read and `still` holds. Raises StoreError; then it is
        not written later either, or a disk that has room again would get all that was tried."""
        revision = self._revision

        def job(file: sqlite3.Connection) -> bool:
            if rows.meta(file, rows.REVISION, "0") != revision or not still(file):
                return False
            write(file)
            return True

        ticket = self._store.do(job)
        try:
            done = ticket.result()
        except StoreError:
            ticket.withdraw()
            self._distiller.forget()
            raise
        if not done:
            self._distiller.forget()
        return done

    # -- new records --------------------------------------------------------------------------------------------------

    def _advance(self) -> bool:
        with self._store.reading() as file:
            cursor = int(rows.meta(file, _CURSOR, "0"))
        found = self._store.after(cursor, CHUNK if cursor >= self._singly_until else 1)
        if not found:
            return False
        try:
            self._take(found, cursor)
        except StoreError as error:
            if not isinstance(error, RecordRefusedError):
                raise
            self._spoilt(found, error, cursor)
        except Exception as error:  # noqa: BLE001 - a strange record, imported perhaps, must not end all consolidation
            self._spoilt(found, error, cursor)
        return True

    @staticmethod
    def _at(cursor: int) -> Callable[[sqlite3.Connection], bool]:
        return lambda file: rows.meta(file, _CURSOR, "0") == str(cursor)

    def _spoilt(self, found: Sequence[Record], error: Exception, cursor: int) -> None:
        """One of them cannot be worked with: each by itself, and that one not at all."""
        self._distiller.forget()
        self._singly_until = max(self._singly_until, found[-1].id)
        if len(found) == 1:
            self._left_out(f"record {found[0].id}", error)
            self._commit(lambda file: rows.set_meta(file, _CURSOR, str(found[0].id)), self._at(cursor))

    def _take(self, found: list[Record], cursor: int) -> None:
        ends = next((n for n, r in enumerate(found) if r.kind == Kind.OUTCOME.value), len(found))
        # An episode needs the sentences up to its end: they are stored by a step of their own.
        found = found[: ends or 1]
        told: list[Record] = []
        for record in found:
            if record.revoked_s:
                continue
            robot = record.provenance.robot
            self._clocks[robot] = max(self._clocks.get(robot, 0.0), record.time_s)
            if record.kind == Kind.OBSERVATION.value and record.tier is Tier.M0:
                self._distiller.take(record)
            elif record.tier is Tier.M1 and record.provenance.source != SOURCE:
                told.append(record)
        sentences = self._distiller.drain(max(self._clocks.values(), default=0.0))
        episodes = [
            self._worded(task_episode(r, self._sentences(r.provenance.robot, r.start_s, r.time_s, r.provenance.process)))
            for r in found
            if r.kind == Kind.OUTCOME.value and not r.revoked_s
        ]

        def write(file: sqlite3.Connection) -> None:
            graph.write_sentences(file, sentences, self._settings.people, self._settings.facilities, told)
            rows.insert(file, episodes)
            rows.set_meta(file, _CURSOR, str(found[-1].id))

        self._digested.clear()
        self._commit(write, self._at(cursor))
        self._knowledge_due = self._knowledge_due or bool(episodes)

    def _sentences(self, robot: str, since_s: float, until_s: float, process: str = "") -> list[Record]:
        """Those that this process may read, or for no process those that no process keeps to itself."""
        query = Query(kinds=_SENTENCES, robot=robot, since_s=since_s, until_s=until_s, limit=SUMMARY_SENTENCES)
        mine = Viewer(robot, process)
        return [r for r in self._store.find(query)[::-1] if r.visibility is not Visibility.PROCESS or mine.may_read(r)]

    def _worded(self, summary: Record) -> Record:
        if self._summariser is None:
            return summary
        sentences = [r.text for r in self._store.get(summary.parents)]
        text = self._summariser.summarise(summary.text, sentences)
        return replace(summary, text=text[:5000]) if text else summary

    # -- summaries and knowledge --------------------------------------------------------------------------------------

    def _digest(self) -> bool:
        """The next hour of a robot that is over."""
        for robot, now_s in self._clocks.items():
            if robot in self._digested:
                continue
            name = f"digested:{robot}"
            with self._store.reading() as file:
                done = rows.meta(file, name, "0.0")
                first = file.execute(
                    "SELECT min(time) FROM record WHERE kind IN ('visit', 'sighting') AND robot = ? AND time >= ? AND "
                    "revoked = 0",
                    (robot, float(done)),
                ).fetchone()[0]
            if first is None:
                self._digested.add(robot)
                continue
            begun = first // HOUR_S * HOUR_S
            if begun + HOUR_S + self._settings.gap_s > now_s:
                continue
            made: list[Record] = []
            try:
                during = [r for r in self._sentences(robot, begun, begun + HOUR_S - 1e-6) if r.kind != Kind.CALL.value]
                made = [self._worded(hour_digest(robot, begun, during))] if during else []
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - as for a strange record: without this hour the next ones go on
                self._left_out(f"the hour of {robot} from {begun:.0f} s", error)
            self._write_digest(name, done, begun + HOUR_S, made)
            return True
        return False

    def _left_out(self, what: str, error: Exception) -> None:
        self.skipped += 1
        self._on_problem(StoreError(f"{what} is left out of consolidation: {type(error).__name__}: {error}"))

    def _write_digest(self, name: str, since: str, until_s: float, made: list[Record]) -> None:
        def write(file: sqlite3.Connection) -> None:
            rows.insert(file, made)
            rows.set_meta(file, name, repr(until_s))

        self._commit(write, lambda file: rows.meta(file, name, "0.0") == since)
        self._knowledge_due = True

    def _know(self) -> bool:
        now = self._wall()
        if not self._knowledge_due or now - self._knowledge_at < self._settings.knowledge_every_s:
            return False
        self._knowledge_at, self._knowledge_due = now, False
        summaries = self._store.find(Query(kinds=(Kind.DIGEST.value, Kind.EPISODE.value), limit=MAX_LIMIT), deadline_s=30.0)
        try:
            habits = habits_of(summaries)
        except Exception as error:  # noqa: BLE001 - the habits there are stay; what is left to do goes on
            self._left_out("what the summaries have in common", error)
            return True
        keys = {f"{r.scope}\x1f{r.key}" for r in habits}

        def write(file: sqlite3.Connection) -> None:
            rows.insert(file, habits)
            old = file.execute("SELECT id, key FROM record WHERE kind = 'habit' AND revoked = 0").fetchall()
            rows.delete(file, [i for i, key in old if key not in keys])

        self._knowledge_due = not self._commit(write)
        return True

    # -- forgetting ---------------------------------------------------------------------------------------------------

    def _redo(self) -> bool:
        """Make anew what stood partly on something that was revoked."""
        with self._store.reading() as file:
            row = file.execute("SELECT id, tier, parents FROM redo ORDER BY id LIMIT 1").fetchone()
        if row is None:
            return False
        self._knowledge_due = True
        self._digested.clear()
        made: list[Record] = []
        nodes: list[Record] = []
        parents = json.loads(row[2])
        try:
            if row[1] == Tier.M1:
                made = sentences_anew(self._store, parents, self._settings.gap_s)
            elif row[1] == Tier.M2:
                made = [self._worded(r) for r in summaries_anew(self._store, parents)]
            else:
                nodes = nodes_anew(self._store, parents, self._settings.people, self._settings.facilities)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - as for a strange record
            self._left_out("what is to be made anew", error)

        def write(file: sqlite3.Connection) -> None:
            if row[1] == Tier.M1:
                graph.write_sentences(file, made, self._settings.people, self._settings.facilities)
            elif row[1] == Tier.M2:
                rows.insert(file, made)
            else:
                # Sentences made anew before have noted it already; all are counted here.
                of_key = f"SELECT id FROM record WHERE key IN ({', '.join('?' * len(parents))})"
                rows.delete(file, [i for (i,) in file.execute(of_key, parents)])
                graph.note(file, nodes)
            file.execute("DELETE FROM redo WHERE id = ?", (row[0],))

        self._commit(write, lambda file: file.execute("SELECT 1 FROM redo WHERE id = ?", (row[0],)).fetchone() is not None)
        return True

    def _expire(self) -> bool:
        if old := self._old():
            self._commit(lambda file: rows.delete(file, old))
        return bool(old)

    def _old(self) -> list[int]:
        with self._store.reading() as file:
            return expired(file, self._settings.retention, self._wall(), int(rows.meta(file, _CURSOR, "0")))
