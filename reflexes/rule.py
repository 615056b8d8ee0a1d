# SPDX-License-Identifier: Apache-2.0
"""A reflex as it is kept: the sentence, the code made of it, who wrote and who approved it, and a hash over all that."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from pydantic import AfterValidator, Field

from skill_kernel.config.sections import Section
from skill_kernel.guard import Guarded

LONGEST_ACTION_S = 600.0

_NAME = re.compile(r"[a-z][a-z0-9_]{0,47}")
_WORDS = re.compile(r"[a-z0-9]+")
_LEFT_OUT = frozenset(
    "a an and any anything are as at by can closer comes gets if in is it of on once or soon than that the then to when "
    "whenever within you your".split()
)


class RuleState(str, Enum):
    """Only an approved rule ever fires."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    DISABLED = "disabled"


class ReflexError(ValueError):
    """What was asked of the reflexes cannot be done; the message says what to do."""


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name[:60]}' is no name; use small letters, digits and underscores, at most 48")
    return name


RuleName = Annotated[str, AfterValidator(_checked_name)]


class Rule(Section):
    """One reflex. `priority` is hard: a higher one interrupts a lower one that holds what it needs.

    It fires when its condition becomes true, and again only after that was false for a while; with `repeats` also while it
    stays true, `cooldown_s` after the last action has ended. One evaluation may take `budget_ms` of processor time, an
    action `limit_s`. Times are seconds since 1970. `shipped`: it comes with the robot's configuration.
    """

    name: RuleName
    sentence: Annotated[str, Field(min_length=1, max_length=500)]
    source: Annotated[str, Field(min_length=1, max_length=4000)]
    model: Annotated[str, Field(max_length=200)]
    priority: Annotated[int, Field(ge=0, le=100)] = 50
    cooldown_s: Annotated[float, Field(ge=0.1, le=3600)] = 2.0
    repeats: bool = False
    budget_ms: Annotated[float, Field(ge=0.1, le=20)] = 2.0
    limit_s: Annotated[float, Field(ge=0.5, le=LONGEST_ACTION_S)] = 30.0
    created_s: float = 0.0
    state: RuleState = RuleState.PROPOSED
    reason: Annotated[str, Field(max_length=1000)] = ""
    approver: Annotated[str, Field(max_length=200)] = ""
    approved_s: float = 0.0
    shipped: bool = False

    @property
    def hash(self) -> str:
        """SHA-256 over all that a person approves, as 64 hexadecimal digits."""
        approved = [
            self.name,
            self.sentence,
            self.source,
            self.model,
            self.priority,
            self.cooldown_s,
            self.repeats,
            self.budget_ms,
            self.limit_s,
            self.approver,
        ]
        return hashlib.sha256(json.dumps(approved, ensure_ascii=True).encode()).hexdigest()


@dataclass(frozen=True)
class LoadedRule:
    """A rule with its compiled functions."""

    rule: Rule
    guarded: Guarded


def name_of(sentence: str, taken: frozenset[str] = frozenset()) -> str:
    """A name made of a sentence's first telling words, unlike those taken."""
    words = [w for w in _WORDS.findall(sentence.lower()) if len(w) > 1 and w not in _LEFT_OUT and not w.isdigit()]
    base = "_".join(words[:5])[:40].strip("_") or "reflex"
    base = base if base[0].isalpha() else f"reflex_{base}"
    name, count = base, 2
    while name in taken:
        name, count = f"{base}_{count}", count + 1
    return name
