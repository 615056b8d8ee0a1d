# SPDX-License-Identifier: Apache-2.0
"""TypeGo's tables 3 and 4 and the aims beside them, from results."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.evaluation.runner import counts
from bench.evaluation.statistics import (
    Line,
    Spread,
    falsely_done,
    normalised,
    ratio,
    reasons,
    share,
    successes,
    tokens,
    total,
    unverified,
    wait,
)
from bench.evaluation.tasks import ADD_ONS, CONCURRENT_TASKS, MAIN_TASKS

PAPER3 = {
    "layered": ("TypeGo (paper)", (10, 10, 8, 6, 10), "0.87/0.05", "1.00/0.12", "0.62/0.54", "1.00/0.33"),
    "react": ("ReAct (paper)", (10, 10, 7, 6, 9), "1.46/0.23", "1.33/0.09", "1.25/0.27", "0.32/0.08"),
    "plan_and_execute": ("PAE (paper)", (10, 10, 0, 9, 10), "3.27/1.73", "1.14/0.26", "0.01/0.01", "0.05/0.02"),
}
"""The paper's table 3: another robot, a real one, and real models."""
PAPER4 = {
    "T6": ("34.76/2.16", "6.17/1.58", "42.35/2.37", "1.20 + 0.22"),
    "T7": ("", "4.37/1.21", "34.91/1.94", "0.15"),
    "T8": ("", "0.50/0.01", "35.31/2.13", "0.05"),
}


@dataclass(frozen=True)
class Table:
    """Rows of texts under a title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        lines = [f"**{self.title}**", "", "| " + " | ".join(self.columns) + " |", "|" + " --- |" * len(self.columns)]
        return "\n".join([*lines, *("| " + " | ".join(c.replace("|", "/") for c in row) + " |" for row in self.rows), ""])


def usual(lines: Sequence[Line]) -> list[Line]:
    """Trials without errors of the model, at S1P's stated speed."""
    return [x for x in lines if counts(x) and not x["error"] and x["fast_scale"] == 1.0]


def table3(lines: Sequence[Line]) -> Table:
    """Success, first action, total, wait between steps and tokens of T1 to T5; mean/deviation (trials)."""
    by = _by_strategy(x for x in usual(lines) if x["task"] in MAIN_TASKS)
    base = by.get("layered", [])
    rows = []
    for name, own in by.items():
        done = [successes([x for x in own if x["task"] == task]) for task in MAIN_TASKS]
        rows.append(
            [
                name,
                *done,
                str(Spread.of(x.get("ttfa_s") for x in own)),
                str(Spread.of(x.get("ttfa_beyond_s") for x in own)),
                str(normalised(own, base, total)),
                str(Spread.of(map(wait, own))),
                str(normalised(own, base, tokens)),
            ]
        )
        if name in PAPER3:
            title, counts, first, *figures = PAPER3[name]
            rows.append([title, *(f"{n}/10" for n in counts), first, "", *figures])
    first_columns = "TTFA [s]", "TTFA without nod, stand [s]"
    columns = ("planner", *MAIN_TASKS, *first_columns, "total (norm.)", "step wait [s]", "tokens (norm.)")
    return Table("Table 3: success and latency, T1 to T5", columns, rows)


def token_table(lines: Sequence[Line]) -> Table:
    """Return what a trial takes of models, by strategy and layer."""
    rows = []
    for name, own in _by_strategy(usual(lines)).items():
        layers: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
        for line in own:
            for layer, used in line.get("layers", {}).items():
                layers[layer].append(used)
        for layer, used in sorted(layers.items()):
            # A trial in which a layer asked nothing counts as nought.
            mean = {key: sum(u[key] for u in used) / len(own) for key in used[0]}
            rows.append(
                [
                    name,
                    layer,
                    *(f"{mean[k]:.1f}" for k in ("calls", "failures")),
                    *(f"{mean[k]:,.0f}" for k in ("prompt", "cached", "completion")),
                    f"{mean['seconds'] / mean['calls']:.2f}" if mean["calls"] else "–",
                    f"{mean['cost_usd']:.4f}" if mean["cost_usd"] else "–",
                ]
            )
    columns = ("strategy", "layer", "calls", "failed", "prompt", "of these cached", "completion", "s a call", "USD")
    return Table("Calls and tokens of a trial, mean over all tasks", columns, rows)


