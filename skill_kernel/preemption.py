# SPDX-License-Identifier: Apache-2.0
"""What is asked of the kernel for whole processes: pause, resume, end, and the one way to take what another holds."""

from __future__ import annotations

from collections.abc import Iterable

from skill_kernel.calls import KernelEventType, LeaseAnswer, ProcessHoldState
from skill_kernel.codes import LeaseCode
from skill_kernel.ends import CallEnds
from skill_kernel.holds import Rank
from skill_kernel.leases import Held
from skill_kernel.parts import KernelParts
from skill_kernel.pauses import Pauses
from skill_kernel.running import Pausing, interruption


class Preemption:
    """Operations on processes, under the kernel's lock. None waits: what has to stop does so within its stop time."""

    def __init__(self, parts: KernelParts, ends: CallEnds, pauses: Pauses) -> None:
        self._parts, self._ends, self._pauses = parts, ends, pauses

    def pause(self, process_id: str, cause: str) -> LeaseAnswer:
        """Add a pause cause; refused when the process has preempted with a higher rank than that cause has."""
        rank = self._parts.holds.rank(process_id)
        if rank < Rank.of_cause(cause):
            why = f"process {process_id} has rank {rank.name.lower()}, above the cause '{cause}'; wait until it has ended"
            return LeaseAnswer(LeaseCode.OUTRANKED, why, (process_id,))
        return self._pause(process_id, cause)

    def resume(self, process_id: str, cause: str, subsystems: Iterable[str]) -> LeaseAnswer:
        """Take a cause back. The last one goes only together with the return of all that the process needs."""
        if not process_id:
            answers = [self.resume(p, cause, subsystems) for p in self._parts.holds.paused_by(cause)]
            failed = [a for a in answers if a.code]
            holders = tuple(dict.fromkeys(h for a in failed for h in a.holders))
            code = failed[0].code if failed else LeaseCode.NONE
            return LeaseAnswer(code, "; ".join(a.message for a in failed), holders)
        holds, causes = self._parts.holds, self._parts.holds.causes(process_id)
        left = [c for c in causes if c != cause]
        if left:
            if cause in causes:
                holds.drop(process_id, cause)
                self._parts.changed()
            why = f"process {process_id} stays paused by {', '.join(left)}; resume it with that cause, too"
            return LeaseAnswer(LeaseCode.NOT_RESUMED, why)
        if not causes:
            return LeaseAnswer()
        held = holds.resume(process_id, subsystems)
        if held is None:
            held = self._pauses.resume_runs(process_id)
            if held is not None:
                holds.pause(process_id, cause)
        if held is not None:
            why = f"process {process_id} needs {held.subsystem}, which process {held.process_id} holds; {_until(held)}"
            return LeaseAnswer(LeaseCode.NOT_RESUMED, why, (held.process_id,))
        self._parts.report(KernelEventType.PROCESS_RESUMED, cause, process_id=process_id)
        self._parts.changed()
        return LeaseAnswer()

    def end(self, process_id: str, cause: str) -> LeaseAnswer:
        """The process is over: its calls end, its goals on the way are void, all it kept is free."""
        stopped = []
        self._parts.epochs.advance(process_id, (), self._parts.clock.now())
        for run in self._parts.calls.of(process_id):
            if not run.reported:
                stopped.append(run.spec.call_id)
            self._ends.stop(run, interruption(cause))
        self._parts.holds.end(process_id)
        self._parts.changed()
        return LeaseAnswer(stopped=tuple(stopped))

    def preempt(self, rank: Rank, subsystems: Iterable[str], cause: str, process_id: str) -> LeaseAnswer:
        """Pause whoever uses or keeps one of these, and keep them for `process_id`; all or nothing."""
        parts, wanted = self._parts, tuple(dict.fromkeys(subsystems))
        if own := parts.holds.causes(process_id):
            why = f"process {process_id} is itself paused by {', '.join(own)}; resume it first"
            return LeaseAnswer(LeaseCode.NOT_RESUMED, why)
        users = dict.fromkeys(p for name in wanted for p in parts.leases.users(name) if p != process_id)
        above = [p for p in users if parts.holds.rank(p) < rank]
        if above:
            held = ", ".join(f"{p} ({parts.holds.rank(p).name.lower()})" for p in above)
            why = f"rank {rank.name.lower()} may not take {', '.join(wanted)} from {held}; ask again when it has ended"
            return LeaseAnswer(LeaseCode.OUTRANKED, why, tuple(above))
        displaced = [p for p in users if not parts.holds.causes(p)]
        answers = [self._pause(p, rank.cause, cause) for p in displaced]
        if process_id:
            parts.holds.promote(process_id, rank, wanted)
        parts.changed()
        return LeaseAnswer(
            holders=tuple(displaced),
            paused=tuple(c for a in answers for c in a.paused),
            stopped=tuple(c for a in answers for c in a.stopped),
        )

    def release_idle(self, process_id: str) -> bool:
        """Free what a process keeps though nothing of it runs and nothing pauses it; whether there was something."""
        if self._parts.calls.of(process_id) or self._parts.holds.causes(process_id):
            return False
        freed = self._parts.holds.end(process_id)
        if freed:
            self._parts.changed()
        return freed

    def states(self) -> tuple[ProcessHoldState, ...]:
        """What is kept for each process that keeps something or is paused."""
        parts = self._parts
        return tuple(
            ProcessHoldState(
                process_id,
                parts.leases.reserved_for(process_id),
                parts.holds.causes(process_id),
                tuple(r.spec.call_id for r in parts.calls.of(process_id) if r.pausing is not Pausing.NONE and not r.reported),
            )
            for process_id in parts.holds.processes()
        )

    def _pause(self, process_id: str, cause: str, words: str = "") -> LeaseAnswer:
        known = cause in self._parts.holds.causes(process_id)
        first = self._parts.holds.pause(process_id, cause)
        paused, stopped = [], []
        for run in self._parts.calls.of(process_id):
            if first:
                before = run.ending
                if self._pauses.pause_run(run, words or cause):
                    paused.append(run.spec.call_id)
                elif before is None and run.ending is not None:
                    stopped.append(run.spec.call_id)
            elif run.pausing is not Pausing.NONE:
                paused.append(run.spec.call_id)
        if not known:
            self._parts.report(KernelEventType.PROCESS_PAUSED, cause, process_id=process_id)
            self._parts.changed()
        return LeaseAnswer(paused=tuple(paused), stopped=tuple(stopped))


def _until(held: Held) -> str:
    return "resume again once it is at rest" if held.call_id else "pause or end that one, or wait"
