# SPDX-License-Identifier: Apache-2.0
"""What the kernel keeps for each process: why it is paused, what it takes back then, its rank (semantics section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from skill_kernel.kernel.leases import Held, LeaseTable


class Rank(IntEnum):
    """Who may take a subsystem from whom, the smallest first (constants of ProcessLease.srv)."""

    HALT = 0
    TELEOP = 1
    REFLEX = 2
    SCHEDULER = 3

    @property
    def cause(self) -> str:
        """The pause cause of a process that this rank has displaced."""
        return {Rank.HALT: "halt", Rank.TELEOP: "teleop", Rank.REFLEX: "s0", Rank.SCHEDULER: "s3"}[self]

    @classmethod
    def of_cause(cls, cause: str) -> Rank:
        """The rank that pauses with this cause; user, s3 and waiting are the scheduler's."""
        return next((rank for rank in cls if rank.cause == cause), cls.SCHEDULER)


WAITING = "waiting"
"""Cause of a process that nobody holds back any more, but whose subsystems another has: it goes on when they are free."""

ASKED = ""
"""Who gave a cause that was asked for by name, and is to be taken back by name; a pre-empter's belongs to its process."""


@dataclass
class _Hold:
    causes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Each cause with who gave it, numbered in the order they were given."""
    wanted: tuple[str, ...] = ()
    rank: Rank = Rank.SCHEDULER


class HoldTable:
    """Pause causes as a set per process; the process runs when it is empty. Guarded by the kernel's lock."""

    def __init__(self, leases: LeaseTable) -> None:
        self._leases = leases
        self._holds: dict[str, _Hold] = {}
        self._given = 0
        self._waiting: dict[str, None] = {}

    def causes(self, process_id: str) -> tuple[str, ...]:
        """Why it is paused, in the order the causes came."""
        hold = self._holds.get(process_id)
        return tuple(hold.causes) if hold is not None else ()

    def paused_by(self, cause: str) -> tuple[str, ...]:
        """Every process that has this cause."""
        return tuple(p for p, hold in self._holds.items() if cause in hold.causes)

    def rank(self, process_id: str) -> Rank:
        """What it has preempted others with, else SCHEDULER."""
        hold = self._holds.get(process_id)
        return hold.rank if hold is not None else Rank.SCHEDULER

    def givers(self, process_id: str, cause: str) -> tuple[str, ...]:
        """The pre-empters whose end takes this cause of a process back."""
        hold = self._holds.get(process_id)
        return tuple(by for by in hold.causes.get(cause, ()) if by != ASKED) if hold is not None else ()

    @property
    def waiting(self) -> tuple[str, ...]:
        """Processes that only their subsystems keep from going on; who has waited longest is first."""
        return tuple(p for p in self._waiting if self.causes(p) == (WAITING,))

    def processes(self) -> tuple[str, ...]:
        """Every process that keeps something, is paused, or has paused another."""
        paused = [p for p, hold in self._holds.items() if hold.causes]
        givers = [by for p in paused for cause in self.causes(p) for by in self.givers(p, cause)]
        return tuple(dict.fromkeys([*self._leases.reserving(), *paused, *givers]))

    def pause(self, process_id: str, cause: str, by: str = ASKED) -> bool:
        """Add a cause. With the first one the process gives away what it keeps; true then."""
        hold = self._holds.setdefault(process_id, _Hold())
        first = not hold.causes
        self._given += 1
        hold.causes.setdefault(cause, {}).setdefault(by, self._given)
        if first:
            hold.wanted = self._leases.reserved_for(process_id)
            self._leases.free(process_id, hold.wanted)
        return first

    def drop(self, process_id: str, cause: str, by: str = ASKED) -> bool:
        """Take back what one has given; whether the cause is gone with it."""
        causes = self._holds[process_id].causes
        givers = causes.get(cause, {})
        if givers.pop(by, None) is None or givers:
            return False
        del causes[cause]
        if cause == WAITING:
            self._waiting.pop(process_id, None)
        return True

    def take_back(self, by: str) -> dict[str, str]:
        """Take back every cause that a pre-empter has given. Processes left without any wait from now on, in the order
        in which they were displaced; each with the cause that is gone."""
        given = sorted(
            (givers[by], process_id, cause)
            for process_id, hold in self._holds.items()
            for cause, givers in hold.causes.items()
            if by in givers
        )
        freed = {}
        for _, process_id, cause in given:
            if self.drop(process_id, cause, by) and not self.causes(process_id):
                self._given += 1
                self._holds[process_id].causes[WAITING] = {ASKED: self._given}
                self._waiting[process_id] = None
                freed[process_id] = cause
        return freed

    def reserve_again(self, process_id: str, subsystems: Iterable[str]) -> Held | None:
        """Take back what it kept, or these; nothing changes when one of them is another's."""
        return self._leases.reserve(process_id, tuple(subsystems) or self._holds[process_id].wanted)

    def wake(self, process_id: str) -> None:
        """No cause is left."""
        hold = self._holds[process_id]
        hold.causes.clear()
        self._waiting.pop(process_id, None)
        if hold.rank is Rank.SCHEDULER:
            del self._holds[process_id]

    def promote(self, process_id: str, rank: Rank, subsystems: Iterable[str]) -> Held | None:
        """Keep these for a process that preempts, and remember its rank."""
        self._holds.setdefault(process_id, _Hold()).rank = rank
        return self._leases.reserve(process_id, subsystems)

    def end(self, process_id: str) -> bool:
        """Free everything it keeps and forget it; false when there was nothing."""
        kept = self._leases.reserved_for(process_id)
        self._leases.free(process_id, kept)
        self._waiting.pop(process_id, None)
        return self._holds.pop(process_id, None) is not None or bool(kept)
