# SPDX-License-Identifier: Apache-2.0
"""Wait for System 2: a plan, its rest, a changed one after equal failures; and go on without it."""

from __future__ import annotations

from collections.abc import Callable

from planners.plan import Plan
from planners.prompts.blocks import Layer
from planners.strategies.layered.step_book import StepBook
from planners.strategies.layered.step_goals import Goals
from planners.strategies.layered.step_link import StepLink, StepSettings
from skill_kernel.clock import Clock, Timer


class OneShot:
    """Call back once, at the earliest of the times asked for since it did so last."""

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock, self._callback = clock, callback
        self._timer: Timer | None = None
        self._due_s = 0.0

    def within(self, seconds: float) -> None:
        """Call back after so long, or sooner."""
        due_s = self._clock.now() + seconds
        if self._timer is not None and self._due_s <= due_s:
            return
        self.cancel()
        self._due_s = due_s
        self._timer = self._clock.call_later(seconds, self._ring)

    def cancel(self) -> None:
        """Do not call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._callback()


class HeldWait:
    """Wait for somebody else, counting only the time in which the process may go on. After a hold the time begins anew, since
    whoever is waited for may have been held as well."""

    def __init__(self, clock: Clock, over: Callable[[], None]) -> None:
        self._timer, self._over = OneShot(clock, self._ring), over
        self._seconds: float | None = None
        self._held = False

    def begin(self, seconds: float) -> None:
        """Wait from now, or from the end of the hold."""
        self._timer.cancel()
        self._seconds = seconds
        if not self._held:
            self._timer.within(seconds)

    def end(self) -> None:
        """Wait no longer."""
        self._timer.cancel()
        self._seconds = None

    def hold(self) -> None:
        """Stop counting: the process may not go on."""
        self._held = True
        self._timer.cancel()

    def go_on(self) -> None:
        """Count again: it may go on."""
        if self._held:
            self._held = False
            if self._seconds is not None:
                self.begin(self._seconds)

    def _ring(self) -> None:
        self._seconds = None
        self._over()


class PlanWait:
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
        self._plan, self._review = HeldWait(link.clock, self._no_plan), HeldWait(link.clock, self._not_reviewed)
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
