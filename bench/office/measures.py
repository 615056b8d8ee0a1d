# SPDX-License-Identifier: Apache-2.0
"""Make a line of results of a run: the paper's metrics (InteractGen, table 2), and what the issue aims at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.evaluation.propositions import Moment, Report, evaluate
from bench.office.judging import moment
from bench.office.run import Run
from bench.office.simulator import Done
from bench.office.tasks import Task
from bench.reading import read_blocks
from planners.models.model_call import AnswerError
from planners.prompts.blocks import Layer
from planners.strategies.team.answers import Validity, read_answer
from skill_kernel.codes import TaskCode

REPORTED = (TaskCode.GIVEN_UP, TaskCode.CALL_FAILED)
"""Codes by which a strategy tells that a task cannot be done."""


def line(run: Run) -> dict[str, Any]:
    """Return a run's figures as plain data.

    SR: success. CR: complete, the share of the steps that were done. RR: redundant, the share of the successful actions without
    which the same would have been done. RSR: robot_share, robots' completed subtasks out of all assignments, to robots and
    people. TOKEN, TIME: as they are counted, the time on the virtual clock.
    """
    task, trace = run.task, run.trace
    report = evaluate(task.criterion, run.moments)
    reasons = list(report.reasons) if task.label == "recoverable" else list(_unreported(run))
    robots = [done for done in run.done if done.act.deed is None]
    requests = [asked for asked in run.requests if asked.kind == "request"]
    assigned = len(robots) + len(requests)
    well = [done for done in run.done if not done.failure]
    return {
        "tier": task.tier,
        "family": task.family,
        "label": task.label,
        "success": not reasons,
        "reasons": reasons,
        "complete": round(report.complete, 4),
        "redundant": round(redundant(task, run.done, report) / len(well), 4) if well else None,
        "robot_share": round(sum(not done.failure for done in robots) / assigned, 4) if assigned else None,
        "tokens": sum(answer.prompt_tokens + answer.completion_tokens for answer in trace.answers),
        "model_calls": len(trace.answers),
        "mode": mode(run),
        "total_s": round(trace.total, 1),
        "status": trace.status,
        "code": trace.code,
        "message": trace.message,
        "actions": len(run.done),
        "failed": len(run.done) - len(well),
        "requests": len(requests),
        "gold_requests": task.asks,
        "questions": sum(asked.kind == "question" for asked in run.requests),
        "unvalidated": sum(1 for _ in unvalidated(run)),
        "busy_s": round(max(run.busy_s, default=0.0), 4),
    }


def mode(run: Run) -> str:
    """Return the mode that a run came to (InteractGen, figure 2): proactive where a reflection had it planned again, active
    where somebody was asked back or a plan was rejected, else reactive."""
    said = [(role, answer) for _, role, _, answer in run.answers]
    if any(role == Layer.MANAGER.value and re.search(r'"flag": *"N"', answer) for role, answer in said):
        return "proactive"
    rejected = any(role == Layer.VALIDATOR.value and not _passes(answer) for role, answer in said)
    return "active" if rejected or any(asked.kind == "question" for asked in run.requests) else "reactive"


def _unreported(run: Run) -> Iterator[str]:
    """Yield why a task that cannot be done was not reported as that, with who or what stands in its way."""
    code, told = run.trace.code, run.trace.message
    if run.trace.status != "FAILED" or code not in [int(c) for c in REPORTED]:
        yield f"not reported: {run.trace.status or 'it did not end in time'}"
    elif not any(re.search(rf"\b{re.escape(name)}\b", told) for name in run.task.blocked):
        yield "reported without who or what stands in the way"


# -- redundancy ---------------------------------------------------------------------------------------------------------------


def redundant(task: Task, done: Sequence[Done], report: Report) -> int:
    """Return how many successful actions could be left out, from the last to the first, so that all others still succeed and
    the same propositions are met."""
    kept = [one for one in done if not one.failure]
    met = {name for name, finding in report.findings.items() if finding.met}
    number = len(kept)
    for one in reversed(tuple(kept)):
        rest = [other for other in kept if other is not one]
        if met <= _met(task, rest):
            kept = rest
    return number - len(kept)


def _met(task: Task, done: Sequence[Done]) -> set[str]:
    """Return what is met where exactly this is done, each at its time; nothing where one of them fails."""
    world = task.world()
    moments = [moment(world, 0.0)]
    for one in done:
        world.now_s = one.ended_s
        if one.act.deed is not None:
            failure = world.do(one.act.actor, one.act.deed)
        else:
            failure = world.attempt(one.act.actor, one.act.skill, one.act.arguments)
        if failure is not None:
            return set()
        moments.append(moment(world, one.ended_s))
    moments.append(Moment(moments[-1].at + 1.0, moments[-1].facts))
    return {name for name, finding in evaluate(task.criterion, moments).findings.items() if finding.met}


# -- validation ---------------------------------------------------------------------------------------------------------------


def unvalidated(run: Run) -> Iterator[str]:
    """Yield each call and request that was dispatched although no validator's `pass` stands before it; none where no validator
    was asked at all, since then there is none."""
    if not any(role == Layer.VALIDATOR.value for _, role, _ in run.prompts):
        return
    passed: list[tuple[float, str]] = []
    for at, role, question, answer in run.answers:
        if role == Layer.VALIDATOR.value and _passes(answer):
            passed += [(at, _key(str(s["agent"]), str(s["call"]))) for s in read_blocks(question).get("ASSIGNED", [])]
    requests = {(asked.person, asked.at_s) for asked in run.requests if asked.kind == "request"}
    for call in run.trace.calls:
        given = {name: str(value) for name, value in call.arguments.items()}
        if call.function == "ask" and (given["person"], call.started) not in requests:
            continue
        written = given["text"] if call.function == "ask" else f"{call.function}({_arguments(given)})"
        key = _key(given["person"] if call.function == "ask" else given["robot"], written)
        if not any(at <= call.started and key == words for at, words in passed):
            yield key


def _arguments(given: Mapping[str, str]) -> str:
    return ", ".join(f'{name}="{value}"' for name, value in given.items())


def _passes(answer: str) -> bool:
    try:
        return read_answer(Validity, answer).verdict == "pass"
    except AnswerError:
        return False


def _key(agent: str, call: str) -> str:
    """Return agent and call, the names of its arguments in one order, and not the robot once more."""
    name, bracket, rest = call.partition("(")
    given = dict(re.findall(r"(\w+)=\"([^\"]*)\"", rest)) if bracket and "=" in rest else {}
    given.pop("robot", None)
    return f"{agent} {name}({_arguments(dict(sorted(given.items())))})" if given else f"{agent} {call}"


def mean_of(lines: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """Return the values of a figure where there is one."""
    return [float(one[name]) for one in lines if one.get(name) is not None]
