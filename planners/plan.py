# SPDX-License-Identifier: Apache-2.0
"""Plans of System 2 for a process: subtasks in order and events to watch for (TypeGo 6; message Plan)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

FALLBACK = "fallback"
"""`made_by` of a plan that no model made."""
WHOLE = "task"
"""Id of the subtask that is the whole instruction."""


_DEPENDS = re.compile(
    r"\b(?:if|otherwise|unless|else|in case|provided|only when|depend(?:s|ing)|whether|whichever)\b"
    r"|如果|要是|假如|假使|倘若|若|万一|否则|不然|除非|是否|有没有|的话",
    re.IGNORECASE,
)
"""Words by which a subtask says that it depends on what came before."""


class SubtaskStatus(IntEnum):
    """Name the constants of Subtask.msg."""

    PENDING = 0
    ACTIVE = 1
    DONE = 2
    FAILED = 3


@dataclass(frozen=True)
class Subtask:
    """Hold one subtask. `watch` names the observation fields whose change makes System 2 look again."""

    id: str
    description: str
    criteria: str = ""
    status: SubtaskStatus = SubtaskStatus.PENDING
    watch: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Return whether it has been marked as achieved, which is never taken back."""
        return self.status is SubtaskStatus.DONE

    @property
    def conditional(self) -> bool:
        """Return whether its words say that it depends on what came before."""
        return _DEPENDS.search(self.description) is not None

    def shown(self, status: str = "") -> Mapping[str, Any]:
        """Return the subtask as prompts show it."""
        told = status or self.status.name
        return {"id": self.id, "description": self.description, "criteria": self.criteria, "status": told}


@dataclass(frozen=True)
class GlobalEvent:
    """Hold an event of a plan. `condition` is an expression over the accessors, or a short sentence that a model judges."""

    id: str
    condition: str
    response: str
    fired: int = 0


@dataclass(frozen=True)
class Plan:
    """Hold a revision of a process's plan; `complete` is false while System 2 is still writing it."""

    revision: int = 0
    complete: bool = False
    subtasks: tuple[Subtask, ...] = ()
    events: tuple[GlobalEvent, ...] = ()
    achieved: bool = False
    given_up: bool = False
    reopened: bool = False
    """Something is missing in what was held for the whole task."""
    reason: str = ""
    made_by: str = ""

    @property
    def open(self) -> tuple[Subtask, ...]:
        """Return the subtasks that are still to be done, in order."""
        return tuple(s for s in self.subtasks if not s.done)

    @property
    def over(self) -> bool:
        """Return whether nothing more is to be done."""
        return self.achieved or self.given_up

    @property
    def signature(self) -> tuple[str, ...]:
        """Return what is left to do, without ids and wording of no weight: equal for plans that are the same."""
        return tuple(plain(s.description) for s in self.open)


def plain(text: str) -> str:
    """Return a text by its words alone."""
    return " ".join(re.findall(r"\w+", text.casefold()))
