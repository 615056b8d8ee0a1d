# SPDX-License-Identifier: Apache-2.0
"""Go on when the model does not: once more with the error, the rest of the queue, direct commands, a stop."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

from planners.plan import Subtask
from planners.prompts.blocks import Layer
from planners.prompts.prompt import CallReport, GrammarOptions
from planners.strategies.layered.step_answer import COMPLETE, STEP
from planners.strategies.layered.step_book import Item
from planners.strategies.layered.step_goals import WHOLE, Ending, stop_sentence
from planners.strategies.layered.step_link import StepLink
from planners.strategies.layered.step_writing import StepWriter
from planners.strategy import Task
from skill_kernel.codes import ModelCode, TaskCode
from skill_kernel.skills.skill import Skill

if TYPE_CHECKING:
    from planners.language.client import OfflineClient, RoutineList


class DirectCommands:
    """Read the direct commands in a text. The parser is imported when it is needed first: that takes a while, and most
    processes never need it."""

    def __init__(self, skills: Iterable[Skill], routines: RoutineList, options: GrammarOptions, robot_name: str) -> None:
        self._skills, self._routines, self._options, self._name = skills, routines, options, robot_name

    @cached_property
    def _client(self) -> OfflineClient:
        from planners.language.client import OfflineClient

        return OfflineClient(self._skills, self._routines, options=self._options, robot_name=self._name)

    def read(self, text: str, done: Sequence[CallReport] = ()) -> str:
        """Return the stream for a text that is understood wholly, without what was done of it; "" for any other text."""
        return self._client.read_wholly(text, done)


HOPELESS = frozenset({int(ModelCode.MODEL_AUTH), int(ModelCode.MODEL_REFUSED), int(TaskCode.BUDGET_SPENT)})
"""Codes after which asking once more cannot help."""


class Rung(IntEnum):
    """Name the rungs, from the model down to a stop."""

    MODEL = 0
    ONCE_MORE = 1
    QUEUE = 2
    COMMANDS = 3
    STOPPED = 4


HOW = {
    Rung.ONCE_MORE: "asks once more, with the error shown",
    Rung.QUEUE: "goes on with the rest of the queue",
    Rung.COMMANDS: "follows the direct commands in the task, without a language model",
    Rung.STOPPED: "stops and says so",
}


class DegradationLadder:
    """Go one rung down with each answer that came to nothing, and up again with a usable one; say which way it goes."""

    def __init__(self, task: Task, link: StepLink, writer: StepWriter, ending: Ending) -> None:
        self._task, self._link, self._writer, self._ending = task, link, writer, ending
        self._followed = False
        self._code, self._why = 0, ""
        self.rung = Rung.MODEL

    def useful(self) -> None:
        """Take note that an answer could be used."""
        if self.rung < Rung.COMMANDS:
            self.rung, self._code, self._why = Rung.MODEL, 0, ""

    def useless(self, code: int, why: str) -> None:
        """Take note that an answer came to nothing; `code` 0 when it was there but could not be used."""
        self._code, self._why = code or int(ModelCode.MODEL_NOT_UNDERSTOOD), why
        if self.rung is Rung.MODEL and code not in HOPELESS:
            self.rung = Rung.ONCE_MORE
        else:
            self.rung = Rung.COMMANDS if self._writer.book.idle else Rung.QUEUE
        if self.rung is not Rung.COMMANDS:
            self._link.degraded(Layer.S1, HOW[self.rung], why)

    def advance(self, subtask: Subtask, done: Collection[str]) -> bool:
        """Do without the model what can be done; return whether the model is not to be asked now."""
        idle = self._writer.book.idle
        if idle and self.rung is Rung.QUEUE:
            # The queue has nothing left: the model is asked one last time, unless that is hopeless.
            self.rung = Rung.COMMANDS if self._code in HOPELESS else Rung.ONCE_MORE
        if self.rung < Rung.COMMANDS:
            return self.rung is Rung.QUEUE
        if idle and not self._ending.begun:
            self._follow_commands(subtask, done)
        return True

    def _follow_commands(self, subtask: Subtask, done: Collection[str]) -> None:
        book = self._writer.book
        source, whose = self._link.commands(subtask.description, list(book.since_mark)), subtask.id
        if not source and not done and not self._followed:
            source, whose = self._link.commands(self._task.instruction, list(book.done)), WHOLE
        self._followed = True
        if source:
            self._link.degraded(Layer.S1, HOW[Rung.COMMANDS], self._why)
            step = f"<{STEP}>{source}</{STEP}>"
            self._writer.send(f"{step}<{COMPLETE}/>", [Item("", whose, source=step), Item("", whose, mark=True)])
            return
        self.rung = Rung.STOPPED
        self._link.degraded(Layer.S1, HOW[Rung.STOPPED], self._why)
        self._ending.fail(self._code, self._why, stop_sentence(self._task.instruction))
