# SPDX-License-Identifier: Apache-2.0
"""Figures of one trial (TypeGo 8.1, 8.2): first action, waits between steps, tokens by layer, what a second activity costs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from bench.evaluation.trace import Call, Trace
from skill_kernel.codes import ModelCode

Span = tuple[float, float]
BACK_M, BACK_RAD = 0.05, math.radians(5.0)
"""It is back at a place when it is as near, and looks as much the same way."""
FILLERS = frozenset({"nod", "stand"})
"""First actions that bring the task no further."""


def figures(trace: Trace) -> dict[str, Any]:
    """All figures of a trial as plain data; None where there is none."""
    waits = step_waits(trace)
    measured: dict[str, Any] = {
        "ttfa_s": first_action(trace),
        "ttfa_beyond_s": first_action(trace, but=FILLERS),
        "total_s": _number(trace.total),
        "waits_s": [round(w, 4) for w in waits],
        "steps": sum(c.is_step for c in trace.own()),
        "failed_calls": sum(c.outcome in ("FAILED", "REFUSED") for c in trace.own()),
        "layers": layers(trace),
        "stall_s": stall(trace),
    }
    if not math.isnan(trace.added):
        measured |= between(trace)
    return measured


def stall(trace: Trace) -> float:
    """Return the longest time in s that the simulator told nothing: then the machine, not the robot, was measured."""
    times = [trace.asked, *(p.at for p in trace.poses), *([] if math.isnan(trace.end) else [trace.end])]
    return round(max((b - a for a, b in zip(times, times[1:], strict=False)), default=0.0), 3)


def first_action(trace: Trace, but: Collection[str] = ()) -> float | None:
    """TTFA: from the instruction to the start of the first skill that moves the robot or makes a sound, `but` those."""
    starts = [c.started for c in trace.own() if c.is_skill and set(c.channels) - {"default"} and c.function not in but]
    return round(min(starts) - trace.asked, 4) if starts else None


def step_waits(trace: Trace) -> list[float]:
    """Seconds between a step's end and the next one's start in which no skill of the process ran, while it was not paused.
    Speech counts as no step: it can hide that nothing happens."""
    steps = [c for c in trace.own() if c.is_step]
    waits = []
    for (_, end), (start, _) in zip(spans := merged(steps, trace.end), spans[1:], strict=False):
        waits.append(start - end - overlap((end, start), _pauses(trace, trace.process_id)))
    return [max(0.0, w) for w in waits]


def layers(trace: Trace) -> dict[str, dict[str, float]]:
    """Answers and tokens by layer, of everything that was asked during the trial."""
    sums: defaultdict[str, dict[str, float]] = defaultdict(
        lambda: {"calls": 0, "failures": 0, "prompt": 0, "cached": 0, "completion": 0, "cost_usd": 0.0, "seconds": 0.0}
    )
    for answer in trace.answers:
        entry = sums[answer.layer]
        entry["calls"] += 1
        # An answer that its own layer stopped reading is no failure.
        entry["failures"] += answer.code not in (0, ModelCode.MODEL_CANCELLED)
        entry["prompt"] += answer.prompt_tokens
        entry["cached"] += answer.cached_tokens
        entry["completion"] += answer.completion_tokens
        entry["cost_usd"] += max(0.0, answer.cost_usd)
        entry["seconds"] += answer.seconds
    return {name: {k: round(v, 6) for k, v in entry.items()} for name, entry in sorted(sums.items())}


def between(trace: Trace) -> dict[str, Any]:
    """Return what a second activity took (T6 to T8): its time, and how long after it nothing was done for the first task, split
    into the time in which S1 was asked and the rest."""
    reflexes = [c for c in trace.calls if c.process_id.startswith("reflex-") and c.started >= trace.added]
    if trace.added_id:
        ended = next((s.at for s in trace.states if s.process_id == trace.added_id and s.status in _ENDED), math.nan)
        begun = trace.added
    else:
        begun = min((c.started for c in reflexes), default=math.nan)
        ended = max((c.until(trace.end) for c in reflexes), default=math.nan)
    found: dict[str, Any] = {"added_s": _number(ended - begun)}
    pauses = [p for p in _pauses(trace, trace.process_id) if p[1] > trace.added]
    if pauses and not math.isnan(ended):
        found["way_back_s"] = _way_back(trace, pauses[0][0], ended)
    if not pauses or math.isnan(ended):
        return found | {"resume_s": 0.0 if pauses == [] and not math.isnan(ended) else None, "replan_s": 0.0}
    works = _works_again(trace, ended)
    if works is None:
        return found | {"resume_s": None, "replan_s": None}
    asked = [
        (a.ended - a.seconds, a.ended)
        for a in trace.answers
        if a.process_id == trace.process_id and a.layer in ("s1", "react", "stream")
    ]
    replan = overlap((ended, works), asked)
    return found | {"resume_s": round(works - ended, 4), "replan_s": round(replan, 4)}


def _works_again(trace: Trace, since: float) -> float | None:
    """Return when a skill of the task ran again: at once for one that had only been paused, else with the next one."""
    goes_on = [end for _, end in _pauses(trace, trace.process_id) if end >= since - 0.5]
    starts = [c.started for c in trace.own() if c.is_step and c.started >= since]
    for at in goes_on:
        if any(c.is_step and c.started < at < c.until(trace.end) for c in trace.own()):
            return min([max(at, since), *starts])
    return min(starts, default=None)


def _way_back(trace: Trace, left: float, since: float) -> float | None:
    """Return how long after `since` it was again where it had been paused: overhead that no scheduler can save."""
    place = trace.pose_at(left)
    for pose in trace.poses:
        turned = abs(math.remainder(pose.yaw - place.yaw, math.tau))
        if pose.at >= since and math.dist((pose.x, pose.y), (place.x, place.y)) < BACK_M and turned < BACK_RAD:
            return round(pose.at - since, 4)
    return None


def _pauses(trace: Trace, process_id: str) -> list[Span]:
    """Return times in which a process was paused."""
    spans: list[Span] = []
    since: float | None = None
    for state in sorted((s for s in trace.states if s.process_id == process_id), key=lambda s: s.at):
        if state.status == "PAUSED":
            since = state.at if since is None else since
        elif since is not None:
            spans.append((since, state.at))
            since = None
    return spans + ([(since, trace.end)] if since is not None else [])


def merged(calls: Iterable[Call], end: float) -> list[Span]:
    """Return the times in which at least one of the calls ran."""
    spans: list[Span] = []
    for start, stop in sorted((c.started, c.until(end)) for c in calls):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], stop)
        else:
            spans.append((start, stop))
    return spans


def overlap(span: Span, others: Sequence[Span]) -> float:
    """Return the seconds of `span` that lie in any of the others."""
    total, at = 0.0, span[0]
    for start, stop in sorted(others):
        low, high = max(start, at), min(stop, span[1])
        if high > low:
            total += high - low
            at = high
    return total


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


_ENDED = ("SUCCESS", "FAILED", "STOPPED")
