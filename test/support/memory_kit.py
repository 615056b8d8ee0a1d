# SPDX-License-Identifier: Apache-2.0
"""Share among the tests of the memory: a wall clock, records as a robot makes them, consolidation to its end."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memory_model import observation

from planners.memory import Kind, Memory, Provenance, Query, Record, Store, StoreError, Tier
from planners.memory.schema import by_ids, connect, revoke, select
from skill_kernel.codes import MemoryCode

NOON = time.mktime((2026, 5, 4, 12, 0, 0, 0, 0, -1))


@contextmanager
def fails(code: MemoryCode, match: str = "") -> Iterator[None]:
    """Expect a block to end with this error of the memory."""
    with pytest.raises(StoreError, match=match or None) as caught:
        yield
    assert caught.value.code is code


def linked(store: Store, ids: Sequence[int]) -> list[Record]:
    """Return records by id with the ids of the records they were made of."""
    with store.reading() as file:
        sql = "SELECT parent FROM link WHERE child = ? ORDER BY parent"
        return [replace(r, parents=tuple(p for (p,) in file.execute(sql, (r.id,)))) for r in by_ids(file, ids)]


def everything(store: Store) -> list[Record]:
    """Return all records, also the empty ones of what was forgotten."""
    with store.reading() as file:
        return select(file, "record")


def forget(store: Store, ids: Sequence[int], now_s: float) -> list[int]:
    """Forget records at this time; return what is gone."""
    return store.do(lambda file: revoke(file, ids, now_s, "somebody", "")).result()


def retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have stores try a write that failed again after 0.1 s."""
    monkeypatch.setattr("planners.memory.store.RETRY_S", 0.1)


class Disk:
    """A disk that has room for so many pages of the file, 0 for any number."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages = 0
        retry_soon(monkeypatch)
        monkeypatch.setattr("planners.memory.store.connect", self._connect)

    def _connect(self, path: Path, **options: bool) -> sqlite3.Connection:
        file = connect(path, **options)
        if self.pages:
            file.execute(f"PRAGMA max_page_count = {self.pages}")
        return file


class Clock:
    """The wall clock of the tests."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


def settle(memory: Memory) -> int:
    """Consolidate until nothing is left to do."""
    for steps in range(10_000):
        if not memory.consolidator.step():
            return steps
    raise AssertionError("consolidation does not come to an end")


def heard(time_s: float, sender: str, words: str, process: str = "p1", robot: str = "kalos") -> Record:
    text = f"{sender} said through chat: “{words}”"
    return Record(
        Tier.M1, Kind.HEARD, time_s, text, {"instruction": words}, Provenance(robot, "processes", process, sender, "chat")
    )


def ended(begun_s: float, time_s: float, words: str, process: str = "p1", status: str = "SUCCESS") -> Record:
    return Record(
        Tier.M1,
        Kind.OUTCOME,
        time_s,
        f"kalos ended “{words}”: {status}",
        {"instruction": words, "status": status},
        Provenance("kalos", "events", process, "alice", "chat"),
        begun_s=begun_s,
    )


def walk(at: float = NOON) -> list[Record]:
    """Return a minute through three rooms: a ball in the kitchen, then a person and an apple in the office."""

    def where(t: int) -> tuple[str, list[str]]:
        if t < 20:
            return "kitchen", ["ball"] if 5 < t < 10 else []
        return ("hallway", []) if t < 30 else ("office", ["person", "apple"] if t > 40 else [])

    return [observation(at + t, *where(t)) for t in range(60)]


def known(memory: Memory) -> dict[str, dict[str, Any]]:
    """Return the data of all nodes and edges by their keys: `entity:person:alice`, `relation:robot:kalos|saw|object:ball`."""
    return {r.key: dict(r.data) for r in memory.recall(Query(kinds=("entity", "relation"), limit=10_000)).sources}


def told(memory: Memory, *kinds: Kind) -> list[str]:
    return [r.text for r in memory.store.find(Query(kinds=tuple(k.value for k in kinds), limit=1000))]
