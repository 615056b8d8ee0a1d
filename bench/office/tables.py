# SPDX-License-Identifier: Apache-2.0
"""Write the office's figures as tables, with the paper's beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.evaluation.statistics import Line, bootstrap, falsely_done, mean, reasons, share
from bench.evaluation.tables import Table
from bench.office.measures import mean_of
from bench.office.variants import VARIANTS

TITLES = {
    "team": "team",
    "no_perceiver": "without perceiver",
    "no_validator": "without validator",
    "no_manager": "without manager",
    "no_planner": "without planner",
    "react": "ReAct",
}
PAPER3 = {
    "team": ("77 ± 3", "80 ± 5", "3 ± 0", "81 ± 3", "31.3 ± 1.3", "970 ± 56"),
    "react": ("31 ± 4", "39 ± 3", "16 ± 3", "53 ± 3", "53.2 ± 4.1", "2309 ± 119"),
}
"""The paper's table 3: SR, CR, RR, RSR of its simulation [%], tokens [thousands] and time [s] of its real robots."""
PAPER12 = {"team": "68", "no_planner": "45", "no_perceiver": "58", "no_validator": "60", "no_manager": "61"}
"""SR of the paper's ablations [%], all with GPT-4o (VII.C; it does not say whether of the simulation)."""
TIERS = ("basic", "ambiguous", "dynamic")
MODES = ("reactive", "active", "proactive")
KINDS = ("basic", "ambiguous", "recoverable", "report", "all")


def kind_of(line: Line) -> str:
    """Return the tier of a line, of dynamic tasks the label."""
    return str(line["label"] if line["tier"] == "dynamic" else line["tier"])


def tables(lines: Sequence[Line]) -> list[Table]:
    """Return all tables of what was run."""
    by = {variant: [x for x in lines if x["variant"] == variant] for variant in VARIANTS}
    by = {variant: own for variant, own in by.items() if own}
    return [_main(by), _rates(by), _aims(by), _failures(by)]


def write(lines: Sequence[Line], folder: Path, about: str) -> list[Table]:
    """Keep the tables as Markdown and JSON."""
    made = tables(lines)
    folder.mkdir(parents=True, exist_ok=True)
    page = "\n".join(table.markdown() for table in made)
    (folder / "tables.md").write_text(f"{about} Share or mean, 95 % interval (runs).\n\n{page}", encoding="utf-8")
    kept = {table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in made}
    (folder / "tables.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return made


def _main(by: Mapping[str, Sequence[Line]]) -> Table:
    rows = []
    for variant, own in by.items():
        well = [x for x in own if x["success"]]
        can = [x for x in own if x["label"] == "recoverable"]
        rows.append(
            [
                TITLES[variant],
                share(len(well), len(own)),
                mean(mean_of(can, "complete")),
                mean(mean_of(can, "redundant")),
                mean(mean_of(can, "robot_share")),
                _plain(mean_of(well, "tokens"), 1000.0),
                _plain(mean_of(well, "total_s"), 1.0),
            ]
        )
        if variant in PAPER3:
            rows.append([f"the paper's {'InteractGen' if variant == 'team' else 'ReAct'}", *PAPER3[variant]])
    columns = (
        "",
        "SR, all tasks [%]",
        "CR of what can be done [%]",
        "RR [%]",
        "RSR [%]",
        "tokens of a success [thousands]",
        "time of a success [s]",
    )
    return Table("The paper's metrics, over all tasks; another office, other tasks and a scripted model", columns, rows)


def _rates(by: Mapping[str, Sequence[Line]]) -> Table:
    rows = []
    for variant, own in by.items():
        some = [[x for x in own if kind in (kind_of(x), "all")] for kind in KINDS]
        rows.append(
            [TITLES[variant], *(share(sum(bool(x["success"]) for x in s), len(s)) for s in some), PAPER12.get(variant, "–")]
        )
    columns = ("SR [%]", "basic", "ambiguous", "dynamic, recoverable", "dynamic, to report", "all", "paper's ablation")
    return Table("Success by what is asked", columns, rows)


def _aims(by: Mapping[str, Sequence[Line]]) -> Table:
    rows = []
    for variant, own in by.items():
        rows.append(
            [
                TITLES[variant],
                " / ".join(_asked([x for x in own if x["tier"] == tier]) for tier in TIERS),
                _plain(mean_of(own, "questions"), 1.0),
                _plain(mean_of(own, "model_calls"), 1.0),
                " / ".join(str(sum(x["mode"] == mode for x in own)) for mode in MODES),
                str(sum(x["unvalidated"] for x in own)) if variant not in ("no_validator", "react") else "–",
                str(sum(map(falsely_done, own))),
                f"{max(mean_of(own, 'busy_s'), default=0.0):.3f}",
            ]
        )
    columns = (
        *("", f"requests to people over the oracle's, {' / '.join(TIERS)}", "questions about the task", "model calls"),
        f"runs that were {' / '.join(MODES)}",
        *("dispatched before it was validated", "said done, was not", "longest turn of the strategy itself [s]"),
    )
    return Table("What a run takes", columns, rows)


def _failures(by: Mapping[str, Sequence[Line]]) -> Table:
    rows = [
        [TITLES[variant], str(n), kind]
        for variant, own in by.items()
        for kind, n in reasons({**x, "reasons": [_first(x)]} for x in own if not x["success"]).most_common(6)
    ]
    return Table("What was not done, by how it ended", ("variant", "runs", "reason"), rows)


def _first(line: Line) -> str:
    if line["label"] == "report":
        return f"{line['reasons'][0]}"
    step = str(line["reasons"][0]).partition(" ")[2].partition("(")[0]
    return f"{kind_of(line)}, {step} missing; ended {line['status'] or 'not in time'} {line['code']}"


def _asked(lines: Sequence[Line]) -> str:
    """Return how many requests there were for each of the oracle's, in runs that did what can be done."""
    done = [x for x in lines if x["success"] and x["label"] == "recoverable"]
    asked, gold = sum(x["requests"] for x in done), sum(x["gold_requests"] for x in done)
    return f"{asked / gold:.2f} ({asked}:{gold})" if gold else "–"


def _plain(values: Sequence[float], scale: float) -> str:
    if not values:
        return "–"
    low, high = bootstrap(values)
    return f"{sum(values) / len(values) / scale:.1f} [{low / scale:.1f}, {high / scale:.1f}] ({len(values)})"
