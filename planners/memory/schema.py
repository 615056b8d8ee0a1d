# SPDX-License-Identifier: Apache-2.0
"""The memory's SQLite file: its tables, how it is opened, and how a record becomes a row and back."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from planners.memory.records import (
    Provenance,
    Record,
    Spot,
    StoreCorruptError,
    StoreError,
    Tier,
    Visibility,
    clean,
    encoded,
    named,
)

VERSION = 1
"""Format of the file (SQLite's user_version)."""
BUSY_S = 5.0
CELL_M = 2.0
"""Side of the squares by which places are indexed."""
_CELLS = 1 << 20

_TABLES = """
CREATE TABLE record (
    id INTEGER PRIMARY KEY AUTOINCREMENT, tier INTEGER NOT NULL, kind TEXT NOT NULL, time REAL NOT NULL, begun REAL NOT NULL,
    robot TEXT NOT NULL, source TEXT NOT NULL, process TEXT NOT NULL, sender TEXT NOT NULL, door TEXT NOT NULL,
    x REAL, y REAL, cell INTEGER, room TEXT NOT NULL, visibility INTEGER NOT NULL, keep_until REAL, key TEXT,
    origin TEXT, origin_id INTEGER, revoked REAL NOT NULL DEFAULT 0, text TEXT NOT NULL, data TEXT NOT NULL
);
CREATE INDEX record_time ON record (time);
CREATE INDEX record_kind ON record (kind, time);
CREATE INDEX record_tier ON record (tier, time);
CREATE INDEX record_cell ON record (cell, time) WHERE cell IS NOT NULL;
CREATE INDEX record_room ON record (room, time) WHERE room <> '';
CREATE INDEX record_process ON record (process, time) WHERE process <> '';
CREATE INDEX record_keep ON record (keep_until) WHERE keep_until IS NOT NULL;
CREATE UNIQUE INDEX record_key ON record (key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX record_origin ON record (origin, origin_id) WHERE origin IS NOT NULL;
CREATE TABLE link (parent INTEGER NOT NULL, child INTEGER NOT NULL, PRIMARY KEY (parent, child)) WITHOUT ROWID;
CREATE INDEX link_child ON link (child, parent);
CREATE TABLE vector (id INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE unembedded (id INTEGER PRIMARY KEY);
CREATE TABLE redo (id INTEGER PRIMARY KEY, tier INTEGER NOT NULL, parents TEXT NOT NULL);
CREATE TABLE forgotten (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE record_text USING fts5 (
    text, content='record', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
CREATE TRIGGER text_in AFTER INSERT ON record WHEN new.text <> '' BEGIN
    INSERT INTO record_text (rowid, text) VALUES (new.id, new.text);
    INSERT OR IGNORE INTO unembedded SELECT new.id WHERE new.tier > 0;
END;
CREATE TRIGGER text_out AFTER DELETE ON record WHEN old.text <> '' BEGIN
    INSERT INTO record_text (record_text, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER text_new AFTER UPDATE OF text ON record WHEN old.text <> new.text BEGIN
    INSERT INTO record_text (record_text, rowid, text) SELECT 'delete', old.id, old.text WHERE old.text <> '';
    INSERT INTO record_text (rowid, text) SELECT new.id, new.text WHERE new.text <> '';
    DELETE FROM vector WHERE id = new.id;
    INSERT OR IGNORE INTO unembedded SELECT new.id WHERE new.tier > 0 AND new.text <> '';
END;
"""

COLUMNS = (
    "id, tier, kind, time, begun, robot, source, process, sender, door, x, y, room, visibility, keep_until, key, revoked, "
    "text, data"
)
INSERT = (
    "INSERT INTO record (id, tier, kind, time, begun, robot, source, process, sender, door, x, y, cell, room, visibility, "
    "keep_until, key, origin, origin_id, revoked, text, data) VALUES (" + ", ".join("?" * 22) + ")"
)


def connect(path: Path, *, write: bool = False, power_safe: bool = True) -> sqlite3.Connection:
    """A connection in WAL mode; without `write` it cannot change anything.

    `power_safe` flushes each commit to the disk, so that it also survives a power cut; without, a killed process loses
    nothing, but a power cut may take the last commits with it.
    """
    file = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        if write:
            file.execute("PRAGMA journal_mode = WAL")
            file.execute(f"PRAGMA synchronous = {'FULL' if power_safe else 'NORMAL'}")
            file.execute("PRAGMA wal_autocheckpoint = 4000")
            file.execute("PRAGMA journal_size_limit = 67108864")
            # Forgotten text is overwritten in the file.
            file.execute("PRAGMA secure_delete = ON")
        else:
            file.execute("PRAGMA query_only = ON")
        file.execute("PRAGMA cache_size = -32768")
        # Mapped, a file that another program cuts short would end this one by a signal.
        file.execute("PRAGMA mmap_size = 0")
    except sqlite3.Error:
        file.close()
        raise
    return file


def prepare(path: Path) -> str:
    """Make the file where there is none, and check the one there is. Gives the store's own name, which exports carry.

    Raises StoreError.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = connect(path, write=True)
    except (OSError, sqlite3.Error) as error:
        raise named(error, path) from error
    try:
        version = file.execute("PRAGMA user_version").fetchone()[0]
        empty = not file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if version == 0 and empty:
            own = f"INSERT INTO meta VALUES ('name', '{secrets.token_hex(8)}');"
            file.executescript(f"BEGIN IMMEDIATE;{_TABLES}{own}PRAGMA user_version = {VERSION};COMMIT;")
        elif version != VERSION:
            why = "holds something else" if version == 0 else f"has format {version}, this program writes {VERSION}"
            raise StoreCorruptError(f"{path} {why}; move it away, a new one is made")
        file.execute("SELECT max(id) FROM record").fetchone()
        name = file.execute("SELECT value FROM meta WHERE name = 'name'").fetchone()
        if name is None:
            raise StoreCorruptError(f"{path} has lost its name; move it away, start anew, and import the last export")
        return str(name[0])
    except sqlite3.Error as error:
        if "fts5" in str(error):
            raise StoreError(f"this Python's SQLite {sqlite3.sqlite_version} has no FTS5; use one that has") from error
        raise named(error, path) from error
    finally:
        file.close()


def cell_of(x: float, y: float) -> int:
    """The square of the map a place lies in."""
    return _part(x) * _CELLS * 2 + _part(y)


def _part(metres: float) -> int:
    return max(0, min(2 * _CELLS - 1, math.floor(metres / CELL_M) + _CELLS))


def row_of(record: Record, record_id: int, origin: tuple[str, int] | None = None) -> tuple[Any, ...]:
    """The record as `INSERT` takes it. Raises ValueError for data that is no JSON."""
    where, who, spot = origin or (None, None), record.provenance, record.spot
    cell = None if spot.x is None or spot.y is None else cell_of(spot.x, spot.y)
    key = f"{record.scope}\x1f{record.key}" if record.key else None
    return (
        record_id,
        int(record.tier),
        record.kind,
        record.time_s,
        record.start_s,
        clean(who.robot),
        clean(who.source),
        clean(who.process),
        clean(who.sender),
        clean(who.door),
        spot.x,
        spot.y,
        cell,
        clean(spot.room),
        int(record.visibility),
        record.keep_until_s,
        key,
        *where,
        record.revoked_s,
        clean(record.text),
        encoded(record.data),
    )


def record_of(row: tuple[Any, ...], parents: tuple[int, ...] = ()) -> Record:
    """The record of a row of `COLUMNS`. Raises StoreCorruptError for a row that no program of ours wrote."""
    (
        record_id,
        tier,
        kind,
        time_s,
        begun_s,
        robot,
        source,
        process,
        sender,
        door,
        x,
        y,
        room,
        visibility,
        keep,
        key,
        revoked,
        text,
        data,
    ) = row
    try:
        return Record(
            Tier(tier),
            kind,
            time_s,
            text,
            json.loads(data),
            Provenance(robot, source, process, sender, door),
            Spot(x, y, room),
            Visibility(visibility),
            begun_s if begun_s < time_s else None,
            keep,
            key.partition("\x1f")[2] if key else "",
            parents,
            record_id,
            revoked,
        )
    except (ValueError, TypeError) as error:
        raise StoreCorruptError(f"record {record_id} of the memory is damaged ({error}); forget it by its id") from error


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
