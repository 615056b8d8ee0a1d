# SPDX-License-Identifier: Apache-2.0
"""What the kernel keeps for each process: which epochs of its goals are void, why it is paused, its rank (semantics 4)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from skill_kernel.kernel.leases import Held, LeaseTable

NEW_PROCESS_VOID_S = 1.0
"""An interrupt of every process also voids goals of processes not seen before it, for this long: goals that were on
their way arrive within it, and a process made later, which begins at epoch 0, is not shut out for good."""

MAX_PROCESSES = 4096
"""Processes remembered."""


class EpochTable:
    """Keep the lowest valid epoch of each process and channel; epochs come from one counter for all processes.

    Not thread-safe by itself: the kernel's lock guards it. Times are seconds of the kernel's clock.
    """

    def __init__(self) -> None:
        self._last = 0
        self._every: dict[str, tuple[int, float]] = {}
        self._lowest: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._first_seen_s: OrderedDict[str, float] = OrderedDict()

    def lowest(self, process_id: str, channels: Iterable[str], now_s: float) -> int:
        """Return the lowest epoch that a goal of this process on these channels may have.

        The process counts as seen from now.
        """
        first_s = self._first_seen_s.setdefault(process_id, now_s)
        self._trim(self._first_seen_s)
        keys, own, found = ("", *channels), self._lowest.get(process_id, {}), 0
        for key in keys:
            epoch, at_s = self._every.get(key, (0, 0.0))
            void = first_s <= at_s or now_s < at_s + NEW_PROCESS_VOID_S
            found = max(found, own.get(key, 0), epoch if void else 0)
        return found

    def seen(self, epoch: int) -> None:
        """Note the epoch of an accepted goal; the next epoch issued is higher."""
        self._last = max(self._last, epoch)

    def advance(self, process_id: str, channels: Iterable[str], now_s: float, at_least: int = 0) -> int:
        """Issue a new epoch ("" = every process, no channels = all) and void all older ones there."""
        self._last = max(self._last + 1, at_least)
        for channel in tuple(channels) or ("",):
            if process_id:
                self._lowest.setdefault(process_id, {})[channel] = self._last
                self._trim(self._lowest)
            else:
                self._every[channel] = (self._last, now_s)
        return self._last

    @staticmethod
    def _trim(table: OrderedDict[str, float] | OrderedDict[str, dict[str, int]]) -> None:
        while len(table) > MAX_PROCESSES:
            table.popitem(last=False)


class Rank(IntEnum):
    """Rank who may take a subsystem from whom, the smallest first (constants of ProcessLease.srv)."""

    HALT = 0
    TELEOP = 1
    REFLEX = 2
    SCHEDULER = 3

    @property
    def cause(self) -> str:
        """Return the pause cause of a process that this rank has displaced."""
        return {Rank.HALT: "halt", Rank.TELEOP: "teleop", Rank.REFLEX: "s0", Rank.SCHEDULER: "s3"}[self]

    @classmethod
    def of_cause(cls, cause: str) -> Rank:
        """Return the rank that pauses with this cause; user, s3 and waiting are the scheduler's."""
        return next((rank for rank in cls if rank.cause == cause), cls.SCHEDULER)


WAITING = "waiting"
"""Cause of a process that nobody holds back any more, but whose subsystems another has: it goes on when they are free."""

BY_NAME = ""
"""Who gave a cause that was asked for by name, and is to be taken back by name; a pre-empter's belongs to its process."""


