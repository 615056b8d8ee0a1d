# SPDX-License-Identifier: Apache-2.0
"""The simulated model as a process of its own, which knows of the world only what its prompts say."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.first_line import first_line
from bench.models import entry
from bench.simulated_model.table import ErrorModel, Planning, load_table
from bench.simulated_model.where import default_table

ALL, FAST = "typego", "typego-fast"
UP_S = 30.0
END_S = 5.0
MODULE = "bench.simulated_model"


class ModelProcessError(RuntimeError):
    """The simulated model did not start; the message says what it said."""


@dataclass(frozen=True)
class Models:
    """Specifications as the launch files take them: for all layers, and for S1P. `entries` are those that models.yaml must
    have for it."""

    model: str
    fast_model: str
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def table_hash(error_model: ErrorModel | None = None, planning: Planning | None = None) -> str:
    """Of what the simulated model's table says with these options; comments in it do not count. Raises TableError."""
    table = load_table(default_table()).with_options(error_model=error_model, planning=planning)
    said = table.model_dump(mode="json")
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:12]


@contextmanager
def simulated(error: float, fast_scale: float, seed: int, log: Path, options: Sequence[str] = ()) -> Iterator[Models]:
    """Run it with an error rate, S1P's latency scaled, and further options, until the block is left. Raises
    ModelProcessError."""
    command = [
        sys.executable,
        "-m",
        MODULE,
        "--port",
        "0",
        "--errors",
        f"{error:g}",
        "--fast-scale",
        f"{fast_scale:g}",
        "--seed",
        str(seed),
        *options,
    ]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as said:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, stdin=subprocess.DEVNULL, text=True)
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_S)
            if process.stdout is not None:
                process.stdout.close()


def _address(process: subprocess.Popen[str], log: Path) -> Models:
    try:
        line = first_line(process, UP_S)
    except TimeoutError as error:
        raise ModelProcessError(f"{error}; see {log}") from error
    try:
        told = json.loads(line)
        rows = {ALL: told["model"], FAST: told["fast_model"]}
        return Models(
            ALL, FAST, {name: entry(row, told["url"]).model_dump(mode="json", exclude_unset=True) for name, row in rows.items()}
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ModelProcessError(f"the simulated model said {line[:200]!r} instead of where it listens; see {log}") from error
