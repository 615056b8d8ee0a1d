# SPDX-License-Identifier: Apache-2.0
"""What is asked of the kernel for whole processes: pause, resume, end, and the one way to take what another holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from skill_kernel.calls import KernelEventType, LeaseAnswer, ProcessHoldState
from skill_kernel.codes import LeaseCode
from skill_kernel.kernel.context import KernelContext
from skill_kernel.kernel.ends import CallEnds
from skill_kernel.kernel.holds import BY_NAME, WAITING, Rank
from skill_kernel.kernel.leases import Held
from skill_kernel.kernel.pauses import Pauses
from skill_kernel.kernel.running import Pausing, interruption


class Preemption:
    """Pause, resume, end and preempt whole processes, under the kernel's lock. Nothing here waits.

    The pause of a displaced process belongs to its pre-empter. When that one ends, the process goes on in the same step,
    or, where its subsystems are another's by then, with the cause `waiting` until they are free.
    """

    def __init__(self, context: KernelContext, ends: CallEnds, pauses: Pauses) -> None:
        self._context, self._ends, self._pauses = context, ends, pauses
        context.lock.before_release = self._serve_waiting

    def pause(self, process_id: str, cause: str) -> LeaseAnswer:
        """Add a pause cause; refused when the process has preempted with a higher rank than that cause has."""
        if not process_id:
            return _nameless("pause")
        rank = self._context.holds.rank(process_id)
        if rank < Rank.of_cause(cause):
            why = f"process {process_id} has rank {rank.name.lower()}, above the cause '{cause}'; wait until it has ended"
            return LeaseAnswer(LeaseCode.OUTRANKED, why, (process_id,))
        return self._pause(process_id, cause)

    def resume(self, process_id: str, cause: str, subsystems: Iterable[str]) -> LeaseAnswer:
        """Take a cause back. The last one goes only when all that the process needs is free again."""
        if not process_id:
            answers = [self.resume(p, cause, subsystems) for p in self._context.holds.paused_by(cause)]
            failed = [a for a in answers if a.code]
            holders = tuple(dict.fromkeys(h for a in failed for h in a.holders))
            code = failed[0].code if failed else LeaseCode.NONE
            return LeaseAnswer(code, "; ".join(a.message for a in failed), holders)
        holds = self._context.holds
        if not holds.causes(process_id):
            return LeaseAnswer()
        givers = holds.givers(process_id, cause)
        if givers or holds.causes(process_id) != (cause,):
            if holds.drop(process_id, cause):
                self._context.changed()
            if holds.causes(process_id) == (WAITING,):
                return self._resume_waiting(process_id, cause)
            return self._still_paused(process_id, cause, givers)
        held = self._go_on(process_id, cause, subsystems)
        if held is None:
            return LeaseAnswer()
        why = f"process {process_id} needs {held.subsystem}, which process {held.process_id} holds; {_until(held)}"
        return LeaseAnswer(LeaseCode.NOT_RESUMED, why, (held.process_id,))

    def end(self, process_id: str, cause: str) -> LeaseAnswer:
        """End a process: its calls and its goals on the way; free all it kept; let whom it has displaced go on."""
        if not process_id:
            return _nameless("end")
        stopped = []
        self._context.epochs.advance(process_id, (), self._context.clock.now())
        for run in self._context.calls.of(process_id):
            if not run.reported:
                stopped.append(run.spec.call_id)
            self._ends.stop(run, interruption(cause))
        self._release(process_id)
        self._context.changed()
        return LeaseAnswer(stopped=tuple(stopped))

    def preempt(self, rank: Rank, subsystems: Iterable[str], cause: str, process_id: str) -> LeaseAnswer:
        """Pause whoever uses or keeps one of these, and keep them for `process_id`; all or nothing."""
        context, wanted = self._context, tuple(dict.fromkeys(subsystems))
        if not process_id:
            return _nameless("preempt for")
        if own := context.holds.causes(process_id):
            why = f"process {process_id} is itself paused by {', '.join(own)}; resume it first"
            return LeaseAnswer(LeaseCode.NOT_RESUMED, why)
        users = dict.fromkeys(p for name in wanted for p in context.leases.users(name) if p != process_id)
        above = [p for p in users if context.holds.rank(p) < rank]
        if above:
            held = ", ".join(f"{p} ({context.holds.rank(p).name.lower()})" for p in above)
            why = f"rank {rank.name.lower()} may not take {', '.join(wanted)} from {held}; ask again when it has ended"
            return LeaseAnswer(LeaseCode.OUTRANKED, why, tuple(above))
        answers = [self._pause(p, rank.cause, cause, by=process_id) for p in users]
        context.holds.promote(process_id, rank, wanted)
        context.changed()
        return LeaseAnswer(
            holders=tuple(users),
            paused=tuple(c for a in answers for c in a.paused),
            stopped=tuple(c for a in answers for c in a.stopped),
        )

    def release_idle(self, process_id: str) -> bool:
        """Free what a process keeps though nothing of it runs and nothing pauses it; return whether there was something."""
        if self._context.calls.of(process_id) or self._context.holds.causes(process_id):
            return False
        freed = self._release(process_id)
        if freed:
            self._context.changed()
        return freed

    def states(self) -> tuple[ProcessHoldState, ...]:
        """Return what is kept for each process that keeps something or is paused."""
        context = self._context
        return tuple(
            ProcessHoldState(
                process_id,
                context.leases.reserved_for(process_id),
                context.holds.causes(process_id),
                tuple(r.spec.call_id for r in context.calls.of(process_id) if r.pausing is not Pausing.NONE and not r.reported),
            )
            for process_id in context.holds.processes()
        )

    def _release(self, process_id: str) -> bool:
        """Free what it keeps, and let those it has displaced go on."""
        holds = self._context.holds
        freed = holds.end(process_id)
        displaced = holds.take_back(process_id)
        self._serve_waiting(displaced)
        for other in displaced:
            if holds.causes(other):
                self._context.report(KernelEventType.PROCESS_PAUSED, WAITING, process_id=other)
        return freed

    def _serve_waiting(self, causes: Mapping[str, str] = MappingProxyType({})) -> None:
        """Give free subsystems to the processes that wait for them; `causes` are reported instead of `waiting`."""
        for process_id in self._context.holds.waiting:
            self._go_on(process_id, causes.get(process_id, WAITING))

    def _go_on(self, process_id: str, cause: str, subsystems: Iterable[str] = ()) -> Held | None:
        """Let a process go on with all it needs, or with nothing and return who has the first that is not free."""
        held = self._context.holds.reserve_again(process_id, subsystems)
        if held is None:
            held = self._pauses.resume_runs(process_id)
            if held is not None:
                self._context.leases.free(process_id, self._context.leases.reserved_for(process_id))
        if held is None:
            self._context.holds.wake(process_id)
            self._context.report(KernelEventType.PROCESS_RESUMED, cause, process_id=process_id)
            self._context.changed()
        return held

    def _resume_waiting(self, process_id: str, cause: str) -> LeaseAnswer:
        held = self._go_on(process_id, cause)
        if held is None:
            return LeaseAnswer()
        why = f"process {process_id} waits for {held.subsystem}, which process {held.process_id} holds; it goes on by itself"
        return LeaseAnswer(LeaseCode.NOT_RESUMED, why)

    def _still_paused(self, process_id: str, cause: str, givers: tuple[str, ...]) -> LeaseAnswer:
        if givers:
            why = f"process {', '.join(givers)} has taken what process {process_id} needs ({cause}); it goes on when that ends"
            return LeaseAnswer(LeaseCode.NOT_RESUMED, why)
        left = ", ".join(self._context.holds.causes(process_id))
        why = f"process {process_id} stays paused by {left}; resume it with that cause, too"
        return LeaseAnswer(LeaseCode.NOT_RESUMED, why)

    def _pause(self, process_id: str, cause: str, words: str = "", by: str = BY_NAME) -> LeaseAnswer:
        known = cause in self._context.holds.causes(process_id)
        first = self._context.holds.pause(process_id, cause, by)
        paused, stopped = [], []
        for run in self._context.calls.of(process_id):
            if first:
                before = run.ending
                if self._pauses.pause_run(run, words or cause):
                    paused.append(run.spec.call_id)
                elif before is None and run.ending is not None:
                    stopped.append(run.spec.call_id)
            elif run.pausing is not Pausing.NONE:
                paused.append(run.spec.call_id)
        if not known:
            self._context.report(KernelEventType.PROCESS_PAUSED, cause, process_id=process_id)
            self._context.changed()
        return LeaseAnswer(paused=tuple(paused), stopped=tuple(stopped))


def _nameless(what: str) -> LeaseAnswer:
    return LeaseAnswer(LeaseCode.INVALID_REQUEST, f"there is no process to {what}; give its process_id")


def _until(held: Held) -> str:
    return "resume again once it is at rest" if held.call_id else "pause or end that one, or wait"
