# SPDX-License-Identifier: Apache-2.0
"""Whether the condition of a branch holds: who is asked, and what comes back (TypeGo 6, System 1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

ALWAYS = frozenset({"always", "true"})
NEVER = frozenset({"never", "false"})


@dataclass(frozen=True)
class Verdict:
    """`holds` is None when nobody can tell; then `reason` says why."""

    holds: bool | None
    reason: str = ""


Answer = Callable[[Verdict], None]


class ConditionSource(Protocol):
    """Knows what is true now."""

    def fault(self, condition: str) -> str:
        """What is wrong with a condition as it stands, "" when it can be asked. Looks at no observation."""

    def ask(self, condition: str, answer: Answer) -> None:
        """Find out, and answer once, from within this call or later, on the scheduler's thread. A late answer is ignored."""


class NoConditions:
    """Implements `ConditionSource` where nothing is observed."""

    def fault(self, condition: str) -> str:
        return ""

    def ask(self, condition: str, answer: Answer) -> None:
        answer(Verdict(None, 'nothing is observed here; write cond="always"'))


class AssumedConditions:
    """Implements `ConditionSource` for a run without a robot: what was given, else one assumption for all. `check` finds
    what is wrong with a condition as it stands. What was assumed is kept in `assumed`, each once."""

    def __init__(
        self, given: Mapping[str, bool], default: bool | None = True, check: Callable[[str], str] = lambda condition: ""
    ) -> None:
        self._given = {_plain(condition): holds for condition, holds in given.items()}
        self._default = default
        self._check = check
        self.assumed: dict[str, bool | None] = {}
        self.unused = dict.fromkeys(self._given)
        """Conditions that were given and not asked (so far)."""

    def fault(self, condition: str) -> str:
        return self._check(condition)

    def ask(self, condition: str, answer: Answer) -> None:
        plain = _plain(condition)
        self.unused.pop(plain, None)
        if plain in self._given:
            answer(Verdict(self._given[plain], "as given"))
            return
        self.assumed[condition] = self._default
        answer(Verdict(self._default, "nobody said whether it does" if self._default is None else "assumed"))


def constant(condition: str) -> bool | None:
    """Whether a condition holds that asks nothing; None for one that does ask."""
    plain = condition.strip().lower()
    return True if plain in ALWAYS else False if plain in NEVER else None


def _plain(condition: str) -> str:
    return " ".join(condition.replace('"', "'").split())
