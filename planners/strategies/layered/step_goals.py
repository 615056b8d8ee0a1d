# SPDX-License-Identifier: Apache-2.0
"""The plan as System 1 follows it: which subtask is the next to write steps for, and which are done."""

from __future__ import annotations

from dataclasses import replace

from planners.plan import FALLBACK, Plan, Subtask, SubtaskStatus
from planners.strategies.layered.step_book import StepBook
from planners.strategies.layered.step_trouble import WHOLE
from planners.strategy import Task


class Goals:
    """Keeps the newest plan of a process. What was done stays done, whatever a plan says of it."""

    def __init__(self, task: Task, book: StepBook) -> None:
        self._task, self._book = task, book
        self.plan: Plan | None = None
        self.done: set[str] = set()

    @property
    def revision(self) -> int:
        """That of the plan, 0 before there is one."""
        return self.plan.revision if self.plan is not None else 0

    def take(self, plan: Plan) -> bool:
        """A plan has been published; whether it is newer than the one that is known."""
        old = self.plan
        if old is not None and old.made_by != FALLBACK and plan.revision <= old.revision:
            return False
        self.plan = plan
        self.done |= {s.id for s in plan.subtasks if s.status is SubtaskStatus.DONE}
        if plan.over and not (plan.subtasks or plan.achieved or plan.given_up or self.done):
            self.fall_back()
        return True

    def fall_back(self) -> None:
        """The instruction itself is the one subtask."""
        self.plan = Plan(0, True, (Subtask(WHOLE, self._task.instruction),), made_by=FALLBACK)

    def cut_short(self) -> None:
        """Nothing more is to be expected of the plan."""
        if self.plan is not None:
            self.plan = replace(self.plan, complete=True)

    def current(self) -> Subtask | None:
        """The first subtask that is neither done nor said to be done by what is queued."""
        if self.plan is None or WHOLE in self.done or self._book.marked(WHOLE):
            return None
        rest = (s for s in self.plan.subtasks if s.id not in self.done and not self._book.marked(s.id))
        return next(rest, None)

    def following(self, subtask_id: str) -> str:
        """The id of the next one that is not done, "" when none is known."""
        ids = [s.id for s in self.plan.subtasks] if self.plan is not None else []
        behind = ids[ids.index(subtask_id) + 1 :] if subtask_id in ids else []
        return next((i for i in behind if i not in self.done and not self._book.marked(i)), "")

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        plan = self.plan
        return WHOLE in self.done or (plan is not None and plan.complete and self.current() is None)

    def mark_done(self, subtask_id: str) -> Subtask | None:
        """A subtask has been done; itself, the first time."""
        if not subtask_id or subtask_id in self.done:
            return None
        self.done.add(subtask_id)
        known = self.plan.subtasks if self.plan is not None else ()
        return next((s for s in known if s.id == subtask_id), Subtask(subtask_id, self._task.instruction))
