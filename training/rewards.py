# SPDX-License-Identifier: Apache-2.0
"""Reward a plan by how closely it matches the reference (InteractGen, equations 7 to 13).

Equation 10 is taken without its factor 1/2: with it a perfect order scores 0.5, although the paper says that it may reach 1,
and the final reward could not reach 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

PERFECT = 4.0
"""The largest reward; -3 is the smallest."""


@dataclass(frozen=True)
class Step:
    """Hold one call of a plan: its skill, its parameters as pairs of name and value, its number from 1 on, and the number of
    the latest step that it waits for (`dep`, 0 for none)."""

    name: str
    params: frozenset[tuple[str, str]]
    step: int
    dep: int


def reward(valid: bool, plan: Sequence[Step], reference: Sequence[Step]) -> float:
    """Return the final reward of a plan, -3 to 4 (equation 13); `valid` is whether its format is right."""
    match = name_match(plan, reference)
    pairs = matched(plan, reference)
    match += param_match(pairs) + order_match(pairs)
    return float(valid) + 2.0 * match - 3.0


def name_match(plan: Sequence[Step], reference: Sequence[Step]) -> float:
    """Return the Jaccard index of the sets of skill names (equation 8)."""
    return _jaccard({step.name for step in plan}, {step.name for step in reference})


def matched(plan: Sequence[Step], reference: Sequence[Step]) -> list[tuple[Step, Step | None]]:
    """Return each step of the reference with the step of the plan that stands for it: of those with its name that are not taken
    yet the one with the most alike parameters, and of alike ones the first."""
    free = list(plan)
    pairs: list[tuple[Step, Step | None]] = []
    for wanted in reference:
        named = [step for step in free if step.name == wanted.name]
        best = max(named, key=lambda step: _jaccard(step.params, wanted.params), default=None)
        if best is not None:
            free.remove(best)
        pairs.append((wanted, best))
    return pairs


def param_match(pairs: Sequence[tuple[Step, Step | None]]) -> float:
    """Return the mean Jaccard index of the parameters of matched steps (equation 9)."""
    alike = [_jaccard(wanted.params, step.params) if step is not None else 0.0 for wanted, step in pairs]
    return sum(alike) / len(alike) if alike else 0.0


def order_match(pairs: Sequence[tuple[Step, Step | None]]) -> float:
    """Return how many of the numbers `step` and `dep` of the reference the matched steps have, as a fraction (equation 10
    without its 1/2)."""
    same = [(step.step == wanted.step) + (step.dep == wanted.dep) if step is not None else 0 for wanted, step in pairs]
    return sum(same) / (2 * len(same)) if same else 0.0


def _jaccard(one: set[str] | frozenset[tuple[str, str]], other: set[str] | frozenset[tuple[str, str]]) -> float:
    """Return the Jaccard index of two sets; two empty ones are alike."""
    return len(one & other) / len(one | other) if one or other else 1.0
