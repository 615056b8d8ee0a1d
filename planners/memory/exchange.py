# SPDX-License-Identifier: Apache-2.0
"""Export and import JSON Lines: a header line, then one record per line, including forgotten ones."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any, NamedTuple

from pydantic import Field, TypeAdapter

from planners.memory import schema
from planners.memory.records import Record, Tier, Visibility
from planners.memory.schema import VERSION, row_of
from planners.memory.store import Store
from skill_kernel.config.sections import shown

CHUNK = 500
FORMAT = "ghostshell-memory"
MAX_LINE = 1_000_000
Uid = Annotated[int, Field(gt=0, lt=2**62, strict=True)]
"""Identify a record in all stores."""
_Link = tuple[int, Uid]
"""A child's id in this store, and the uid of its parent."""
_Line = tuple[Record, Uid, list[Uid]]
"""A record with its uid and those of its parents."""
_RECORD = TypeAdapter(Record)
_UIDS = TypeAdapter(list[Uid])


class ExchangeError(ValueError):
    """Report an invalid line by its number. The lines before it have been imported."""


class Imported(NamedTuple):
    """Count the records that were new and those already present."""

    new: int
    known: int


def export_lines(store: Store, keep: Callable[[Record], bool] = lambda _: True) -> Iterator[str]:
    """Yield the header and each record for which `keep` holds. Read in chunks, so that no long read transaction is held.

    What is written meanwhile may be missing or only partly there. Links to records that `keep` leaves out are lost in a
    store that does not have them.
    """
    yield json.dumps({"format": FORMAT, "version": VERSION})
    last = 0
    while True:
        with store.reading(30.0) as file:
            found = schema.select(file, "record WHERE id > ? ORDER BY id LIMIT ?", (last, CHUNK))
            lines = [_to_json(file, r) for r in found if keep(r)]
        if not found:
            return
        last = found[-1].id
        for line in lines:
            yield json.dumps(line, ensure_ascii=False)


def _to_json(file: sqlite3.Connection, record: Record) -> dict[str, Any]:
    (uid,) = file.execute("SELECT uid FROM record WHERE id = ?", (record.id,)).fetchone()
    parents = file.execute("SELECT uid FROM record WHERE id IN (SELECT parent FROM link WHERE child = ?)", (record.id,))
    fields = {k: v for k, v in asdict(record).items() if k != "id"}
    fields |= {"uid": uid, "tier": record.tier.name, "visibility": record.visibility.name}
    return fields | {"parents": [parent for (parent,) in parents]}


def import_lines(store: Store, lines: Iterable[str]) -> Imported:
    """Import the lines of `export_lines`, from this store or another. Idempotent; records forgotten in the source are
    forgotten here.

    Raises ExchangeError for an invalid line, and StoreError when the store does not write; what was queued then may still
    be written later. Import again to complete it.
    """
    new = known = 0
    headed = False
    chunk: list[_Line] = []
    missing: list[_Link] = []

    def write(links: Sequence[_Link] = ()) -> None:
        nonlocal new, known
        fresh, without = store.do(lambda file: _restore(file, chunk, links)).result(60.0)
        new, known = new + fresh, known + len(chunk) - fresh
        missing.extend(without)
        chunk.clear()

    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            read = _read(line)
            if read is not None and not headed:
                raise ValueError("the header with the format's version is missing before it")
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            write(missing)
            why = f"{shown(error)} is missing or unknown" if isinstance(error, KeyError) else shown(error, 300)
            raise ExchangeError(f"line {number} is not a record of a memory export: {why}") from error
        headed = True
        if read is not None:
            chunk.append(read)
        if len(chunk) >= CHUNK:
            write()
    write(missing)  # a record that was extended has a lower id than its newer parents
    return Imported(new, known)


def _restore(file: sqlite3.Connection, chunk: list[_Line], links: Sequence[_Link]) -> tuple[int, list[_Link]]:
    """Write a chunk, then its links and these. Return how many records are new, and the links whose parents are not here."""
    new, made, missing = 0, list(links), []
    for record, uid, parents in chunk:
        record_id, fresh, applied = schema.restore(file, record, uid)
        new += fresh
        made += [(record_id, parent) for parent in parents if applied]
    for child, parent in made:
        if not file.execute("INSERT OR REPLACE INTO link SELECT id, ? FROM record WHERE uid = ?", (child, parent)).rowcount:
            missing.append((child, parent))
    return new, missing


def _read(line: str) -> _Line | None:
    """Return the record of a line, or None for the header. Raises ValueError or another parsing error for any other line."""
    fields = json.loads(line) if len(line) <= MAX_LINE else None
    if not isinstance(fields, dict):
        raise ValueError(f"it is no JSON object of at most {MAX_LINE} characters")
    if "format" in fields:
        if fields["format"] != FORMAT or fields.get("version") != VERSION:
            raise ValueError(f"this program reads {FORMAT}, version {VERSION}")
        return None
    uid, *parents = _UIDS.validate_python([fields.pop("uid"), *fields.pop("parents", [])])
    fields["tier"], fields["visibility"] = Tier[fields["tier"]], Visibility[fields["visibility"]]
    record = _RECORD.validate_python(fields)
    row_of(record)  # fail here, where the line number is known
    return record, uid, parents
