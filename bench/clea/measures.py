# SPDX-License-Identifier: Apache-2.0
"""Make a line of results of a run: how much was done, what was rejected and why, what it took."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench.clea.trials import Trial
from bench.clea.virtual import Run
from bench.evaluation.measures import merged, overlap
from bench.evaluation.propositions import evaluate
from bench.evaluation.trace import Call
from bench.simulated_model.team_belief import Act
from planners.prompts.blocks import Layer

_REASONS = (
    ("claim", r"^the task is not done"),
    ("invalid", r"\(static\)|^no plan could be read"),
    ("redundant", r"\balready\b"),
    ("outdated", r"is not in|, not in|not to be seen"),
    ("wrong", r"is shut; it must be opened|is empty|holds|must be put down|not what the task is about|there is nothing like"),
)
"""Reasons as the paper's table II names them, by our own words; a claim that was not borne out is not among the paper's."""
REASONS = ("outdated", "redundant", "invalid", "wrong", "claim", "other")
_REJECTED = re.compile(r"^(.*?) was rejected \((\w+)\): ")


def line(run: Run, trial: Trial) -> dict[str, Any]:
    """Return a run's figures as plain data."""
    trace, report = run.trace, evaluate(trial.criterion, run.moments)
    rejections = [(at, text) for at, layer, text in run.notices if layer == Layer.CRITIC.value]
    reasons = [*report.reasons, *([] if trace.status else ["the task did not end in time"])]
    asked = Counter(answer.layer for answer in trace.answers)
    return {
        "type": trial.type,
        "success": not reasons,
        "reasons": reasons,
        "complete": round(report.complete, 4),
        "status": trace.status,
        "code": trace.code,
        "message": trace.message,
        "total_s": round(trace.total, 3),
        "happened": [text for _, text in run.happened],
        "actions": len(trace.calls),
        "failed": sum(call.outcome == "FAILED" for call in trace.calls),
        "refused": run.refused,
        "invalid_at_driver": run.invalid,
        "rejections": dict(Counter(kind_of(text) for _, text in rejections) + Counter(invalid=run.repaired)),
        "verdicts": dict(Counter(map(_verdict, (text for _, text in rejections))) + Counter(static=run.repaired)),
        "moved_though_rejected": sum(_moved(run, at, text) for at, text in rejections),
        "asked": dict(sorted(asked.items())),
        "idle_s": [round(gap, 4) for gap in _idle(run)],
    }


def kind_of(rejection: str) -> str:
    """Return the reason of a rejection, as table II names it."""
    return next((kind for kind, pattern in _REASONS if re.search(pattern, rejection)), "other")


def _verdict(rejection: str) -> str:
    """Return whose verdict it was: static also where a plan could not be read."""
    found = _REJECTED.match(rejection)
    return found[2] if found else "model" if kind_of(rejection) == "claim" else "static"


def _moved(run: Run, at: float, rejection: str) -> bool:
    """Return whether a rejected action ran at its rejection, or began before the next plan."""
    if (found := _REJECTED.match(rejection)) is None:
        return False
    plans = [a.ended for a in run.trace.answers if a.layer == Layer.PLANNER.value and a.ended > at]
    act, until = Act.read(found[1]), min(plans, default=at)
    return any(_same(call, act) and call.started <= until and call.until(until) > at for call in run.trace.calls)


def _same(call: Call, act: Act) -> bool:
    given = {name: str(value) for name, value in call.arguments.items()}
    return call.function == act.skill and given == {"robot": act.robot, **act.arguments}


def _idle(run: Run) -> Iterator[float]:
    """Yield for each time between two actions, in which no robot did anything, how long no model was asked either [s]."""
    spans = merged(run.trace.calls, run.trace.end)
    asked = [(a.ended - a.seconds, a.ended) for a in run.trace.answers]
    for (_, end), (start, _) in zip(spans, spans[1:], strict=False):
        yield max(0.0, start - end - overlap((end, start), asked))


def median(values: list[float]) -> float:
    """Return the median, nan of nothing."""
    return statistics.median(values) if values else float("nan")
