# SPDX-License-Identifier: Apache-2.0
"""The last words of a process: its plan ends when nothing of it runs, and after what there was to say has been said."""

from __future__ import annotations

from collections.abc import Callable

from planners.strategies.layered.degrade import short, spoken, stop_sentence
from planners.strategies.layered.step_book import Item, StepBook
from planners.strategies.layered.step_link import StepLink
from planners.strategies.layered.step_writing import StepWriter, Turn
from planners.strategy import Task


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