@dataclass
class _Hold:
    causes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Each cause with who gave it, numbered in the order they were given."""
    wanted: tuple[str, ...] = ()
    rank: Rank = Rank.SCHEDULER


class HoldTable:
    """Keep pause causes as a set per process, which runs when its set is empty. Guarded by the kernel's lock."""

    def __init__(self, leases: LeaseTable) -> None:
        self._leases = leases
        self._holds: dict[str, _Hold] = {}
        self._given = 0
        self._waiting: dict[str, None] = {}

    def causes(self, process_id: str) -> tuple[str, ...]:
        """Return why a process is paused, in the order the causes came."""
        hold = self._holds.get(process_id)
        return tuple(hold.causes) if hold is not None else ()

    def paused_by(self, cause: str) -> tuple[str, ...]:
        """Return every process that has this cause."""
        return tuple(p for p, hold in self._holds.items() if cause in hold.causes)

    def rank(self, process_id: str) -> Rank:
        """Return the rank a process has preempted others with, else SCHEDULER."""
        hold = self._holds.get(process_id)
        return hold.rank if hold is not None else Rank.SCHEDULER

    def givers(self, process_id: str, cause: str) -> tuple[str, ...]:
        """Return the pre-empters whose end takes this cause of a process back."""
        hold = self._holds.get(process_id)
        return tuple(by for by in hold.causes.get(cause, ()) if by != BY_NAME) if hold is not None else ()

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the processes that only taken subsystems keep from going on; the one that has waited longest is first."""
        return tuple(p for p in self._waiting if self.causes(p) == (WAITING,))

    def processes(self) -> tuple[str, ...]:
        """Return every process that keeps something, is paused, or has paused another."""
        paused = [p for p, hold in self._holds.items() if hold.causes]
        givers = [by for p in paused for cause in self.causes(p) for by in self.givers(p, cause)]
        return tuple(dict.fromkeys([*self._leases.reserving(), *paused, *givers]))

    def pause(self, process_id: str, cause: str, by: str = BY_NAME) -> bool:
        """Add a cause. With the first one the process gives away what it keeps, and the result is true."""
        hold = self._holds.setdefault(process_id, _Hold())
        first = not hold.causes
        self._given += 1
        hold.causes.setdefault(cause, {}).setdefault(by, self._given)
        if first:
            hold.wanted = self._leases.reserved_for(process_id)
            self._leases.free(process_id, hold.wanted)
        return first

    def drop(self, process_id: str, cause: str, by: str = BY_NAME) -> bool:
        """Take back what `by` has given; return whether the cause is gone with it."""
        causes = self._holds[process_id].causes
        givers = causes.get(cause, {})
        if givers.pop(by, None) is None or givers:
            return False
        del causes[cause]
        if cause == WAITING:
            self._waiting.pop(process_id, None)
        return True

    def take_back(self, by: str) -> dict[str, str]:
        """Take back every cause that a pre-empter has given.

        Returns the processes that wait only for their subsystems from now on, in the order in which they were displaced,
        each with the cause that is gone.
        """
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
                self._holds[process_id].causes[WAITING] = {BY_NAME: self._given}
                self._waiting[process_id] = None
                freed[process_id] = cause
        return freed

    def reserve_again(self, process_id: str, subsystems: Iterable[str]) -> Held | None:
        """Reserve what a process kept, or these subsystems; nothing changes when one of them is another's."""
        return self._leases.reserve(process_id, tuple(subsystems) or self._holds[process_id].wanted)

    def wake(self, process_id: str) -> None:
        """Let a process go on that has no cause left."""
        hold = self._holds[process_id]
        hold.causes.clear()
        self._waiting.pop(process_id, None)
        if hold.rank is Rank.SCHEDULER:
            del self._holds[process_id]

    def promote(self, process_id: str, rank: Rank, subsystems: Iterable[str]) -> Held | None:
        """Reserve these for a process that preempts, and remember its rank."""
        self._holds.setdefault(process_id, _Hold()).rank = rank
        return self._leases.reserve(process_id, subsystems)

    def end(self, process_id: str) -> bool:
        """Free everything a process keeps and forget it; return false when there was nothing."""
        kept = self._leases.reserved_for(process_id)
        self._leases.free(process_id, kept)
        self._waiting.pop(process_id, None)
        return self._holds.pop(process_id, None) is not None or bool(kept)
