# SPDX-License-Identifier: Apache-2.0
"""Reward a Thought-of-Action plan by a gold plan, as the paper trains its planner (InteractGen V, equations 7 to 13).

Equation 10 as printed halves each hit, so that a perfect order gets 0.5 and the final reward never 4, which the paper gives as
its upper bound; here the half is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bench.office.tasks import Task
from planners.models.model_call import AnswerError
from planners.strategies.team.answers import ToaPlan, read_answer

_ARGUMENT = re.compile(r"(?:\w+\s*=\s*)?[\"']?([^\"',()=]+)[\"']?")


@dataclass(frozen=True)
class Skill:
    """Hold a skill of a plan: its parameters, its number and the steps that it depends on."""

    name: str
    parameters: frozenset[str]
    step: int
    deps: frozenset[int]

    @classmethod
    def read(cls, text: str, step: int, deps: Sequence[int]) -> Skill:
        """Return the skill that `Name(parameters)` spells; parameters may have names, which do not count."""
        name, _, given = text.partition("(")
        found = frozenset(word.strip() for word in _ARGUMENT.findall(given.rstrip(") ")) if word.strip())
        return cls(name.strip().lower(), found, step, frozenset(deps))


@dataclass(frozen=True)
class Reward:
    """Hold the parts of a reward, each from 0 to 1, and their sum as GRPO takes it, from -3 to 4."""

    format: float
    name: float
    param: float
    order: float

    @property
    def final(self) -> float:
        return self.format + 2.0 * (self.name + self.param + self.order) - 3.0


def gold(task: Task) -> tuple[Skill, ...]:
    """Return the gold plan of a task."""
    return tuple(Skill.read(s.written, i, [d + 1 for d in s.deps]) for i, s in enumerate(task.steps, start=1))


def reward(answer: str, wanted: Sequence[Skill]) -> Reward:
    """Return the reward of a planner's answer. Raises ValueError without a gold plan."""
    if not wanted:
        raise ValueError("there is no reward without a gold plan")
    try:
        steps = read_answer(ToaPlan, answer).steps
    except AnswerError:
        return Reward(0.0, 0.0, 0.0, 0.0)
    written = [Skill.read(one.skill, one.step, one.dep) for one in steps]
    if not written:
        return Reward(0.0, 0.0, 0.0, 0.0)
    pairs = matched(written, wanted)
    names = _jaccard(frozenset(s.name for s in wanted), frozenset(s.name for s in written))
    param = sum(_jaccard(g.parameters, p.parameters) for g, p in pairs if p is not None) / len(wanted)
    hits = sum((p.step == g.step) + (p.deps == g.deps) for g, p in pairs if p is not None)
    return Reward(1.0, names, param, hits / (2.0 * len(wanted)))


def matched(written: Sequence[Skill], wanted: Sequence[Skill]) -> list[tuple[Skill, Skill | None]]:
    """Return each gold skill with the written one of its name that has most of its parameters; each is matched once."""
    left, pairs = list(written), []
    for g in wanted:
        alike = [p for p in left if p.name == g.name]
        best = max(alike, key=lambda p: (_jaccard(g.parameters, p.parameters), p.step == g.step), default=None)
        if best is not None:
            left.remove(best)
        pairs.append((g, best))
    return pairs


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 1.0
