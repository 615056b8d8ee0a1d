# SPDX-License-Identifier: Apache-2.0
"""Counts what fails, so that a process neither gives up at once nor tries for ever."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from planners.strategies.layered.step_book import StepEnd


@dataclass(frozen=True)
class Bounds:
    """How much a process may try. `same`: equal failures in a row before the layer above is asked; `subtask`, `process`:
    failures at most; `answers`, `all_answers`: answers with steps, without any progress and for the process."""

    same: int = 2
    subtask: int = 5
    process: int = 12
    answers: int = 25
    all_answers: int = 150


class Verdict(Enum):
    """What follows a failure."""

    AGAIN = "again"
    """Ask anew with the result."""
    REVIEW = "review"
    """Wait for the layer above to change the plan."""
    END = "end"


class Failures:
    """The failures and answers of one process."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._by_subtask: Counter[str] = Counter()
        self._answers = self._all_answers = 0
        self._last: tuple[str, str] | None = None
        self._same = 0

    def failed(self, end: StepEnd) -> Verdict:
        """A step has failed."""
        self._by_subtask[end.item.subtask] += 1
        call = end.cause
        what = "" if call is None else f"{call.function} {json.dumps(dict(call.arguments), sort_keys=True, default=str)}"
        key = (end.item.subtask, what)
        self._same = self._same + 1 if key == self._last else 1
        self._last = key
        if sum(self._by_subtask.values()) >= self._bounds.process:
            return Verdict.END
        if self._by_subtask[end.item.subtask] >= self._bounds.subtask:
            return Verdict.END
        return Verdict.REVIEW if self._same >= self._bounds.same else Verdict.AGAIN

    def succeeded(self, *, moved: bool) -> None:
        """A step is done, so that the next failure is the first in a row; `moved`: it did more than speak and wait."""
        self._last, self._same = None, 0
        if moved:
            self._answers = 0

    def answered(self) -> None:
        """One more answer has added steps."""
        self._answers += 1
        self._all_answers += 1

    def exhausted(self) -> str:
        """Why no further answer may be asked for; "" while one may."""
        if self._answers >= self._bounds.answers:
            return f"no progress in {self._bounds.answers} answers of the model"
        if self._all_answers >= self._bounds.all_answers:
            return f"not finished after {self._bounds.all_answers} answers of the model; give a smaller task"
        return ""
