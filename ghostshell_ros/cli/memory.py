# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell memory query|export|import|forget|stats`, which open the file of the memory itself, without a node."""

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ghostshell_ros.cli.output import fail
from ghostshell_ros.runtime.data import data_folder
from planners.memory import Memory, Query, Record, Store, StoreError
from planners.memory.answers import clock
from planners.memory.embedding import Embedder
from planners.memory.exchange import MAX_LINE, ExchangeError, export_lines, import_lines
from skill_kernel.config.yaml_text import private

memory = typer.Typer(name="memory", help="Ask, copy and forget what the robots remember.", no_args_is_help=True)

DataDir = Annotated[str, typer.Option(help="folder of the memory; nothing: $GHOSTSHELL_DATA or the user's data folder")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="only this kind: sighting, visit, heard, call …; repeatable")]
Since = Annotated[str, typer.Option(help="not before: 2026-05-04, 2026-05-04T12:30, or an age: 90s, 10m, 2h, 3d")]
Until = Annotated[str, typer.Option(help="not after, likewise")]
RobotName = Annotated[str, typer.Option("--robot", help="only of this robot; in a question, who is meant by “you”")]
Sender = Annotated[str, typer.Option(help="only what this person said")]
Room = Annotated[str, typer.Option(help="only of this room")]
Words = Annotated[str, typer.Option("--text", help="only with these words")]
MOST = 10_000
_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


@memory.command("ask", hidden=True)
@memory.command("query")
def query(
    question: Annotated[str, typer.Argument(help="a question in words; nothing: list what fits the options")] = "",
    robot: RobotName = "",
    kind: Kinds = None,
    since: Since = "",
    until: Until = "",
    room: Room = "",
    text: Words = "",
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="records at most")] = 20,
    model: Annotated[str, typer.Option(help="sentence-transformers model, by name or folder; loading takes seconds")] = "",
    data_dir: DataDir = "",
) -> None:
    """Ask the memory, or list records, newest first."""
    with opened_memory(data_dir, model) as opened:
        if question:
            answer = opened.ask(question, robot=robot, limit=limit)
            print(answer.text)
            if answer.note:
                print(f"({answer.note})", file=sys.stderr)
            for record in answer.sources:
                print(f"  [{record.id}] {clock(record.time_s)} {record.kind}: {record.text}")
            return
        for record in opened.recall(_query(kind, since, until, robot=robot, room=room, text=text, limit=limit)).sources:
            _print(record)


@memory.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="JSON Lines file to write; -: standard output")],
    kind: Kinds = None,
    data_dir: DataDir = "",
) -> None:
    """Write all records, one a line; forgotten ones are marked, so that an import forgets them elsewhere too."""
    with opened_memory(data_dir) as opened:
        lines = export_lines(opened.store, lambda r: not kind or r.kind in kind)
        if str(file) == "-":
            for line in lines:
                print(line)
            return
        count = -1
        partial = file.with_name(file.name + ".part")
        with open(partial, "w", encoding="utf-8", opener=private) as out:
            for line in lines:
                out.write(line + "\n")
                count += 1
        partial.replace(file)
        print(f"{count} records written to {file}")


@memory.command("import")
def import_(
    file: Annotated[
        typer.FileText,
        typer.Argument(help="JSON Lines file of an export; -: standard input", encoding="utf-8", errors="replace"),
    ],
    data_dir: DataDir = "",
) -> None:
    """Take over an export. Doing it twice changes nothing more."""
    with opened_memory(data_dir, make=True) as opened:
        done = import_lines(opened.store, iter(lambda: file.readline(MAX_LINE + 1), ""))
    print(f"{done.new} records are new, {done.known} were there already")


@memory.command("forget")
def forget(
    ids: Annotated[list[int] | None, typer.Argument(help="ids of records, as `query` shows them")] = None,
    robot: RobotName = "",
    kind: Kinds = None,
    since: Since = "",
    until: Until = "",
    room: Room = "",
    text: Words = "",
    sender: Sender = "",
    why: Annotated[str, typer.Option(help="kept with the empty record")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
    data_dir: DataDir = "",
) -> None:
    """Erase records and all that was made of them: those named, or all that fit the options."""
    if not ids and not any((robot, kind, since, until, room, text, sender)):
        fail("name records by their ids, or say which by the options", command="memory")
    with opened_memory(data_dir) as opened:
        if ids:
            doomed = [r.id for r in opened.store.get(ids) if not r.revoked_s]
        else:
            doomed = opened.store.all_ids(_query(kind, since, until, robot=robot, room=room, text=text, sender=sender))
        if not doomed:
            fail("there is no such record", command="memory")
        for record in opened.store.get(doomed[:20]):
            _print(record)
        if len(doomed) > 20:
            print(f"… and {len(doomed) - 20} more")
        if not yes and not typer.confirm(f"forget {len(doomed)} records and what was made of them?"):
            raise typer.Exit(1)
        gone = opened.forget(doomed, who="command line", why=why).result(600.0)
        opened.store.scrub()
        print(f"{len(gone)} records are forgotten")


@memory.command("stats")
def stats(data_dir: DataDir = "") -> None:
    """Show how much there is."""
    with opened_memory(data_dir) as opened:
        found = opened.stats()
        size = found.pop("bytes")
        for what, count in found.items():
            print(f"{what}: {count}")
        print(f"size: {size / 1e6:.1f} MB in {opened.store.path}")


@contextmanager
def opened_memory(data_dir: str, model: str = "", *, make: bool = False, command: str = "memory") -> Iterator[Memory]:
    """Open the memory's file; end the command with status 2 where that is not possible."""
    path = data_folder(data_dir) / "memory" / "memory.sqlite3"
    if not path.exists() and not make:
        fail(f"there is no memory in {path}; start a robot, or name its folder by --data-dir", command=command)
    try:
        embedder = Embedder(model) if model else None
        opened = Memory(Store(path), wall=time.time, embedder=embedder, background=False)
        try:
            if model:
                opened.embeddings.step()
            yield opened
        finally:
            opened.close()
    except (StoreError, ExchangeError, OSError, ValueError) as error:
        fail(error, command=command)


def _query(kind: list[str] | None, since: str, until: str, **fields: Any) -> Query:
    return Query(kinds=tuple(kind or ()), since_s=_time(since), until_s=_time(until), **fields)


def _time(said: str) -> float | None:
    if not said:
        return None
    if age := _AGE.fullmatch(said):
        return time.time() - float(age[1]) * _UNITS[age[2]]
    try:
        return datetime.fromisoformat(said).timestamp()
    except ValueError as error:
        raise ValueError(f"'{said}' is no time; say 2026-05-04, 2026-05-04T12:30, or an age such as 10m or 2h") from error


def _print(record: Record) -> None:
    print(f"[{record.id}] {clock(record.time_s)} M{int(record.tier)} {record.kind}: {record.text or dict(record.data)}")
