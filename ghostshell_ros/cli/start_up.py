# SPDX-License-Identifier: Apache-2.0
"""Whether a robot's drivers have come up, for who wants to give it an instruction as soon as it can follow."""

from __future__ import annotations

from collections.abc import Sequence

from ghostshell_ros.runtime.lifecycle import DriverState

QUIET_S = 1.0
"""The processes of the drivers start one after the other; so long after the last change no other is expected."""
UNMANAGED_S = 3.0
"""A robot whose drivers have no lifecycle_manager never tells their states; after so long it is taken for one."""
_COMING = ("", "unconfigured", "configuring", "activating")


class StartUp:
    """Hears `driver_states`. Times in s of one clock; `changed_s` is the stamp of the states on it."""

    def __init__(self, now_s: float) -> None:
        self._since_s = self._heard_s = self._changed_s = now_s
        self._drivers: Sequence[DriverState] = ()

    def hear(self, now_s: float, changed_s: float, drivers: Sequence[DriverState]) -> None:
        """What the lifecycle_manager told."""
        self._heard_s, self._changed_s, self._drivers = now_s, changed_s, drivers

    def coming(self, now_s: float) -> list[str]:
        """What to wait for: the drivers that are being brought up, or "drivers" while others may still show up. Those that
        are lost, or that somebody deactivated, are not waited for: not every task needs them."""
        if not self._drivers:
            return [] if now_s - self._since_s >= UNMANAGED_S else ["drivers"]
        coming = [d.name.rsplit("/", 1)[-1] for d in self._drivers if d.coming_up or d.state in _COMING]
        # The stamp of another machine may be wrong; nobody waits longer than from hearing it.
        quiet = now_s - min(self._changed_s, self._heard_s) >= QUIET_S
        return coming or ([] if quiet else ["drivers"])
