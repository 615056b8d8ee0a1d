# SPDX-License-Identifier: Apache-2.0
"""Active consolidation (TypeGo 9): in the background, in small transactions, records become sentences, summaries and
knowledge, and what has served its time goes."""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from planners.language.questions import listed, readable
from planners.memory import graph, query, schema
from planners.memory.answers import clock, sight, times
from planners.memory.graph import habits_of
from planners.memory.query import MAX_LIMIT, Query
from planners.memory.records import SOURCE, Kind, Provenance, Record, Spot, StoreError, Tier, Viewer, narrowest
from planners.memory.schema import DAY_S, KNOWLEDGE, select
from planners.memory.store import Store, Ticket


class Distiller:
    """Take observations in order and make the sentences of what is new in them or went on from what is stored: until
    `gap_s` unseen it is the same sighting, until another room or `gap_s` it is the same visit."""

    def __init__(self, file: sqlite3.Connection, gap_s: float) -> None:
        self._file, self._gap_s = file, gap_s
        self._going_on: dict[tuple[str, str], Record] = {}
        self._over: list[Record] = []

    def take(self, seen: Record) -> None:
        """Take one record of kind observation."""
        things: dict[str, list[dict[str, Any]]] = {}
        for thing in seen.data.get("objects", ()):
            things.setdefault(str(thing.get("label", "")), []).append(thing)
        if seen.spot.room:
            self._extend(seen, Kind.VISIT, seen.spot.room, seen.spot, [])
        for label, same in things.items():
            placed = next((t for t in same if "x" in t), None)
            spot = Spot(placed["x"], placed["y"], seen.spot.room) if placed else Spot(room=seen.spot.room)
            if label:
                self._extend(seen, Kind.SIGHTING, label, spot, [int(t.get("track", 0)) for t in same])

    def runs(self) -> list[Record]:
        """Return the sentences, still without text, that are new or have grown; what is stored already has its id."""
        return [run for run in (*self._over, *self._going_on.values()) if run.parents]

    def _extend(self, seen: Record, kind: Kind, subject: str, spot: Spot, tracks: list[int]) -> None:
        robot, now_s = seen.provenance.robot, seen.time_s
        key = f"{kind.value}:{robot}:{subject}:{spot.room}:"
        # A robot is in one room at a time: whoever is in another has left the one before.
        slot = (seen.scope, f"visit:{robot}:" if kind is Kind.VISIT else key)
        run = self._going_on.get(slot) or self._stored(slot, kind, now_s)
        if run is None or not run.key.startswith(key) or not run.start_s <= now_s <= run.time_s + self._gap_s:
            if run is not None:
                self._over.append(run)
            who = Provenance(robot, SOURCE, seen.provenance.process)
            run = Record(Tier.M1, kind, now_s, "", {}, who, spot, seen.visibility, key=f"{key}{now_s:018.6f}")
        data: dict[str, Any] = {"place": subject}
        if kind is Kind.SIGHTING:
            known = sorted({*run.data.get("tracks", ()), *tracks})[-50:]
            data = {"count": max(int(run.data.get("count", 0)), len(tracks)), "label": subject, "tracks": known}
        self._going_on[slot] = replace(
            run,
            time_s=max(now_s, run.time_s),
            begun_s=run.start_s,
            data=data,
            spot=spot if spot.x is not None and now_s >= run.time_s else run.spot,
            parents=(*run.parents, seen.id),
        )

    def _stored(self, slot: tuple[str, str], kind: Kind, now_s: float) -> Record | None:
        """Return the newest of what was going on before, for one that may go on still."""
        prefix = "\x1f".join(slot)
        newest = (
            "record INDEXED BY record_kind WHERE kind = ? AND time >= ? AND key >= ? AND key < ? ORDER BY time DESC LIMIT 1"
        )
        values = (kind.value, now_s - self._gap_s, prefix, f"{prefix}\U0010ffff")
        return next(iter(select(self._file, newest, values)), None)


def worded(run: Record) -> Record:
    """Return a visit or sighting with its text."""
    robot = run.provenance.robot
    begun, ended = clock(run.start_s), clock(run.time_s)[11:]
    lasted = f"from {begun} to {ended}" if run.time_s > run.start_s else f"at {begun}"
    if run.kind == Kind.VISIT.value:
        return replace(run, text=f"{robot} was in the {readable(run.data['place'])} {lasted}.")
    return replace(run, text=f"{sight(run)} {lasted}.")


MAX_PARENTS = 500
HOUR_S = 3600.0


