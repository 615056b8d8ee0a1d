# SPDX-License-Identifier: Apache-2.0
"""Perform acts in an office one after the other, and judge what was true meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.evaluation.propositions import Moment, Report, evaluate
from bench.office.acts import Act
from bench.office.tasks import Task
from bench.office.world import Failure, Office

WAIT_S = 3600.0
"""Time after which those who said `later` are there: a plan is performed from then on."""


def perform(world: Office, acts: Iterable[Act]) -> tuple[list[Moment], list[tuple[Act, Failure]]]:
    """Perform acts in order; return the moments, and which acts failed."""
    moments, failed = [moment(world, 0.0)], []
    for number, act in enumerate(acts, start=1):
        if act.deed is not None:
            failure = world.person_fault(act.actor) or world.do(act.actor, act.deed)
        else:
            failure = world.attempt(act.actor, act.skill, act.arguments)
        if failure is None:
            moments.append(moment(world, float(number)))
        else:
            failed.append((act, failure))
    moments.append(moment(world, moments[-1].at + 1.0))
    return moments, failed


def moment(world: Office, at: float) -> Moment:
    """Return what is true now."""
    return Moment(at, frozenset(world.facts()))


def replay(task: Task, acts: Sequence[Act]) -> tuple[Report, list[tuple[Act, Failure]]]:
    """Perform acts in the office of a task and judge them."""
    world = task.world()
    world.now_s = WAIT_S
    moments, failed = perform(world, acts)
    return evaluate(task.criterion, moments), failed
