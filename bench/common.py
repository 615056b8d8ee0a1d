# SPDX-License-Identifier: Apache-2.0
"""Share among the benchmarks: machine, percentiles, targets, tables on the terminal and a JSON file in out/bench."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "bench"


@dataclass(frozen=True)
class Target:
    """A bound on a measured figure: `at_most` or, with `least`, at least."""

    what: str
    value: float
    bound: float
    unit: str = ""
    least: bool = False

    @property
    def met(self) -> bool:
        """Return whether the figure keeps the bound."""
        return self.value >= self.bound if self.least else self.value <= self.bound

    def as_json(self) -> dict[str, Any]:
        """Return the target with its verdict."""
        sign = ">=" if self.least else "<="
        bound = f"{sign} {self.bound:g}"
        return {"what": self.what, "value": self.value, "bound": bound, "unit": self.unit, "met": self.met}


def machine() -> dict[str, Any]:
    """Return where the figures come from: processor, usable cores, Python, and how busy the machine was."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "cpu": model,
        "cores": cores,
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "load_1min": round(os.getloadavg()[0], 2),
    }


def percentile(values: Iterable[float], percent: float) -> float:
    """Return the nearest-rank percentile; raises ValueError where there are no values."""
    ranked = sorted(values)
    if not ranked:
        raise ValueError("a percentile of no values; measure at least once")
    return ranked[max(0, math.ceil(percent / 100.0 * len(ranked)) - 1)]


def spread_of(seconds: Sequence[float]) -> dict[str, float]:
    """Least, median, 99th percentile and largest of some times, in milliseconds."""
    return {
        "min_ms": round(min(seconds) * 1e3, 4),
        "median_ms": round(percentile(seconds, 50) * 1e3, 4),
        "p99_ms": round(percentile(seconds, 99) * 1e3, 4),
        "max_ms": round(max(seconds) * 1e3, 4),
        "trials": len(seconds),
    }


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Add the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print the JSON instead of the tables")
    return parser


@dataclass(frozen=True)
class Table:
    """Rows for the terminal; every cell is shown with `str`, numbers stand on the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def spread_table(title: str, results: Mapping[str, Mapping[str, float]]) -> Table:
    """Print what `spread_of` gave, a row for each name."""
    rows: list[list[object]] = [
        [name, r["min_ms"], r["median_ms"], r["p99_ms"], r["max_ms"], r["trials"]] for name, r in results.items()
    ]
    return Table(title, ("what", "least", "median", "p99", "max", "trials"), rows)


def report(
    name: str, measured: dict[str, Any], tables: Iterable[Table], targets: Iterable[Target] = (), *, as_json: bool = False
) -> Path:
    """Print the tables (or the JSON), write out/bench/NAME.json and return its path."""
    bounds = list(targets)
    document = {"bench": name, "machine": machine(), "targets": [t.as_json() for t in bounds], **measured}
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if as_json:
        print(json.dumps(document, ensure_ascii=False))
        return path
    for table in tables:
        _show(table)
    if bounds:
        _show(Table("targets", ("figure", "measured", "bound", ""), [_row(t) for t in bounds]))
    host = document["machine"]
    print(f"{host['cpu']}, {host['cores']} cores, load {host['load_1min']}, Python {host['python']}; JSON: {path}")
    return path


def _row(target: Target) -> list[object]:
    bound = f"{'≥' if target.least else '≤'} {target.bound:g} {target.unit}"
    return [target.what, _cell(target.value), bound, "met" if target.met else "MISSED"]


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _show(table: Table) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as RichTable

    shown = RichTable(title=escape(table.title), title_justify="left", title_style="bold")
    for index, column in enumerate(table.columns):
        numeric = all(isinstance(row[index], (int, float, type(None))) for row in table.rows)
        shown.add_column(escape(column), justify="right" if numeric and table.rows else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*(escape(_cell(value)) for value in row))
    Console(width=None if os.isatty(1) else 160).print(shown)
