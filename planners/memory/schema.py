# SPDX-License-Identifier: Apache-2.0
"""The memory's SQLite file: its tables, how it is opened, and how records are written, forgotten and dropped in it."""

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from typing import Any

from planners.memory.records import Provenance, Record, Spot, StoreError, Tier, Visibility, clean, encoded, named
from planners.prompts.blocks import text_beside
from skill_kernel.codes import MemoryCode
from skill_kernel.config.sections import shown
from skill_kernel.config.yaml_text import private

VERSION = 2
"""Format of the file (SQLite's user_version)."""
BUSY_S = 5.0
DAY_S = 86_400.0

_TABLES = text_beside(__file__, "tables.sql")

COLUMNS = "id, tier, kind, time, begun, robot, source, process, sender, door, x, y, room, visibility, key, revoked, text, data"
_WRITTEN = [*COLUMNS.split(", ")[1:], "uid"]
_INSERT = f"INSERT INTO record ({', '.join(_WRITTEN)}) VALUES ({', '.join('?' * len(_WRITTEN))})"
_UPDATE = f"UPDATE record SET {', '.join(f'{name} = ?' for name in _WRITTEN)} WHERE id = ?"
_TOLD_AGAIN = frozenset({"heard", "outcome", "visit", "sighting", "episode", "digest"})
"""Beginnings of keys that robots and consolidation put again by themselves: what was forgotten of them stays so."""
_JOINED = frozenset({"entity", "relation"})
"""Kinds that are made of all they were ever noted with."""
MAX_AGAIN = 500
"""Sentences, the newest, from which a node or an edge is made again."""
KNOWLEDGE = "knowledge"
"""Name of the value that says since when habits are up to date, "" when they are not."""


def connect(path: Path, *, write: bool = False, power_safe: bool = True) -> sqlite3.Connection:
    """Return a connection in WAL mode; without `write` it makes no file and cannot change anything.

    `power_safe` flushes each commit to the disk, so that it also survives a power cut; without, a killed process loses
    nothing, but a power cut may take the last commits with it.
    """
    uri = f"{path.absolute().as_uri()}?mode={'rwc' if write else 'rw'}"
    file = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
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


def prepare(path: Path) -> None:
    """Make the file where there is none, and check the one there is. Raises StoreError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        open(path, "ab", opener=private).close()
        with closing(connect(path, write=True)) as file:
            version = file.execute("PRAGMA user_version").fetchone()[0]
            if version == 0 and not file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                file.executescript(f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version = {VERSION};COMMIT;")
            elif version != VERSION:
                why = "holds something else" if version == 0 else f"has format {version}, this program writes {VERSION}"
                raise StoreError(f"{path} {why}; move it away, a new one is made", MemoryCode.STORE_CORRUPT)
            file.execute("SELECT max(id) FROM record").fetchone()
    except (OSError, sqlite3.Error) as error:
        if "fts5" in str(error):
            raise StoreError(f"this Python's SQLite {sqlite3.sqlite_version} has no FTS5; use one that has") from error
        raise named(error, path) from error


def row_of(record: Record) -> tuple[Any, ...]:
    """Return the record's values of all written columns but the uid. Raises ValueError for data that is no JSON."""
    spot = record.spot
    return (
        int(record.tier),
        record.kind,
        record.time_s,
        record.start_s,
        *map(clean, astuple(record.provenance)),
        spot.x,
        spot.y,
        clean(spot.room),
        int(record.visibility),
        clean(f"{record.scope}\x1f{record.key}") if record.key else None,
        record.revoked_s,
        clean(record.text),
        encoded(record.data),
    )


def select(file: sqlite3.Connection, rest: str, values: Sequence[Any] = ()) -> list[Record]:
    """Return the records of a SELECT on `record`, of which this is all that follows FROM."""
    return [_record_of(row) for row in file.execute(f"SELECT {COLUMNS} FROM {rest}", values)]


