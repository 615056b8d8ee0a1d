# SPDX-License-Identifier: Apache-2.0
"""How calls are stopped and end: the first cause, the bounded stop, the one result (laws C9 and C10)."""

from __future__ import annotations

from functools import partial

from skill_kernel.calls import CallResult, KernelEventType
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.kernel.context import KernelContext
from skill_kernel.kernel.running import Ending, RunningCall, interruption


class CallEnds:
    """End calls. Methods are called under the kernel's lock unless they say otherwise."""

    def __init__(self, context: KernelContext) -> None:
        self._context = context

    def stop(self, run: RunningCall, ending: Ending) -> None:
        """Ask a call to end within its stop time; past that the robot is halted. Only the first cause counts."""
        now_s = self._context.clock.now()
        if not run.tell(ending, now_s) or run.reported:
            return
        run.deadline.close()
        if run.body_ended:
            self.end(run, run.result(now_s))
        elif run.stop_timer is None:
            self.bound_stop(run)

    def bound_stop(self, run: RunningCall) -> None:
        """Halt the robot if the skill does not end in time."""
        bound_s = run.stop_bound_s() + self._context.settings.stop_margin_s
        run.watch += 1
        run.stop_timer = self._context.clock.call_later(bound_s, partial(self._not_stopped, run, run.watch, bound_s))

    def body_ended(self, run: RunningCall) -> None:
        """Measure how long the stop of a skill took that has returned."""
        if run.stop_asked_s is not None and run.begun:
            took_s = self._context.clock.now() - run.stop_asked_s
            longest = self._context.stop_measured_s
            longest[run.skill.name] = max(took_s, longest.get(run.skill.name, 0.0))

    def end(self, run: RunningCall, result: CallResult) -> None:
        """Give a call its one result, and free its leases once its skill has returned."""
        run.reported = True
        self._context.result(run.spec.call_id, result)
        if run.body_ended:
            self.forget(run)

    def uncertain(self, run: RunningCall, what: str) -> None:
        """End a call whose body may still move and halt the robot; `what` says why that is not known."""
        context = self._context
        result = run.uncertain_result(what, context.clock.now())
        context.report(KernelEventType.STOP_UNCERTAIN, result.error, run.spec)
        context.outbox.put(partial(context.callbacks.on_halt, result.error))
        self.end(run, result)
        self.halt(result.error)
        context.changed()

    def forget(self, run: RunningCall) -> None:
        """Remove a call of which nothing is left."""
        for timer in (run.stop_timer, run.pause_timer):
            if timer is not None:
                timer.cancel()
        run.deadline.close()
        if run.leased:
            run.leased = False
            self._context.leases.release(run.owner, run.all_subsystems)
        self._context.calls.forget(run)
        self._context.changed()

    def halt(self, cause: str) -> None:
        """Stop everything and accept nothing more; the first cause stays."""
        context = self._context
        if context.halt_cause is None:
            context.halt_cause = cause
            context.report(KernelEventType.HALTED, cause)
            context.changed()
        for run in context.calls.running:
            self.stop(run, Ending(Outcome.INTERRUPTED, CallCode.HALTED, f"the robot was halted: {cause}"))

    def too_late(self, call_id: str) -> None:
        """Stop a call whose deadline has passed. Takes the lock."""
        with self._context.lock:
            run = self._context.calls.get(call_id)
            if run is not None and run.deadline.passed:
                took_s = self._context.clock.now() - run.accepted_s
                error = f"{run.skill.name} was not done after {took_s:.1f} s, its deadline; it was stopped"
                self.stop(run, Ending(Outcome.FAILED, CallCode.DEADLINE, error))
        self._context.flush()

    def _not_stopped(self, run: RunningCall, watch: int, bound_s: float) -> None:
        with self._context.lock:
            if run.watch == watch and not run.body_ended and not run.reported:
                if run.ending is None:
                    run.tell(interruption("its process was paused"), self._context.clock.now())
                self.uncertain(run, f"{run.skill.name} did not stop within {bound_s:g} s")
        self._context.flush()
