# SPDX-License-Identifier: Apache-2.0
"""The plan of each process: its streams and calls, its end, and when it is void and made again."""

from __future__ import annotations

from collections.abc import Callable

from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.events import ModelEvent
from skill_kernel.processes.commands import Amended, Command, EndProcess, InterruptPlan, ReleaseProcess
from skill_kernel.processes.process import FIRED, HISTORY, CallRecord, Process, ProcessStatus, ProcessTable, added, skipped


class ProcessEnds:
    """End processes; `after` hears of each once, when it has ended."""

    def __init__(self, table: ProcessTable, on_command: Callable[[Command], None], after: Callable[[Process], None]) -> None:
        self._table, self._do, self._after = table, on_command, after

    def end(self, process: Process, status: ProcessStatus, code: TaskCode, why: str) -> None:
        """End a process now, whatever it does."""
        ended = self._table.end(process.process_id, status, int(code), why)
        self._do(EndProcess(process.process_id, why))
        if ended is not None:
            self._after(ended)

    def settle(self, process_id: str, **changes: object) -> None:
        """Change fields that may complete a process."""
        before = self._table.lives(process_id)
        after = self._table.change(process_id, **changes)
        if before is not None and after is not None and after.status.ended:
            self._do(ReleaseProcess(process_id))
            self._after(after)


_BROKEN = frozenset({int(TaskCode.CALL_FAILED), int(TaskCode.CANCELLED), int(TaskCode.NODE_UNAVAILABLE)})
"""How the plan of a paused process ends when a pause stopped its call or its planner is gone: it is planned anew."""


