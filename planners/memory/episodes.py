# SPDX-License-Identifier: Apache-2.0
"""M1 → M2: what one task, or one hour of a robot, comes to; in words by template, or by a model that is handed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from planners.memory.answers import clock, listed, readable, times, where, with_article
from planners.memory.records import Kind, Provenance, Record, Spot, Tier, Visibility

SOURCE = "consolidation"
"""Provenance of what the memory made itself."""
GAP_S = 20.0
"""After so long unseen it is another sighting."""
MAX_SENTENCE_PARENTS = 200
"""So many of the observations a sentence stands on are kept at hand once they are stored with it, the newest."""

Key = tuple[str, str, str, str]


@dataclass
class _Run:
    kind: Kind
    subject: str
    begun_s: float
    last_s: float
    provenance: Provenance
    spot: Spot
    visibility: Visibility
    count: int = 0
    tracks: set[int] = field(default_factory=set)
    parents: list[int] = field(default_factory=list)
    changed: bool = True
    closed: bool = False


class Distiller:
    """Takes observations in order and gives the sentences that changed. `last` looks up the newest stored record whose key
    begins so, for what went on before this program began."""

    def __init__(self, last: Callable[[str, str], Record | None], gap_s: float = GAP_S) -> None:
        self._last, self._gap_s = last, gap_s
        self._runs: dict[Key, _Run] = {}
        self._over: list[_Run] = []
        """Runs that were followed by another of their kind before they were told."""

    def take(self, seen: Record) -> None:
        """One record of kind observation."""
        scope = seen.scope
        if seen.spot.room:
            self._extend(seen, scope, Kind.VISIT, seen.spot.room, seen.spot, ())
        things: dict[str, list[dict[str, float]]] = {}
        for thing in seen.data.get("objects", ()):
            things.setdefault(str(thing.get("label", "")), []).append(thing)
        for label, same in things.items():
            placed = next((t for t in same if "x" in t), None)
            spot = Spot(placed["x"], placed["y"], seen.spot.room) if placed else Spot(room=seen.spot.room)
            if label:
                self._extend(seen, scope, Kind.SIGHTING, label, spot, [int(t.get("track", 0)) for t in same])

    def drain(self, now_s: float) -> list[Record]:
        """The sentences that are new or have grown, to be stored before the next ones; what is over is let go of."""
        found = [_record(run) for run in (*self._over, *self._runs.values()) if run.changed]
        self._over.clear()
        for key, run in list(self._runs.items()):
            run.changed = False
            run.parents = run.parents[-MAX_SENTENCE_PARENTS:]
            if now_s - run.last_s > self._gap_s:
                del self._runs[key]
        return found

    def forget(self) -> None:
        """Begin anew from what is stored: something was revoked."""
        self._runs.clear()
        self._over.clear()

    def _extend(self, seen: Record, scope: str, kind: Kind, subject: str, spot: Spot, tracks: list[int] | tuple[()]) -> None:
        key = (scope, seen.provenance.robot, kind.value, f"{subject}\x1f{spot.room}")
        run = self._runs.get(key) or self._stored(kind, scope, subject, seen, spot)
        if run is None or run.closed or not run.begun_s <= seen.time_s <= run.last_s + self._gap_s:
            provenance = Provenance(seen.provenance.robot, SOURCE, seen.provenance.process)
            if run is not None and run.changed:
                self._over.append(run)
            run = _Run(kind, subject, seen.time_s, seen.time_s, provenance, spot, seen.visibility)
        self._runs[key] = run
        if kind is Kind.VISIT:
            # Whoever is in another room has left the one before. It is kept for a while, or it would be found in the store
            # and go on.
            for other, left in self._runs.items():
                left.closed = left.closed or (other[:3] == key[:3] and other != key)
        if seen.time_s >= run.last_s:
            run.last_s, run.spot = seen.time_s, spot if spot.x is not None else run.spot
        run.changed = True
        run.count = max(run.count, len(tracks))
        run.tracks.update(tracks)
        if seen.id:
            run.parents.append(seen.id)

    def _stored(self, kind: Kind, scope: str, subject: str, seen: Record, spot: Spot) -> _Run | None:
        found = self._last(_prefix(kind, seen.provenance.robot, subject, spot.room), scope)
        if found is None or found.revoked_s or not 0 <= seen.time_s - found.time_s <= self._gap_s:
            return None
        tracks = {int(t) for t in found.data.get("tracks", ())}
        return _Run(
            kind,
            subject,
            found.start_s,
            found.time_s,
            found.provenance,
            found.spot,
            found.visibility,
            int(found.data.get("count", 0)),
            tracks,
            list(found.parents),
        )


def _prefix(kind: Kind, robot: str, subject: str, room: str) -> str:
    return f"{kind.value}:{robot}:{subject}:{room}:"


def _record(run: _Run) -> Record:
    robot = run.provenance.robot
    begun, ended = clock(run.begun_s), clock(run.last_s)[11:]
    lasted = f"from {begun} to {ended}" if run.last_s > run.begun_s else f"at {begun}"
    data: dict[str, object] = {"count": run.count}
    if run.kind is Kind.VISIT:
        text = f"{robot} was in the {readable(run.subject)} {lasted}."
        data = {"place": run.subject}
    else:
        what = with_article(run.subject) if run.count < 2 else f"{run.count} of {run.subject}"
        text = f"{robot} saw {what} {where(run.spot)}".rstrip() + f" {lasted}."
        data |= {"label": run.subject, "tracks": sorted(run.tracks)[-50:]}
    return Record(
        Tier.M1,
        run.kind,
        run.last_s,
        text,
        data,
        run.provenance,
        run.spot,
        run.visibility,
        run.begun_s if run.begun_s < run.last_s else None,
        key=f"{_prefix(run.kind, robot, run.subject, run.spot.room)}{run.begun_s:018.6f}",
        parents=tuple(run.parents),
    )


MAX_PARENTS = 500
HOUR_S = 3600.0


class Summariser(Protocol):
    """Puts the sentences of an episode in fewer words."""

    def summarise(self, plain: str, sentences: Sequence[str]) -> str:
        """A better wording of `plain`, which was made by template; "" to leave it. Raises nothing."""


def task_episode(outcome: Record, during: Sequence[Record]) -> Record:
    """The summary of a task: `outcome` is the record of its end, `during` the sentences of its robot in that time."""
    robot, process = outcome.provenance.robot, outcome.provenance.process
    calls = [r for r in during if r.kind == Kind.CALL.value and r.provenance.process == process]
    done: dict[str, Counter[str]] = {}
    for call in calls:
        done.setdefault(str(call.data.get("function", "?")), Counter())[str(call.data.get("outcome", "?"))] += 1
    places, seen = _places(during), _seen(during)
    told = outcome.data
    said = f"“{told.get('instruction', '')}”"
    by = f" for {outcome.provenance.sender}" if outcome.provenance.sender else ""
    parts = [
        f"From {clock(outcome.start_s)} to {clock(outcome.time_s)[11:]} {robot} worked on {said}{by}: "
        f"{str(told.get('status', 'ended')).lower()}."
    ]
    if done:
        parts.append(f"It did {listed(f'{readable(f)} ({_outcomes(c)})' for f, c in done.items())}.")
    parts += _of_scene(places, seen)
    if told.get("message"):
        parts.append(f"At the end: {told['message']}")
    data = {**told, "calls": {f: dict(c) for f, c in done.items()}, "places": dict(places), "seen": _flat(seen)}
    return Record(
        Tier.M2,
        Kind.EPISODE,
        outcome.time_s,
        " ".join(parts)[:5000],
        data,
        Provenance(robot, SOURCE, process, outcome.provenance.sender, outcome.provenance.door),
        outcome.spot,
        _narrowest([outcome, *during]),
        outcome.begun_s,
        key=f"episode:{robot}:{process}",
        parents=_parents([outcome, *calls, *(r for r in during if r.kind in _SCENE)]),
    )


def hour_digest(robot: str, begun_s: float, during: Sequence[Record]) -> Record:
    """The summary of an hour: where the robot was and what it saw, whatever it was working on."""
    places, seen = _places(during), _seen(during)
    begun = min(r.start_s for r in during)
    ended = max(r.time_s for r in during)
    parts = [f"Between {clock(begun)} and {clock(ended)[11:]}:", *_of_scene(places, seen, robot)]
    scene = [r for r in during if r.kind in _SCENE]
    return Record(
        Tier.M2,
        Kind.DIGEST,
        ended,
        " ".join(parts)[:5000],
        {"places": dict(places), "seen": _flat(seen)},
        Provenance(robot, SOURCE),
        visibility=_narrowest(scene),
        begun_s=begun if begun < ended else None,
        key=f"digest:{robot}:{begun_s:.0f}",
        parents=_parents(scene),
    )


_SCENE = (Kind.VISIT.value, Kind.SIGHTING.value)


def _places(during: Sequence[Record]) -> Counter[str]:
    return Counter(str(r.data.get("place") or r.spot.room) for r in during if r.kind == Kind.VISIT.value)


def _seen(during: Sequence[Record]) -> Counter[tuple[str, str]]:
    return Counter((str(r.data.get("label", "")), r.spot.room) for r in during if r.kind == Kind.SIGHTING.value)


def _flat(seen: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"label": label, "room": room, "count": n} for (label, room), n in seen.most_common(100)]


def _of_scene(places: Counter[str], seen: Counter[tuple[str, str]], robot: str = "It") -> list[str]:
    parts = []
    if places:
        parts.append(f"{robot} was in {listed(f'{readable(p)} ({times(n)})' for p, n in places.most_common())}.")
    if seen:
        things = (f"{label}{f' in the {readable(r)}' if r else ''} ({times(n)})" for (label, r), n in seen.most_common())
        parts.append(f"{robot} saw {listed(things)}.")
    return parts


def _outcomes(counter: Counter[str]) -> str:
    return ", ".join(f"{n} {name.lower()}" for name, n in counter.most_common())


def _narrowest(records: Sequence[Record]) -> Visibility:
    """A summary is shown to nobody who may not see all that it was made of."""
    return min((r.visibility for r in records), default=Visibility.SHARED)


def _parents(records: Sequence[Record]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(r.id for r in records if r.id))[-MAX_PARENTS:]
