# SPDX-License-Identifier: Apache-2.0
"""All processes of a robot, and the plan of each: its streams and calls, its end, and when it is void and made again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.events import ModelEvent
from skill_kernel.processes.process import FIRED, HISTORY, NOTHING_MORE, CallRecord, Process, ProcessStatus, added, skipped

_BROKEN = frozenset({int(TaskCode.CALL_FAILED), int(TaskCode.CANCELLED), int(TaskCode.NODE_UNAVAILABLE)})
"""How the plan of a paused process ends when a pause stopped its call or its planner is gone: it is planned anew."""


class RobotCommands(Protocol):
    """Carry out what the process scheduler asks of the rest of the robot. Nothing here waits: answers come back by method."""

    def changed(self, process: Process) -> None:
        """Hear that a process has changed to this block."""

    def amended(self, process: Process) -> None:
        """Hear what an ended process has cost that was learned later; its end has been told before."""

    def end(self, process_id: str, cause: str) -> None:
        """Interrupt whatever a process does, along the whole way, then free what it holds."""

    def release(self, process_id: str) -> None:
        """Free what a process holds that has ended by itself."""

    def pause(self, process_id: str, cause: str) -> None:
        """Add a pause cause at the skill kernel; the answer goes to `ProcessScheduler.paused`."""

    def resume(self, process_id: str, cause: str) -> None:
        """Take a pause cause back at the skill kernel; the answer goes to `ProcessScheduler.resumed`."""

    def void_plan(self, process_id: str, cause: str) -> None:
        """Void everything planned so far; the new epoch goes to `ProcessScheduler.interrupted`."""


class PlannedProcesses(ABC):
    """Keep all processes of one robot, newest last, and take in what planner, channel scheduler and kernel report of them.

    A plan that cannot go on is voided everywhere first; only then does the process get the next one, of a higher epoch.
    Later reports of a void plan count for the history alone.
    """

    def __init__(self, link: RobotCommands, now: Callable[[], float], keep: int) -> None:
        self._link, self._now, self._keep = link, now, keep
        self._processes: dict[str, Process] = {}
        self._voiding: set[str] = set()
        """Processes whose plan is void here and not everywhere yet."""
        self._streams: dict[str, set[str]] = {}
        self._old_streams: dict[str, set[str]] = {}
        self.epoch = 0
        """The newest epoch known: an interrupt of every process voids older goals of processes to come, too."""

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

    # -- changes ------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _after(self, ended: Process) -> None:
        """Hear of each process once, when it has ended."""

    def _change(self, process_id: str, **changes: Any) -> Process | None:
        """Replace fields of a living process; its status follows. The robot hears only of a difference."""
        old = self.lives(process_id)
        if old is None:
            return self.get(process_id)
        process = replace(old, **changes).settled(self._now())
        if process != old:
            self._processes[process_id] = process
            self._link.changed(process)
        return process

    def _end(self, process: Process, status: ProcessStatus, code: TaskCode, why: str) -> None:
        """End a living process now, whatever it does."""
        how = {"status": status, "code": int(code), "message": why, "ended_s": self._now(), "plan_ended": False}
        ended = self._change(process.process_id, **how, **NOTHING_MORE)
        self._link.end(process.process_id, why)
        if ended is not None:
            self._after(ended)

    def _settle(self, process_id: str, **changes: Any) -> None:
        """Change fields that may complete a process."""
        before = self.lives(process_id)
        after = self._change(process_id, **changes)
        if before is not None and after is not None and after.status.ended:
            self._link.release(process_id)
            self._after(after)

    def _forget_surplus(self) -> None:
        """Forget ended processes beyond the number to keep."""
        ended = [p.process_id for p in self.processes if p.status.ended]
        for process_id in ended[: max(0, len(self._processes) - self._keep)]:
            del self._processes[process_id]

    def _forget_plan(self, process_id: str) -> None:
        self._voiding.discard(process_id)
        self._streams.pop(process_id, None)
        self._old_streams.pop(process_id, None)

    def _make_anew(self, process_id: str, why: str) -> None:
        """Void the plan of a living process."""
        if self.lives(process_id) is not None and process_id not in self._voiding:
            self._voiding.add(process_id)
            self._link.void_plan(process_id, f"it is planned anew when it goes on: {why}")

    def _voided(self, process_id: str, epoch: int) -> Process | None:
        """Note that a plan is void everywhere and the next one has this epoch; return the process if it waited for that."""
        self.learn_epoch(epoch)
        process = self.lives(process_id)
        if process_id not in self._voiding or process is None:
            return None
        self._voiding.discard(process_id)
        self._old_streams[process_id] = set(self._streams.get(process_id, ()))
        fresh = {"plan_ended": False, "drained": True, "code": 0, "waits_for": ""}
        return self._change(process_id, epoch=max(epoch, process.epoch + 1), plan=process.plan + 1, **fresh)

    # -- what is reported ---------------------------------------------------------------------------------------------

    def learn_epoch(self, epoch: int) -> None:
        """Note an epoch that somebody was told."""
        self.epoch = max(self.epoch, epoch)

    def stream_started(self, process_id: str, stream_id: str) -> None:
        """Note a stream, whose calls may follow."""
        if self.lives(process_id) is not None:
            self._streams.setdefault(process_id, set()).add(stream_id)
            self._change(process_id, drained=False)

    def drained(self, process_id: str) -> None:
        """Note that every call has ended and no stream is open."""
        self._settle(process_id, drained=True)

    def plan_ended(self, process_id: str, epoch: int, code: int, message: str) -> None:
        """Note that the planner has no further turn for the plan of that epoch."""
        process = self.lives(process_id)
        if process is None or process_id in self._voiding or epoch != process.epoch:
            return
        if process.pause_causes and code in _BROKEN:
            self._make_anew(process_id, message)
        else:
            self._settle(process_id, plan_ended=True, code=code, message=message)

    def call_started(self, process_id: str, record: CallRecord) -> None:
        """Note that a call of the process runs."""
        if process := self.lives(process_id):
            self._change(process_id, running=(*process.running, record), waits_for="")

    def call_ended(self, process_id: str, stream_id: str, record: CallRecord) -> None:
        """Note the outcome of a call."""
        process = self.lives(process_id)
        if process is None:
            return
        failed = record.outcome in (Outcome.FAILED.value, Outcome.REFUSED.value)
        self._change(
            process_id,
            running=tuple(c for c in process.running if c.call_id != record.call_id),
            history=(*process.history, record)[-HISTORY:],
            calls=process.calls + 1,
            calls_done=process.calls_done + (record.outcome == Outcome.DONE.value),
            calls_failed=process.calls_failed + failed,
        )
        if stream_id in self._old_streams.get(process_id, ()) or process_id in self._voiding:
            return
        if record.code == CallCode.KERNEL_UNAVAILABLE:
            # Nobody knows what still moves: interrupting halts the gate where the kernel does not answer.
            self._end(process, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, record.message)
        elif record.code == CallCode.STALE_EPOCH:
            why = f"somebody else interrupted it at the skill kernel: {record.message}"
            self._end(process, ProcessStatus.STOPPED, TaskCode.CANCELLED, why)
        elif record.code == CallCode.PROCESS_PAUSED and record.outcome == Outcome.INTERRUPTED.value:
            self._make_anew(process_id, f"{record.function} could not be paused")

    def calls_lost(self, why: str) -> None:
        """End running processes and plan paused ones again, because the node that keeps the order of calls is gone."""
        for process in self.living:
            if process.pause_causes:
                self._make_anew(process.process_id, why)
            else:
                self._end(process, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, why)

    def event_fired(self, process_id: str, event: str) -> None:
        """Keep a global event of its plan that came true, and plan the process again to answer it."""
        if process := self.lives(process_id):
            self._change(process_id, fired_events=(*process.fired_events, event)[-FIRED:])
            self._make_anew(process_id, f"an event came true: {event}")

    def turn_ended(self, process_id: str) -> None:
        """Count a stream of the model that has ended."""
        if process := self.lives(process_id):
            self._change(process_id, turn=process.turn + 1)

    def model_answered(self, process_id: str, answer: ModelEvent) -> None:
        """Count an answer, or a failure, of a layer's model, also when it is learned after the end of the process.

        A layer that was answered is no longer degraded.
        """
        process = self.get(process_id)
        if process is None:
            return
        usage = added(process.usage, answer)
        if process.status.ended:
            self._processes[process_id] = replace(process, usage=usage)
            self._link.amended(self._processes[process_id])
        else:
            degraded = tuple(d for d in process.degraded if answer.failed or d[0] != answer.layer)
            self._change(process_id, usage=usage, degraded=degraded)

    def model_skipped(self, process_id: str, layer: str) -> None:
        """Count that a layer saw no need to ask, or was not allowed to."""
        if process := self.lives(process_id):
            self._change(process_id, usage=skipped(process.usage, layer))

    def degraded(self, process_id: str, layer: str, how: str) -> None:
        """Note that a layer goes on without its model."""
        if process := self.lives(process_id):
            others = tuple(d for d in process.degraded if d[0] != layer)
            self._change(process_id, degraded=(*others, (layer, how)))
