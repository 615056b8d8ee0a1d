# SPDX-License-Identifier: Apache-2.0
"""Export and import as JSON Lines: a head that names the store, then one record a line, forgotten ones too."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from planners.memory import schema
from planners.memory.records import Provenance, Record, Spot, Tier, Visibility, clean
from planners.memory.schema import VERSION, record_of, row_of
from planners.memory.store import Store

CHUNK = 500
FORMAT = "ghostshell-memory"
MAX_LINE = 1_000_000


class ExchangeError(ValueError):
    """A line is no record; the message names it and says what is wrong. Those before it are imported."""


@dataclass(frozen=True)
class Imported:
    """How many records were new, and how many were there already."""

    new: int = 0
    known: int = 0


def export_lines(store: Store, keep: Callable[[Record], bool] = lambda _: True) -> Iterator[str]:
    """The store's records, those for which `keep` holds, as lines; read in small pieces, so that nobody waits."""
    name = store.name
    yield json.dumps({"format": FORMAT, "version": VERSION, "store": name})
    last = 0
    while True:
        with store.reading(30.0) as file:
            found = file.execute(_PAGE, (last, CHUNK)).fetchall()
            parents = {i: [tuple(p) for p in file.execute(_PARENTS, (i,))] for i in (row[0] for row in found)}
        if not found:
            return
        last = found[-1][0]
        for row in found:
            record = record_of(row[:-2])
            if keep(record):
                origin = [row[-2] or name, row[-1] or record.id]
                made_of = [[o or name, n or p] for p, o, n in parents[record.id]]
                yield json.dumps({"origin": origin, **_plain(record), "parents": made_of}, ensure_ascii=False)


def import_lines(store: Store, lines: Iterable[str], *, timeout_s: float = 60.0) -> Imported:
    """Take over what `export_lines` gave, of this store or another. Doing it twice changes nothing more; what was forgotten
    there is forgotten here. Raises ExchangeError for a line that is no record, StoreError when it cannot be written."""
    own = store.name
    done = Imported()
    chunk: list[tuple[Record, tuple[str, int], list[tuple[str, int]]]] = []

    def write(waiting: list[tuple[Record, tuple[str, int], list[tuple[str, int]]]]) -> Imported:
        return store.do(lambda file: _restore(file, waiting, own)).result(timeout_s)

    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line) if len(line) <= MAX_LINE else None
            if not isinstance(told, dict):
                raise ValueError(f"it is no JSON object of at most {MAX_LINE} characters")
            if "format" in told:
                if told["format"] != FORMAT or told.get("version") != VERSION:
                    raise ValueError(f"this program reads {FORMAT}, version {VERSION}")
                continue
            chunk.append(_read(told))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            if chunk:
                write(chunk)
            raise ExchangeError(f"line {number} is no record of a memory's export: {error}") from error
        if len(chunk) >= CHUNK:
            part = write(chunk)
            done, chunk = Imported(done.new + part.new, done.known + part.known), []
    part = write(chunk) if chunk else Imported()
    return Imported(done.new + part.new, done.known + part.known)


def _restore(
    file: sqlite3.Connection, chunk: list[tuple[Record, tuple[str, int], list[tuple[str, int]]]], own: str
) -> Imported:
    new = 0
    for record, origin, parents in chunk:
        record_id, fresh, taken = schema.restore(file, record, origin, own)
        new += fresh
        for where, number in parents:
            found = (
                (number,)
                if where == own
                else file.execute("SELECT id FROM record WHERE origin = ? AND origin_id = ?", (where, number)).fetchone()
            )
            if found is not None and taken:
                file.execute("INSERT OR IGNORE INTO link VALUES (?, ?)", (found[0], record_id))
    return Imported(new, len(chunk) - new)


def _plain(record: Record) -> dict[str, Any]:
    told = {k: v for k, v in asdict(record).items() if k not in ("id", "parents")}
    told["tier"], told["visibility"] = record.tier.name, record.visibility.name
    if record.keep_until_s is not None and math.isinf(record.keep_until_s):
        told["keep_until_s"] = "forever"
    return told


def _read(told: dict[str, Any]) -> tuple[Record, tuple[str, int], list[tuple[str, int]]]:
    origin = _origin(told.pop("origin"))
    parents = [_origin(o) for o in told.pop("parents", [])]
    at = told.pop("spot")
    spot = Spot(_number(at["x"]), _number(at["y"]), _text(at["room"]))
    who = Provenance(**{k: clean(_text(v)) for k, v in told.pop("provenance").items()})
    told["tier"], told["visibility"] = Tier[told["tier"]], Visibility[told["visibility"]]
    if told.get("keep_until_s") == "forever":
        told["keep_until_s"] = math.inf
    if not isinstance(told.get("data"), dict):
        raise ValueError("a record needs data")
    told |= {name: _text(told[name]) for name in ("kind", "text", "key")}
    told |= {name: _number(told[name]) for name in ("time_s", "begun_s", "keep_until_s", "revoked_s")}
    record = Record(**told, spot=spot, provenance=who)
    row_of(record, 0)  # what cannot be stored is told here, with its line
    return record, origin, parents


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is no text")
    return value


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
        raise ValueError(f"{value!r:.60} is no number")
    return float(value)


def _origin(value: Any) -> tuple[str, int]:
    name, number = value
    if not isinstance(name, str) or not isinstance(number, int) or not 0 < number < 2**62:
        raise ValueError(f"origin {value!r} is no store and number")
    return name, number


_PAGE = (
    "SELECT id, tier, kind, time, begun, robot, source, process, sender, door, x, y, room, visibility, keep_until, key, "
    "revoked, text, data, origin, origin_id FROM record WHERE id > ? ORDER BY id LIMIT ?"
)
_PARENTS = (
    "SELECT link.parent, record.origin, record.origin_id FROM link JOIN record ON record.id = link.parent WHERE link.child = ?"
)
