# SPDX-License-Identifier: Apache-2.0
"""What the process scheduler is given and what it asks of the rest of the robot."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from skill_kernel.codes import TaskCode
from skill_kernel.processes.process import Process


class ProcessError(ValueError):
    """Report a command that cannot be obeyed; the message says why and what to do. `code` is for a task that does not begin."""

    def __init__(self, message: str, code: TaskCode = TaskCode.TOO_MANY_PROCESSES) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class SchedulerSettings:
    """Set how processes begin and how many there are.

    `strategy` is how an instruction becomes actions, `strategies` are the names a task may ask for. `idle` is the
    instruction of the idle process, empty for none, begun after `idle_after_s` without another one. `max_processes` may
    live at a time; the newest `keep` are remembered.
    """

    strategy: str = ""
    strategies: Collection[str] = ()
    idle: str = ""
    idle_after_s: float = 5.0
    max_processes: int = 8
    keep: int = 50


@dataclass(frozen=True)
class Changed:
    """Tell that a process has changed to this block."""

    process: Process


@dataclass(frozen=True)
class Amended:
    """Tell what an ended process has cost that was learned later; its end has been told before."""

    process: Process


@dataclass(frozen=True)
class EndProcess:
    """Interrupt whatever a process does, along the whole way, then free what it holds."""

    process_id: str
    cause: str


@dataclass(frozen=True)
class ReleaseProcess:
    """Free what a process holds that has ended by itself."""

    process_id: str


@dataclass(frozen=True)
class PauseProcess:
    """Add a pause cause at the skill kernel; the answer goes to `ProcessPauses.paused`."""

    process_id: str
    cause: str


@dataclass(frozen=True)
class ResumeProcess:
    """Take a pause cause back at the skill kernel; the answer goes to `ProcessPauses.resumed`."""

    process_id: str
    cause: str


@dataclass(frozen=True)
class InterruptPlan:
    """Void everything planned so far; the new epoch goes to `ProcessPauses.interrupted`."""

    process_id: str
    cause: str


Command = Changed | Amended | EndProcess | ReleaseProcess | PauseProcess | ResumeProcess | InterruptPlan
