# SPDX-License-Identifier: Apache-2.0
"""The tables of the results as Markdown and JSON, and a picture of success over the model's error rate."""

from __future__ import annotations

import json
from pathlib import Path

from bench.evaluation.measures import FILLERS, first_action
from bench.evaluation.runner import Key, Results, counts
from bench.evaluation.statistics import Crossing, Line, crossings, interval
from bench.evaluation.tables import Table, aims, failures, left_out, sweep, table3, table4, token_table, truthful
from bench.evaluation.tasks import CHINESE, MAIN_TASKS
from bench.evaluation.trace import Trace

COLOURS = {"layered": "#2f6f9f", "react": "#c0392b", "plan_and_execute": "#7f8c3a"}


def write_report(folder: Path, model: str, fast_model: str | None = None, table: str | None = None) -> list[Table]:
    """Everything that the results of one model in `folder` tell, written there as tables.md and tables.json; nothing without
    results. Of several setups (fast model, table of the simulated model) it is the newest one, or the one that is given."""
    of_model = [(Key.of(x), x) for x in Results(folder / "results.jsonl").lines if x["model"] == model]
    fitting = [k for k, _ in of_model if fast_model in (None, k.fast_model) and table in (None, k.table)]
    if not fitting:
        return []
    setup = fitting[-1].fast_model, fitting[-1].table
    own = [(k, x) for k, x in of_model if (k.fast_model, k.table) == setup]
    lines = [_complete(x, folder) for x in {k: x for k, x in own if counts(x)}.values()]
    tables = [table3(lines), truthful(lines), aims(lines), table4(lines), token_table(lines), failures(lines)]
    tables.append(left_out([x for _, x in own]))
    if any(x["task"] in CHINESE for x in lines):
        tables.append(truthful(lines, tuple(CHINESE), "Tasks in Chinese"))
    if len({x["fast_scale"] for x in lines}) > 1:
        tables.append(sweep(lines))
    if len({x["error"] for x in lines}) > 1:
        tables.append(error_table(lines, folder / "errors.png"))
    page = "\n".join(t.markdown() for t in tables)
    about = f"Model: {model}{f', S1P {setup[0]}' if setup[0] else ''}{f', table {setup[1]}' if setup[1] else ''}."
    if others := len(of_model) - len(own):
        about += f" {others} results of another fast model or table are left out."
    (folder / "tables.md").write_text(f"{about} Mean/deviation (number of trials).\n\n{page}", encoding="utf-8")
    (folder / "tables.json").write_text(
        json.dumps({t.title: [dict(zip(t.columns, row, strict=True)) for row in t.rows] for t in tables}, indent=1) + "\n",
        encoding="utf-8",
    )
    return tables


def _complete(line: Line, folder: Path) -> Line:
    """With a figure that older runs did not keep, from the trial's trace if that is there."""
    if "ttfa_beyond_s" in line:
        return line
    try:
        trace = Trace.read(folder / "traces" / line["trace"])
    except (OSError, ValueError, KeyError, TypeError):
        return line
    return {**line, "ttfa_beyond_s": first_action(trace, but=FILLERS)}


def error_table(lines: list[Line], picture: Path) -> Table:
    """Success of T1 to T5 by error rate, drawn as well; and where curves cross, with what the lower one failed for."""
    main = [x for x in lines if x["task"] in MAIN_TASKS and x["fast_scale"] == 1.0 and x["strategy"] in COLOURS]
    rates: dict[str, dict[float, float]] = {}
    counts: dict[tuple[str, float], int] = {}
    for name in COLOURS:
        for error in sorted({x["error"] for x in main}):
            own = [x for x in main if x["strategy"] == name and x["error"] == error]
            if own:
                rates.setdefault(name, {})[error] = sum(bool(x["success"]) for x in own) / len(own)
                counts[name, error] = len(own)
    crossed = crossings(rates, main)
    draw(rates, counts, crossed, picture)
    errors = sorted({error for curve in rates.values() for error in curve})
    rows = [[name, *(f"{c[e]:.0%} ({counts[name, e]})" if e in c else "–" for e in errors)] for name, c in rates.items()]
    rows += [
        [f"{c.fell} falls behind {c.rose} between {c.low:.0%} and {c.high:.0%}: {c.why}", *[""] * len(errors)] for c in crossed
    ]
    return Table("Success of T1 to T5 by the model's error rate", ("strategy", *(f"{e:.0%}" for e in errors)), rows)


def draw(
    rates: dict[str, dict[float, float]], counts: dict[tuple[str, float], int], crossed: list[Crossing], path: Path
) -> None:
    """Write a PNG of the curves."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.5), dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.1, 0.13, 0.86, 0.76))
    for name, curve in rates.items():
        errors = sorted(curve)
        low, high = zip(*(interval(round(curve[e] * counts[name, e]), counts[name, e]) for e in errors), strict=True)
        bars = [
            [100 * max(0.0, curve[e] - a) for e, a in zip(errors, low, strict=True)],
            [100 * max(0.0, b - curve[e]) for e, b in zip(errors, high, strict=True)],
        ]
        points = [100 * e for e in errors], [100 * curve[e] for e in errors]
        axes.errorbar(*points, yerr=bars, marker="o", capsize=3, color=COLOURS[name], label=name)
        for e in errors:
            point = 100 * e, 100 * curve[e]
            axes.annotate(f"n={counts[name, e]}", point, fontsize=6, xytext=(3, 4), textcoords="offset points")
    for crossing in crossed:
        axes.axvspan(100 * crossing.low, 100 * crossing.high, color="#dddddd", alpha=0.4, zorder=0)
    axes.set_xlabel("error rate of the simulated model [%]")
    axes.set_ylabel("success of T1 to T5 [%]")
    axes.set_ylim(-3, 105)
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=8, frameon=False)
    axes.set_title("success over the model's error rate, by what was true; bars: 95 %", fontsize=10, loc="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
