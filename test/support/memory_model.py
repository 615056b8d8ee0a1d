# SPDX-License-Identifier: Apache-2.0
"""A memory in plain Python, slow and obvious, that the store is held against; and records at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from planners.memory import Kind, Provenance, Query, Record, Spot, Tier, Viewer, Visibility
from planners.memory.query import Circle

ROBOTS, PROCESSES, ROOMS = ("coco", "kalos"), ("", "p1", "p2"), ("", "kitchen", "hall")
KINDS = ("sighting", "visit", "observation", "note")
WORDS = ("ball", "apple", "door", "red", "zebra")


class Model:
    """A plain model of the store: records by id."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}

    def put(self, records: Sequence[Record], ids: Sequence[int]) -> None:
        for record, record_id in zip(records, ids, strict=True):
            old = self.records.get(record_id)
            if old is not None:
                assert record.key and (old.key, old.scope) == (record.key, record.scope), "only a key may meet an id again"
                if old.time_s > record.time_s:
                    continue
            else:
                taken = [r for r in self.records.values() if record.key and (r.key, r.scope) == (record.key, record.scope)]
                assert not taken, "a key must have one record"
            self.records[record_id] = replace(record, id=record_id)

    def revoke(self, asked: Sequence[int], now_s: float) -> set[int]:
        raw = {
            p
            for i in asked
            if i in self.records
            for p in self.records[i].parents
            if p in self.records and self.records[p].tier is Tier.M0
        }
        doomed, grew = set(asked) & set(self.records), True
        while grew:
            more = {i for i, r in self.records.items() if set(r.parents) & doomed} - doomed
            doomed |= more
            grew = bool(more)
        doomed |= raw
        fallen = {i for i in doomed if not self.records[i].revoked_s}
        for i in fallen:
            r = self.records[i]
            who = replace(r.provenance, sender="")
            self.records[i] = replace(r, text="", data={}, provenance=who, spot=Spot(), key="", parents=(), revoked_s=now_s)
        for i, r in self.records.items():
            self.records[i] = replace(r, parents=tuple(p for p in r.parents if p not in fallen))
        return fallen

    def find(self, query: Query) -> list[int]:
        found = [r for r in self.records.values() if self._fits(query, r)]
        return [r.id for r in sorted(found, key=lambda r: (-r.time_s, -r.id))][: query.limit]

    @staticmethod
    def _fits(q: Query, r: Record) -> bool:
        near = q.near is None or _within(q.near, r.spot)
        return (
            near
            and not r.revoked_s
            and (not q.kinds or r.kind in q.kinds)
            and (not q.tiers or r.tier in q.tiers)
            and (q.since_s is None or r.time_s >= q.since_s)
            and (q.until_s is None or r.time_s <= q.until_s)
            and (not q.robot or r.provenance.robot == q.robot)
            and (not q.room or r.spot.room == q.room)
            and (q.viewer is None or _may_read(q.viewer, r))
        )


def _may_read(who: Viewer, record: Record) -> bool:
    mine = bool(who.robot) and who.robot == record.provenance.robot
    if record.visibility is Visibility.PROCESS:
        return mine and bool(who.process) and who.process == record.provenance.process
    return mine or record.visibility is Visibility.SHARED


def _within(circle: Circle, spot: Spot) -> bool:
    if spot.x is None or spot.y is None:
        return False
    return (spot.x - circle.x) ** 2 + (spot.y - circle.y) ** 2 <= circle.radius_m**2


def records(ids: Sequence[int]) -> st.SearchStrategy[Record]:
    """Draw records with few values, so that queries meet many; some made of records that are there."""
    coordinate = st.one_of(st.none(), st.tuples(st.integers(-6, 6), st.integers(-6, 6)))
    return st.builds(
        lambda tier, kind, t, words, robot, process, at, room, seen_by, key, parents: Record(
            tier,
            kind,
            float(t),
            " ".join(words),
            {"n": t},
            Provenance(robot, "test", process, "alice"),
            Spot(at[0] / 2, at[1] / 2, room) if at else Spot(room=room),
            seen_by,
            key=key,
            parents=() if key else tuple(sorted(parents)),
        ),
        st.sampled_from(Tier),
        st.sampled_from(KINDS),
        st.integers(0, 30),
        st.lists(st.sampled_from(WORDS), max_size=3),
        st.sampled_from(ROBOTS),
        st.sampled_from(PROCESSES),
        coordinate,
        st.sampled_from(ROOMS),
        st.sampled_from(Visibility),
        st.sampled_from(("", "", "k1", "k2")),
        st.sets(st.sampled_from(list(ids)), max_size=2) if ids else st.just(set()),
    )


def queries() -> st.SearchStrategy[Query]:
    """Draw queries with at most three filters, so that many find something; without text."""
    bound, half = st.integers(0, 30).map(float), st.integers(-6, 6).map(lambda n: n / 2)
    filters: dict[str, st.SearchStrategy[object]] = {
        "kinds": st.lists(st.sampled_from(KINDS), min_size=1, max_size=2).map(tuple),
        "tiers": st.lists(st.sampled_from(Tier), min_size=1, max_size=2).map(tuple),
        "since_s": bound,
        "until_s": bound,
        "robot": st.sampled_from(ROBOTS),
        "room": st.sampled_from(ROOMS),
        "near": st.builds(Circle, half, half, st.sampled_from((0.4, 1.3, 2.6, 50.0))),
        "viewer": st.builds(Viewer, st.sampled_from(("", *ROBOTS)), st.sampled_from(PROCESSES)),
        "limit": st.sampled_from((1, 3)),
    }
    chosen = st.sets(st.sampled_from(sorted(filters)), max_size=3)
    return chosen.flatmap(lambda names: st.builds(Query, **{name: filters[name] for name in names}))


def observation(
    time_s: float, room: str = "", things: Sequence[str] = (), *, robot: str = "kalos", x: float = 1.0, y: float = 2.0
) -> Record:
    """Return a raw observation as the memory keeps it."""
    seen = [{"label": label, "track": n, "x": x, "y": y} for n, label in enumerate(things)]
    who = Provenance(robot, "observation")
    return Record(Tier.M0, Kind.OBSERVATION, time_s, data={"objects": seen}, provenance=who, spot=Spot(x, y, room))