def table4(lines: Sequence[Line]) -> Table:
    """Scheduling overhead of a second activity during T5, as the paper reckons it, in worlds of pairs, and as measured at the
    resumption."""
    own = [x for x in usual(lines) if x["strategy"] == "layered"]
    bases = Spread.of(total(x) for x in own if x["task"] == "T5" and x["ball"])
    rows = []
    for task in CONCURRENT_TASKS:
        done = [x for x in own if x["task"] == task and total(x) is not None and x.get("added_s") is not None]
        alone = [x for x in own if x["task"] == ADD_ONS.get(task)]
        add_on = Spread.of([total(x) for x in alone] if task in ADD_ONS else [x["added_s"] for x in done])
        both = Spread.of(map(total, done))
        replan, resume = Spread.of(x.get("replan_s") for x in done), Spread.of(x.get("resume_s") for x in done)
        rows.append(
            [
                task,
                successes([x for x in own if x["task"] == task]),
                str(bases),
                str(add_on),
                str(both),
                str(overhead(own, task)),
                str(Spread.of(x.get("way_back_s") for x in done)),
                f"{_figure(replan.mean)} + {_figure(resume.mean - replan.mean)} ({resume.n})" if resume.n else "–",
            ]
        )
        base, added, whole, over = PAPER4[task]
        rows.append([f"{task} (paper)", "", base, added, whole, over, "", ""])
    single = "task", "success", "base [s]", "add-on [s]"
    columns = (*single, "total [s]", "beyond both [s]", "of it the way back [s]", "back to work: replan + rest [s]")
    return Table("Table 4: scheduling overhead, layered", columns, rows)


def overhead(lines: Sequence[Line], task: str) -> Spread:
    """Return the time beyond what both activities take alone [s]: of each trial of T6 to T8 less T5 in the same world, and less
    the second activity alone (T6), nothing (T7) or the reflex (T8). A trial without its pair does not count."""
    totals = {(x["task"], x["trial"]): total(x) for x in lines}
    beyond: list[float | None] = []
    for x in (x for x in lines if x["task"] == task):
        both, base = total(x), totals.get(("T5", 2 * x["trial"]))  # T5 has a ball in every other trial
        added = {"T6": totals.get((ADD_ONS["T6"], x["trial"])), "T7": 0.0}.get(task, x.get("added_s"))
        beyond.append(None if both is None or base is None or added is None else both - base - added)
    return Spread.of(beyond)


def aims(lines: Sequence[Line]) -> Table:
    """Return the figures that were aimed at, as they came out."""
    main = _by_strategy(x for x in usual(lines) if x["task"] in MAIN_TASKS)
    first = {name: Spread.of(x.get("ttfa_s") for x in own) for name, own in main.items()}
    waits = {name: Spread.of(map(wait, own)) for name, own in main.items()}
    beyond = {name: Spread.of(x.get("ttfa_beyond_s") for x in own) for name, own in main.items()}
    none = Spread.of(())
    layered, react, plan = (first.get(n, none) for n in ("layered", "react", "plan_and_execute"))
    blind_tasks = {x["task"] for x in main.get("layered_blind", [])}
    spent = normalised([x for x in main.get("layered", []) if x["task"] in blind_tasks], main.get("layered_blind", []), tokens)
    own = _by_strategy(usual(lines)).get("layered", [])
    resume = Spread.of(x.get("resume_s") for x in own if x["task"] == "T6")
    rows = [
        _aim("TTFA, of ReAct's", ratio(layered, react), 0.6),
        _aim("TTFA, of plan-and-execute's", ratio(layered, plan), 0.27),
        _aim("step wait, of ReAct's", ratio(waits.get("layered", none), waits.get("react", none)), 0.5),
        _aim("tokens, of the same without cost rules", spent.mean, 0.5),
        *(
            _aim(f"{task}: time beyond both alone, in the same worlds [s]", overhead(own, task).mean, most)
            for task, most in (("T6", 1.0), ("T7", 0.15), ("T8", 0.15))
        ),
        ["T6: back to work after the interruption [s]", str(resume), "", ""],
    ]
    for task, what in (("T3", "fails honestly in bounded time"), ("T4", "searches where it was told to")):
        rows.append([f"{task} {what}", successes([x for x in own if x["task"] == task]), "all", ""])
    for name, whose in (("react", "ReAct's"), ("plan_and_execute", "plan-and-execute's")):
        share = ratio(beyond.get("layered", none), beyond.get(name, none))
        rows.append([f"TTFA without nod and stand, of {whose}", _figure(share), "", ""])
    for name, figure, paper in (("TTFA", react, 1.46), ("step wait", waits.get("react", none), 1.25)):
        rows.append([f"ReAct's {name} [s], for comparison", str(figure), f"near {paper} (paper)", ""])
    return Table("Aims", ("figure", "measured", "aim", ""), rows)


