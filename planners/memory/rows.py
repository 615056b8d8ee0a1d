# SPDX-License-Identifier: Apache-2.0
"""Changes of the memory's rows, each within a transaction that the caller holds."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from planners.memory.records import Record, Tier
from planners.memory.schema import INSERT, row_of

_UPDATE = (
    "UPDATE record SET tier=?, kind=?, time=?, begun=?, robot=?, source=?, process=?, sender=?, door=?, x=?, y=?, cell=?, "
    "room=?, visibility=?, keep_until=?, key=?, origin=?, origin_id=?, revoked=?, text=?, data=? WHERE id=?"
)


def insert(file: sqlite3.Connection, records: Sequence[Record]) -> list[int]:
    """Store records and give their ids. One with a key replaces an older one of that key and keeps its id."""
    last = file.execute("SELECT seq FROM sqlite_sequence WHERE name = 'record'").fetchone()
    next_id = (last[0] if last else 0) + 1
    ids: list[int] = []
    fresh: list[tuple[Any, ...]] = []
    for record in records:
        if record.key:
            file.executemany(INSERT, fresh)
            fresh.clear()
            record_id = _replace(file, record, next_id)
        else:
            record_id = next_id
            fresh.append(row_of(record, record_id))
        next_id = max(next_id, record_id + 1)
        ids.append(record_id)
    file.executemany(INSERT, fresh)
    linked = [(parent, child) for child, r in zip(ids, records, strict=True) for parent in r.parents]
    if linked:
        file.executemany("INSERT OR IGNORE INTO link VALUES (?, ?)", linked)
    return ids


def _replace(file: sqlite3.Connection, record: Record, new_id: int) -> int:
    row = row_of(record, new_id)
    key = row[16]
    found = file.execute("SELECT id, time FROM record WHERE key = ?", (key,)).fetchone()
    if found is None:
        file.execute(INSERT, row)
        return new_id
    record_id = int(found[0])
    if found[1] <= record.time_s:
        if record.tier is Tier.M3:
            file.execute("DELETE FROM link WHERE child = ?", (record_id,))
        file.execute(_UPDATE, (*row[1:], record_id))
    return record_id


def restore(file: sqlite3.Connection, record: Record, origin: tuple[str, int], own: str) -> tuple[int, bool]:
    """Take over a record of another store, or of this one's own export. Gives its id here and whether it is new; one that
    was forgotten there is forgotten here."""
    home = origin[0] == own
    where = "id = ?" if home else "origin = ? AND origin_id = ?"
    found = file.execute(f"SELECT id, revoked FROM record WHERE {where}", origin[1:] if home else origin).fetchone()
    if found is not None:
        if record.revoked_s and not found[1]:
            revoke(file, [int(found[0])], record.revoked_s, "import", "forgotten in the store it was imported from")
        return int(found[0]), False
    if record.key:
        key = row_of(record, 0)[16]
        known = file.execute("SELECT 1 FROM record WHERE key = ?", (key,)).fetchone() is not None
        if known or not home:
            record_id = insert(file, [record])[0]
        else:
            record_id = _replace(file, record, origin[1])
        if known:
            return record_id, False
    elif home:
        record_id = origin[1]
        file.execute(INSERT, row_of(record, record_id))
    else:
        record_id = insert(file, [record])[0]
    if not home:
        file.execute("UPDATE record SET origin = ?, origin_id = ? WHERE id = ?", (*origin, record_id))
    return record_id, True


def revoke(file: sqlite3.Connection, ids: Iterable[int], now_s: float, who: str, why: str) -> list[int]:
    """Forget records, all that was made of them, and the raw observations they were made of: text, data, place and sender
    are erased, an empty record of the time of forgetting stays.

    A summary that falls with one of its sources is noted to be made anew of those that are left.
    """
    asked = list(dict.fromkeys(ids))
    raw = [p for i in asked for (p,) in file.execute(
        "SELECT parent FROM link JOIN record ON record.id = parent WHERE child = ? AND record.tier = 0", (i,))]  # fmt: skip
    doomed, seen = list(asked), set(asked)
    for record_id in doomed:
        for (child,) in file.execute("SELECT child FROM link WHERE parent = ?", (record_id,)):
            if child not in seen:
                seen.add(child)
                doomed.append(child)
    gone = seen | set(raw)
    told = json.dumps({"forgotten_by": who[:100], "why": why[:500]})
    done = []
    for record_id in dict.fromkeys([*doomed, *raw]):
        row = file.execute("SELECT tier, kind, key FROM record WHERE id = ? AND revoked = 0", (record_id,)).fetchone()
        if row is None:
            continue
        if record_id not in asked:
            _note_redo(file, record_id, row, gone)
        file.execute(
            "UPDATE record SET revoked = ?, text = '', data = ?, sender = '', x = NULL, y = NULL, cell = NULL, room = '', "
            "key = NULL WHERE id = ?", (now_s, told, record_id),
        )  # fmt: skip
        file.execute("DELETE FROM vector WHERE id = ?", (record_id,))
        file.execute("DELETE FROM link WHERE child = ? OR parent = ?", (record_id, record_id))
        done.append(record_id)
    return done


def _note_redo(file: sqlite3.Connection, record_id: int, row: tuple[int, str, str | None], gone: set[int]) -> None:
    tier, kind, key = row
    if tier in (Tier.M1, Tier.M2):
        parents = [p for (p,) in file.execute("SELECT parent FROM link WHERE child = ?", (record_id,)) if p not in gone]
    elif tier == Tier.M3 and kind in ("entity", "relation") and key:
        file.execute("INSERT INTO redo (tier, parents) VALUES (?, ?)", (tier, json.dumps([key])))
        return
    else:
        return
    if parents:
        file.execute("INSERT INTO redo (tier, parents) VALUES (?, ?)", (tier, json.dumps(parents)))


def delete(file: sqlite3.Connection, ids: Sequence[int]) -> None:
    """Drop records whose time is over; what was made of them stays."""
    for record_id in ids:
        file.execute("DELETE FROM record WHERE id = ?", (record_id,))
        file.execute("DELETE FROM vector WHERE id = ?", (record_id,))
        file.execute("DELETE FROM link WHERE parent = ? OR child = ?", (record_id, record_id))


def meta(file: sqlite3.Connection, name: str, default: str = "") -> str:
    """A value the store keeps of its own state."""
    row = file.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else default


def set_meta(file: sqlite3.Connection, name: str, value: str) -> None:
    """Keep a value of the store's own state."""
    file.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
