# SPDX-License-Identifier: Apache-2.0
"""M0 → M1: what was observed without a break, a thing in a room or the robot in one, becomes one sentence that grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from planners.memory.records import Kind, Provenance, Record, Spot, Tier, Visibility
from planners.memory.sentences import clock, readable, where, with_article

SOURCE = "consolidation"
"""Provenance of what the memory made itself."""
GAP_S = 20.0
"""After so long unseen it is another sighting."""
MAX_PARENTS = 200
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
            run.parents = run.parents[-MAX_PARENTS:]
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