def task_episode(outcome: Record, during: Sequence[Record]) -> Record:
    """Return the summary of a task: `outcome` is the record of its end, `during` the sentences of its robot in that time."""
    who, told = outcome.provenance, outcome.data
    done: dict[str, Counter[str]] = {}
    used = [outcome]
    for record in during:
        if record.kind != Kind.CALL.value:
            used.append(record)
        elif record.provenance.process == who.process:
            used.append(record)
            done.setdefault(str(record.data.get("function", "?")), Counter())[str(record.data.get("outcome", "?"))] += 1
    task = f"“{told.get('instruction', '')}”{f' for {who.sender}' if who.sender else ''}"
    status = str(told.get("status", "ended")).lower()
    parts = [f"From {clock(outcome.start_s)} to {clock(outcome.time_s)[11:]} {who.robot} worked on {task}: {status}."]
    if done:
        counted = {f: ", ".join(f"{n} {name.lower()}" for name, n in c.most_common()) for f, c in done.items()}
        parts.append(f"It did {listed(f'{readable(f)} ({how})' for f, how in counted.items())}.")
    scene, data = _scene(during, "It")
    if told.get("message"):
        scene.append(f"At the end: {told['message']}")
    return Record(
        Tier.M2,
        Kind.EPISODE,
        outcome.time_s,
        " ".join([*parts, *scene])[:5000],
        {**told, "calls": {f: dict(c) for f, c in done.items()}, **data},
        replace(who, source=SOURCE),
        outcome.spot,
        narrowest([outcome, *during]),
        outcome.begun_s,
        key=f"episode:{who.robot}:{who.process}",
        parents=_ids(used),
    )


def hour_digest(robot: str, during: Sequence[Record]) -> Record:
    """Return the summary of the visits and sightings of an hour, whatever the robot was working on."""
    begun_s, ended_s = min(r.start_s for r in during), max(r.time_s for r in during)
    hour_s = min(r.time_s for r in during) // HOUR_S * HOUR_S
    scene, data = _scene(during, robot)
    return Record(
        Tier.M2,
        Kind.DIGEST,
        ended_s,
        " ".join([f"Between {clock(begun_s)} and {clock(ended_s)[11:]}:", *scene])[:5000],
        data,
        Provenance(robot, SOURCE),
        visibility=narrowest(during),
        begun_s=begun_s,
        key=f"digest:{robot}:{hour_s:.0f}",
        parents=_ids(during),
    )


def _scene(during: Sequence[Record], who: str) -> tuple[list[str], dict[str, Any]]:
    """Return where the robot was and what it saw, in sentences and as data."""
    places = Counter(str(r.data.get("place") or r.spot.room) for r in during if r.kind == Kind.VISIT.value)
    seen = Counter((str(r.data.get("label", "")), r.spot.room) for r in during if r.kind == Kind.SIGHTING.value)
    parts = []
    if places:
        parts.append(f"{who} was in {listed(f'{readable(p)} ({times(n)})' for p, n in places.most_common())}.")
    if seen:
        things = (f"{label}{f' in the {readable(r)}' if r else ''} ({times(n)})" for (label, r), n in seen.most_common())
        parts.append(f"{who} saw {listed(things)}.")
    flat = [{"label": label, "room": room, "count": n} for (label, room), n in seen.most_common(100)]
    return parts, {"places": dict(places), "seen": flat}


def _ids(records: Sequence[Record]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(r.id for r in records))[-MAX_PARENTS:]


T = TypeVar("T")

CHUNK = 300
"""Records looked at in one step."""
SUMMARY_SENTENCES = 2000
DROPPED = 200
"""Records whose time is over that one step drops."""
_CURSOR = "consolidated"
_SENTENCES = (Kind.VISIT.value, Kind.SIGHTING.value)
STEP_S = 60.0
GAP_S = 20.0
"""Until so long unseen a thing is the same sighting."""
KNOWLEDGE_EVERY_S = 60.0
"""Habits are made anew no more often than that."""


@dataclass(frozen=True)
class ConsolidationSettings:
    """Hold the seconds that observations, sentences and summaries are kept (inf: for ever), and the bound on raw observations;
    knowledge stays. Raw observations that were not consolidated yet are never dropped. `labels` are the detector's names of
    what is a person or a facility; others are objects."""

    raw_s: float = DAY_S
    sentences_s: float = 30 * DAY_S
    episodes_s: float = 365 * DAY_S
    max_raw: int = 500_000
    labels: Mapping[str, str] = field(default_factory=lambda: {"person": "person"})


