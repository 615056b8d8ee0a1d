# SPDX-License-Identifier: Apache-2.0
"""Write CLEA's figures as tables, with the paper's beside them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.clea.measures import REASONS, median
from bench.clea.trials import KINDS, TYPES
from bench.clea.virtual import VARIANTS
from bench.evaluation.statistics import Line, bootstrap, falsely_done, mean, reasons, share
from bench.evaluation.tables import Table

TITLES = {"full": "full loop", "on_doubt": "full, on doubt", "no_critic": "no critic", "open_loop": "open loop"}
"""The critic's model always asked, asked in doubt alone, never, and the paper's baseline: one plan and one replan."""
PAPER_II = {"outdated": "8 (44.4 %)", "redundant": "6 (33.3 %)", "invalid": "2 (11.1 %)", "wrong": "2 (11.1 %)"}
"""The paper's table II: 18 rejections in 12 trials."""
PAPER_GAINS = {"no_critic": ("42.0", "26.3"), "open_loop": ("67.3", "53.8 (52.8 in the abstract)")}
"""Gains of CLEA in SR and AS as the paper's text gives them [%]; it does not say of what. The numbers of its figure 5,
which has SR and AS by task, are nowhere in it."""


def tables(lines: Sequence[Line]) -> list[Table]:
    """Return all tables of what was run."""
    by = {variant: [x for x in lines if x["variant"] == variant] for variant in VARIANTS}
    by = {variant: own for variant, own in by.items() if own}
    return [_rates(by), _gains(by), _effort(by), _rejections(by), _disturbed(by), _failures(by)]


def write(lines: Sequence[Line], folder: Path, about: str) -> list[Table]:
    """Keep the tables as Markdown and JSON."""
    made = tables(lines)
    page = "\n".join(table.markdown() for table in made)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tables.md").write_text(f"{about} Share or mean, 95 % interval (runs).\n\n{page}", encoding="utf-8")
    kept = {table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in made}
    (folder / "tables.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return made


def _rates(by: dict[str, list[Line]]) -> Table:
    rows = []
    for kind in (*TYPES, "all"):
        some = {v: [x for x in own if kind in (x["type"], "all")] for v, own in by.items()}
        rows.append([kind, "SR", *(share(sum(bool(x["success"]) for x in own), len(own)) for own in some.values())])
        rows.append([kind, "AS", *(mean([x["complete"] for x in own]) for own in some.values())])
    title = "Success rate (SR) and average score (AS, share of a trial's milestones) [%]"
    return Table(title, ("type", "", *(TITLES[v] for v in by)), rows)


def _gains(by: dict[str, list[Line]]) -> Table:
    """Differences of runs with the same trial and seed, so of the same world and disturbance."""
    rows = []
    for variant, paper in PAPER_GAINS.items():
        for name in ("full", "on_doubt"):
            one = {(x["trial"], x["seed"]): x for x in by.get(name, ())}
            pairs = [(one[key], x) for x in by.get(variant, ()) if (key := (x["trial"], x["seed"])) in one]
            if pairs:
                rates = [float(a["success"]) - float(b["success"]) for a, b in pairs]
                scores = [a["complete"] - b["complete"] for a, b in pairs]
                rows.append([f"{name} over {variant}", mean(rates), mean(scores), *paper])
    columns = ("difference", "SR [points]", "AS [points]", "paper: SR gained [%]", "paper: AS gained [%]")
    return Table("What the loop gains, over the same worlds", columns, rows)


def _effort(by: dict[str, list[Line]]) -> Table:
    rows = []
    for variant, own in by.items():
        actions, gaps = sum(x["actions"] for x in own), [gap for x in own for gap in x["idle_s"]]
        rows.append(
            [
                TITLES[variant],
                _mean([x["actions"] for x in own]),
                _mean([x["failed"] for x in own]),
                _mean([x["total_s"] for x in own]),
                _mean([sum(x["asked"].values()) for x in own]),
                f"{sum(x['asked'].get('critic', 0) for x in own) / max(1, actions):.2f}",
                f"{median(gaps):.3f} ({len(gaps)})",
                str(sum(x["moved_though_rejected"] for x in own)),
                str(sum(x["invalid_at_driver"] for x in own)),
                str(sum(map(falsely_done, own))),
            ]
        )
    columns = (
        *("variant", "actions", "of these failed", "time [s]", "model calls", "model critic calls an action"),
        *("idle beyond models, median [s] (gaps)", "rejected and moved", "invalid at a driver", "said done, was not"),
    )
    return Table("What a run takes", columns, rows)


def _rejections(by: dict[str, list[Line]]) -> Table:
    rows = []
    for reason in REASONS:
        row = [reason]
        for own in by.values():
            total = sum(sum(x["rejections"].values()) for x in own)
            count = sum(x["rejections"].get(reason, 0) for x in own)
            row.append(f"{count} ({100 * count / total:.1f} %)" if total else "–")
        rows.append([*row, PAPER_II.get(reason, "–")])
    verdicts = Counter[str]()
    for own in by.values():
        for x in own:
            verdicts.update(x["verdicts"])
    told = ", ".join(f"{kind} {count}" for kind, count in verdicts.most_common())
    return Table(f"Rejections by reason (by verdict: {told or 'none'})", ("reason", *(TITLES[v] for v in by), "paper"), rows)


def _disturbed(by: dict[str, list[Line]]) -> Table:
    rows = []
    for kind in KINDS:
        row: list[str] = [kind]
        for own in by.values():
            some = [x for x in own if x["kind"] == kind]
            row.append(share(sum(bool(x["success"]) for x in some), len(some)))
        rows.append(row)
    return Table("SR by what happened meanwhile [%]", ("disturbance", *(TITLES[v] for v in by)), rows)


def _failures(by: dict[str, list[Line]]) -> Table:
    rows = [
        [TITLES[variant], str(n), kind]
        for variant, own in by.items()
        for kind, n in reasons(x for x in own if not x["success"]).most_common(8)
    ]
    return Table("What was not done, by the first reason", ("variant", "runs", "reason"), rows)


def _mean(values: Sequence[float]) -> str:
    low, high = bootstrap(values)
    return f"{sum(values) / len(values):.1f} [{low:.1f}, {high:.1f}]"
