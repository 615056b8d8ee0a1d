# SPDX-License-Identifier: Apache-2.0
"""Processes: a task and its runtime context, one control block each (TypeGo 5.2). One process runs at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum


class ProcessStatus(IntEnum):
    """Status of a process (constants of ProcessState.msg)."""

    WAITING = 0
    IN_PROGRESS = 1
    PAUSED = 2
    SUCCESS = 3
    FAILED = 4
    STOPPED = 5

    @property
    def ended(self) -> bool:
        """Whether nothing of it can run any more."""
        return self >= ProcessStatus.SUCCESS


@dataclass(frozen=True)
class Process:
    """A process control block. Times are seconds on the clock given to the table, `ended_s` 0 while it lives.

    `plan_ended` tells that the planner has no further turn, `drained` that every call has ended; when both hold, the
    process ends with `code` and `message`. `cost_usd` is -1 while no price is known.
    """

    process_id: str
    instruction: str
    door: str
    sender: str
    strategy: str
    created_s: float
    status: ProcessStatus = ProcessStatus.IN_PROGRESS
    epoch: int = 0
    turn: int = 0
    ended_s: float = 0.0
    code: int = 0
    message: str = ""
    calls_done: int = 0
    calls_failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = -1.0
    plan_ended: bool = False
    drained: bool = True


class ProcessTable:
    """All processes of one robot, newest last; `on_change` hears every change of one."""

    def __init__(
        self,
        new_id: Callable[[], str],
        now: Callable[[], float],
        on_change: Callable[[Process], None],
        *,
        keep: int = 50,
    ) -> None:
        self._new_id = new_id
        self._now = now
        self._on_change = on_change
        self._keep = keep
        self._processes: dict[str, Process] = {}

    @property
    def processes(self) -> list[Process]:
        """Every process still known, oldest first."""
        return list(self._processes.values())

    @property
    def running(self) -> Process | None:
        """The process that has not ended."""
        return next((p for p in reversed(self._processes.values()) if not p.status.ended), None)

    def get(self, process_id: str) -> Process | None:
        """The process of that id, or None."""
        return self._processes.get(process_id)

    def create(self, instruction: str, *, door: str, sender: str, strategy: str, epoch: int = 0) -> Process:
        """Start a process, whose goals are of this epoch. The caller has ended the one before it.

        Raises ValueError while one runs.
        """
        if (running := self.running) is not None:
            raise ValueError(f"process {running.process_id} still runs; end it before the next one is created")
        process = Process(self._new_id(), instruction, door, sender, strategy, self._now(), epoch=epoch)
        self._processes[process.process_id] = process
        while len(self._processes) > self._keep:
            del self._processes[next(iter(self._processes))]
        self._on_change(process)
        return process

    def change(self, process_id: str, **changes: object) -> Process | None:
        """Replace fields of a living process, ending it when its plan has ended and its calls are drained."""
        process = self._processes.get(process_id)
        if process is None or process.status.ended:
            return process
        process = replace(process, **changes)  # type: ignore[arg-type]
        if process.plan_ended and process.drained:
            status = ProcessStatus.FAILED if process.code else ProcessStatus.SUCCESS
            process = replace(process, status=status, ended_s=self._now())
        self._processes[process_id] = process
        self._on_change(process)
        return process

    def end(self, process_id: str, status: ProcessStatus, code: int, message: str) -> Process | None:
        """End a living process now."""
        return self.change(process_id, status=status, code=code, message=message, ended_s=self._now(), plan_ended=False)
