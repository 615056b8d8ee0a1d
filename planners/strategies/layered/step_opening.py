# SPDX-License-Identifier: Apache-2.0
"""The first action of a process on its way to the robot: a step of its own, unless it comes too late."""

from __future__ import annotations

from collections.abc import Callable

from planners.prompts.blocks import Layer
from planners.strategies.layered.first_action import FirstAction
from planners.strategies.layered.step_answer import STEP
from planners.strategies.layered.step_book import Item
from planners.strategies.layered.step_link import StepLink
from planners.strategies.layered.step_writing import StepWriter
from planners.strategy import Task


class Opening:
    """Asks once; `wanted` says when the answer comes whether it may still be performed."""

    def __init__(self, task: Task, link: StepLink, writer: StepWriter, wanted: Callable[[], bool]) -> None:
        self._task, self._link, self._writer, self._wanted = task, link, writer, wanted
        self._first: FirstAction | None = None

    def begin(self, deadline_s: float) -> None:
        """Ask, if there is something to choose from."""
        link = self._link
        if deadline_s > 0 and (request := link.first_request()) is not None:
            self._first = FirstAction(
                link.model,
                link.clock,
                self._task.process_id,
                request,
                allowed=link.first_actions,
                check=link.check,
                begin=self._answered,
                failed=self._failed,
                deadline_s=deadline_s,
            )

    def throw_away(self) -> None:
        """It is too late for it."""
        if self._first is not None:
            self._first.cancel()
            self._first = None

    def _answered(self, source: str) -> None:
        self._first = None
        if self._wanted():
            step = f"<{STEP}>{source}</{STEP}>"
            self._writer.send(step, [Item("", "", source=step)])

    def _failed(self, code: int, why: str) -> None:
        self._first = None
        self._link.degraded(Layer.S1P, "begins without a first action", why)
