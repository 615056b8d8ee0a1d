# SPDX-License-Identifier: Apache-2.0
"""Processes: a task and its runtime context, one control block each (TypeGo 5.2), and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

from skill_kernel.codes import TaskCode
from skill_kernel.events import ModelEvent


@dataclass(frozen=True)
class LayerUsage:
    """Sum up a layer's calls (fields of LayerUsage.msg). `cost_usd` is -1 while no price is known."""

    layer: str
    model: str = ""
    calls: int = 0
    failures: int = 0
    skipped: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = -1.0
    latency_s: float = 0.0
    latency_max_s: float = 0.0


def added(usage: tuple[LayerUsage, ...], answer: ModelEvent) -> tuple[LayerUsage, ...]:
    """Return the sums with one more call."""
    old = usage_of(usage, answer.layer)
    cost = max(old.cost_usd, 0.0) + answer.cost_usd if answer.cost_usd >= 0 else old.cost_usd
    return _with(
        usage,
        replace(
            old,
            model=answer.model or old.model,
            calls=old.calls + 1,
            failures=old.failures + answer.failed,
            prompt_tokens=old.prompt_tokens + answer.prompt_tokens,
            cached_tokens=old.cached_tokens + answer.cached_tokens,
            completion_tokens=old.completion_tokens + answer.completion_tokens,
            cost_usd=cost,
            latency_s=old.latency_s + answer.took_s,
            latency_max_s=max(old.latency_max_s, answer.took_s),
        ),
    )


def skipped(usage: tuple[LayerUsage, ...], layer: str) -> tuple[LayerUsage, ...]:
    """Return the sums when a layer saw no need to ask, or was not allowed to."""
    old = usage_of(usage, layer)
    return _with(usage, replace(old, skipped=old.skipped + 1))


def usage_of(usage: tuple[LayerUsage, ...], layer: str) -> LayerUsage:
    return next((u for u in usage if u.layer == layer), LayerUsage(layer))


def _with(usage: tuple[LayerUsage, ...], new: LayerUsage) -> tuple[LayerUsage, ...]:
    if any(u.layer == new.layer for u in usage):
        return tuple(new if u.layer == new.layer else u for u in usage)
    return (*usage, new)


CAUSE_USER = "user"
CAUSE_S3 = "s3"
OWN_CAUSES = frozenset({CAUSE_USER, CAUSE_S3})
"""Pause causes that the process scheduler gives and takes; all others (s0, teleop) are the skill kernel's to tell."""

HISTORY = 200
"""Ended calls kept of one process."""

FIRED = 50
"""Global events kept of one process."""

_NOTHING_MORE: dict[str, Any] = {
    "waits_for": "",
    "displaced_by": "",
    "resumes": False,
    "pause_causes": frozenset(),
    "subsystems": (),
    "running": (),
}
"""What a process that has ended has no longer."""


class ProcessStatus(IntEnum):
    """Tell the status of a process (constants of ProcessState.msg)."""

    WAITING = 0
    IN_PROGRESS = 1
    PAUSED = 2
    SUCCESS = 3
    FAILED = 4
    STOPPED = 5

    @property
    def ended(self) -> bool:
        """Return whether nothing of it can run any more."""
        return self >= ProcessStatus.SUCCESS


class ProcessSource(IntEnum):
    """Tell who wants a process (constants of ProcessState.msg): the preemption table goes by it."""

    USER = 0
    REACTIVE = 1
    IDLE = 2


@dataclass(frozen=True)
class CallRecord:
    """Record a call of a process's history: arguments as JSON, outcome by name ("RUNNING" while it runs), times in seconds."""

    call_id: str
    function: str
    args_json: str = ""
    outcome: str = "RUNNING"
    code: int = 0
    message: str = ""
    start_s: float = -1.0
    end_s: float = -1.0