class ProcessPlans:
    """Take in what planner, channel scheduler and kernel report of processes.

    A plan that cannot go on is voided everywhere first; only then does the process get the next one, of a higher epoch.
    Later reports of a void plan count for the history alone.
    """

    def __init__(self, table: ProcessTable, on_command: Callable[[Command], None], ends: ProcessEnds) -> None:
        self._table, self._do, self._ends = table, on_command, ends
        self._voiding: set[str] = set()
        self._streams: dict[str, set[str]] = {}
        self._old_streams: dict[str, set[str]] = {}
        self.epoch = 0
        """The newest epoch known: an interrupt of every process voids older goals of processes to come, too."""

    # -- void plans ---------------------------------------------------------------------------------------------------

    def is_voiding(self, process_id: str) -> bool:
        """Return whether its plan is void here and not everywhere yet."""
        return process_id in self._voiding

    def make_anew(self, process_id: str, why: str) -> None:
        """Void the plan of a living process."""
        if self._table.lives(process_id) is not None and process_id not in self._voiding:
            self._voiding.add(process_id)
            self._do(InterruptPlan(process_id, f"it is planned anew when it goes on: {why}"))

    def taken_up(self, process_id: str) -> None:
        """Note a process of an earlier run, whose plan is void."""
        self._voiding.add(process_id)

    def voided(self, process_id: str, epoch: int) -> Process | None:
        """Note that a plan is void everywhere and the next one has this epoch; return the process if it waited for that."""
        self.learn_epoch(epoch)
        if process_id not in self._voiding:
            return None
        self._voiding.discard(process_id)
        process = self._table.lives(process_id)
        if process is None:
            return None
        self._old_streams[process_id] = set(self._streams.get(process_id, ()))
        return self._table.change(
            process_id,
            epoch=max(epoch, process.epoch + 1),
            plan=process.plan + 1,
            plan_ended=False,
            drained=True,
            code=0,
            waits_for="",
        )

    def learn_epoch(self, epoch: int) -> None:
        """Note an epoch that somebody was told."""
        self.epoch = max(self.epoch, epoch)

    def forget(self, process_id: str) -> None:
        """Drop everything noted of a process that has ended."""
        self._voiding.discard(process_id)
        self._streams.pop(process_id, None)
        self._old_streams.pop(process_id, None)

    # -- what is reported ---------------------------------------------------------------------------------------------

    def stream_started(self, process_id: str, stream_id: str) -> None:
        """Note a stream, whose calls may follow."""
        if self._table.lives(process_id) is not None:
            self._streams.setdefault(process_id, set()).add(stream_id)
            self._table.change(process_id, drained=False)

    def drained(self, process_id: str) -> None:
        """Note that every call has ended and no stream is open."""
        self._ends.settle(process_id, drained=True)

    def ended(self, process_id: str, epoch: int, code: int, message: str) -> None:
        """Note that the planner has no further turn for the plan of that epoch."""
        process = self._table.lives(process_id)
        if process is None or process_id in self._voiding or epoch != process.epoch:
            return
        if process.pause_causes and code in _BROKEN:
            self.make_anew(process_id, message)
        else:
            self._ends.settle(process_id, plan_ended=True, code=code, message=message)

    def call_started(self, process_id: str, record: CallRecord) -> None:
        """Note that a call of the process runs."""
        process = self._table.lives(process_id)
        if process is not None:
            self._table.change(process_id, running=(*process.running, record), waits_for="")

    def call_ended(self, process_id: str, stream_id: str, record: CallRecord) -> None:
        """Note the outcome of a call."""
        process = self._table.lives(process_id)
        if process is None:
            return
        failed = record.outcome in (Outcome.FAILED.value, Outcome.REFUSED.value)
        self._table.change(
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
            self._ends.end(process, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, record.message)
        elif record.code == CallCode.STALE_EPOCH:
            why = f"somebody else interrupted it at the skill kernel: {record.message}"
            self._ends.end(process, ProcessStatus.STOPPED, TaskCode.CANCELLED, why)
        elif record.code == CallCode.PROCESS_PAUSED and record.outcome == Outcome.INTERRUPTED.value:
            self.make_anew(process_id, f"{record.function} could not be paused")

    def event_fired(self, process_id: str, event: str) -> None:
        """Keep a global event of its plan that came true, and plan the process again to answer it."""
        process = self._table.lives(process_id)
        if process is not None:
            self._table.change(process_id, fired_events=(*process.fired_events, event)[-FIRED:])
            self.make_anew(process_id, f"an event came true: {event}")

    def turn_ended(self, process_id: str) -> None:
        """Count a stream of the model that has ended."""
        process = self._table.lives(process_id)
        if process is not None:
            self._table.change(process_id, turn=process.turn + 1)

    def model_answered(self, process_id: str, answer: ModelEvent) -> None:
        """Count an answer, or a failure, of a layer's model, also when it is learned after the end of the process.

        A layer that was answered is no longer degraded.
        """
        process = self._table.get(process_id)
        if process is None:
            return
        cost = max(process.cost_usd, 0.0) + answer.cost_usd if answer.cost_usd >= 0 else process.cost_usd
        degraded = process.degraded
        if not (answer.failed or process.status.ended):
            degraded = tuple(d for d in degraded if d[0] != answer.layer)
        self._amend(
            process,
            prompt_tokens=process.prompt_tokens + answer.prompt_tokens,
            cost_usd=cost,
            degraded=degraded,
            completion_tokens=process.completion_tokens + answer.completion_tokens,
            usage=added(process.usage, answer),
        )

    def model_skipped(self, process_id: str, layer: str) -> None:
        """Count that a layer saw no need to ask, or was not allowed to."""
        process = self._table.lives(process_id)
        if process is not None:
            self._table.change(process_id, usage=skipped(process.usage, layer))

    def degraded(self, process_id: str, layer: str, how: str) -> None:
        """Note that a layer goes on without its model."""
        process = self._table.lives(process_id)
        if process is not None:
            others = tuple(d for d in process.degraded if d[0] != layer)
            self._table.change(process_id, degraded=(*others, (layer, how)))

    def _amend(self, process: Process, **changes: object) -> None:
        after = self._table.amend(process.process_id, **changes)
        if after is not None and process.status.ended:
            self._do(Amended(after))

    def calls_lost(self, why: str) -> None:
        """End running processes and plan paused ones again, because the node that keeps the order of calls is gone."""
        for process in self._table.living:
            if process.pause_causes:
                self.make_anew(process.process_id, why)
            else:
                self._ends.end(process, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, why)
