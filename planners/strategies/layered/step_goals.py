# SPDX-License-Identifier: Apache-2.0
"""Follow the plan as System 1 sees it, from the next subtask to the last words of the process."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from xml.sax.saxutils import escape

from planners.plan import FALLBACK, Plan, Subtask, SubtaskStatus
from planners.strategies.layered.step_book import Item, StepBook
from planners.strategies.layered.step_link import StepLink
from planners.strategies.layered.step_writing import StepWriter, Turn
from planners.strategy import Task

WHOLE = "task"
"""Id of the subtask that is the whole instruction."""
MAX_SAID = 160


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


class Ending:
    """Ends the plan once; `over` is called when it has."""

    def __init__(
        self, task: Task, link: StepLink, writer: StepWriter, turn: Turn, say_s: float, over: Callable[[], None]
    ) -> None:
        self._task, self._link, self._writer, self._turn, self._say_s = task, link, writer, turn, say_s
        self._over = over
        self._end: tuple[int, str] | None = None
        self._told = False
        self._silent = False
        """Whether it waits for a standstill before it speaks."""

    @property
    def begun(self) -> bool:
        """Whether the end is only waited for."""
        return self._end is not None

    @property
    def _book(self) -> StepBook:
        return self._writer.book

    def when_idle(self, code: int = 0, why: str = "", *, drop_queue: bool = False) -> None:
        """End as soon as what runs has ended."""
        if self._end is not None:
            return
        self._end = (code, why)
        if drop_queue and self._book.queued:
            self._turn.next()
            self._book.drop_queue()
            self._writer.send("<replace_steps/>", [])
        self.look()

    def say(self, sentence: str, code: int, why: str) -> None:
        """Drop what is queued, stop what runs, say a sentence, and end."""
        if self._end is not None:
            return
        self._end = (code, why)
        self._link.clock.call_later(self._say_s, self._tell)
        if self._book.idle:
            self._speak(sentence)
        else:
            self._silent = True
            self._link.stop(why, lambda: self._speak(sentence))

    def _speak(self, sentence: str) -> None:
        self._silent = False
        if not self._told:
            self._turn.next()
            self._book.drop_queue()
            self._writer.send(spoken(sentence), [Item("", "", source=sentence)])

    def fail(self, code: int, why: str, sentence: str = "") -> None:
        """End without success, and say so."""
        self.say(short(sentence) or stop_sentence(self._task.instruction, why), code, why)

    def look(self) -> None:
        """Something has ended."""
        if self._end is not None and not self._silent and self._book.idle and not self._writer.begun:
            self._tell()

    def _tell(self) -> None:
        if not self._told and self._end is not None:
            self._told = True
            self._over()
            self._link.plan_ended(*self._end)

    def void(self) -> None:
        """The process has ended, or somebody has ended the plan in another way."""
        self._told = True


def stop_sentence(instruction: str, why: str = "") -> str:
    """Return what the robot says when it ends without having done it, in the language of the instruction."""
    if re.search(r"[\u4e00-\u9fff]", instruction):
        return "我停在这里，因为我的语言模型没有给出可用的回答。" if not why else f"我没能做到：{short(why)}"
    return "I stop here, because my model gives me no usable answer." if not why else f"I could not do it: {short(why)}"


def spoken(sentence: str) -> str:
    """Return a step that says a sentence and drops what is queued."""
    return f"<replace_steps/><step>{escape(sentence)}</step>"


def short(text: str) -> str:
    """Return what can be said aloud in some ten seconds."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SAID else f"{text[:MAX_SAID].rsplit(' ', 1)[0]} …"
