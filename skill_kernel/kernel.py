# SPDX-License-Identifier: Apache-2.0
"""The skill kernel: runs typed calls on the robot's subsystems, each with exactly one result (TypeGo 5.1)."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from skill_kernel.arguments import ArgumentError, bind_typed, unknown_limits
from skill_kernel.calls import (
    Accepted,
    CallResult,
    CallSpec,
    Interruption,
    KernelEvent,
    KernelEventType,
    KernelSnapshot,
    Refused,
    SubsystemState,
)
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, Outcome, ParseCode
from skill_kernel.composite import SkillCaller
from skill_kernel.content import ContentBuffer, ContentLost
from skill_kernel.deadline import Deadline
from skill_kernel.epochs import EpochTable
from skill_kernel.leases import Held, LeaseTable, Owner
from skill_kernel.outbox import Outbox
from skill_kernel.registry import SkillRegistry
from skill_kernel.returns import SkillReturn
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.running import RESET, Ending, RunningCall, normalized
from skill_kernel.skill import Skill
from skill_kernel.threads import SkillThreads

EARLY_CALLS, EARLY_MESSAGES = 256, 2000
"""Calls not known yet for which content and control is kept, and how much of each: it may overtake the call."""

REMEMBERED_CALLS = 4096
"""Ended calls whose ids are remembered, so that a late control for one is not kept and no id is used twice."""


@dataclass(frozen=True)
class KernelSettings:
    """Bounds of the kernel, seconds where a name says so. `deadline_factor` times the nominal duration plus
    `deadline_extra_s` is what a call may take at most."""

    stop_margin_s: float = 0.5
    deadline_factor: float = 3.0
    deadline_extra_s: float = 10.0
    content_timeout_s: float = 30.0
    max_running: int = 64


class Kernel:
    """Runs skills for processes. Every method may be called from any thread and none blocks.

    `on_result(call_id, result)` comes exactly once per accepted call, `on_event` for what else happens, `on_change`
    when `state()` would answer differently, `on_halt(cause)` when the robot must be halted because a skill did not
    stop. They come in the order things happened, on the thread that caused them, outside the kernel's lock.
    Raises RobotConfigError when a skill refers to a limit the robot does not have.
    """

    def __init__(
        self,
        registry: SkillRegistry,
        robot: RobotConfig,
        body: Any,
        clock: Clock,
        *,
        on_result: Callable[[str, CallResult], None],
        on_event: Callable[[KernelEvent], None] = lambda event: None,
        on_change: Callable[[], None] = lambda: None,
        on_halt: Callable[[str], None] = lambda cause: None,
        spawn: Callable[[Callable[[], None], str], None] | None = None,
        settings: KernelSettings | None = None,
    ) -> None:
        for skill in registry:
            if missing := unknown_limits(skill, robot.limits):
                raise RobotConfigError(_no_limit(skill, missing[0], robot))
        self._registry, self._robot, self._body, self._clock = registry, robot, body, clock
        self._on_result, self._on_event, self._on_change, self._on_halt = on_result, on_event, on_change, on_halt
        self._spawn = spawn or SkillThreads()
        self._settings = settings or KernelSettings()
        self._lock = threading.Lock()
        self._outbox = Outbox()
        self._leases = LeaseTable(robot.subsystems)
        self._epochs = EpochTable()
        self._calls: dict[str, RunningCall] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._early: OrderedDict[str, list[Callable[[RunningCall], None]]] = OrderedDict()
        self._halt_cause: str | None = None

    # -- calls ---------------------------------------------------------------------------------------------------

    def execute(self, call: CallSpec) -> Accepted | Refused:
        """Start a call, or say why not and who holds what it needs. Arguments are checked and clamped once more."""
        skill = self._registry.get(call.function)
        if skill is None:
            near = self._registry.suggestions(call.function)
            hint = f"; did you mean {' or '.join(near)}?" if near else f"; known: {', '.join(self._registry.names)}"
            return Refused(CallCode.UNKNOWN_FUNCTION, f"there is no skill '{call.function[:80]}'{hint}")
        if missing := unknown_limits(skill, self._robot.limits):  # the skill set may have been replaced
            return Refused(CallCode.SKILL_FAILED, _no_limit(skill, missing[0], self._robot))
        try:
            bound = bind_typed(skill, call.arguments, self._robot.limits)
            subsystems = skill.subsystems_for(bound.values)
        except ArgumentError as error:
            return Refused(error.code, error.message)
        except Exception as error:  # noqa: BLE001 - a subsystem made of an argument that has no text
            return Refused(
                CallCode.SKILL_FAILED, f"{skill.name} cannot tell its subsystem: {type(error).__name__}: {error}"
            )
        buffer = self._new_buffer(skill, call, bound.values)
        with self._lock:
            refused = self._refusal(call, skill, subsystems)
            if refused is not None:
                return refused
            owner = Owner(call.process_id, call.call_id, open=call.open, nested=bool(call.parent_id))
            held = self._leases.acquire(owner, subsystems)
            if held is not None:
                return self._held(skill, call, held)
            self._epochs.seen(call.epoch)
            deadline = Deadline(self._clock, partial(self._too_late, call.call_id))
            run = RunningCall(call, skill, bound.values, owner, subsystems, buffer, deadline, self._clock.now())
            self._calls[call.call_id] = run
            self._extend_deadline(run)
            for note in bound.clamped:
                self._report(KernelEventType.CLAMPED, note, call)
            for message in self._early.pop(call.call_id, []):
                message(run)
            self._outbox.put(self._on_change)
        try:
            self._spawn(partial(self._run, run), f"{skill.name}-{call.call_id[:8]}")
        except RuntimeError as error:
            self._body_ended(run, SkillReturn.failure(f"{skill.name} got no thread ({error}); too much runs at once"))
        self._outbox.flush()
        return Accepted(tuple(bound.clamped))

    def content(self, call_id: str, seq: int, text: str, last: bool) -> None:
        """More character data of a call. A gap in `seq` ends the call as FAILED with SEQUENCE_GAP."""
        self._deliver(call_id, partial(self._put_content, seq=seq, text=text, last=last))

    def reset(self, call_id: str) -> None:
        """Condition-based termination: the call ends as DONE (law C5)."""
        self._deliver(call_id, partial(self._stop, ending=RESET))

    def interrupt(self, call_id: str, cause: str) -> None:
        """Event-driven termination: the call ends as INTERRUPTED within its stop time (law C9)."""
        self._deliver(call_id, partial(self._stop, ending=_interruption(cause)))

    def pause(self, call_id: str, cause: str) -> None:
        """Ask the skill to pause. One that cannot is interrupted, and has to be planned anew (semantics section 4)."""
        self._deliver(call_id, partial(self._pause, cause=cause))

    def resume(self, call_id: str) -> None:
        """Let a paused call go on. The pause does not count towards its deadline."""
        self._deliver(call_id, self._resume)

    # -- interrupts and halt -------------------------------------------------------------------------------------

    def interrupt_process(
        self, process_id: str, channels: Iterable[str], cause: str, *, epoch: int = 0
    ) -> Interruption:
        """End what a process runs ("" = every process) on these channels (none = all), and void its older goals.

        Answers at once, with the new epoch and what was running; results follow within the skills' stop times.
        """
        wanted = frozenset(channels)
        with self._lock:
            new = self._epochs.advance(process_id, sorted(wanted), self._clock.now(), at_least=epoch)
            hit = [r for r in self._calls.values() if process_id in ("", r.spec.process_id) and r.holds(wanted)]
            stopped = tuple(r.spec.call_id for r in hit if not r.reported)
            uncertain = tuple(r.spec.call_id for r in hit if r.reported)
            for run in hit:
                self._stop(run, _interruption(cause))
        self._outbox.flush()
        return Interruption(new, stopped, uncertain)

    def halt(self, cause: str) -> None:
        """Stop everything and refuse every call with HALTED until `clear`. The first cause stays."""
        with self._lock:
            self._halt(cause)
        self._outbox.flush()

    def clear(self) -> None:
        """Accept calls again after a halt."""
        with self._lock:
            if self._halt_cause is not None:
                self._halt_cause = None
                self._report(KernelEventType.HALT_CLEARED, "the halt was cleared")
                self._outbox.put(self._on_change)
        self._outbox.flush()

    def state(self) -> KernelSnapshot:
        """The kernel's state now."""
        with self._lock:
            subsystems = []
            for name in self._leases.names():
                holders, settings = self._leases.holders(name), self._leases.settings(name)
                subsystems.append(SubsystemState(
                    name, settings.exclusive_per_process, settings.parallel,
                    holders[0].process_id if holders else "", tuple(h.call_id for h in holders),
                ))  # fmt: skip
            running = tuple(c for c, r in self._calls.items() if not r.reported)
            cause, halted = self._halt_cause or "", self._halt_cause is not None
            return KernelSnapshot(halted, cause, self._registry.version, tuple(subsystems), running)

    # -- a skill's own thread ------------------------------------------------------------------------------------

    def _run(self, run: RunningCall) -> None:
        try:
            content = {run.skill.content: run.content()} if run.skill.content is not None else {}
            with self._lock:
                if run.ending is not None:
                    body = SkillReturn.interruption("it was stopped before it began")
                else:
                    run.start_s, body = self._clock.now(), None
            if body is None:
                injected = {name: self._injected(run, name) for name in run.skill.injected}
                returned = run.skill.function(**{**run.arguments, **content, **injected})
                body = normalized(returned, run.skill.name)
        except ContentLost as error:
            body = SkillReturn.failure(str(error), CallCode.DEADLINE)
        except BaseException as error:  # noqa: BLE001 - a skill's fault must not take the kernel with it
            text = " ".join(str(error).split())[:300]
            body = SkillReturn.failure(f"{run.skill.name} raised {type(error).__name__}: {text}", CallCode.SKILL_RAISED)
        self._body_ended(run, body)

    def _injected(self, run: RunningCall, name: str) -> Any:
        if name == "kernel":
            return SkillCaller(
                run, self._registry, self._robot.limits, self._body,
                lock=self._lock, leases=self._leases, on_change=self._changed,
            )  # fmt: skip
        return {
            "body": self._body, "stop_evt": run.stop_evt, "pause_evt": run.pause_evt, "until_reset": run.spec.open,
        }[name]  # fmt: skip

    def _body_ended(self, run: RunningCall, body: SkillReturn) -> None:
        with self._lock:
            run.body_ended, run.body_result = True, body
            run.deadline.close()
            if run.reported:
                late_s = self._clock.now() - run.accepted_s
                self._report(
                    KernelEventType.STOPPED_LATE, f"{run.skill.name} has stopped after all, {late_s:.1f} s on", run.spec
                )
                self._forget(run)
            elif run.ending is not None or not run.spec.open or not body.ok:
                self._end(run, run.result(self._clock.now()))
        self._outbox.flush()

    def _changed(self) -> None:
        self._outbox.put(self._on_change)
        self._outbox.flush()

    # -- under the lock ------------------------------------------------------------------------------------------

    def _refusal(self, call: CallSpec, skill: Skill, subsystems: tuple[str, ...]) -> Refused | None:
        lowest = self._epochs.lowest(call.process_id, (*call.channels, *subsystems), self._clock.now())
        if call.epoch < lowest:
            text = f"{skill.name} is of epoch {call.epoch}; an interrupt ended all before epoch {lowest}"
            return Refused(CallCode.STALE_EPOCH, text)
        if self._halt_cause is not None:
            return Refused(CallCode.HALTED, f"the robot is halted ({self._halt_cause}); clear the halt first")
        if call.call_id in self._calls or call.call_id in self._ended:
            return Refused(
                CallCode.INVALID_ARGUMENT, f"call id {call.call_id} was used before; each call needs its own"
            )
        if len(self._calls) >= self._settings.max_running:
            return Refused(CallCode.QUEUE_FULL, f"{len(self._calls)} calls run already; wait until some have ended")
        return None

    def _held(self, skill: Skill, call: CallSpec, held: Held) -> Refused:
        holder = self._calls[held.owner.call_id]
        if holder.spec.process_id == call.process_id and holder in self._ancestors(call):
            around = f"which the {holder.skill.name} around it holds; write it after the end tag"
            text = f"{skill.name} needs {held.subsystem}, {around}"
            return Refused(CallCode.CHANNEL_HELD_BY_ANCESTOR, text, holder.spec.process_id)
        text = (
            f"{skill.name} needs {held.subsystem}, which {holder.skill.name} (call {holder.spec.call_id} of process "
            f"{holder.spec.process_id}) holds until it ends"
        )
        return Refused(CallCode.SUBSYSTEM_HELD, text, holder.spec.process_id)

    def _ancestors(self, call: CallSpec) -> list[RunningCall]:
        """Running calls around this one. What a caller says of its parents may be wrong, even circular."""
        found: list[RunningCall] = []
        run = self._calls.get(call.parent_id)
        while run is not None and run not in found:
            found.append(run)
            run = self._calls.get(run.spec.parent_id)
        return found

    def _deliver(self, call_id: str, message: Callable[[RunningCall], None]) -> None:
        """What concerns a call not known yet waits for it; what concerns one that has its result is void."""
        with self._lock:
            run = self._calls.get(call_id)
            if run is not None and not run.reported:
                message(run)
            elif run is None and call_id not in self._ended:
                waiting = self._early.setdefault(call_id, [])
                if len(waiting) < EARLY_MESSAGES:
                    waiting.append(message)
                while len(self._early) > EARLY_CALLS:
                    self._early.popitem(last=False)
        self._outbox.flush()

    def _put_content(self, run: RunningCall, seq: int, text: str, last: bool) -> None:
        if run.buffer is None or run.ending is not None:
            return
        if run.buffer.put(seq, text, last):
            self._extend_deadline(run)
        else:
            error = f"text {seq} of {run.skill.name} came without the one before it; the stream lost a piece"
            self._stop(run, Ending(Outcome.FAILED, ParseCode.SEQUENCE_GAP, error))

    def _pause(self, run: RunningCall, cause: str) -> None:
        if run.ending is None and not run.body_ended:
            if run.skill.pausable:
                run.deadline.pause()
                run.pause_evt.set()
            else:
                self._stop(run, _interruption(f"{cause} ({run.skill.name} cannot pause)"))

    def _resume(self, run: RunningCall) -> None:
        if run.ending is None:
            run.deadline.resume()
            run.pause_evt.clear()

    def _stop(self, run: RunningCall, ending: Ending) -> None:
        if not run.tell(ending) or run.reported:
            return
        run.deadline.close()
        if run.body_ended:
            self._end(run, run.result(self._clock.now()))
            return
        bound_s = run.stop_bound_s() + self._settings.stop_margin_s
        run.stop_timer = self._clock.call_later(bound_s, partial(self._not_stopped, run, bound_s))

    def _halt(self, cause: str) -> None:
        if self._halt_cause is None:
            self._halt_cause = cause
            self._report(KernelEventType.HALTED, cause)
            self._outbox.put(self._on_change)
        for run in list(self._calls.values()):
            self._stop(run, Ending(Outcome.INTERRUPTED, CallCode.HALTED, f"the robot was halted: {cause}"))

    def _end(self, run: RunningCall, result: CallResult) -> None:
        run.reported = True
        self._outbox.put(partial(self._on_result, run.spec.call_id, result))
        if run.body_ended:
            self._forget(run)

    def _forget(self, run: RunningCall) -> None:
        if run.stop_timer is not None:
            run.stop_timer.cancel()
        self._leases.release(run.owner, run.subsystems)
        del self._calls[run.spec.call_id]
        self._ended[run.spec.call_id] = None
        while len(self._ended) > REMEMBERED_CALLS:
            self._ended.popitem(last=False)
        self._outbox.put(self._on_change)

    def _report(self, kind: KernelEventType, text: str, call: CallSpec | None = None) -> None:
        self._outbox.put(partial(self._on_event, KernelEvent(kind, text, call)))

    def _not_stopped(self, run: RunningCall, bound_s: float) -> None:
        with self._lock:
            if not run.body_ended and not run.reported:
                result = run.uncertain_result(bound_s, self._clock.now())
                self._report(KernelEventType.STOP_UNCERTAIN, result.error, run.spec)
                self._outbox.put(partial(self._on_halt, result.error))
                self._end(run, result)
                self._halt(result.error)
                self._outbox.put(self._on_change)
        self._outbox.flush()

    def _extend_deadline(self, run: RunningCall) -> None:
        """An open call ends with its reset, so only a deadline of its own bounds it."""
        if run.spec.deadline_s > 0:
            run.deadline.extend(run.spec.deadline_s)
        elif not run.spec.open:
            run.deadline.extend(self._settings.deadline_factor * run.nominal_s() + self._settings.deadline_extra_s)

    def _too_late(self, call_id: str) -> None:
        with self._lock:
            run = self._calls.get(call_id)
            if run is not None and run.deadline.passed:
                took_s = self._clock.now() - run.accepted_s
                error = f"{run.skill.name} was not done after {took_s:.1f} s, its deadline; it was stopped"
                self._stop(run, Ending(Outcome.FAILED, CallCode.DEADLINE, error))
        self._outbox.flush()

    def _new_buffer(self, skill: Skill, call: CallSpec, values: dict[str, Any]) -> ContentBuffer | None:
        """Text given as an attribute comes first; without streamed content it is all there is."""
        if skill.content is None:
            return None
        buffer = ContentBuffer(self._settings.content_timeout_s, first=str(values.pop(skill.content, "")))
        if not call.streams_content:
            buffer.close()
        return buffer


def _interruption(cause: str) -> Ending:
    return Ending(Outcome.INTERRUPTED, CallCode.INTERRUPTED_BY, f"interrupted: {cause}")


def _no_limit(skill: Skill, limit: str, robot: RobotConfig) -> str:
    return f"skill '{skill.name}' uses limit '{limit}'; add it to limits of robot '{robot.name}'"
