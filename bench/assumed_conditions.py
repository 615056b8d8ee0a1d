# SPDX-License-Identifier: Apache-2.0
"""Assume what is true where there is no robot to observe."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from function_tokens.scheduling.conditions import Answer, Verdict


class AssumedConditions:
    """Implement `ConditionSource` for a run without a robot: what was given, else one assumption for all.

    `check` finds faults of a condition as it stands. Each assumption made is kept in `assumed`, once.
    """

    def __init__(
        self, given: Mapping[str, bool], default: bool | None = True, check: Callable[[str], str] = lambda condition: ""
    ) -> None:
        self._given = {plain(condition): holds for condition, holds in given.items()}
        self._default = default
        self._check = check
        self.assumed: dict[str, bool | None] = {}
        self.unused = dict.fromkeys(self._given)
        """Conditions that were given and not asked (so far)."""

    def fault(self, condition: str) -> str:
        return self._check(condition)

    def ask(self, condition: str, answer: Answer, process_id: str) -> None:
        known = plain(condition)
        self.unused.pop(known, None)
        if known in self._given:
            answer(Verdict(self._given[known], "as given"))
            return
        self.assumed[condition] = self._default
        answer(Verdict(self._default, "nobody said whether it does" if self._default is None else "assumed"))


def plain(condition: str) -> str:
    """Return a condition in its one spelling: single spaces and single quotes."""
    return " ".join(condition.replace('"', "'").split())
