# SPDX-License-Identifier: Apache-2.0
"""Decide when System 1 asks its model, when it saves the question (cost-aware: nothing is asked while nothing has changed), and
when it has failed too often."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum

from planners.plan import GlobalEvent, Plan, Subtask
from planners.strategies.layered.step_answer import COMPLETE, STEP
from planners.strategies.layered.step_book import StepEnd
from planners.strategies.layered.step_degrade import DegradationLadder, Rung
from planners.strategies.layered.step_goals import Goals
from planners.strategies.layered.step_link import Bounds, StepLink, StepSettings
from planners.strategies.layered.step_prompt import Situation
from planners.strategies.layered.step_writing import StepWriter, StepWriting, Written
from planners.strategy import Task
from skill_kernel.codes import TaskCode


class AfterFailure(Enum):
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

    def failed(self, end: StepEnd) -> AfterFailure:
        """A step has failed."""
        self._by_subtask[end.item.subtask] += 1
        call = end.cause
        what = "" if call is None else f"{call.function} {json.dumps(dict(call.arguments), sort_keys=True, default=str)}"
        key = (end.item.subtask, what)
        self._same = self._same + 1 if key == self._last else 1
        self._last = key
        if sum(self._by_subtask.values()) >= self._bounds.process:
            return AfterFailure.END
        if self._by_subtask[end.item.subtask] >= self._bounds.subtask:
            return AfterFailure.END
        return AfterFailure.REVIEW if self._same >= self._bounds.same else AfterFailure.AGAIN

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


SETTLE_S = 0.05
"""After a failed call its turn may end within so long, and with it what was planned before."""


class Questions:
    """One question at a time. `fail(code, why)` ends the process, `changed` looks for what is next, `later(seconds)` has it
    look then."""

    def __init__(
        self,
        task: Task,
        link: StepLink,
        settings: StepSettings,
        goals: Goals,
        writer: StepWriter,
        ladder: DegradationLadder,
        failures: Failures,
        *,
        fail: Callable[[int, str], None],
        changed: Callable[[], None],
        later: Callable[[float], None],
    ) -> None:
        self._task, self._link, self._settings, self._goals, self._writer = task, link, settings, goals, writer
        self._book, self._ladder, self._failures = writer.book, ladder, failures
        self._fail, self._changed, self._later = fail, changed, later
        self._faults: list[str] = []
        self._nothing: object = None
        """What there was when the last answer added nothing …"""
        self._seen_then: frozenset[str] = frozenset()
        """… and what was in sight."""
        self._asked_s = 0.0
        self._skip_told = False
        self._idle_answers = 0
        self._not_before_s = 0.0
        self._known_failures = self._failures_heard = 0
        self.writing: StepWriting | None = None
        self.asked = False

    def drop(self, why: str) -> None:
        """What is being written is void."""
        writing, self.writing = self.writing, None
        if writing is not None:
            writing.cancel(why)

    def call_failed(self) -> None:
        """A call has failed; what is being written does not know it."""
        self._failures_heard += 1
        self.wait(SETTLE_S)

    def drop_unknowing(self, why: str) -> None:
        """Void what was asked for before the last failure was known."""
        if self._known_failures < self._failures_heard:
            self.drop(why)

    def wait(self, seconds: float) -> None:
        """Ask nothing for so long."""
        self._not_before_s = max(self._not_before_s, self._link.clock.now() + seconds)
        self._later(seconds)

    def renewed(self) -> None:
        """Whatever was said before, there is something new to ask about."""
        self._nothing, self._not_before_s = None, 0.0

    def look(self, plan: Plan, subtask: Subtask, fired: Sequence[GlobalEvent], *, watching: bool) -> None:
        """Ask for steps of a subtask, if it is time to. `watching`: events may come true while nothing is done."""
        wait_s = self._wait_s(plan, subtask, fired)
        if wait_s is None:
            return
        if wait_s > 0.0:
            self._later(wait_s)
        elif why := self._failures.exhausted():
            self._fail(int(TaskCode.TURN_LIMIT), f"{subtask.description}: {why}")
        else:
            self._ask(plan, subtask, fired, watching=watching)

    def _wait_s(self, plan: Plan, subtask: Subtask, fired: Sequence[GlobalEvent]) -> float | None:
        """In how many seconds to ask; None when only an event can be a reason to."""
        settings = self._settings
        if settings.cost_aware and self._ladder.rung is Rung.MODEL:
            if len(self._book.queued) > settings.refill_at:
                return None
            if self._nothing is not None and self._nothing == self._digest(plan, subtask, fired) and not self._news(subtask):
                if not self._skip_told:
                    self._skip_told = True
                    self._link.skipped("queue, results and observation are as they were when nothing was to be added")
                self._later(settings.look_again_s)
                return None
        ok, budget_s, why = self._link.allowance()
        if not ok:
            self._ladder.useless(int(TaskCode.BUDGET_SPENT), why)
            self._later(0.0)
            return None
        return max(self._not_before_s - self._link.clock.now(), budget_s, 0.0)

    def _digest(self, plan: Plan, subtask: Subtask, fired: Sequence[GlobalEvent]) -> object:
        queue = tuple(self._book.shown_queue())
        return (subtask.id, plan.signature, self._book.ended, queue, tuple(e.id for e in fired))

    def _news(self, subtask: Subtask) -> bool:
        """Whether something has come in sight that the task speaks of; while the robot turns, much comes and goes."""
        if self._link.clock.now() - self._asked_s < self._settings.scene_gap_s:
            return False
        words = f"{self._task.instruction} {subtask.description} {subtask.criteria}".casefold()
        new = self._link.relies_on().in_sight - self._seen_then
        return any(label.casefold() in words or not words.isascii() for label in new)

    def _ask(self, plan: Plan, subtask: Subtask, fired: Sequence[GlobalEvent], *, watching: bool) -> None:
        self.asked, self._skip_told = True, False
        self._known_failures = self._failures_heard
        self._asked_s, self._seen_then = self._link.clock.now(), self._link.relies_on().in_sight
        book = self._book
        situation = Situation(
            self._task.instruction,
            self._task.sender,
            plan.subtasks,
            subtask,
            dict.fromkeys(self._goals.done, "DONE"),
            tuple(fired),
            tuple(book.done),
            book.shown_running(),
            book.shown_queue(),
            self._settings.queue_steps - len(book.queued),
            tuple(self._faults),
        )
        before = self._digest(plan, subtask, fired)
        self.writing = StepWriting(
            self._task.process_id,
            self._link.step_request(situation),
            self._writer,
            subtask.id,
            frozenset(e.id for e in fired),
            self._link,
            self._settings.deadline_s,
            self._goals.following,
            lambda written: self._answered(written, before, watching),
        )

    def _answered(self, written: Written, before: object, watching: bool) -> None:
        self.writing = None
        self._faults = list(dict.fromkeys(written.faults))[-5:]
        self._nothing = None
        if written.useful:
            self._idle_answers = 0
            self._failures.answered()
            self._ladder.useful()
        elif written.nothing and not written.code:
            self._ladder.useful()
            self._added_nothing(before, watching)
        else:
            why = written.why or "; ".join(self._faults[:2]) or f"the answer holds neither <{STEP}> nor <{COMPLETE}/>"
            if written.why or not self._faults:
                self._faults.append(why)
            self._ladder.useless(written.code, why)
        self._changed()

    def _added_nothing(self, before: object, watching: bool) -> None:
        """An idle robot is not left waiting for a change that may never come, nor asked about for ever."""
        settings = self._settings
        gap_s = settings.nothing_gap_s
        if not self._book.idle:
            self._nothing = before
        else:
            self._idle_answers += 1
            if self._idle_answers > (settings.idle_waits if watching else settings.idle_answers):
                self._fail(int(TaskCode.CALL_FAILED), "the model adds no step, though nothing is being done")
                return
            self._faults.append("nothing is being done and nothing is queued: write the next step, or <subtask_complete/>")
            gap_s = min(gap_s * 2.0 ** (self._idle_answers - 1), settings.longest_gap_s)
        self.wait(gap_s)
