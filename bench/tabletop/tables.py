# SPDX-License-Identifier: Apache-2.0
"""Write how a console learns at the table as tables, with what others have published beside it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from bench.evaluation.statistics import Line, bootstrap, share
from bench.evaluation.tables import Table
from bench.tabletop.tasks import TEMPLATES

MEMORY = {True: "memory on", False: "memory off"}
SHOWN_ROUNDS = 5
GROUPS = {"SA SI": ("seen", True), "SA UI": ("seen", False), "UA SI": ("unseen", True), "UA UI": ("unseen", False)}
"""Seen and unseen attributes (SA, UA) and instructions (SI, UI)."""
PUBLISHED = (
    ("Bärmann et al. 2024, table 2: n with GPT-4", "SA SI 0.04, UA SI 0.14, UA UI 0.16", "0.37, 0.10, 0.55"),
    ("Bärmann et al. 2024, table 2: n with GPT-3.5", "SA SI 0.14, UA SI 0.33, UA UI 0.28", "1.09, 0.95, 1.29"),
    ("LMPC (Liang et al. 2024, arXiv:2402.11450, abstract): corrections of a task, unseen tasks", "1.9", "2.4"),
    (
        "DROC (Zha et al. 2023, arXiv:2311.10678, abstract)",
        "half the corrections in the first round, little to none after two",
        "those of Code as Policies",
    ),
)
"""Published figures: who and what, with learning, without. Numbers of table 1 of the first (s and i) are not in the text of the
paper at hand, nor more of the others than their abstracts."""


def tables(lines: Sequence[Line]) -> list[Table]:
    """Return all tables of what was run."""
    return [_rates(lines), _rounds(lines), _lessons(lines), _by_template(lines), _published(), _judge(lines)]


def write(lines: Sequence[Line], folder: Path, about: str) -> list[Table]:
    """Keep the tables as Markdown and JSON."""
    made = tables(lines)
    page = "\n".join(table.markdown() for table in made)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tables.md").write_text(f"{about} Share or mean, 95 % interval (runs).\n\n{page}", encoding="utf-8")
    kept = {table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for table in made}
    (folder / "tables.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return made


def _rates(lines: Sequence[Line]) -> Table:
    rows = []
    for name in (*GROUPS, "all"):
        own = [x for x in lines if name in ("all", _group(x))]
        rows += [[name, MEMORY[memory], *_sin([x for x in own if x["memory"] == memory])] for memory in MEMORY]
    title = "Success in the end (s), at first (i) [%], and corrections until success (n)"
    return Table(title, ("attributes, instructions", "", "s", "i", "n"), rows)


def _group(line: Line) -> str:
    kind = line["attributes"], TEMPLATES[line["template"]].seen
    return next(name for name, known in GROUPS.items() if known == kind)


def _by_template(lines: Sequence[Line]) -> Table:
    rows = [
        [template, MEMORY[memory], *_sin([x for x in lines if x["template"] == template and x["memory"] == memory])]
        for template in TEMPLATES
        for memory in MEMORY
        if any(x["template"] == template for x in lines)
    ]
    return Table("By task", ("task", "", "s", "i", "n"), rows)


def _sin(own: Sequence[Line]) -> list[str]:
    needed = [x["n"] for x in own if x["n"] is not None]
    return [share(len(needed), len(own)), share(sum(x["n"] == 0 for x in own), len(own)), _mean(needed)]


def _rounds(lines: Sequence[Line]) -> Table:
    """Corrections of a task in its rounds: of all, and of those that were corrected in the first."""
    begun = {_chain(x): bool(x["corrections"]) for x in lines if x["round"] == 0}
    rows = []
    for name, belongs in (("all", lambda x: True), ("corrected in round 1", lambda x: begun.get(_chain(x), False))):
        for memory in MEMORY:
            own = [x for x in lines if x["memory"] == memory and belongs(x)]
            by_round = [[x["corrections"] for x in own if x["round"] == k] for k in range(SHOWN_ROUNDS)]
            rows.append([name, MEMORY[memory], *map(_mean, by_round)])
    columns = ("tasks", "", *(f"round {k + 1}" for k in range(SHOWN_ROUNDS)))
    return Table("Corrections of a task", columns, rows)


def _lessons(lines: Sequence[Line]) -> Table:
    """Return what follows a correction: the same template with other values in its slots, or where it has none in another
    scene."""
    rows = []
    for memory in MEMORY:
        after = [later for before, later in _followed(lines, memory) if before["corrections"] and _differs(before, later)]
        learned = [x for x in lines if x["memory"] == memory and x["corrections"]]
        rows.append(
            [
                MEMORY[memory],
                share(sum(x["n"] == 0 for x in after), len(after)),
                share(sum(bool(x["confirmed"]) for x in learned), len(learned)),
            ]
        )
    columns = ("", "right at once in the next round [%]", "corrected runs with a lesson confirmed [%]")
    return Table("After a correction, on a new binding", columns, rows)


def _followed(lines: Sequence[Line], memory: bool) -> Iterator[tuple[Line, Line]]:
    """Yield each run with the one after it in its chain."""
    chains: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        if line["memory"] == memory:
            chains.setdefault(_chain(line), []).append(line)
    for own in chains.values():
        yield from pairwise(sorted(own, key=lambda x: x["round"]))


def _differs(before: Line, later: Line) -> bool:
    return not later["binding"] or before["binding"] != later["binding"]


def _chain(line: Line) -> tuple[object, ...]:
    return line["template"], line["attributes"], line["chain"], line["memory"]


def _published() -> Table:
    title = "Published, with other models and tasks of their own; not comparable with the simulated model"
    return Table(title, ("who", "with learning", "without"), [list(row) for row in PUBLISHED])


def _judge(lines: Sequence[Line]) -> Table:
    """Return what the judge says of the oracle, and of a robot that does nothing, in the scenes that were run."""
    scenes = {(x["template"], x["attributes"], x["seed"]): x for x in lines}
    sets = len({key[:2] for key in scenes})
    rows = [
        [name, share(sum(bool(x[who]) for x in scenes.values()), len(scenes)), str(sets)]
        for name, who in (("oracle", "oracle"), ("nothing is done", "idle"))
    ]
    return Table("The judge", ("who", "success [%]", "templates with each set of attributes"), rows)


def _mean(values: Sequence[float]) -> str:
    if not values:
        return "–"
    low, high = bootstrap(values)
    return f"{sum(values) / len(values):.2f} [{low:.2f}, {high:.2f}] ({len(values)})"
