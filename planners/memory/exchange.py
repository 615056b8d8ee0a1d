# SPDX-License-Identifier: Apache-2.0
"""Export and import as JSON Lines: a head that names the store, then one record a line, forgotten ones too."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter

from planners.memory import schema
from planners.memory.records import Record, Tier, Visibility
from planners.memory.schema import VERSION, row_of
from planners.memory.store import Store

CHUNK = 500
FORMAT = "ghostshell-memory"
MAX_LINE = 1_000_000
Origin = tuple[str, Annotated[int, Field(gt=0, lt=2**62, strict=True)]]
"""The name of a store, and the id of a record in it."""
_RECORD = TypeAdapter(Record)
_ORIGINS = TypeAdapter(list[Origin])


class ExchangeError(ValueError):
    """A line is no record; the message names it and says what is wrong. Those before it are imported."""


class Imported(NamedTuple):
    """How many records were new, and how many were there already."""

    new: int
    known: int


class _Line(NamedTuple):
    record: Record
    origin: Origin
    parents: list[Origin]


def export_lines(store: Store, keep: Callable[[Record], bool] = lambda _: True) -> Iterator[str]:
    """Return the store's records, those for which `keep` holds, as lines; read in small pieces, so that nobody waits."""
    name = store.name
    yield json.dumps({"format": FORMAT, "version": VERSION, "store": name})
    last = 0
    while True:
        with store.reading(30.0) as file:
            found = schema.select(file, "record WHERE id > ? ORDER BY id LIMIT ?", (last, CHUNK))
            lines = [_plain(file, r, name) for r in found if keep(r)]
        if not found:
            return
        last = found[-1].id
        for line in lines:
            yield json.dumps(line, ensure_ascii=False)


def _plain(file: sqlite3.Connection, record: Record, own: str) -> dict[str, Any]:
    of = "SELECT coalesce(origin, ?), coalesce(origin_id, id) FROM record WHERE id"
    (origin,) = file.execute(f"{of} = ?", (own, record.id))
    told = {k: v for k, v in asdict(record).items() if k != "id"}
    told |= {"origin": origin, "tier": record.tier.name, "visibility": record.visibility.name}
    if record.keep_until_s is not None and math.isinf(record.keep_until_s):
        told["keep_until_s"] = "forever"
    made_of = file.execute(f"{of} IN (SELECT parent FROM link WHERE child = ?)", (own, record.id))
    return told | {"parents": made_of.fetchall()}


def import_lines(store: Store, lines: Iterable[str], *, timeout_s: float = 60.0) -> Imported:
    """Take over what `export_lines` gave, of this store or another. Doing it twice changes nothing more; what was forgotten
    there is forgotten here. Raises ExchangeError for a line that is no record, StoreError when it cannot be written."""
    own = store.name
    new = known = 0
    chunk: list[_Line] = []

    def write() -> None:
        nonlocal new, known
        fresh = store.do(lambda file: _restore(file, chunk, own)).result(timeout_s) if chunk else 0
        new, known = new + fresh, known + len(chunk) - fresh
        chunk.clear()

    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            if (read := _read(line)) is not None:
                chunk.append(read)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            write()
            raise ExchangeError(f"line {number} is no record of a memory's export: {error}") from error
        if len(chunk) >= CHUNK:
            write()
    write()
    return Imported(new, known)


def _restore(file: sqlite3.Connection, chunk: list[_Line], own: str) -> int:
    """How many of these are new."""
    new = 0
    for record, origin, parents in chunk:
        record_id, fresh, taken = schema.restore(file, record, origin, own)
        new += fresh
        for where, number in parents if taken else ():
            by_origin = "SELECT id FROM record WHERE origin = ? AND origin_id = ?"
            found = (number,) if where == own else file.execute(by_origin, (where, number)).fetchone()
            if found is not None:
                file.execute("INSERT OR IGNORE INTO link VALUES (?, ?)", (found[0], record_id))
    return new


def _read(line: str) -> _Line | None:
    """Return the record of a line, None for the head. Raises ValueError and others for what is neither."""
    told = json.loads(line) if len(line) <= MAX_LINE else None
    if not isinstance(told, dict):
        raise ValueError(f"it is no JSON object of at most {MAX_LINE} characters")
    if "format" in told:
        if told["format"] != FORMAT or told.get("version") != VERSION:
            raise ValueError(f"this program reads {FORMAT}, version {VERSION}")
        return None
    origin, *parents = _ORIGINS.validate_python([told.pop("origin"), *told.pop("parents", [])])
    told["tier"], told["visibility"] = Tier[told["tier"]], Visibility[told["visibility"]]
    if told.get("keep_until_s") == "forever":
        told["keep_until_s"] = math.inf
    record = _RECORD.validate_python(told)
    row_of(record)  # what cannot be stored is told here, with its line
    return _Line(record, origin, parents)
