# SPDX-License-Identifier: Apache-2.0
"""Keep who may use which subsystem, and which processes are paused and why (TypeGo 5.1, 5.2; semantics 4).

No table here is thread-safe by itself: the kernel's lock guards them all.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from skill_kernel.calls import CallSpec
from skill_kernel.robot import SubsystemConfig
from skill_kernel.skills.skill import MAIN

UNDECLARED = SubsystemConfig(exclusive_per_process=True, parallel=False)
"""The strictest settings, for a subsystem that the robot's file does not name."""

NEW_PROCESS_VOID_S = 1.0
"""An interrupt of every process also voids goals of processes not seen before it, for this long: goals that were on
their way arrive within it, and a process made later, which begins at epoch 0, is not shut out for good."""

MAX_PROCESSES = 4096
"""Processes that are remembered."""

WAITING = "waiting"
"""Cause of a process that nobody holds back any more, but whose subsystems another has: it goes on when they are free."""

BY_NAME = ""
"""The giver of a cause that was asked for by name and is taken back by name. A pre-empter's cause bears its process id."""


class LeaseError(RuntimeError):
    """Report a lease given back by someone who does not hold it: a fault of the program, never of a model."""


@dataclass(frozen=True)
class Held:
    """Tell why a lease was not given. `call_id` is "" where the process only keeps the subsystem between its calls."""

    subsystem: str
    process_id: str
    call_id: str = ""


class LeaseTable:
    """Keep the leases of calls and the reservations of processes.

    The first lease on an exclusive subsystem reserves it for its process, until `free`. A reservation that changes hands
    gives no lease: a call that still runs there has to end first.
    """

    def __init__(self, subsystems: Mapping[str, SubsystemConfig]) -> None:
        self._settings = dict(subsystems)
        self._holders: dict[str, dict[str, CallSpec]] = {name: {} for name in subsystems}
        self._reserved: dict[str, str] = {}

    def acquire(self, call: CallSpec, subsystems: Iterable[str]) -> Held | None:
        """Take all of them, or none and return who holds the first that is not free.

        Raises LeaseError for a call that already holds one of them.
        """
        wanted = tuple(dict.fromkeys(subsystems))
        for name in wanted:
            for other in self._holders.get(name, {}).values():
                if other.call_id == call.call_id:
                    raise LeaseError(f"call {call.call_id} already holds '{name}'")
                if self._conflict(name, other, call):
                    return Held(name, other.process_id, other.call_id)
            if (keeper := self._reserved.get(name, call.process_id)) != call.process_id:
                return Held(name, keeper)
        for name in wanted:
            self._holders.setdefault(name, {})[call.call_id] = call
            if self.settings(name).exclusive_per_process:
                self._reserved[name] = call.process_id
        return None

    def release(self, call: CallSpec, subsystems: Iterable[str]) -> None:
        """Give back a call's lease. Raises LeaseError, and changes nothing, when this call does not hold one of them."""
        names = tuple(dict.fromkeys(subsystems))
        for name in names:
            if self._holders.get(name, {}).get(call.call_id) != call:
                raise LeaseError(f"'{name}' is not held by call {call.call_id} of process {call.process_id}")
        for name in names:
            del self._holders[name][call.call_id]

    def reserve(self, process_id: str, subsystems: Iterable[str]) -> Held | None:
        """Keep the exclusive ones of these for a process, or none and return who keeps the first that is another's."""
        wanted = [name for name in subsystems if self.settings(name).exclusive_per_process]
        for name in wanted:
            if (keeper := self._reserved.get(name, process_id)) != process_id:
                return Held(name, keeper)
        for name in wanted:
            self._holders.setdefault(name, {})
            self._reserved[name] = process_id
        return None

    def free(self, process_id: str) -> tuple[str, ...]:
        """Give back all that is reserved for a process, and return what that was."""
        kept = self.reserved_for(process_id)
        for name in kept:
            del self._reserved[name]
        return kept

    def reserved_for(self, process_id: str) -> tuple[str, ...]:
        """Return the subsystems that a process keeps."""
        return tuple(name for name, holder in self._reserved.items() if holder == process_id)

    def users(self, subsystem: str) -> tuple[str, ...]:
        """Return the processes whose calls run on a subsystem and the one it is reserved for."""
        users = [call.process_id for call in self.holders(subsystem)]
        if subsystem in self._reserved:
            users.append(self._reserved[subsystem])
        return tuple(dict.fromkeys(users))

    def reserving(self) -> tuple[str, ...]:
        """Return every process that keeps something."""
        return tuple(dict.fromkeys(self._reserved.values()))

    def holders(self, subsystem: str) -> tuple[CallSpec, ...]:
        """Return the calls that hold a subsystem, in the order they came."""
        return tuple(self._holders.get(subsystem, {}).values())

    def names(self) -> tuple[str, ...]:
        """Return every subsystem declared or met so far."""
        return tuple(self._holders)

    def settings(self, subsystem: str) -> SubsystemConfig:
        return self._settings.get(subsystem, UNDECLARED)

    def _conflict(self, name: str, other: CallSpec, new: CallSpec) -> bool:
        settings = self.settings(name)
        if settings.exclusive_per_process and other.process_id != new.process_id:
            return True
        if settings.parallel:
            return False
        inside = name == MAIN and other.open and new.parent_id and other.process_id == new.process_id
        return not inside  # law C7: on main a call inside an open call runs