class Consolidator:
    """Consolidate one step at a time; `Background` calls it on a thread.

    A step reads, makes and writes in one transaction on the writer's thread: a kill between two steps repeats and loses
    nothing, nothing is forgotten in between, and several consolidators of one store do each piece once.
    """

    def __init__(
        self,
        store: Store,
        settings: ConsolidationSettings | None = None,
        *,
        wall: Callable[[], float],
        on_problem: Callable[[StoreError], None] = lambda _: None,
    ) -> None:
        self._store, self._wall, self._on_problem = store, wall, on_problem
        self._settings = settings or ConsolidationSettings()
        self.skipped = 0
        """Records that could not be worked with."""
        self._clocks: dict[str, float] = {}
        """Newest time of each robot's records: its own clock, which may be simulated."""
        self._knowledge_at = float("-inf")
        self._freeing: Ticket[bool] | None = None

    def step(self) -> bool:
        """Do the next piece of work; false when there was nothing to do. Raises StoreError."""
        if (problem := self._store.state.problem) is not None:
            if self._freeing is None or self._freeing.done():  # it would wait behind what has no room
                self._freeing = self._store.do(self._expire, urgent=True)
            raise problem
        ways = (self._redo, self._advance, self._digest, self._know, self._expire)
        return self._store.do(lambda file: any(way(file) for way in ways)).result(STEP_S)

    def _try(self, what: str, make: Callable[[], T]) -> T | None:
        """Return what is made, or None: a strange record, imported perhaps, must not end all consolidation."""
        try:
            return make()
        except (StoreError, sqlite3.Error):
            raise
        except Exception as error:  # noqa: BLE001 - see above
            self.skipped += 1
            self._on_problem(StoreError(f"{what} is left out of consolidation: {type(error).__name__}: {error}"))
            return None

    # -- new records --------------------------------------------------------------------------------------------------

    def _advance(self, file: sqlite3.Connection) -> bool:
        cursor = int(schema.meta(file, _CURSOR, "0"))
        found = schema.select(file, "record WHERE id > ? ORDER BY id LIMIT ?", (cursor, CHUNK))
        if not found:
            return False
        # An episode needs the sentences up to its end, so what comes after it waits for the next step.
        ends = next((n for n, r in enumerate(found, 1) if r.kind == Kind.OUTCOME.value), len(found))
        taken = [r for r in found[:ends] if not r.revoked_s]
        for record in taken:
            robot = record.provenance.robot
            self._clocks[robot] = max(self._clocks.get(robot, 0.0), record.time_s)
        self._write_sentences(file, [r for r in taken if r.kind == Kind.OBSERVATION.value and r.tier is Tier.M0])
        for record in taken:
            if record.tier is Tier.M1 and record.provenance.source != SOURCE:
                self._note(file, record)
            if record.kind == Kind.OUTCOME.value:
                who, kinds = record.provenance, (*_SENTENCES, Kind.CALL.value)
                during = _during(file, kinds, Viewer(who.robot, who.process), record.start_s, record.time_s)
                self._summarise(file, f"task {who.process}", lambda: task_episode(record, during))  # noqa: B023
        schema.set_meta(file, _CURSOR, str(found[ends - 1].id))
        return True

    def _write_sentences(self, file: sqlite3.Connection, observations: Sequence[Record]) -> None:
        """Store the sentences of these observations, and note what they say about the graph."""
        distiller = Distiller(file, GAP_S)
        for record in observations:
            self._try(f"record {record.id}", lambda: distiller.take(record))  # noqa: B023
        for run in distiller.runs():
            if sentence := self._try(run.key, lambda: worded(run)):  # noqa: B023
                (record_id,) = schema.insert(file, [sentence])
                if record_id:
                    self._note(file, replace(sentence, id=record_id))

    def _note(self, file: sqlite3.Connection, sentence: Record) -> None:
        told = self._try(f"record {sentence.id}", lambda: graph.from_sentence(sentence, self._settings.labels))
        graph.note(file, told or ())

    def _summarise(self, file: sqlite3.Connection, what: str, make: Callable[[], Record]) -> None:
        if made := self._try(what, make):
            schema.insert(file, [made])
            schema.set_meta(file, KNOWLEDGE, "")

    # -- summaries and knowledge --------------------------------------------------------------------------------------

    def _digest(self, file: sqlite3.Connection) -> bool:
        """Summarise the next hour of a robot that is over."""
        for robot, now_s in self._clocks.items():
            name = f"digested:{robot}"
            (first,) = file.execute(
                "SELECT min(time) FROM record WHERE kind IN ('visit', 'sighting') AND robot = ? AND time >= ? AND revoked = 0",
                (robot, float(schema.meta(file, name, "0.0"))),
            ).fetchone()
            begun_s = now_s if first is None else first // HOUR_S * HOUR_S
            if begun_s + HOUR_S + GAP_S > now_s:
                continue
            if during := _during(file, _SENTENCES, Viewer(robot), begun_s, begun_s + HOUR_S - 1e-6):
                what = f"the hour of {robot} from {begun_s:.0f} s"
                self._summarise(file, what, lambda: hour_digest(robot, during))  # noqa: B023
            schema.set_meta(file, name, repr(begun_s + HOUR_S))
            return True
        return False

    def _know(self, file: sqlite3.Connection) -> bool:
        now_s = self._wall()
        if schema.meta(file, KNOWLEDGE) or now_s - self._knowledge_at < KNOWLEDGE_EVERY_S:
            return False
        self._knowledge_at = now_s
        schema.set_meta(file, KNOWLEDGE, repr(now_s))
        summaries, _ = query.find(file, Query(tiers=(Tier.M2,), limit=MAX_LIMIT))
        habits = self._try("what the summaries have in common", lambda: habits_of(summaries))
        if habits is not None:  # else those there are stay
            kept = schema.insert(file, habits)
            old = file.execute("SELECT id FROM record WHERE kind = 'habit' AND revoked = 0").fetchall()
            schema.delete(file, {i for (i,) in old}.difference(kept))
        return True

    # -- forgetting ---------------------------------------------------------------------------------------------------

    def _redo(self, file: sqlite3.Connection) -> bool:
        """Make anew what stood partly on something that was revoked."""
        row = file.execute("SELECT id, tier, parents FROM redo ORDER BY id LIMIT 1").fetchone()
        if row is None:
            return False
        kept = [r for r in schema.by_ids(file, json.loads(row[2])) if not r.revoked_s]
        if row[1] == Tier.M3:
            for sentence in kept:
                self._note(file, sentence)
        elif row[1] == Tier.M1:
            self._write_sentences(file, kept)
        else:
            ended = next((r for r in kept if r.kind == Kind.OUTCOME.value), None)
            if ended is not None:
                rest = [r for r in kept if r is not ended]
                self._summarise(file, "a task", lambda: task_episode(ended, rest))
            elif scene := [r for r in kept if r.kind != Kind.CALL.value]:
                self._summarise(file, "an hour", lambda: hour_digest(scene[0].provenance.robot, scene))
        file.execute("DELETE FROM redo WHERE id = ?", (row[0],))
        schema.set_meta(file, KNOWLEDGE, "")
        return True

    def _expire(self, file: sqlite3.Connection) -> bool:
        old = expired(file, self._settings, self._wall(), int(schema.meta(file, _CURSOR, "0")))
        schema.delete(file, old)
        return bool(old)


