# SPDX-License-Identifier: Apache-2.0
"""How System 1 helps itself while its model gives nothing usable, and says which way it goes."""

from __future__ import annotations

from collections.abc import Collection

from planners.plan import Subtask
from planners.prompts.blocks import Layer
from planners.strategies.layered.degrade import HOW, Ladder, Rung, stop_sentence
from planners.strategies.layered.step_answer import COMPLETE, STEP
from planners.strategies.layered.step_book import Item
from planners.strategies.layered.step_ending import Ending
from planners.strategies.layered.step_link import StepLink
from planners.strategies.layered.step_writing import StepWriter
from planners.strategy import Task

WHOLE = "task"
"""Id of the subtask that is the whole instruction."""


class Trouble:
    """Goes down the ladder, and up again with a usable answer."""

    def __init__(self, task: Task, link: StepLink, writer: StepWriter, ending: Ending) -> None:
        self._task, self._link, self._writer, self._ending = task, link, writer, ending
        self._ladder = Ladder()
        self._followed = False

    @property
    def rung(self) -> Rung:
        """Where it stands."""
        return self._ladder.rung

    def useful(self) -> None:
        """An answer could be used."""
        self._ladder.useful()

    def useless(self, code: int, why: str) -> None:
        """An answer came to nothing."""
        rung = self._ladder.useless(code, why, idle=self._writer.book.idle)
        if rung is not Rung.COMMANDS:
            self._link.degraded(Layer.S1, HOW[rung], why)

    def helps_itself(self, subtask: Subtask, done: Collection[str]) -> bool:
        """Do without the model what can be done; whether it is not to be asked now."""
        idle = self._writer.book.idle
        if idle:
            self._ladder.run_out()
        if self._ladder.rung is Rung.QUEUE:
            return True
        if self._ladder.rung < Rung.COMMANDS:
            return False
        if idle and not self._ending.begun:
            self._follow_commands(subtask, done)
        return True

    def _follow_commands(self, subtask: Subtask, done: Collection[str]) -> None:
        ladder, book = self._ladder, self._writer.book
        source, whose = self._link.commands(subtask.description, list(book.since_mark)), subtask.id
        if not source and not done and not self._followed:
            source, whose = self._link.commands(self._task.instruction, list(book.done)), WHOLE
        self._followed = True
        if source:
            self._link.degraded(Layer.S1, HOW[Rung.COMMANDS], ladder.why)
            step = f"<{STEP}>{source}</{STEP}>"
            self._writer.send(f"{step}<{COMPLETE}/>", [Item("", whose, source=step), Item("", whose, mark=True)])
            return
        ladder.fall(Rung.STOPPED)
        self._link.degraded(Layer.S1, HOW[Rung.STOPPED], ladder.why)
        self._ending.fail(ladder.code, ladder.why, stop_sentence(self._task.instruction))
