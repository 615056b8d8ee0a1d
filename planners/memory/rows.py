# SPDX-License-Identifier: Apache-2.0
"""Changes of the memory's rows, each within a transaction that the caller holds."""

from __future__ import annotations

import hashlib
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
REVISION = "revision"
"""Name of the store's count of revocations: whoever read before one must not write after it what it made of that."""
_TOLD_AGAIN = frozenset({"heard", "outcome", "visit", "sighting", "episode", "digest"})
"""Beginnings of keys that robots and consolidation put again by themselves: what was forgotten of them stays so."""
_JOINED = frozenset({"entity", "relation"})
"""Kinds that are made of all they were ever noted with."""


def insert(file: sqlite3.Connection, records: Sequence[Record]) -> list[int]:
    """Store records and give their ids. One with a key replaces an older one of that key and keeps its id; one that is only
    told again after it was forgotten is not stored, its id is 0."""
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
    linked = [(parent, child) for child, r in zip(ids, records, strict=True) if child for parent in r.parents]
    if linked:
        file.executemany("INSERT OR IGNORE INTO link VALUES (?, ?)", linked)
    return ids


def _replace(file: sqlite3.Connection, record: Record, new_id: int) -> int:
    row = row_of(record, new_id)
    key = row[16]
    found = file.execute("SELECT id, time, origin, origin_id FROM record WHERE key = ?", (key,)).fetchone()
    if found is None:
        if _was_forgotten(file, key):
            return 0
        file.execute(INSERT, row)
        return new_id
    record_id = int(found[0])
    if found[1] <= record.time_s:
        joined = record.kind in _JOINED
        if record.tier is Tier.M3 and not joined:
            file.execute("DELETE FROM link WHERE child = ?", (record_id,))
        origin = found[2:] if joined else row[17:19]
        file.execute(_UPDATE, (*row[1:17], *origin, *row[19:], record_id))
    return record_id


def _was_forgotten(file: sqlite3.Connection, key: str) -> bool:
    scope, _, name = key.partition("\x1f")
    what, _, whose = name.partition(":")
    if what not in _TOLD_AGAIN:
        return False
    keys = [key, *([f"{scope}\x1fheard:{whose}"] if what == "outcome" else [])]
    return any(file.execute("SELECT 1 FROM forgotten WHERE key = ?", (_hashed(k),)).fetchone() for k in keys)


