# SPDX-License-Identifier: Apache-2.0
"""M0 → M1 → M2: observations become sentences, and these the summary of one task, or of one hour of a robot."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from planners.memory.answers import clock, listed, readable, times, where, with_article
from planners.memory.records import Kind, Provenance, Record, Spot, Tier, Visibility
from planners.memory.schema import select

SOURCE = "consolidation"
"""Provenance of what the memory made itself."""


class Distiller:
    """Takes observations in order and makes the sentences of what is new in them or went on from what is stored: until
    `gap_s` unseen it is the same sighting, until another room or `gap_s` it is the same visit."""

    def __init__(self, file: sqlite3.Connection, gap_s: float) -> None:
        self._file, self._gap_s = file, gap_s
        self._going_on: dict[tuple[str, str], Record] = {}
        self._over: list[Record] = []

    def take(self, seen: Record) -> None:
        """One record of kind observation."""
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
    label, count = run.data["label"], run.data["count"]
    what = with_article(label) if count < 2 else f"{count} of {label}"
    return replace(run, text=f"{robot} saw {what} {where(run.spot)}".rstrip() + f" {lasted}.")


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
        _narrowest([outcome, *during]),
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
        visibility=_narrowest(during),
        begun_s=begun_s,
        key=f"digest:{robot}:{hour_s:.0f}",
        parents=_ids(during),
    )


def _scene(during: Sequence[Record], who: str) -> tuple[list[str], dict[str, Any]]:
    """Where the robot was and what it saw, in sentences and as data."""
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


def _narrowest(records: Sequence[Record]) -> Visibility:
    """Return who may see a summary: nobody who may not see all that it was made of."""
    return min((r.visibility for r in records), default=Visibility.SHARED)


def _ids(records: Sequence[Record]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(r.id for r in records))[-MAX_PARENTS:]
