# SPDX-License-Identifier: Apache-2.0
"""Active consolidation (TypeGo 9): in the background, in small transactions, records become sentences, summaries and
knowledge, and what has served its time goes."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from planners.memory import graph, rows
from planners.memory.distil import SOURCE, Distiller
from planners.memory.episodes import HOUR_S, Summariser, hour_digest, task_episode
from planners.memory.errors import RecordRefusedError, StoreError
from planners.memory.knowledge import habits_of
from planners.memory.query import MAX_LIMIT, Query
from planners.memory.records import Kind, Record, Tier
from planners.memory.retention import Retention, expired
from planners.memory.schema import COLUMNS, record_of
from planners.memory.store import Store

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
    transaction with the place it came to, so a kill between two steps repeats and loses nothing."""

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
        self._distiller = Distiller(self._newest, self._settings.gap_s)
        self._clocks: dict[str, float] = {}
        """Newest time of each robot's records: its own clock, which may be simulated."""
        self._knowledge_due = True
        self._knowledge_at = float("-inf")

    def step(self) -> bool:
        """Do the next piece of work; false when there was nothing to do. Raises StoreError."""
        return self._redo() or self._advance() or self._digest() or self._know() or self._expire()

    # -- new records --------------------------------------------------------------------------------------------------

    def _advance(self) -> bool:
        with self._store.reading() as file:
            cursor = int(rows.meta(file, _CURSOR, "0"))
        found = self._store.after(cursor, CHUNK if cursor >= self._singly_until else 1)
        if not found:
            return False
        try:
            self._take(found)
        except StoreError as error:
            if not isinstance(error, RecordRefusedError):
                raise
            self._spoilt(found, error)
        except Exception as error:  # noqa: BLE001 - a strange record, imported perhaps, must not end all consolidation
            self._spoilt(found, error)
        return True

    def _spoilt(self, found: Sequence[Record], error: Exception) -> None:
        """One of them cannot be worked with: each by itself, and that one not at all."""
        self._distiller.forget()
        self._singly_until = max(self._singly_until, found[-1].id)
        if len(found) == 1:
            self.skipped += 1
            self._on_problem(StoreError(f"record {found[0].id} is left out of consolidation: {type(error).__name__}: {error}"))
            self._store.do(lambda file: rows.set_meta(file, _CURSOR, str(found[0].id))).result()

    def _take(self, found: list[Record]) -> None:
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
            self._worded(task_episode(r, self._sentences(r.provenance.robot, r.start_s, r.time_s)))
            for r in found
            if r.kind == Kind.OUTCOME.value and not r.revoked_s
        ]

        def write(file: sqlite3.Connection) -> None:
            self._write_sentences(file, sentences, told)
            rows.insert(file, episodes)
            rows.set_meta(file, _CURSOR, str(found[-1].id))

        self._store.do(write).result()
        self._knowledge_due = self._knowledge_due or bool(episodes)

    def _write_sentences(
        self, file: sqlite3.Connection, sentences: Sequence[Record], told: Sequence[Record] = ()
    ) -> None:
        known = {r.key for r in sentences if file.execute(
            "SELECT 1 FROM record WHERE key = ?", (f"{r.scope}\x1f{r.key}",)).fetchone()}  # fmt: skip
        ids = rows.insert(file, sentences)
        stored = [(r.with_id(i), r.key not in known) for r, i in zip(sentences, ids, strict=True)]
        for record, fresh in (*stored, *((r, True) for r in told)):
            graph.note(
                file, graph.from_sentence(record, self._settings.people, self._settings.facilities, fresh=fresh)
            )

    def _newest(self, prefix: str, scope: str) -> Record | None:
        bounds = f"{scope}\x1f{prefix}", f"{scope}\x1f{prefix}\U0010ffff"
        newest = f"SELECT {COLUMNS} FROM record WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"
        with self._store.reading() as file:
            row = file.execute(newest, bounds).fetchone()
            made_of = [] if row is None else file.execute("SELECT parent FROM link WHERE child = ?", (row[0],)).fetchall()
        return record_of(row, tuple(p for (p,) in made_of)) if row else None

    def _sentences(self, robot: str, since_s: float, until_s: float) -> list[Record]:
        query = Query(kinds=_SENTENCES, robot=robot, since_s=since_s, until_s=until_s, limit=SUMMARY_SENTENCES)
        return self._store.find(query)[::-1]

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
            name = f"digested:{robot}"
            with self._store.reading() as file:
                since = float(rows.meta(file, name, "-1e18"))
                first = file.execute(
                    "SELECT min(time) FROM record WHERE kind IN ('visit', 'sighting') AND robot = ? AND time >= ? AND "
                    "revoked = 0", (robot, since),
                ).fetchone()[0]  # fmt: skip
            if first is None:
                continue
            begun = first // HOUR_S * HOUR_S
            if begun + HOUR_S + self._settings.gap_s > now_s:
                continue
            during = [r for r in self._sentences(robot, begun, begun + HOUR_S - 1e-6) if r.kind != Kind.CALL.value]
            self._write_digest(name, begun + HOUR_S, [self._worded(hour_digest(robot, begun, during))] if during else [])
            return True
        return False

    def _write_digest(self, name: str, until_s: float, made: list[Record]) -> None:
        def write(file: sqlite3.Connection) -> None:
            rows.insert(file, made)
            rows.set_meta(file, name, repr(until_s))

        self._store.do(write).result()
        self._knowledge_due = True

    def _know(self) -> bool:
        now = self._wall()
        if not self._knowledge_due or now - self._knowledge_at < self._settings.knowledge_every_s:
            return False
        self._knowledge_at, self._knowledge_due = now, False
        summaries = self._store.find(Query(kinds=(Kind.DIGEST.value, Kind.EPISODE.value), limit=MAX_LIMIT), deadline_s=30.0)
        habits = habits_of(summaries)
        keys = {f"{r.scope}\x1f{r.key}" for r in habits}

        def write(file: sqlite3.Connection) -> None:
            rows.insert(file, habits)
            old = file.execute("SELECT id, key FROM record WHERE kind = 'habit' AND revoked = 0").fetchall()
            rows.delete(file, [i for i, key in old if key not in keys])

        self._store.do(write).result()
        return True

    # -- forgetting ---------------------------------------------------------------------------------------------------

    def _redo(self) -> bool:
        """Make anew what stood partly on something that was revoked."""
        with self._store.reading() as file:
            row = file.execute("SELECT id, tier, parents FROM redo ORDER BY id LIMIT 1").fetchone()
        if row is None:
            return False
        self._knowledge_due = True
        self._distiller.forget()
        parents = json.loads(row[2])
        made: list[Record] = []
        nodes: list[Record] = []
        if row[1] == Tier.M1:
            again = Distiller(lambda *_: None, self._settings.gap_s)
            for record in self._store.get(parents):
                if not record.revoked_s:
                    again.take(record)
            made = again.drain(float("inf"))
        elif row[1] == Tier.M2:
            kept = [r for r in self._store.get(parents) if not r.revoked_s]
            if ended := [r for r in kept if r.kind == Kind.OUTCOME.value]:
                made = [self._worded(task_episode(ended[0], [r for r in kept if r is not ended[0]]))]
            elif kept:
                begun = min(r.time_s for r in kept) // HOUR_S * HOUR_S
                made = [self._worded(hour_digest(kept[0].provenance.robot, begun, kept))]
        else:
            kinds = (Kind.VISIT.value, Kind.SIGHTING.value, Kind.HEARD.value)
            for record in reversed(self._store.find(Query(kinds=kinds, limit=MAX_LIMIT), deadline_s=30.0)):
                told = graph.from_sentence(record, self._settings.people, self._settings.facilities)
                nodes += [n for n in told if f"{n.scope}\x1f{n.key}" in parents]

        def write(file: sqlite3.Connection) -> None:
            if row[1] == Tier.M1:
                self._write_sentences(file, made)
            else:
                rows.insert(file, made)
                graph.note(file, nodes)
            file.execute("DELETE FROM redo WHERE id = ?", (row[0],))

        self._store.do(write).result()
        return True

    def _expire(self) -> bool:
        with self._store.reading() as file:
            cursor = int(rows.meta(file, _CURSOR, "0"))
            old = expired(file, self._settings.retention, self._wall(), cursor)
        if not old:
            return False
        self._store.do(lambda file: rows.delete(file, old)).result()
        return True


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
