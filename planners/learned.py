# SPDX-License-Identifier: Apache-2.0
"""Define what a robot learns from corrections, and where it is kept (incremental learning, section 3.5): improved interactions
and the functions that they define, used once a person has confirmed them and never after somebody took them back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

MAX_LEARNED = 500
"""Confirmed lessons of a robot that are used, the newest."""
MAX_TOLD = 100
"""Lessons of a robot that are proposed or taken back and told to others, the newest."""
MAX_LESSON = 4000
"""Characters of one."""


class LearnedError(RuntimeError):
    """Report that something cannot be learned, confirmed or taken back; the message says why and what to do."""


class Level(str, Enum):
    """Name what a correction changes."""

    PLAN = "plan"
    """Which skills are called, how often or in which order: what to do."""
    SKILL = "skill"
    """Only what they are told, a place, a speed, a number: how to do it."""


class State(str, Enum):
    """Name how a lesson stands. Only a confirmed one is used."""

    PROPOSED = "proposed"
    CONFIRMED = "confirmed"
    REVOKED = "revoked"


class LessonKind(str, Enum):
    """Name the kinds of lessons, which are kinds of records of the memory."""

    EXAMPLE = "example"
    """An improved interaction, as a console shows it."""
    ROUTINE = "routine"
    """A function that a confirmed interaction defines. It is a program over skills, never one of them."""


@dataclass(frozen=True)
class Proposal:
    """Hold what is to be learned. `text` is a transcript, or a function; `correction` what somebody said that it was learned
    from, `better` how the model puts it. `contradicts`: lessons whose place it takes once it is confirmed. `routines`:
    functions that a transcript defines; they become lessons of their own once it is confirmed. `source` names the program that
    made it, `sender` who gave the correction."""

    text: str
    correction: str
    level: Level
    better: str = ""
    contradicts: tuple[int, ...] = ()
    routines: tuple[str, ...] = ()
    kind: LessonKind = LessonKind.EXAMPLE
    source: str = ""
    sender: str = ""
    door: str = ""
    process: str = ""


@dataclass(frozen=True)
class Lesson(Proposal):
    """Hold one thing learned, proposed at `time_s`. `by` is who confirmed it or took it back last, `changed_s` when (seconds
    since 1970), `why` why it was taken back."""

    id: int = 0
    state: State = State.PROPOSED
    time_s: float = 0.0
    by: str = ""
    changed_s: float = 0.0
    why: str = ""


class LearnedStore(ABC):
    """Keep the lessons of one robot. What changes one may block, for some seconds at most, and raises LearnedError."""

    @abstractmethod
    def lessons(self) -> Sequence[Lesson]:
        """Return all that is kept, in whatever state, the oldest first. Never waits; none where they cannot be read."""

    @abstractmethod
    def propose(self, proposal: Proposal) -> int:
        """Keep what nobody has confirmed yet, and return its id."""

    @abstractmethod
    def confirm(self, lesson: int, who: str) -> None:
        """Let a lesson be used from now on, with the functions that it defines, and take back those that it contradicts."""

    @abstractmethod
    def revoke(self, lesson: int, who: str, why: str = "") -> None:
        """Let a lesson be used no more, nor the functions that came with it."""

    def confirmed(self, kind: LessonKind) -> list[Lesson]:
        """Return the lessons of a kind that are used, the oldest first."""
        return [one for one in self.lessons() if one.kind is kind and one.state is State.CONFIRMED][-MAX_LEARNED:]


def newest(lessons: Sequence[Lesson]) -> list[Lesson]:
    """Return the lessons that are told to others: those that are used, and the newest of all others, in their order."""
    used = [one.id for one in lessons if one.state is State.CONFIRMED][-MAX_LEARNED:]
    others = [one.id for one in lessons if one.state is not State.CONFIRMED][-MAX_TOLD:]
    chosen = {*used, *others}
    return [one for one in lessons if one.id in chosen]
