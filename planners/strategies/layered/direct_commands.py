# SPDX-License-Identifier: Apache-2.0
"""What System 1 can do without a language model: the direct commands in a text, if it holds nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from function_tokens.builtins import BUILTINS
from function_tokens.scheduling.calls import TEXT
from planners.models.base import ModelError
from planners.prompts.prompt import CallReport, GrammarOptions
from skill_kernel.skills.skill import Skill

if TYPE_CHECKING:
    from planners.language.client import RoutineList

MAX_TEXT = 1000


class DirectCommands:
    """Reads for one robot; `skills` and `routines` are read anew for each text. The parser is imported by `prepare`, or when it
    is needed first: that takes a while, and mostly nobody needs it."""

    def __init__(self, skills: Iterable[Skill], routines: RoutineList, options: GrammarOptions, robot_name: str) -> None:
        self._skills, self._routines, self._options, self._name = skills, routines, options, robot_name

    def prepare(self) -> None:
        """Import the parser ahead of time, on whatever thread."""
        import planners.language.client  # noqa: F401

    def read(self, text: str, done: Sequence[CallReport] = ()) -> str:
        """The stream for a text that is understood wholly, without what was done of it; "" for any other text, and where
        nobody knows how far something came."""
        if len(text) > MAX_TEXT:
            return ""
        from planners.language.client import rest_of
        from planners.language.parser import CommandParser

        reading = CommandParser(self._skills, self._routines.list(), self._options, self._name).read(text)
        if reading.trouble is not None or not reading.source:
            return ""
        repeatable = frozenset((TEXT, *BUILTINS, *(s.name for s in self._skills if s.idempotent)))
        try:
            return rest_of(reading.source, done, repeatable)
        except ModelError:
            return ""
