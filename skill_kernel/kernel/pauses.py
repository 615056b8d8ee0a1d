# SPDX-License-Identifier: Apache-2.0
"""How calls pause and go on: a paused call comes to rest, gives its leases away, and takes them back first (TypeGo 5.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from skill_kernel.codes import CallCode
from skill_kernel.kernel.context import KernelContext
from skill_kernel.kernel.ends import CallEnds
from skill_kernel.kernel.leases import Held
from skill_kernel.kernel.running import Pausing, RunningCall, interruption
from skill_kernel.skills.returns import SkillReturn


@dataclass(frozen=True)
class Remaining:
    """Tell what is left of a call that was stopped for a pause: nothing (`arguments` None), or a call with these."""

    arguments: dict[str, Any] | None


def what_remains(run: RunningCall, body: SkillReturn) -> Remaining | None:
    """Return how a stopped skill goes on after the pause, or None where it cannot tell. Runs code of the skill's author."""
    if not body.interrupted:
        return None
    if run.skill.remaining is not None and body.progress is not None:
        left: Mapping[str, Any] | None = run.skill.remaining(body.progress, **run.arguments)
        return Remaining(None if left is None else {**run.arguments, **left})
    return Remaining(run.arguments) if run.skill.idempotent else None


class Pauses:
    """Pause calls and let them go on. Methods are called under the kernel's lock unless they say otherwise."""

    def __init__(self, context: KernelContext, ends: CallEnds, spawn: Callable[[RunningCall], None]) -> None:
        self._context, self._ends, self._spawn = context, ends, spawn

    # -- one call, asked for by itself: it keeps its leases ------------------------------------------------------

    def pause_call(self, run: RunningCall, cause: str) -> None:
        """Ask one call to pause."""
        if run.ending is None and not run.body_ended:
            if run.skill.pausable:
                run.paused_alone = True
                run.deadline.pause()
                run.pause_evt.set()
            else:
                self._ends.stop(run, interruption(f"{cause} ({run.skill.name} cannot pause)"))

    def resume_call(self, run: RunningCall) -> None:
        """Let one call go on, as far as its process may."""
        run.paused_alone = False
        if run.ending is None and run.pausing is Pausing.NONE:
            self._wake(run)

    # -- the calls of a process that pauses: they give their leases away -----------------------------------------

    def pause_run(self, run: RunningCall, cause: str) -> bool:
        """Pause a call because its process does; false when it ends instead."""
        if run.reported or run.ending is not None:
            return False
        if run.body_ended or not run.begun:
            run.deadline.pause()
            run.pause_evt.set()
            self._park(run)
        elif run.skill.pausable:
            run.deadline.pause()
            run.pausing = Pausing.ASKED
            run.pause_evt.set()
            if run.at_rest:
                self._park(run)
            else:
                bound_s = run.stop_bound_s() + self._context.settings.stop_margin_s
                run.watch += 1
                late = partial(self._not_at_rest, run, run.watch, bound_s)
                run.pause_timer = self._context.clock.call_later(bound_s, late)
        elif run.skill.restartable:
            if run.pausing is Pausing.STOPPING:  # paused, resumed and paused again before it has returned
                return True
            run.deadline.pause()
            run.pausing = Pausing.STOPPING
            run.ask_to_stop(self._context.clock.now())
            self._ends.bound_stop(run)
        else:
            why = f"its process was paused ({cause}) and {run.skill.name} cannot pause; plan it anew"
            self._ends.stop(run, interruption(why, CallCode.PROCESS_PAUSED))
            return False
        return True

    def resume_runs(self, process_id: str) -> Held | None:
        """Let the calls of a process go on with their leases, or none and return who holds what one of them needs."""
        waiting = [r for r in self._context.calls.of(process_id) if r.ending is None and not r.reported]
        taken: list[RunningCall] = []
        for run in waiting:
            if run.pausing is Pausing.PARKED:
                held = self._context.leases.acquire(run.owner, run.all_subsystems)
                if held is not None:
                    for other in taken:
                        self._context.leases.release(other.owner, other.all_subsystems)
                    return held
                taken.append(run)
        for run in waiting:
            if run.pausing in (Pausing.ASKED, Pausing.PARKED):
                self._go_on(run)
        return None

    def came_to_rest(self, run: RunningCall) -> None:
        """Park a call whose skill waits in `PauseEvent.rest`. Takes the lock."""
        with self._context.lock:
            if run.pause_evt.is_set():
                run.at_rest = True
                if run.pausing is Pausing.ASKED:
                    self._park(run)
        self._context.flush()

    def stopped(self, run: RunningCall, body: SkillReturn, left: Remaining | None) -> SkillReturn | None:
        """Settle a skill that was stopped for a pause; return its final result, or None when it goes on."""
        run.pausing = Pausing.NONE
        if not body.interrupted:
            return body
        if left is None:
            why = f"its process was paused, and {run.skill.name} does not tell what remains; plan it anew"
            run.ending = interruption(why, CallCode.PROCESS_PAUSED)
            return body
        if left.arguments is None:
            return SkillReturn.success(body.message)
        run.arguments, run.starts_anew, run.begun = left.arguments, True, False
        if run.stop_timer is not None:
            run.stop_timer.cancel()
            run.stop_timer = None
        self._park_or_go_on(run)
        return None

    def open_body_ended(self, run: RunningCall) -> None:
        """Park an open call whose skill has returned: nothing of it moves any more."""
        if run.pausing is Pausing.ASKED:
            self._park(run)

    def _park_or_go_on(self, run: RunningCall) -> None:
        if self._context.holds.causes(run.spec.process_id):
            self._park(run)
        else:
            self._go_on(run)

    def _park(self, run: RunningCall) -> None:
        run.watch += 1
        if run.pause_timer is not None:
            run.pause_timer.cancel()
        run.pausing = Pausing.PARKED
        run.leased = False
        self._context.leases.release(run.owner, run.all_subsystems)
        self._context.changed()

    def _go_on(self, run: RunningCall) -> None:
        run.watch += 1
        if run.pause_timer is not None:
            run.pause_timer.cancel()
        run.pausing, run.leased = Pausing.NONE, True
        if not run.paused_alone:
            self._wake(run)
        if run.starts_anew:
            run.starts_anew = run.body_ended = False
            run.stop_asked_s, run.body_result = None, None
            run.stop_evt.clear()
            self._context.outbox.put(partial(self._spawn, run))

    def _wake(self, run: RunningCall) -> None:
        run.at_rest = False
        run.deadline.resume()
        run.pause_evt.clear()

    def _not_at_rest(self, run: RunningCall, watch: int, bound_s: float) -> None:
        with self._context.lock:
            if run.watch == watch and run.pausing is Pausing.ASKED and run.ending is None and not run.body_ended:
                why = f"{run.skill.name} did not come to rest within {bound_s:g} s of a pause (pause_evt.rest was not called)"
                self._ends.stop(run, interruption(why, CallCode.PROCESS_PAUSED))
        self._context.flush()
