# SPDX-License-Identifier: Apache-2.0
"""What System 1 can do without a language model: the direct commands in a text, if it holds nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from planners.prompts.prompt import CallReport, GrammarOptions
from skill_kernel.skills.skill import Skill

if TYPE_CHECKING:
    from planners.language.client import OfflineClient, RoutineList


class DirectCommands:
    """Reads for one robot. The parser is imported when it is needed first: that takes a while, and mostly nobody needs it."""

    def __init__(self, skills: Iterable[Skill], routines: RoutineList, options: GrammarOptions, robot_name: str) -> None:
        self._skills, self._routines, self._options, self._name = skills, routines, options, robot_name

    @cached_property
    def _client(self) -> OfflineClient:
        from planners.language.client import OfflineClient

        return OfflineClient(self._skills, self._routines, options=self._options, robot_name=self._name)

    def prepare(self) -> None:
        """Import the parser ahead of time, on whatever thread."""
        self._client.prepare()

    def read(self, text: str, done: Sequence[CallReport] = ()) -> str:
        """Return the stream for a text that is understood wholly, without what was done of it; "" for any other text."""
        return self._client.read_wholly(text, done)
