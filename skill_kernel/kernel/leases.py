# SPDX-License-Identifier: Apache-2.0
"""Leases on subsystems, owned by a (process, call), and what a process keeps between its calls (TypeGo 5.1, 5.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skill_kernel.robot import SubsystemConfig
from skill_kernel.skills.skill import MAIN

UNDECLARED = SubsystemConfig(exclusive_per_process=True, parallel=False)
"""Settings of a subsystem the robot's file does not name: the strictest."""


class LeaseError(RuntimeError):
    """Report a lease given back by someone who does not hold it: a fault of the program, never of a model."""


@dataclass(frozen=True)
class Owner:
    """Identify who holds a lease. An `open` call may have calls inside it; a `nested` one stands inside another."""

    process_id: str
    call_id: str
    open: bool = False
    nested: bool = False


@dataclass(frozen=True)
class Held:
    """Tell why a lease was not given. `call_id` is "" where the process only keeps the subsystem between its calls."""

    subsystem: str
    process_id: str
    call_id: str = ""


class LeaseTable:
    """Keep the leases of calls and the reservations of processes. Not thread-safe by itself: the kernel's lock guards it.

    The first lease on an exclusive subsystem reserves it for its process, until `free`. A reservation that changes hands
    gives no lease: a call that still runs there has to end first.
    """

    def __init__(self, subsystems: Mapping[str, SubsystemConfig]) -> None:
        self._settings = dict(subsystems)
        self._holders: dict[str, dict[str, Owner]] = {name: {} for name in subsystems}
        self._reserved: dict[str, str] = {}

    def acquire(self, owner: Owner, subsystems: Iterable[str]) -> Held | None:
        """Take all of them, or none and return who holds the first that is not free.

        Raises LeaseError for a call that already holds one of them.
        """
        wanted = tuple(dict.fromkeys(subsystems))
        for name in wanted:
            for other in self._holders.get(name, {}).values():
                if other.call_id == owner.call_id:
                    raise LeaseError(f"call {owner.call_id} already holds '{name}'")
                if self._conflict(name, other, owner):
                    return Held(name, other.process_id, other.call_id)
            if self._reserved.get(name, owner.process_id) != owner.process_id:
                return Held(name, self._reserved[name])
        for name in wanted:
            self._holders.setdefault(name, {})[owner.call_id] = owner
            if self.settings(name).exclusive_per_process:
                self._reserved[name] = owner.process_id
        return None

    def release(self, owner: Owner, subsystems: Iterable[str]) -> None:
        """Give back a call's lease. Raises LeaseError, and changes nothing, when this owner does not hold one of them."""
        names = tuple(dict.fromkeys(subsystems))
        for name in names:
            if self._holders.get(name, {}).get(owner.call_id) != owner:
                raise LeaseError(f"'{name}' is not held by call {owner.call_id} of process {owner.process_id}")
        for name in names:
            del self._holders[name][owner.call_id]

    def reserve(self, process_id: str, subsystems: Iterable[str]) -> Held | None:
        """Keep the exclusive ones of these for a process, or none and return who keeps the first that is another's."""
        wanted = [name for name in subsystems if self.settings(name).exclusive_per_process]
        for name in wanted:
            if self._reserved.get(name, process_id) != process_id:
                return Held(name, self._reserved[name])
        for name in wanted:
            self._holders.setdefault(name, {})
            self._reserved[name] = process_id
        return None

    def free(self, process_id: str, subsystems: Iterable[str]) -> None:
        """Give reservations back. Raises LeaseError, and changes nothing, when one of them is not this process's."""
        names = tuple(dict.fromkeys(subsystems))
        for name in names:
            if self._reserved.get(name) != process_id:
                raise LeaseError(f"'{name}' is not reserved for process {process_id}")
        for name in names:
            del self._reserved[name]

    def reserved_for(self, process_id: str) -> tuple[str, ...]:
        """Return the subsystems that a process keeps."""
        return tuple(name for name, holder in self._reserved.items() if holder == process_id)

    def users(self, subsystem: str) -> tuple[str, ...]:
        """Return the processes whose calls run on a subsystem and the one it is reserved for."""
        keeper = self._reserved.get(subsystem)
        running = [owner.process_id for owner in self.holders(subsystem)]
        return tuple(dict.fromkeys(running + ([] if keeper is None else [keeper])))

    def reserving(self) -> tuple[str, ...]:
        """Return every process that keeps something."""
        return tuple(dict.fromkeys(self._reserved.values()))

    def holders(self, subsystem: str) -> tuple[Owner, ...]:
        """Return the calls that hold a subsystem, in the order they came."""
        return tuple(self._holders.get(subsystem, {}).values())

    def names(self) -> tuple[str, ...]:
        """Return every subsystem declared or met so far."""
        return tuple(self._holders)

    def settings(self, subsystem: str) -> SubsystemConfig:
        """Return the settings of a subsystem."""
        return self._settings.get(subsystem, UNDECLARED)

    def _conflict(self, name: str, other: Owner, new: Owner) -> bool:
        settings = self.settings(name)
        if settings.exclusive_per_process and other.process_id != new.process_id:
            return True
        if settings.parallel:
            return False
        inside = name == MAIN and other.open and new.nested and other.process_id == new.process_id
        return not inside  # law C7: on main a call inside an open call runs
