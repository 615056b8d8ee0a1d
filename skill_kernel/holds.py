# SPDX-License-Identifier: Apache-2.0
"""What the kernel keeps for each process: why it is paused, what it takes back then, its rank (semantics section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from skill_kernel.leases import Held, LeaseTable


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


@dataclass
class _Hold:
    causes: dict[str, None] = field(default_factory=dict)
    wanted: tuple[str, ...] = ()
    rank: Rank = Rank.SCHEDULER


class HoldTable:
    """Pause causes as a set per process; the process runs when it is empty. Guarded by the kernel's lock."""

    def __init__(self, leases: LeaseTable) -> None:
        self._leases = leases
        self._holds: dict[str, _Hold] = {}

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

    def processes(self) -> tuple[str, ...]:
        """Every process that keeps something or is paused."""
        paused = [p for p, hold in self._holds.items() if hold.causes]
        return tuple(dict.fromkeys([*self._leases.reserving(), *paused]))

    def pause(self, process_id: str, cause: str) -> bool:
        """Add a cause. With the first one the process gives away what it keeps; true then."""
        hold = self._holds.setdefault(process_id, _Hold())
        first = not hold.causes
        hold.causes[cause] = None
        if first:
            hold.wanted = self._leases.reserved_for(process_id)
            self._leases.free(process_id, hold.wanted)
        return first

    def drop(self, process_id: str, cause: str) -> None:
        """Take a cause back where another one is left."""
        self._holds[process_id].causes.pop(cause, None)

    def resume(self, process_id: str, subsystems: Iterable[str]) -> Held | None:
        """Take back what it kept, or these, and forget its last cause; nothing changes when one of them is another's."""
        hold = self._holds[process_id]
        held = self._leases.reserve(process_id, tuple(subsystems) or hold.wanted)
        if held is None:
            hold.causes.clear()
            if hold.rank is Rank.SCHEDULER:
                del self._holds[process_id]
        return held

    def promote(self, process_id: str, rank: Rank, subsystems: Iterable[str]) -> Held | None:
        """Keep these for a process that preempts, and remember its rank."""
        self._holds.setdefault(process_id, _Hold()).rank = rank
        return self._leases.reserve(process_id, subsystems)

    def end(self, process_id: str) -> bool:
        """Free everything it keeps and forget it; false when there was nothing."""
        kept = self._leases.reserved_for(process_id)
        self._leases.free(process_id, kept)
        return self._holds.pop(process_id, None) is not None or bool(kept)
