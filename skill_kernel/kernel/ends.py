# SPDX-License-Identifier: Apache-2.0
"""How calls are stopped and end: the first cause, the bounded stop, the one result (laws C9 and C10)."""

from __future__ import annotations

from functools import partial

from skill_kernel.calls import CallResult, KernelEventType
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.kernel.parts import KernelParts
from skill_kernel.kernel.running import Ending, RunningCall, interruption


class CallEnds:
    """Ends calls. Methods without another remark are called under the kernel's lock."""

    def __init__(self, parts: KernelParts) -> None:
        self._parts = parts

    def stop(self, run: RunningCall, ending: Ending) -> None:
        """Ask a call to end; it does within its stop time, or the robot is halted. Only the first cause counts."""
        now_s = self._parts.clock.now()
        if not run.tell(ending, now_s) or run.reported:
            return
        run.deadline.close()
        if run.body_ended:
            self.end(run, run.result(now_s))
        elif run.stop_timer is None:
            self.bound_stop(run)

    def bound_stop(self, run: RunningCall) -> None:
        """Watch that the skill ends in time."""
        bound_s = run.stop_bound_s() + self._parts.settings.stop_margin_s
        run.watch += 1
        run.stop_timer = self._parts.clock.call_later(bound_s, partial(self._not_stopped, run, run.watch, bound_s))

    def body_ended(self, run: RunningCall) -> None:
        """The skill has returned: how long its stop took."""
        if run.stop_asked_s is not None and run.begun:
            took_s = self._parts.clock.now() - run.stop_asked_s
            longest = self._parts.stop_measured_s
            longest[run.skill.name] = max(took_s, longest.get(run.skill.name, 0.0))

    def end(self, run: RunningCall, result: CallResult) -> None:
        """Give a call its one result, and what it holds back once its skill has returned."""
        run.reported = True
        self._parts.result(run.spec.call_id, result)
        if run.body_ended:
            self.forget(run)

    def uncertain(self, run: RunningCall, what: str) -> None:
        """Nobody knows whether the body stopped, and `what` says why: the call ends, and the robot is halted."""
        parts = self._parts
        result = run.uncertain_result(what, parts.clock.now())
        parts.report(KernelEventType.STOP_UNCERTAIN, result.error, run.spec)
        parts.outbox.put(partial(parts.listeners.on_halt, result.error))
        self.end(run, result)
        self.halt(result.error)
        parts.changed()

    def forget(self, run: RunningCall) -> None:
        """Nothing of the call is left."""
        for timer in (run.stop_timer, run.pause_timer):
            if timer is not None:
                timer.cancel()
        run.deadline.close()
        if run.leased:
            run.leased = False
            self._parts.leases.release(run.owner, run.all_subsystems)
        self._parts.calls.forget(run)
        self._parts.changed()

    def halt(self, cause: str) -> None:
        """Stop everything and take nothing more; the first cause stays."""
        parts = self._parts
        if parts.halt_cause is None:
            parts.halt_cause = cause
            parts.report(KernelEventType.HALTED, cause)
            parts.changed()
        for run in parts.calls.running:
            self.stop(run, Ending(Outcome.INTERRUPTED, CallCode.HALTED, f"the robot was halted: {cause}"))

    def too_late(self, call_id: str) -> None:
        """A deadline's time has come. Takes the lock."""
        with self._parts.lock:
            run = self._parts.calls.get(call_id)
            if run is not None and run.deadline.passed:
                took_s = self._parts.clock.now() - run.accepted_s
                error = f"{run.skill.name} was not done after {took_s:.1f} s, its deadline; it was stopped"
                self.stop(run, Ending(Outcome.FAILED, CallCode.DEADLINE, error))
        self._parts.flush()

    def _not_stopped(self, run: RunningCall, watch: int, bound_s: float) -> None:
        with self._parts.lock:
            if run.watch == watch and not run.body_ended and not run.reported:
                if run.ending is None:
                    run.tell(interruption("its process was paused"), self._parts.clock.now())
                self.uncertain(run, f"{run.skill.name} did not stop within {bound_s:g} s")
        self._parts.flush()
