# SPDX-License-Identifier: Apache-2.0
"""How much code the guard takes; every bound is checked before anything runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on one rule. Steps are the evaluated parts of expressions and statements, loops counted at their longest, so
    that accepted code cannot take more of them, whatever the sensors say."""

    characters: int = 4000
    tokens: int = 1000
    line_tokens: int = 200
    name_characters: int = 48
    number_characters: int = 20
    text_characters: int = 300
    brackets: int = 12
    nodes: int = 800
    depth: int = 30
    items: int = 32
    rounds: int = 100
    condition_steps: int = 500
    action_steps: int = 5000
    skill_calls: int = 40


LIMITS = Limits()
LARGEST_LITERAL = 1_000_000_000
LARGEST_WHOLE = 10**15
"""Whole numbers beyond it end a rule: unlike floats they would grow without bound."""