class EpochTable:
    """Keep the lowest valid epoch of each process and channel; epochs come from one counter for all processes.

    Times are seconds of the kernel's clock.
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
        own, found = self._lowest.get(process_id, {}), 0
        for key in ("", *channels):
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
        return ("halt", "teleop", "s0", "s3")[self]

    @classmethod
    def of_cause(cls, cause: str) -> Rank:
        """Return the rank that pauses with this cause; user, s3 and waiting are the scheduler's."""
        return next((rank for rank in cls if rank.cause == cause), cls.SCHEDULER)


@dataclass
class _Hold:
    causes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Each cause with who gave it, numbered in the order they were given."""
    wanted: tuple[str, ...] = ()
    rank: Rank = Rank.SCHEDULER


_NONE = _Hold()


class HoldTable:
    """Keep pause causes as a set per process, which runs when its set is empty."""

    def __init__(self, leases: LeaseTable) -> None:
        self._leases = leases
        self._holds: dict[str, _Hold] = {}
        self._given = 0

    def causes(self, process_id: str) -> tuple[str, ...]:
        """Return why a process is paused, in the order the causes came."""
        return tuple(self._holds.get(process_id, _NONE).causes)

    def rank(self, process_id: str) -> Rank:
        """Return the rank a process has preempted others with, else SCHEDULER."""
        return self._holds.get(process_id, _NONE).rank

    def givers(self, process_id: str, cause: str) -> tuple[str, ...]:
        """Return the pre-empters whose end takes this cause of a process back."""
        return tuple(by for by in self._holds.get(process_id, _NONE).causes.get(cause, ()) if by != BY_NAME)

    @property
    def waiting(self) -> tuple[str, ...]:
        """Return the processes that only taken subsystems keep from going on; the one that has waited longest is first."""
        alone = [p for p in self._holds if self.causes(p) == (WAITING,)]
        return tuple(sorted(alone, key=lambda p: min(self._holds[p].causes[WAITING].values())))

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
            hold.wanted = self._leases.free(process_id)
        return first

    def drop(self, process_id: str, cause: str, by: str = BY_NAME) -> bool:
        """Take back what `by` has given; return whether the cause is gone with it."""
        hold = self._holds[process_id]
        givers = hold.causes.get(cause, {})
        if givers.pop(by, None) is None or givers:
            return False
        del hold.causes[cause]
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
                freed[process_id] = cause
        return freed

    def reserve_again(self, process_id: str) -> Held | None:
        """Reserve what a process kept before its pause; nothing changes when one of them is another's."""
        return self._leases.reserve(process_id, self._holds[process_id].wanted)

    def wake(self, process_id: str) -> None:
        """Let a process go on that has no cause left."""
        rank = self._holds.pop(process_id).rank
        if rank is not Rank.SCHEDULER:
            self._holds[process_id] = _Hold(rank=rank)

    def promote(self, process_id: str, rank: Rank, subsystems: Iterable[str]) -> None:
        """Reserve these for a process that preempts, and remember its rank."""
        self._holds.setdefault(process_id, _Hold()).rank = rank
        self._leases.reserve(process_id, subsystems)

    def end(self, process_id: str) -> bool:
        """Free everything a process keeps and forget it; return false when there was nothing."""
        kept = self._leases.free(process_id)
        return self._holds.pop(process_id, None) is not None or bool(kept)
