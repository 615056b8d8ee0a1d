# SPDX-License-Identifier: Apache-2.0
"""Keep the tasks of the office as a packed list with a checksum, and tell which are held out."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from bench.office.tasks import Task

FILE = Path(__file__).resolve().with_name("tasks.jsonl.gz")
CHECKSUM = FILE.with_name("tasks.sha256")
BASIC, AMBIGUOUS, DYNAMIC = 300, 800, 1000
"""Tasks of each tier, as many as the paper has."""
HELD_OUT = 300
"""Tasks on which nothing is made or mended: those whose hash of the id is smallest."""


class CollectionError(ValueError):
    """Say why the list cannot be used."""


def write(tasks: Iterable[Task]) -> str:
    """Keep a list of tasks; return its checksum."""
    text = "".join(json.dumps(task.plain(), sort_keys=True, separators=(",", ":")) + "\n" for task in tasks)
    FILE.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    checksum = hashlib.sha256(text.encode()).hexdigest()
    CHECKSUM.write_text(f"{checksum}\n", encoding="ascii")
    return checksum


@lru_cache(maxsize=1)
def load() -> tuple[Task, ...]:
    """Return all tasks in their order. Raises CollectionError where the list is not the one of the checksum."""
    text = gzip.decompress(FILE.read_bytes())
    found, kept = hashlib.sha256(text).hexdigest(), CHECKSUM.read_text(encoding="ascii").strip()
    if found != kept:
        raise CollectionError(f"{FILE.name} has the checksum {found}, not {kept}; write it anew by bench.office.generator")
    return tuple(Task.read(json.loads(line)) for line in text.decode().splitlines())


@lru_cache(maxsize=1)
def held_out() -> frozenset[str]:
    """Return the ids of the tasks that are held out."""
    order = sorted((hashlib.sha256(f"held out {task.id}".encode()).hexdigest(), task.id) for task in load())
    return frozenset(task for _, task in order[:HELD_OUT])