def _during(file: sqlite3.Connection, kinds: tuple[str, ...], who: Viewer, since_s: float, until_s: float) -> list[Record]:
    """Return the sentences of a robot that this process may read, or for no process those that no process keeps to itself."""
    asked = Query(kinds=kinds, robot=who.robot, viewer=who, since_s=since_s, until_s=until_s, limit=SUMMARY_SENTENCES)
    return query.find(file, asked)[0][::-1]


def expired(file: sqlite3.Connection, settings: ConsolidationSettings, now_s: float, consolidated: int) -> list[int]:
    """Return ids of some records whose time is over, at most `DROPPED`; the oldest of a tier first."""
    found: list[int] = []
    newest = "SELECT time FROM record INDEXED BY record_tier WHERE tier = 0 ORDER BY time DESC LIMIT 1 OFFSET ?"
    beyond = file.execute(newest, (settings.max_raw,)).fetchone()
    sql = (
        "SELECT id FROM record INDEXED BY record_tier WHERE tier = ? AND time < ? AND (tier > 0 OR id <= ?) "
        "ORDER BY time LIMIT ?"
    )
    for tier, kept_s in enumerate((settings.raw_s, settings.sentences_s, settings.episodes_s)):
        before = now_s - kept_s
        if tier == Tier.M0 and beyond:
            before = max(before, math.nextafter(beyond[0], math.inf))
        found += [i for (i,) in file.execute(sql, (tier, before, consolidated, max(0, DROPPED - len(found))))]
    return found