def _hashed(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def restore(file: sqlite3.Connection, record: Record, origin: tuple[str, int], own: str) -> tuple[int, bool, bool]:
    """Take over a record of another store, or of this one's own export. Gives its id here, whether it is new, and whether
    it is here now as it was there; one that was forgotten there is forgotten here."""
    home = origin[0] == own
    where = "id = ?" if home else "origin = ? AND origin_id = ?"
    found = file.execute(f"SELECT id, revoked, time FROM record WHERE {where}", origin[1:] if home else origin).fetchone()
    if found is not None:
        if record.revoked_s and not found[1]:
            revoke(file, [int(found[0])], record.revoked_s, "import", "forgotten in the store it was imported from")
        if not record.key or record.revoked_s or found[1] or record.time_s <= found[2]:
            return int(found[0]), False, False
        record_id, changed = _replace(file, record, int(found[0])), True
    elif record.key:
        known = file.execute("SELECT id, time FROM record WHERE key = ?", (row_of(record, 0)[16],)).fetchone()
        changed = known is None or known[1] <= record.time_s
        record_id = _replace(file, record, origin[1]) if home else insert(file, [record])[0]
        found = known
    else:
        record_id, changed = origin[1], True
        if home:
            file.execute(INSERT, row_of(record, record_id))
        else:
            record_id = insert(file, [record])[0]
    if not home and changed and record_id:
        file.execute("UPDATE record SET origin = NULL, origin_id = NULL WHERE origin = ? AND origin_id = ?", origin)
        file.execute("UPDATE record SET origin = ?, origin_id = ? WHERE id = ?", (*origin, record_id))
    return record_id, found is None and record_id > 0, changed and record_id > 0


def revoke(file: sqlite3.Connection, ids: Iterable[int], now_s: float, who: str, why: str) -> list[int]:
    """Forget records, all that was made of them, the raw observations they were made of, and how a task ended that was
    asked for in them: text, data, place and sender are erased, an empty record of the time of forgetting stays.

    A summary that falls with one of its sources is noted to be made anew of those that are left; what cannot be is known
    by a hash of its key, so that it is not stored when it is told again.
    """
    asked = _with_outcomes(file, ids)
    raw = [
        p
        for i in asked
        for (p,) in file.execute(
            "SELECT parent FROM link JOIN record ON record.id = parent WHERE child = ? AND record.tier = 0", (i,)
        )
    ]
    doomed, seen = list(asked), set(asked)
    for record_id in doomed:
        for (child,) in file.execute("SELECT child FROM link WHERE parent = ?", (record_id,)):
            if child not in seen:
                seen.add(child)
                doomed.append(child)
    gone = seen | set(raw)
    told = json.dumps({"forgotten_by": who[:100], "why": why[:500]})
    named = set(asked)
    done = []
    for record_id in dict.fromkeys([*doomed, *raw]):
        row = file.execute("SELECT tier, kind, key FROM record WHERE id = ? AND revoked = 0", (record_id,)).fetchone()
        if row is None:
            continue
        again = record_id not in named and _note_redo(file, record_id, row, gone)
        if row[2] and not again:
            file.execute("INSERT OR IGNORE INTO forgotten VALUES (?)", (_hashed(row[2]),))
        file.execute(
            "UPDATE record SET revoked = ?, text = '', data = ?, sender = '', x = NULL, y = NULL, cell = NULL, room = '', "
            "key = NULL WHERE id = ?",
            (now_s, told, record_id),
        )
        file.execute("DELETE FROM vector WHERE id = ?", (record_id,))
        file.execute("DELETE FROM link WHERE child = ? OR parent = ?", (record_id, record_id))
        done.append(record_id)
    if done:
        set_meta(file, REVISION, str(int(meta(file, REVISION, "0")) + 1))
    return done


def _with_outcomes(file: sqlite3.Connection, ids: Iterable[int]) -> list[int]:
    """These ids, and those of the ends of the tasks that were asked for in them: they repeat the words."""
    found = list(dict.fromkeys(ids))
    for record_id in list(found):
        row = file.execute("SELECT key FROM record WHERE id = ? AND kind IN ('heard', 'event')", (record_id,)).fetchone()
        scope, _, name = (row[0] if row and row[0] else "").partition("\x1f")
        if name.startswith("heard:"):
            key = f"{scope}\x1foutcome:{name.removeprefix('heard:')}"
            found += [i for (i,) in file.execute("SELECT id FROM record WHERE key = ?", (key,)) if i not in found]
    return found


def _note_redo(file: sqlite3.Connection, record_id: int, row: tuple[int, str, str | None], gone: set[int]) -> bool:
    """Whether it is to be made anew."""
    tier, kind, key = row
    left: list[Any] = []
    if tier in (Tier.M1, Tier.M2):
        parents = file.execute(
            "SELECT parent, kind FROM link JOIN record ON record.id = parent WHERE child = ?", (record_id,)
        ).fetchall()
        kept = [(p, of) for p, of in parents if p not in gone]
        # Without the end of the task there is nothing to sum up.
        left = [p for p, _ in kept] if kind != "episode" or any(of == "outcome" for _, of in kept) else []
    elif tier == Tier.M3 and kind in _JOINED and key:
        left = [key]
    if left:
        file.execute("INSERT INTO redo (tier, parents) VALUES (?, ?)", (tier, json.dumps(left)))
    return bool(left)


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