def _record_of(row: tuple[Any, ...]) -> Record:
    record_id, tier, kind, time_s, begun_s = row[:5]
    visibility, key, revoked, text, data = row[13:]
    try:
        told = json.loads(data)
        if not isinstance(told, dict) or not all(isinstance(one, str) for one in (kind, text, *row[5:10])):
            raise TypeError("a text or its data is something else")
        return Record(
            Tier(tier),
            kind,
            time_s,
            text,
            told,
            Provenance(*row[5:10]),
            Spot(*row[10:13]),
            Visibility(visibility),
            begun_s if begun_s < time_s else None,
            key.partition("\x1f")[2] if key else "",
            id=record_id,
            revoked_s=revoked,
        )
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = f"record {record_id} of the memory is damaged ({shown(error, 200)}); forget it by its id"
        raise StoreError(why, MemoryCode.STORE_CORRUPT) from error


def by_ids(file: sqlite3.Connection, ids: Iterable[int]) -> list[Record]:
    """Return records by id, in that order; those that are no more are left out."""
    chosen = list(ids)
    found = {r.id: r for r in select(file, "record WHERE id IN (SELECT value FROM json_each(?))", [json.dumps(chosen)])}
    return [found[i] for i in chosen if i in found]


def insert(file: sqlite3.Connection, records: Iterable[Record]) -> list[int]:
    """Store records and give their ids. One with a key replaces an older one of that key and keeps its id; one that is only
    told again after it was forgotten is not stored, its id is 0."""
    return [_put(file, record) for record in records]


def _put(file: sqlite3.Connection, record: Record, uid: int = 0) -> int:
    """Store a record under a uid, or one that is known under its own; a new one gets one by chance."""
    row = row_of(record)
    key = row[13]
    found = file.execute("SELECT id, time, uid FROM record WHERE key = ?", (key,)).fetchone() if key else None
    if found is None:
        if key and _was_forgotten(file, key):
            return 0
        record_id = int(file.execute(_INSERT, (*row, uid or secrets.randbelow(2**62 - 1) + 1)).lastrowid or 0)
    else:
        record_id = int(found[0])
        if found[1] <= record.time_s:
            if record.tier is Tier.M3 and record.kind not in _JOINED:
                file.execute("DELETE FROM link WHERE child = ?", (record_id,))
            file.execute(_UPDATE, (*row, uid or found[2], record_id))
    if record.parents:
        file.executemany("INSERT OR IGNORE INTO link VALUES (?, ?)", [(parent, record_id) for parent in record.parents])
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


def restore(file: sqlite3.Connection, record: Record, uid: int) -> tuple[int, bool, bool]:
    """Import a record that has this `uid` wherever it goes. One that was forgotten there is forgotten here.

    Return its id here, whether it is new, and whether it is here now as it was there.
    """
    key = row_of(record)[13]
    found = file.execute("SELECT id, revoked, time, key FROM record WHERE uid = ?", (uid,)).fetchone()
    if found is not None:
        if record.revoked_s and not found[1]:
            revoke(file, [found[0]], record.revoked_s, "import", "forgotten in the store it was imported from")
        if not key or record.revoked_s or found[1] or record.time_s <= found[2] or found[3] != key:
            return found[0], False, not record.revoked_s and not found[1] and record.time_s == found[2]
    elif key:
        found = file.execute("SELECT id, revoked, time FROM record WHERE key = ?", (key,)).fetchone()
    record_id = _put(file, record, uid)
    return record_id, found is None and record_id > 0, record_id > 0 and (found is None or found[2] <= record.time_s)


