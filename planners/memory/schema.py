# SPDX-License-Identifier: Apache-2.0
"""The memory's SQLite file: its tables, how it is opened, and how a record becomes a row and back."""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
from pathlib import Path
from typing import Any

from planners.memory.errors import StoreCorruptError, StoreError, named
from planners.memory.records import Provenance, Record, Spot, Tier, Visibility, clean, encoded

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
