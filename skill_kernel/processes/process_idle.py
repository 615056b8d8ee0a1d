# SPDX-License-Identifier: Apache-2.0
"""When a robot that nobody uses begins its idle behaviour (TypeGo 5.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from skill_kernel.processes.process import CAUSE_USER, Process, ProcessSource, ProcessStatus
from skill_kernel.processes.process_commands import SchedulerSettings

IDLE_RETRY_S = 60.0
"""How long idle behaviour that failed is left alone."""


class IdleWatch:
    """Says when: once nothing else has run for the time set. Idle behaviour that the user stopped stays away until the
    next instruction, and so it does after a restart that found processes."""

    def __init__(self, settings: SchedulerSettings, now: Callable[[], float]) -> None:
        self._settings, self._now = settings, now
        self._quiet_since_s = now()
        self._not_before_s = -math.inf
        self._unwanted = False

    def due(self, living: Iterable[Process]) -> bool:
        """Whether it is to begin now. Called now and then; what the user paused does not keep the robot busy."""
        if any(CAUSE_USER not in p.pause_causes or p.source is ProcessSource.IDLE for p in living):
            self.disturbed()
        due_s = max(self._quiet_since_s + self._settings.idle_after_s, self._not_before_s)
        return bool(self._settings.idle) and not self._unwanted and self._now() >= due_s

    def disturbed(self) -> None:
        """Something else has happened just now."""
        self._quiet_since_s = self._now()

    def instructed(self) -> None:
        """Somebody uses the robot again."""
        self._unwanted = False

    def unwanted(self) -> None:
        """Not before the next instruction."""
        self._unwanted = True

    def ended(self, process: Process) -> None:
        """A process has ended."""
        if process.source is ProcessSource.IDLE and process.status is ProcessStatus.FAILED:
            self._not_before_s = self._now() + IDLE_RETRY_S