@dataclass(frozen=True)
class Process:
    """Hold a process control block. Times are seconds on the clock given to the table, `ended_s` 0 while it lives.

    `plan_ended` tells that the planner has no further turn, `drained` that every call has ended; when both hold, the
    process ends with `code` and `message`. `plan` counts how often it was planned again, each time with a higher `epoch`.
    `returns`: what it displaces goes on after it. `resumes`: it goes on itself once `displaced_by` has ended. `waits_for`
    holds what it needs. `calls` counts ended calls, the newest of which are in `history`. `cost_usd` is -1 while no price
    is known; `usage` has the same by layer. `degraded` names the layers that go on without their model, and how;
    `fired_events` are events of its plan that came true.
    """

    process_id: str
    instruction: str
    door: str
    sender: str
    strategy: str
    created_s: float
    source: ProcessSource = ProcessSource.USER
    status: ProcessStatus = ProcessStatus.IN_PROGRESS
    epoch: int = 0
    plan: int = 0
    turn: int = 0
    ended_s: float = 0.0
    code: int = 0
    message: str = ""
    returns: bool = False
    resumes: bool = False
    displaced_by: str = ""
    waits_for: str = ""
    pause_causes: frozenset[str] = frozenset()
    subsystems: tuple[str, ...] = ()
    calls: int = 0
    calls_done: int = 0
    calls_failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = -1.0
    plan_ended: bool = False
    drained: bool = True
    running: tuple[CallRecord, ...] = ()
    history: tuple[CallRecord, ...] = ()
    usage: tuple[LayerUsage, ...] = ()
    degraded: tuple[tuple[str, str], ...] = ()
    fired_events: tuple[str, ...] = ()

    def settled(self, now_s: float) -> Process:
        """Return the block with the status that its other fields give."""
        if self.status.ended:
            return self
        if self.plan_ended and self.drained:
            return replace(
                self, status=ProcessStatus.FAILED if self.code else ProcessStatus.SUCCESS, ended_s=now_s, **_NOTHING_MORE
            )
        if self.pause_causes:
            return replace(self, status=ProcessStatus.PAUSED)
        return replace(self, status=ProcessStatus.WAITING if self.waits_for else ProcessStatus.IN_PROGRESS)

    def restored(self, why: str) -> Process:
        """Return the block as it is taken up from an earlier run: a living process is paused by the user, its plan void."""
        if self.status.ended:
            return self
        lost = tuple(replace(call, outcome="INTERRUPTED", message=why) for call in self.running)
        return replace(
            self,
            **{**_NOTHING_MORE, "pause_causes": frozenset({CAUSE_USER})},
            status=ProcessStatus.PAUSED,
            message=why,
            history=(*self.history, *lost)[-HISTORY:],
            calls=self.calls + len(lost),
            plan_ended=False,
            drained=True,
            code=0,
            epoch=0,
            degraded=(),
        )

    def shut_down(self, now_s: float, why: str) -> Process:
        """Return the block as it is kept when the robot is switched off on purpose: nothing of it goes on another day."""
        if self.status.ended:
            return self
        lost = tuple(replace(call, outcome="INTERRUPTED", message=why) for call in self.running)
        return replace(
            self,
            **_NOTHING_MORE,
            status=ProcessStatus.STOPPED,
            message=why,
            code=int(TaskCode.CANCELLED),
            ended_s=now_s,
            history=(*self.history, *lost)[-HISTORY:],
            calls=self.calls + len(lost),
            plan_ended=False,
        )


class ProcessTable:
    """Keep all processes of one robot, newest last; `on_change` hears every change of one."""

    def __init__(
        self, new_id: Callable[[], str], now: Callable[[], float], on_change: Callable[[Process], None], *, keep: int = 50
    ) -> None:
        self._new_id = new_id
        self._now = now
        self._on_change = on_change
        self._keep = keep
        self._processes: dict[str, Process] = {}

    @property
    def processes(self) -> list[Process]:
        """Return every process still known, oldest first."""
        return list(self._processes.values())

    @property
    def living(self) -> list[Process]:
        """Return those that have not ended, oldest first."""
        return [p for p in self._processes.values() if not p.status.ended]

    def get(self, process_id: str) -> Process | None:
        """Return the process of that id, or None."""
        return self._processes.get(process_id)

    def lives(self, process_id: str) -> Process | None:
        """Return the process of that id if it has not ended."""
        process = self._processes.get(process_id)
        return process if process is not None and not process.status.ended else None

    def create(
        self,
        instruction: str,
        *,
        door: str,
        sender: str,
        strategy: str,
        source: ProcessSource,
        returns: bool = False,
        epoch: int = 0,
    ) -> Process:
        """Add a process whose goals are of this epoch; ended ones beyond the number to keep are forgotten."""
        process = Process(
            self._new_id(), instruction, door, sender, strategy, self._now(), source, returns=returns, epoch=epoch
        )
        self._processes[process.process_id] = process
        self._forget()
        self._on_change(process)
        return process

    def restore(self, processes: Iterable[Process]) -> None:
        """Take up the processes of an earlier run, oldest first. `on_change` hears only of living ones."""
        for process in processes:
            self._processes[process.process_id] = process
            if not process.status.ended:
                self._on_change(process)
        self._forget()

    def change(self, process_id: str, **changes: object) -> Process | None:
        """Replace fields of a living process; its status follows. `on_change` hears only of a difference."""
        old = self.lives(process_id)
        if old is None:
            return self._processes.get(process_id)
        process = replace(old, **changes).settled(self._now())  # type: ignore[arg-type]
        if process != old:
            self._processes[process_id] = process
            self._on_change(process)
        return process

    def amend(self, process_id: str, **changes: object) -> Process | None:
        """Replace fields of cost, also of a process that has ended; `on_change` does not hear of an ended one."""
        ended = self._processes.get(process_id)
        if ended is None or not ended.status.ended:
            return self.change(process_id, **changes)
        self._processes[process_id] = replace(ended, **changes)  # type: ignore[arg-type]
        return self._processes[process_id]

    def end(self, process_id: str, status: ProcessStatus, code: int, message: str) -> Process | None:
        """End a living process now."""
        return self.change(
            process_id, status=status, code=code, message=message, ended_s=self._now(), plan_ended=False, **_NOTHING_MORE
        )

    def _forget(self) -> None:
        ended = [p.process_id for p in self._processes.values() if p.status.ended]
        for process_id in ended[: max(0, len(self._processes) - self._keep)]:
            del self._processes[process_id]
