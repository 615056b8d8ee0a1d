# SPDX-License-Identifier: Apache-2.0
"""What System 1 awaits of System 2: a plan, its rest, a changed one after equal failures; and what it does without."""

from __future__ import annotations

from collections.abc import Callable

from planners.plan import Plan
from planners.prompts.blocks import Layer
from planners.strategies.layered.step_book import StepBook
from planners.strategies.layered.step_goals import Goals
from planners.strategies.layered.step_link import StepLink, StepSettings
from planners.strategies.layered.step_wait import Wait


class Awaited:
    """`changed` looks for what is next, `give_up` ends the process with the failure that nobody has reviewed. `plans`: whether
    System 2 has a model."""

    def __init__(
        self,
        link: StepLink,
        settings: StepSettings,
        goals: Goals,
        book: StepBook,
        *,
        plans: bool,
        changed: Callable[[], None],
        give_up: Callable[[str], None],
    ) -> None:
        self._link, self._settings, self._goals, self._book, self._plans = link, settings, goals, book, plans
        self._changed, self._give_up = changed, give_up
        self._plan, self._review = Wait(link.clock, self._no_plan), Wait(link.clock, self._not_reviewed)
        self._failed_under: int | None = None
        self._fault = ""

    @property
    def review(self) -> bool:
        """Whether nothing is to be planned before the plan has been changed."""
        return self._failed_under is not None

    def begin(self) -> None:
        """The process has been made."""
        if self._goals.plan is None:
            self._plan.begin(self._settings.plan_wait_s if self._plans else 0.0)

    def taken(self, plan: Plan) -> None:
        """A plan has come; when it is not complete, the rest of it is awaited."""
        if self._failed_under is not None and plan.revision > self._failed_under:
            self._failed_under = None
            self._review.end()
        if plan.complete:
            self._plan.end()
        else:
            self._plan.begin(self._settings.plan_wait_s)

    def failed(self, fault: str) -> None:
        """Only another plan can help."""
        self._failed_under, self._fault = self._goals.revision, fault
        self._review.begin(self._settings.review_wait_s)

    def hold(self) -> None:
        """The process may not go on, so nobody is late."""
        self._plan.hold()
        self._review.hold()

    def go_on(self) -> None:
        """It may go on."""
        self._plan.go_on()
        self._review.go_on()

    def end(self) -> None:
        """Nothing is awaited any more."""
        self._plan.end()
        self._review.end()

    def _no_plan(self) -> None:
        """System 2 is too late, or there is none, or it fell silent in the middle of its plan."""
        goals, wait_s = self._goals, self._settings.plan_wait_s
        if goals.plan is None or not goals.plan.subtasks:
            goals.fall_back()
            if self._plans:
                self._link.degraded(Layer.S2, "the instruction itself is the one subtask", f"no plan within {wait_s:g} s")
        elif goals.current() is not None or not self._book.idle:
            self._plan.begin(wait_s)
            return
        else:
            goals.cut_short()
            self._link.degraded(Layer.S2, "what is planned so far is the plan", "it was not finished in time")
        self._changed()

    def _not_reviewed(self) -> None:
        self._give_up(self._fault)