def truthful(lines: Sequence[Line], tasks: Sequence[str] = MAIN_TASKS, title: str = "Done, and said to be done") -> Table:
    """Tell how often a task was done, and how often its process said so although it was not, by error rate."""
    rows = []
    for name, own in _by_strategy(x for x in lines if x["task"] in tasks and x["fast_scale"] == 1.0).items():
        for error in sorted({x["error"] for x in own}):
            some = [x for x in own if x["error"] == error]
            false = [x for x in some if falsely_done(x)]
            each = [successes([x for x in some if x["task"] == task]) for task in tasks]
            done = share(sum(bool(x["success"]) for x in some), len(some))
            claims = str(sum(len(x.get("unproven", ())) for x in some))
            untrue = [share(len(false), len(some)), str(sum(map(unverified, false))), claims]
            rows.append([name, f"{error:.0%}", done, *untrue, *each])
    columns = ("strategy", "errors", "done [%]", "false success [%]", "of these unverified", "claims unproven", *tasks)
    return Table(f"{title}: share, 95 % interval (trials)", columns, rows)


def failures(lines: Sequence[Line]) -> Table:
    """Why trials failed."""
    rows = []
    for name, own in _by_strategy(lines).items():
        for task in sorted({x["task"] for x in own}):
            for kind, n in reasons(x for x in own if x["task"] == task).most_common():
                rows.append([name, task, str(n), kind])
    return Table("Failures by their first reason, all error rates", ("strategy", "task", "times", "reason"), rows)


def left_out(lines: Sequence[Line]) -> Table:
    """Trials that do not count: of a robot that did not come up, or on a machine that stalled."""
    rows = [
        [
            x["strategy"],
            x["task"],
            str(x["trial"]),
            x["reasons"][0] if x.get("hung") else f"the simulator stood still for {x['stall_s']:.1f} s",
        ]
        for x in lines
        if not counts(x)
    ]
    return Table("Trials that do not count", ("strategy", "task", "trial", "why"), rows)


def sweep(lines: Sequence[Line]) -> Table:
    """First action of the layered strategy by S1P's latency."""
    own = [x for x in lines if counts(x) and not x["error"] and x["strategy"] == "layered" and x["task"] in MAIN_TASKS]
    scales = sorted({x["fast_scale"] for x in own})
    rows = [[f"{s:g}", str(Spread.of(x.get("ttfa_s") for x in own if x["fast_scale"] == s))] for s in scales]
    return Table("S1P's speed", ("latency of the fast model, times its row", "TTFA of layered [s]"), rows)


def _aim(name: str, value: float, most: float) -> list[str]:
    verdict = "" if math.isnan(value) else "met" if value <= most else "MISSED"
    return [name, _figure(value), f"≤ {most:g}", verdict]


def _figure(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def _by_strategy(lines: Iterable[Line]) -> dict[str, list[Line]]:
    found: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        found[line["strategy"]].append(line)
    order = dict.fromkeys([*PAPER3, *sorted(found)])
    return {name: found[name] for name in order if name in found}
