# SPDX-License-Identifier: Apache-2.0
"""Follow the plan as System 1 sees it, and count what was tried in vain."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from planners.plan import FALLBACK, Plan, Subtask, SubtaskStatus
from planners.strategies.layered.step_book import StepBook, StepEnd
from planners.strategy import Task

WHOLE = "task"
"""Id of the subtask that is the whole instruction."""
MAX_SAID = 160


class Goals:
    """Keep the newest plan of a process. What was done stays done, whatever a plan says of it."""

    def __init__(self, task: Task, book: StepBook) -> None:
        self._task, self._book = task, book
        self.plan: Plan | None = None
        self.done: set[str] = set()

    def take(self, plan: Plan) -> bool:
        """Take a plan that was published; return whether it is newer than the one that is known."""
        old = self.plan
        if old is not None and old.made_by != FALLBACK and plan.revision <= old.revision:
            return False
        self.plan = plan
        self.done |= {s.id for s in plan.subtasks if s.status is SubtaskStatus.DONE}
        if plan.over and not (plan.subtasks or plan.achieved or plan.given_up or self.done):
            self.fall_back()
        return True

    def fall_back(self) -> None:
        """Make the instruction itself the one subtask."""
        self.plan = Plan(0, True, (Subtask(WHOLE, self._task.instruction),), made_by=FALLBACK)

    def cut_short(self) -> None:
        """Expect nothing more of the plan."""
        if self.plan is not None:
            self.plan = replace(self.plan, complete=True)

    def current(self) -> Subtask | None:
        """Return the first subtask that is neither done nor said to be done by what is queued."""
        if self.plan is None or WHOLE in self.done or self._book.marked(WHOLE):
            return None
        return next((s for s in self.plan.subtasks if self._left(s.id)), None)

    def following(self, subtask_id: str) -> str:
        """Return the id of the next one that is not done, "" when none is known."""
        ids = [s.id for s in self.plan.subtasks] if self.plan is not None else []
        behind = ids[ids.index(subtask_id) + 1 :] if subtask_id in ids else []
        return next((i for i in behind if self._left(i)), "")

    def _left(self, subtask_id: str) -> bool:
        return subtask_id not in self.done and not self._book.marked(subtask_id)

    @property
    def over(self) -> bool:
        """Return whether nothing is left to do."""
        plan = self.plan
        return WHOLE in self.done or (plan is not None and plan.complete and self.current() is None)

    def mark_done(self, subtask_id: str) -> Subtask | None:
        """Take note that a subtask has been done; return it the first time."""
        if not subtask_id or subtask_id in self.done:
            return None
        self.done.add(subtask_id)
        known = self.plan.subtasks if self.plan is not None else ()
        return next((s for s in known if s.id == subtask_id), Subtask(subtask_id, self._task.instruction))


SAME_FAILURES = 2
"""Equal failures in a row before the layer above is asked."""


class Failures:
    """Count the failures and answers of one process, within the bounds that the settings give."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._by_subtask: Counter[str] = Counter()
        self._answers = self._all_answers = 0
        self._last: tuple[str, str] | None = None
        self._same = 0
        self.too_many = False
        """Whether nothing more is to be tried."""

    def failed(self, end: StepEnd) -> None:
        """Count a step that has failed."""
        subtask, call = end.item.subtask, end.cause
        self._by_subtask[subtask] += 1
        what = "" if call is None else f"{call.function} {json.dumps(dict(call.arguments), sort_keys=True, default=str)}"
        self._same = self._same + 1 if (subtask, what) == self._last else 1
        self._last = (subtask, what)
        most, most_here = self._settings["max_failures"], self._settings["max_subtask_failures"]
        self.too_many = self._by_subtask.total() >= most or self._by_subtask[subtask] >= most_here

    @property
    def repeated(self) -> bool:
        """Return whether the same has failed so often that another plan is wanted."""
        return self._same >= SAME_FAILURES

    def succeeded(self, *, moved: bool) -> None:
        """Take note that a step is done: the next failure is the first in a row. `moved`: it did more than speak and wait."""
        self._last, self._same = None, 0
        if moved:
            self._answers = 0

    def answered(self) -> None:
        """Count an answer that has added steps."""
        self._answers += 1
        self._all_answers += 1

    def exhausted(self) -> str:
        """Return why no further answer may be asked for; "" while one may."""
        here, all_answers = self._settings["max_subtask_answers"], self._settings["max_answers"]
        if self._answers >= here:
            return f"no progress in {here} answers of the model"
        if self._all_answers >= all_answers:
            return f"not finished after {all_answers} answers of the model; give a smaller task"
        return ""


def stop_sentence(instruction: str, why: str = "") -> str:
    """Return what the robot says when it ends without having done it, in the language of the instruction."""
    if re.search(r"[\u4e00-\u9fff]", instruction):
        return "我停在这里，因为我的语言模型没有给出可用的回答。" if not why else f"我没能做到：{short(why)}"
    return "I stop here, because my model gives me no usable answer." if not why else f"I could not do it: {short(why)}"


def short(text: str) -> str:
    """Return what can be said aloud in some ten seconds."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SAID else f"{text[:MAX_SAID].rsplit(' ', 1)[0]} …"
