# SPDX-License-Identifier: Apache-2.0
"""How System 2 of a process is set, whom it tells, and what it keeps of a question it has asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from planners.plan import Plan
from planners.strategies.layered.progress import Patience
from planners.strategies.layered.revision import WrittenSubtask
from planners.strategies.layered.task_answer import AnswerLimits


@dataclass(frozen=True)
class TaskSettings:
    """Times in seconds. `deadline_s`: for an answer, its repair included. System 2 looks again `urgent_s` after a result, an
    event or a resume, `settle_s` after a change of what it watches, `gap_s` after its last answer at the earliest: together
    no more than `review_s`. Not `cost_aware`, it looks again every `review_s`, whether something happened or not.
    `revisions`: changes of one process's plan at most."""

    deadline_s: float = 12.0
    max_output_tokens: int = 1000
    urgent_s: float = 0.2
    settle_s: float = 0.8
    gap_s: float = 0.8
    review_s: float = 2.0
    revisions: int = 30
    cost_aware: bool = True
    limits: AnswerLimits = field(default_factory=AnswerLimits)
    patience: Patience = field(default_factory=Patience)


class Tellers(Protocol):
    """Whom a task planner tells, and who allows it to ask."""

    def plan(self, process_id: str, plan: Plan) -> None:
        """A new revision."""

    def skipped(self, process_id: str, why: str) -> None:
        """Nothing was asked."""

    def degraded(self, process_id: str, how: str, why: str) -> None:
        """It goes on without its model."""

    def allowance(self, process_id: str) -> tuple[bool, float, str]:
        """Whether the budget lets it ask, in how many seconds at the earliest, and why not."""


@dataclass
class Asked:
    """What a question was asked on. `weight` counts what had happened until then that a verdict must know of."""

    first: bool
    failed: bool
    weight: int
    done: frozenset[str]
    why: tuple[str, ...]
    facts: Mapping[str, Any] | None
    tries: int = 0
    streamed: list[WrittenSubtask] = field(default_factory=list)
