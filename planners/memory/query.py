# SPDX-License-Identifier: Apache-2.0
"""Queries by time, place, kind and owner: each is answered from the index that has the fewest rows to look at."""

from __future__ import annotations

import heapq
import math
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from planners.memory.records import Tier, Viewer, Visibility
from planners.memory.schema import CELL_M, COLUMNS, cell_of

FEW = 2000
"""An index entry with fewer rows than this is looked through whole rather than in order of time."""
MAX_CELLS = 64
MAX_LIMIT = 10_000


@dataclass(frozen=True)
class Circle:
    """A place and what lies within `radius_m` of it, in the map frame [m]. Raises ValueError when it is none."""

    x: float
    y: float
    radius_m: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.x) and math.isfinite(self.y) and 0 < self.radius_m < 1e6):
            raise ValueError(f"a place is a finite x and y and a radius above 0 m, not {self}")

    def holds(self, x: float | None, y: float | None) -> bool:
        """Whether a place lies in it."""
        return x is not None and y is not None and math.hypot(x - self.x, y - self.y) <= self.radius_m

    def cells(self) -> list[int]:
        """The squares of the map it touches, none when they are many."""
        side = math.ceil(2 * self.radius_m / CELL_M) + 1
        if side * side > MAX_CELLS:
            return []
        at = [
            (self.x - self.radius_m + i * CELL_M, self.y - self.radius_m + j * CELL_M) for i in range(side) for j in range(side)
        ]
        return sorted({cell_of(x, y) for x, y in at})


@dataclass(frozen=True)
class Query:
    """What to look for; what is left out does not matter. Newest first.

    `text` is searched by its words (see `fulltext`), and ranked by them before time. `viewer` None sees everything.
    """

    text: str = ""
    kinds: tuple[str, ...] = ()
    tiers: tuple[Tier, ...] = ()
    since_s: float | None = None
    until_s: float | None = None
    robot: str = ""
    process: str = ""
    sender: str = ""
    room: str = ""
    near: Circle | None = None
    viewer: Viewer | None = None
    limit: int = 20
    revoked: bool = False
    """Also the empty records of what was forgotten."""

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MAX_LIMIT:
            raise ValueError(f"limit must be 1 to {MAX_LIMIT} records, not {self.limit}")


@dataclass(frozen=True)
class _Branch:
    index: str
    condition: str
    arguments: tuple[Any, ...] = field(default=())


def conditions(query: Query) -> tuple[list[str], list[Any]]:
    """The WHERE of a query, without its text."""
    found: list[str] = []
    values: list[Any] = []

    def add(condition: str, *arguments: Any) -> None:
        found.append(condition)
        values.extend(arguments)

    if not query.revoked:
        add("revoked = 0")
    if query.since_s is not None:
        add("time >= ?", query.since_s)
    if query.until_s is not None:
        add("time <= ?", query.until_s)
    for column, chosen in (("kind", query.kinds), ("tier", tuple(map(int, query.tiers)))):
        if chosen:
            add(f"{column} IN ({', '.join('?' * len(chosen))})", *chosen)
    for column, value in (("robot", query.robot), ("process", query.process), ("sender", query.sender), ("room", query.room)):
        if value:
            add(f"{column} = ?", value)
    if query.near is not None:
        at = query.near
        add("(x - ?) * (x - ?) + (y - ?) * (y - ?) <= ?", at.x, at.x, at.y, at.y, at.radius_m**2)
    if query.viewer is not None:
        who = query.viewer
        add(
            "(visibility = ? OR (robot = ? AND robot <> '' AND (visibility = ? OR (visibility = ? AND process = ? AND "
            "process <> ''))))",
            int(Visibility.SHARED),
            who.robot,
            int(Visibility.ROBOT),
            int(Visibility.PROCESS),
            who.process,
        )
    return found, values


def run(file: sqlite3.Connection, query: Query) -> list[tuple[Any, ...]]:
    """The newest rows (of `COLUMNS`) that fit a query without text."""
    branches = _branches(file, query)
    # The newest of several branches are merged: how far each must be read is known only then, so the circle, which
    # leaves out whole corners of a square, is looked at after the merge.
    merged = len(branches) > 1
    where, values = conditions(replace(query, near=None) if merged else query)
    at, limit = (query.near, -1) if merged else (None, query.limit)

    def rows_of(branch: _Branch) -> Iterator[tuple[Any, ...]]:
        fits = " AND ".join([*filter(None, [branch.condition]), *where]) or "1"
        return file.execute(
            f"SELECT {COLUMNS} FROM record INDEXED BY {branch.index} WHERE {fits} ORDER BY time DESC, id DESC LIMIT ?",
            (*branch.arguments, *values, limit),
        )

    found = heapq.merge(*map(rows_of, branches), key=lambda row: (-row[3], -row[0]))
    return list(islice((r for r in found if at is None or at.holds(r[10], r[11])), query.limit))


def few_ids(file: sqlite3.Connection, query: Query) -> list[int] | None:
    """The ids of all records that fit a query without its text, or None when an index leaves too many to look at."""
    branches = _branches(file, query)
    if _count(file, branches, query) >= FEW:
        return None
    where, values = conditions(query)
    found: list[int] = []
    for branch in branches:
        fits = " AND ".join([*filter(None, [branch.condition]), *where]) or "1"
        sql = f"SELECT id FROM record INDEXED BY {branch.index} WHERE {fits}"
        found += [i for (i,) in file.execute(sql, (*branch.arguments, *values))]
    return found


def _branches(file: sqlite3.Connection, query: Query) -> Sequence[_Branch]:
    """The index with the fewest rows for this query, one branch for each of its values that fit."""
    ways: list[list[_Branch]] = []
    if query.process:
        ways.append([_Branch("record_process", "process = ? AND process <> ''", (query.process,))])
    if query.near is not None and (cells := query.near.cells()):
        ways.append([_Branch("record_cell", "cell = ? AND cell IS NOT NULL", (c,)) for c in cells])
    if query.room:
        ways.append([_Branch("record_room", "room = ? AND room <> ''", (query.room,))])
    if query.kinds:
        ways.append([_Branch("record_kind", "kind = ?", (k,)) for k in dict.fromkeys(query.kinds)])
    if query.tiers:
        ways.append([_Branch("record_tier", "tier = ?", (int(t),)) for t in dict.fromkeys(query.tiers)])
    ways.append([_Branch("record_time", "")])
    if len(ways) == 1:
        return ways[0]
    counts = [_count(file, way, query) for way in ways]
    least = min(counts)
    return ways[counts.index(least)] if least < FEW else ways[0]


def _count(file: sqlite3.Connection, way: Sequence[_Branch], query: Query) -> int:
    """How many rows a way looks at, counted to `FEW` only."""
    total = 0
    for branch in way:
        where = [c for c in (branch.condition,) if c]
        values = list(branch.arguments)
        for bound, value in ((">=", query.since_s), ("<=", query.until_s)):
            if value is not None:
                where.append(f"time {bound} ?")
                values.append(value)
        total += file.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM record INDEXED BY {branch.index} WHERE {' AND '.join(where) or '1'} LIMIT ?)",
            (*values, FEW - total),
        ).fetchone()[0]
        if total >= FEW:
            break
    return total
