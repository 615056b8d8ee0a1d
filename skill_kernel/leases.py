# SPDX-License-Identifier: Apache-2.0
"""Who holds which subsystem: leases owned by a (process, call), taken all or none (TypeGo 5.1, semantics section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from skill_kernel.robot import SubsystemConfig
from skill_kernel.skill import MAIN

UNDECLARED = SubsystemConfig(exclusive_per_process=True, parallel=False)
"""Settings of a subsystem the robot's file does not name: the strictest."""


class LeaseError(RuntimeError):
    """A lease was given back that its owner does not hold: a fault of the program, never of a model."""


@dataclass(frozen=True)
class Owner:
    """Who holds a lease. An `open` call may have calls inside it; a `nested` one stands inside another."""

    process_id: str
    call_id: str
    open: bool = False
    nested: bool = False


@dataclass(frozen=True)
class Held:
    """Why a lease was not given."""

    subsystem: str
    owner: Owner


class LeaseTable:
    """Leases on subsystems. Not thread-safe by itself: the kernel's lock guards it."""

    def __init__(self, subsystems: Mapping[str, SubsystemConfig]) -> None:
        self._settings = dict(subsystems)
        self._holders: dict[str, dict[str, Owner]] = {name: {} for name in subsystems}

    def acquire(self, owner: Owner, subsystems: Iterable[str]) -> Held | None:
        """Take all of them, or none and say who holds the first that is not free. Taking again what one has is allowed
        neither here nor needed: raises LeaseError."""
        wanted = tuple(dict.fromkeys(subsystems))
        for name in wanted:
            for other in self._holders.get(name, {}).values():
                if other.call_id == owner.call_id:
                    raise LeaseError(f"call {owner.call_id} already holds '{name}'")
                if self._conflict(name, other, owner):
                    return Held(name, other)
        for name in wanted:
            self._holders.setdefault(name, {})[owner.call_id] = owner
        return None

    def release(self, owner: Owner, subsystems: Iterable[str]) -> None:
        """Give back; raises LeaseError, changing nothing, when one of them is not held by this owner."""
        names = tuple(dict.fromkeys(subsystems))
        for name in names:
            if self._holders.get(name, {}).get(owner.call_id) != owner:
                raise LeaseError(f"'{name}' is not held by call {owner.call_id} of process {owner.process_id}")
        for name in names:
            del self._holders[name][owner.call_id]

    def holders(self, subsystem: str) -> tuple[Owner, ...]:
        """Who holds it, in the order they came."""
        return tuple(self._holders.get(subsystem, {}).values())

    def names(self) -> tuple[str, ...]:
        """Every subsystem declared or met so far."""
        return tuple(self._holders)

    def settings(self, subsystem: str) -> SubsystemConfig:
        """Its two settings."""
        return self._settings.get(subsystem, UNDECLARED)

    def _conflict(self, name: str, other: Owner, new: Owner) -> bool:
        settings = self.settings(name)
        if settings.exclusive_per_process and other.process_id != new.process_id:
            return True
        if settings.parallel:
            return False
        inside = name == MAIN and other.open and new.nested and other.process_id == new.process_id
        return not inside  # law C7: on main a call inside an open call runs