def revoke(file: sqlite3.Connection, ids: Iterable[int], now_s: float, who: str, why: str) -> list[int]:
    """Forget records, all that was made of them, the raw observations they were made of, and how a task ended that was
    asked for in them: text, data, place and sender are erased, an empty record of the time of forgetting stays.

    A summary that falls with one of its sources is noted to be made anew of those that are left; what cannot be is known
    by a hash of its key, so that it is not stored when it is told again.
    """

    def ids_of(sql: str, chosen: list[int]) -> list[int]:
        return [i for (i,) in file.execute(sql, (json.dumps(chosen),))]

    asked = list(ids)
    asked = list(dict.fromkeys([*asked, *ids_of(_OUTCOMES, asked)]))
    doomed = list(dict.fromkeys([*ids_of(_FALLEN, asked), *ids_of(_RAW, asked)]))
    told = json.dumps({"forgotten_by": who[:100], "why": why[:500]})
    done = []
    for record_id in doomed:
        row = file.execute("SELECT tier, kind, key FROM record WHERE id = ? AND revoked = 0", (record_id,)).fetchone()
        if row is None:
            continue
        again = record_id not in asked and _note_redo(file, record_id, row, doomed)
        if row[2] and not again:
            file.execute("INSERT OR IGNORE INTO forgotten VALUES (?)", (_hashed(row[2]),))
        file.execute(
            "UPDATE record SET revoked = ?, text = '', data = ?, sender = '', x = NULL, y = NULL, room = '', "
            "key = NULL WHERE id = ?",
            (now_s, told, record_id),
        )
        _unlink(file, record_id)
        done.append(record_id)
    set_meta(file, KNOWLEDGE, "")
    return done


_OUTCOMES = (
    "SELECT ended.id FROM record AS asked JOIN record AS ended ON ended.key = "
    "replace(asked.key, char(31) || 'heard:', char(31) || 'outcome:') "
    "WHERE ended.kind = 'outcome' AND asked.id IN (SELECT value FROM json_each(?))"
)
"""The ends of the tasks that were asked for in these records: they repeat the words."""
_FALLEN = (
    "WITH RECURSIVE fallen (id) AS (SELECT value FROM json_each(?) UNION SELECT child FROM link JOIN fallen ON parent = id) "
    "SELECT id FROM fallen"
)
_RAW = "SELECT parent FROM link JOIN record ON record.id = parent WHERE tier = 0 AND child IN (SELECT value FROM json_each(?))"


def _note_redo(file: sqlite3.Connection, record_id: int, row: tuple[int, str, str | None], gone: list[int]) -> bool:
    """Return whether it must be made again."""
    tier, kind, _ = row
    joined = kind in _JOINED
    if tier not in (Tier.M1, Tier.M2) and not joined:
        return False
    sql = (
        "SELECT parent, kind FROM link JOIN record ON record.id = parent WHERE child = ? AND parent NOT IN "
        "(SELECT value FROM json_each(?)) ORDER BY parent DESC LIMIT ?"
    )
    kept = file.execute(sql, (record_id, json.dumps(gone), MAX_AGAIN if joined else -1)).fetchall()
    # Without the end of the task there is nothing to sum up.
    left = [p for p, _ in reversed(kept)] if kind != "episode" or any(of == "outcome" for _, of in kept) else []
    if left:
        file.execute("INSERT INTO redo (tier, parents) VALUES (?, ?)", (tier, json.dumps(left)))
    return bool(left)


def delete(file: sqlite3.Connection, ids: Iterable[int]) -> None:
    """Drop records whose time is over; what was made of them stays."""
    for record_id in ids:
        file.execute("DELETE FROM record WHERE id = ?", (record_id,))
        _unlink(file, record_id)


def _unlink(file: sqlite3.Connection, record_id: int) -> None:
    file.execute("DELETE FROM vector WHERE id = ?", (record_id,))
    file.execute("DELETE FROM link WHERE parent = ? OR child = ?", (record_id, record_id))


def meta(file: sqlite3.Connection, name: str, default: str = "") -> str:
    """Return a value the store keeps of its own state."""
    row = file.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return str(row[0]) if row else default


def set_meta(file: sqlite3.Connection, name: str, value: str) -> None:
    """Keep a value of the store's own state."""
    file.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))
