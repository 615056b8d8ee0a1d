# SPDX-License-Identifier: Apache-2.0
"""Carry calls to their one result: each skill on a thread of its own, its pauses, its bounded stop (laws C5, C9, C10)."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from skill_kernel.calls import CallResult
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import Notice, NoticeKind, ProcessEvent, ProcessKind, RunEvent
from skill_kernel.kernel.holds import WAITING, Held, HoldTable, LeaseTable
from skill_kernel.kernel.running import CallTable, Pausing, RunningCall, cancel, interruption, normalized
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.arguments import ArgumentError, bind_typed
from skill_kernel.skills.hearing import ContentLost
from skill_kernel.skills.registry import SkillRegistry
from skill_kernel.skills.skill import Skill, SkillReturn


@dataclass(frozen=True)
class KernelSettings:
    """Bound the kernel, in seconds where a name says so.

    A call may take `deadline_factor` times its nominal duration plus `deadline_extra_s`.
    """

    stop_margin_s: float = 0.5
    deadline_factor: float = 3.0
    deadline_extra_s: float = 10.0
    content_timeout_s: float = 30.0
    max_running: int = 64


def start_thread(run: Callable[[], None], name: str) -> None:
    """Run a function on a daemon thread of its own. Raises RuntimeError when the system has none left."""
    threading.Thread(target=run, name=name, daemon=True).start()


class CallRunner:
    """Run calls that have their leases. Methods need the lock, which `step` takes, unless they say otherwise."""

    def __init__(
        self,
        registry: SkillRegistry,
        robot: RobotConfig,
        body: Any,
        clock: Clock,
        settings: KernelSettings,
        spawn: Callable[[Callable[[], None], str], None],
        *,
        on_result: Callable[[str, CallResult], None],
        on_event: Callable[[RunEvent], None],
        on_change: Callable[[], None],
        on_halt: Callable[[str], None],
    ) -> None:
        self._registry, self._limits, self._body, self._spawn = registry, robot.limits, body, spawn
        self.clock, self.settings = clock, settings
        self.on_result, self.on_event, self.on_change, self.on_halt = on_result, on_event, on_change, on_halt
        self.leases = LeaseTable(robot.subsystems)
        self.holds = HoldTable(self.leases)
        self.calls = CallTable()
        self.halt_cause: str | None = None
        self.stop_measured_s: dict[str, float] = {}
        self._lock, self._emptying = threading.Lock(), threading.Lock()
        self._outbox: deque[Callable[[], None]] = deque()

    # -- steps and what they tell --------------------------------------------------------------------------------

    @contextmanager
    def step(self) -> Iterator[None]:
        """Hold the lock. A step that did not raise ends with giving what is free to who waits, and with `flush`."""
        with self._lock:
            yield
            self.serve_waiting()
        self.flush()

    def flush(self) -> None:
        """Call what was put into the outbox, in that order. Never waits: what another thread is calling leaves with that one.

        Needs to be called without the lock. A callback that raises is logged, and the others follow.
        """
        while self._outbox and self._emptying.acquire(blocking=False):
            try:
                while self._outbox:
                    callback = self._outbox.popleft()
                    try:
                        callback()
                    except Exception:
                        logging.getLogger(__name__).exception("a listener of the kernel raised")
            finally:
                self._emptying.release()

    def report(self, event: RunEvent) -> None:
        """Report an event once the lock is released."""
        self._outbox.append(lambda: self.on_event(event))

    def notice(self, run: RunningCall, text: str, code: CallCode = CallCode.NONE) -> None:
        """Report what a person should read about a call."""
        self.report(Notice(text=text, error_code=code, error_msg=text if code else "", **run.spec.about))

    def changed(self) -> None:
        """Report that the state has changed."""
        self._outbox.append(self.on_change)

    # -- stops and ends ------------------------------------------------------------------------------------------

    def stop(self, run: RunningCall, ending: CallResult) -> None:
        """Ask a call to end within its stop time; past that the robot is halted. Only the first cause counts."""
        now_s = self.clock.now()
        if not run.tell(ending, now_s) or run.reported:
            return
        run.deadline.close()
        if run.body_ended:
            self._end(run, run.result(now_s))
        elif run.stop_timer is None:
            self._bound_stop(run)

    def halt(self, cause: str) -> None:
        """Stop everything and accept nothing more; the first cause stays."""
        if self.halt_cause is None:
            self.halt_cause = cause
            self.report(Notice(kind=NoticeKind.HALTED, text=cause, error_code=CallCode.HALTED, error_msg=cause))
            self.changed()
        for run in self.calls.running:
            self.stop(run, CallResult(Outcome.INTERRUPTED, CallCode.HALTED, f"the robot was halted: {cause}"))

    def too_late(self, call_id: str) -> None:
        """Stop a call whose deadline has passed. Takes the lock."""
        with self.step():
            run = self.calls.get(call_id)
            if run is not None and run.deadline.passed:
                took_s = self.clock.now() - run.accepted_s
                error = f"{run.skill.name} was not done after {took_s:.1f} s, its deadline; it was stopped"
                self.stop(run, CallResult(Outcome.FAILED, CallCode.DEADLINE, error))

    def _bound_s(self, run: RunningCall) -> float:
        return run.declared_s(run.skill.stop_bound_s) + self.settings.stop_margin_s

    def _bound_stop(self, run: RunningCall) -> None:
        """Halt the robot if the skill does not end in time."""
        bound_s = self._bound_s(run)
        run.watch += 1
        run.stop_timer = self.clock.call_later(bound_s, partial(self._not_stopped, run, run.watch, bound_s))

    def _not_stopped(self, run: RunningCall, watch: int, bound_s: float) -> None:
        with self.step():
            if run.watch == watch and not run.body_ended and not run.reported:
                if run.ending is None:
                    run.tell(interruption("its process was paused"), self.clock.now())
                self._uncertain(run, f"{run.skill.name} did not stop within {bound_s:g} s")

    def _uncertain(self, run: RunningCall, what: str) -> None:
        """End a call whose body may still move and halt the robot; `what` says why that is not known."""
        result = run.uncertain_result(what, self.clock.now())
        self.notice(run, result.error, CallCode.STOP_UNCERTAIN)
        self._outbox.append(lambda: self.on_halt(result.error))
        self._end(run, result)
        self.halt(result.error)
        self.changed()

    def _end(self, run: RunningCall, result: CallResult) -> None:
        """Give a call its one result, and free its leases once its skill has returned."""
        run.reported = True
        self._outbox.append(lambda: self.on_result(run.spec.call_id, result))
        if run.body_ended:
            self._forget(run)

    def _forget(self, run: RunningCall) -> None:
        """Remove a call of which nothing is left."""
        cancel(run.stop_timer)
        cancel(run.pause_timer)
        run.deadline.close()
        if run.leased:
            run.leased = False
            self.leases.release(run.owner, run.all_subsystems)
        self.calls.forget(run)
        self.changed()

    # -- pauses of one call, asked for by itself: it keeps its leases --------------------------------------------

    def pause_call(self, run: RunningCall, cause: str) -> None:
        """Ask one call to pause."""
        if run.ending is None and not run.body_ended:
            if run.skill.pausable:
                run.paused_alone = True
                run.deadline.pause()
                run.pause_evt.set()
            else:
                self.stop(run, interruption(f"{cause} ({run.skill.name} cannot pause)"))

    def resume_call(self, run: RunningCall) -> None:
        """Let one call go on, as far as its process may."""
        run.paused_alone = False
        if run.ending is None and run.pausing is Pausing.NONE:
            self._wake(run)

    # -- pauses of a process: its calls give their leases away, and take them back first (TypeGo 5.2) ------------

    def pause_run(self, run: RunningCall, cause: str) -> bool:
        """Pause a call because its process does; false when it ends instead."""
        if run.reported or run.ending is not None:
            return False
        if run.begun and not run.body_ended and not run.skill.pausable and not run.skill.restartable:
            why = f"its process was paused ({cause}) and {run.skill.name} cannot pause; plan it anew"
            self.stop(run, interruption(why, CallCode.PROCESS_PAUSED))
            return False
        if run.pausing is Pausing.STOPPING:  # paused, resumed and paused again before it has returned
            return True
        run.deadline.pause()
        if run.body_ended or not run.begun:
            run.pause_evt.set()
            self._park(run)
        elif run.skill.pausable:
            run.pausing = Pausing.ASKED
            run.pause_evt.set()
            if run.at_rest:
                self._park(run)
            else:
                bound_s = self._bound_s(run)
                run.watch += 1
                run.pause_timer = self.clock.call_later(bound_s, partial(self._not_at_rest, run, run.watch, bound_s))
        else:
            run.pausing = Pausing.STOPPING
            run.ask_to_stop(self.clock.now())
            self._bound_stop(run)
        return True

    def came_to_rest(self, run: RunningCall) -> None:
        """Park a call whose skill waits in `PauseEvent.rest`. Takes the lock."""
        with self.step():
            if run.pause_evt.is_set():
                run.at_rest = True
                if run.pausing is Pausing.ASKED:
                    self._park(run)

    def serve_waiting(self, causes: Mapping[str, str] | None = None) -> None:
        """Give free subsystems to the processes that wait for them; `causes` are reported instead of `waiting`."""
        for process_id in self.holds.waiting:
            self.go_on(process_id, (causes or {}).get(process_id, WAITING))

    def go_on(self, process_id: str, cause: str, subsystems: Iterable[str] = ()) -> Held | None:
        """Let a process go on with all it needs, or with nothing and return who has the first that is not free."""
        held = self.holds.reserve_again(process_id, subsystems)
        if held is None:
            held = self._resume_runs(process_id)
            if held is not None:
                self.leases.free(process_id)
        if held is None:
            self.holds.wake(process_id)
            self.report(ProcessEvent(kind=ProcessKind.RESUMED, process_id=process_id, cause=cause))
            self.changed()
        return held

    def _resume_runs(self, process_id: str) -> Held | None:
        """Let the calls of a process go on with their leases, or none and return who holds what one of them needs."""
        paused = [r for r in self.calls.of(process_id) if r.ending is None and not r.reported]
        taken: list[RunningCall] = []
        for run in [r for r in paused if r.pausing is Pausing.PARKED]:
            held = self.leases.acquire(run.owner, run.all_subsystems)
            if held is not None:
                for other in taken:
                    self.leases.release(other.owner, other.all_subsystems)
                return held
            taken.append(run)
        for run in paused:
            if run.pausing in (Pausing.ASKED, Pausing.PARKED):
                self._go_on(run)
        return None

    def _park(self, run: RunningCall) -> None:
        run.watch += 1
        cancel(run.pause_timer)
        run.pausing = Pausing.PARKED
        run.leased = False
        self.leases.release(run.owner, run.all_subsystems)
        self.changed()

    def _go_on(self, run: RunningCall) -> None:
        run.watch += 1
        cancel(run.pause_timer)
        run.pausing, run.leased = Pausing.NONE, True
        if not run.paused_alone:
            self._wake(run)
        if run.starts_anew:
            run.starts_anew = run.body_ended = False
            run.stop_asked_s, run.body_result = None, None
            run.stop_evt.clear()
            self._outbox.append(lambda: self.begin(run))

    def _wake(self, run: RunningCall) -> None:
        run.at_rest = False
        run.deadline.resume()
        run.pause_evt.clear()

    def _not_at_rest(self, run: RunningCall, watch: int, bound_s: float) -> None:
        with self.step():
            if run.watch == watch and run.pausing is Pausing.ASKED and run.ending is None and not run.body_ended:
                why = f"{run.skill.name} did not come to rest within {bound_s:g} s of a pause (pause_evt.rest was not called)"
                self.stop(run, interruption(why, CallCode.PROCESS_PAUSED))

    # -- threads; nothing here is called with the lock -----------------------------------------------------------

    def begin(self, run: RunningCall) -> None:
        """Start the skill's thread. Takes the lock when there is none to be had."""
        try:
            self._spawn(partial(self._run, run), f"{run.skill.name}-{run.spec.call_id[:8]}")
        except RuntimeError as error:
            why = f"{run.skill.name} got no thread ({error}); too much runs at once"
            self._returned(run, SkillReturn.failure(why))

    def perform(self, skill: Skill, run: RunningCall, arguments: Mapping[str, Any], *, until_reset: bool) -> SkillReturn:
        """Call a skill's function with what is injected, on the thread of `run`, a call of it or of a composite around it."""
        known = {
            "body": self._body,
            "stop_evt": run.stop_evt,
            "pause_evt": run.pause_evt,
            "until_reset": until_reset,
            "kernel": SkillCaller(self, run),
        }
        return normalized(skill.function(**arguments, **{name: known[name] for name in skill.injected}), skill.name)

    def call(self, run: RunningCall, name: str, arguments: Mapping[str, Any]) -> SkillReturn:
        """Run a skill to its end inside a composite. A failure is returned; an exception of the skill passes through."""
        skill = self._registry.get(name)
        if skill is None:
            return SkillReturn.failure(f"there is no skill '{name}'", CallCode.UNKNOWN_FUNCTION)
        try:
            values = bind_typed(skill, arguments, self._limits).values
        except ArgumentError as error:
            return SkillReturn.failure(error.message, error.code)
        wanted = [s for s in skill.subsystems_for(values) if s not in run.subsystems]
        if skill.content is not None:
            text = str(values.pop(skill.content, ""))
            values[skill.content] = iter([text]) if skill.content_streams else text
        refused = self._take(run, name, wanted)
        if refused is not None:
            return refused
        try:
            return self.perform(skill, run, values, until_reset=False)
        finally:
            with self.step():
                for subsystem in wanted:
                    run.nested[subsystem] -= 1
                    if not run.nested[subsystem]:
                        del run.nested[subsystem]
                        if run.leased:
                            self.leases.release(run.owner, [subsystem])
                self.changed()

    def _take(self, run: RunningCall, name: str, wanted: list[str]) -> SkillReturn | None:
        """Take the subsystems of the next skill. Between two skills a composite is at rest, so a pause is waited out here."""
        while True:
            with self.step():
                if run.ending is not None or run.stop_evt.is_set():
                    return SkillReturn.interruption(f"stopped before {name} began")
                if not run.pause_evt.is_set():
                    held = self.leases.acquire(run.owner, [s for s in wanted if s not in run.nested])
                    if held is not None:
                        text = f"{name} needs {held.subsystem}, which process {held.process_id} holds"
                        return SkillReturn.failure(text, CallCode.SUBSYSTEM_HELD)
                    for subsystem in wanted:
                        run.nested[subsystem] = run.nested.get(subsystem, 0) + 1
                    self.changed()
                    return None
            run.pause_evt.rest()

    def _run(self, run: RunningCall) -> None:
        try:
            arguments = dict(run.arguments)
            if run.skill.content is not None and run.buffer is not None:
                arguments[run.skill.content] = run.buffer if run.skill.content_streams else run.buffer.whole()
            if self._may_begin(run):
                body = self.perform(run.skill, run, arguments, until_reset=run.spec.open)
            else:
                body = SkillReturn.interruption("it was stopped before it began")
        except ContentLost as error:
            body = SkillReturn.failure(str(error), CallCode.DEADLINE)
        except BaseException as error:  # noqa: BLE001 - a skill's fault must not take the kernel with it
            body = _raised(run, error)
        self._returned(run, body)

    def _may_begin(self, run: RunningCall) -> bool:
        """Wait out a pause that came before the first statement; return false when the call was stopped."""
        while True:
            with self.step():
                if run.ending is not None:
                    return False
                if not run.pause_evt.is_set():
                    run.begun = True
                    run.start_s = self.clock.now() if run.start_s < 0 else run.start_s
                    return True
            run.pause_evt.rest()

    def _returned(self, run: RunningCall, body: SkillReturn) -> None:
        left: list[dict[str, Any]] | None = None
        if run.skill.restartable and run.pausing is Pausing.STOPPING:
            try:
                left = run.remaining(body)
            except Exception as error:  # noqa: BLE001 - the skill's author's code
                body = _raised(run, error)
        with self.step():
            self._settle(run, body, left)

    def _settle(self, run: RunningCall, body: SkillReturn, left: list[dict[str, Any]] | None) -> None:
        now_s, name = self.clock.now(), run.skill.name
        run.body_ended, run.body_result = True, body
        if run.stop_asked_s is not None and run.begun:
            self.stop_measured_s[name] = max(now_s - run.stop_asked_s, self.stop_measured_s.get(name, 0.0))
        if run.reported:
            self.notice(run, f"{name} has stopped after all, {now_s - run.accepted_s:.1f} s on")
            self._forget(run)
            return
        if not body.ok and body.error_code == CallCode.STOP_UNCERTAIN:
            self._uncertain(run, body.message or f"{name} does not know whether it stopped")
            return
        if run.pausing is Pausing.STOPPING and run.ending is None:
            run.pausing = Pausing.NONE
            if body.interrupted and left:
                self._start_later(run, left[0])
                return
            if body.interrupted and left is None:
                why = f"its process was paused, and {name} does not tell what remains; plan it anew"
                run.ending = interruption(why, CallCode.PROCESS_PAUSED)
            elif body.interrupted:
                run.body_result = body = SkillReturn.success(body.message)
        run.deadline.close()
        if run.ending is not None or not run.spec.open or not body.ok:
            self._end(run, run.result(now_s))
        elif run.pausing is Pausing.ASKED:  # nothing of an open call moves any more whose skill has returned
            self._park(run)

    def _start_later(self, run: RunningCall, arguments: dict[str, Any]) -> None:
        """Let a skill that was stopped for a pause begin anew, with what is left of it, when its process goes on."""
        run.arguments, run.starts_anew, run.begun = arguments, True, False
        cancel(run.stop_timer)
        run.stop_timer = None
        if self.holds.causes(run.spec.process_id):
            self._park(run)
        else:
            self._go_on(run)


class SkillCaller:
    """Call skills on the composite skill's thread: its `kernel` parameter (TypeGo 4).

    They share its stop and pause events, its process and its result. Subsystems that it does not hold itself are taken for
    the time of the call.
    """

    def __init__(self, runner: CallRunner, run: RunningCall) -> None:
        self._runner, self._run = runner, run

    def call(self, name: str, /, **arguments: Any) -> SkillReturn:
        """Run a skill to its end. A failure is returned, not raised; an exception of the skill passes through."""
        return self._runner.call(self._run, name, arguments)


def _raised(run: RunningCall, error: BaseException) -> SkillReturn:
    text = " ".join(str(error).split())[:300]
    return SkillReturn.failure(f"{run.skill.name} raised {type(error).__name__}: {text}", CallCode.SKILL_RAISED)
