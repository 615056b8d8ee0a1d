# SPDX-License-Identifier: Apache-2.0
"""The skill kernel: runs typed calls on the robot's subsystems, each with exactly one result (TypeGo 5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from skill_kernel.calls import (
    Accepted,
    CallResult,
    CallSpec,
    Interruption,
    KernelEvent,
    KernelEventType,
    KernelSnapshot,
    LeaseAnswer,
    Refused,
    SubsystemState,
)
from skill_kernel.clock import Clock
from skill_kernel.codes import Outcome, ParseCode
from skill_kernel.kernel.admission import Admission, no_limit
from skill_kernel.kernel.context import KernelCallbacks, KernelContext, KernelSettings
from skill_kernel.kernel.ends import CallEnds
from skill_kernel.kernel.holds import Rank
from skill_kernel.kernel.preemption import Preemption
from skill_kernel.kernel.runner import SkillRunner, SkillThreads
from skill_kernel.kernel.running import RESET, Deadline, Ending, Message, RunningCall, interruption
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.skills.arguments import unknown_limits
from skill_kernel.skills.content import ContentBuffer
from skill_kernel.skills.pause_event import PauseEvent
from skill_kernel.skills.registry import RegistryError, SkillRegistry
from skill_kernel.skills.skill import Skill

__all__ = ["Kernel", "KernelSettings", "Rank"]


class Kernel:
    """Run skills for processes. Every method may be called from any thread and none blocks.

    `on_result(call_id, result)` comes exactly once per accepted call, `on_event` for all other events, `on_change` when
    `state()` would answer differently, `on_halt(cause)` when the robot must be halted because a skill did not stop. They
    come in the order things happened, on the thread that caused them, outside the kernel's lock. Raises RobotConfigError
    when a skill refers to a limit the robot does not have.
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
        if lacking := _lacking_limit(registry, robot):
            raise RobotConfigError(lacking)
        self._registry, self._robot, self._clock = registry, robot, clock
        callbacks = KernelCallbacks(on_result, on_event, on_change, on_halt)
        self._context = KernelContext(robot.subsystems, clock, settings or KernelSettings(), callbacks)
        self._admission = Admission(self._context, registry, robot)
        self._ends = CallEnds(self._context)
        self._runner = SkillRunner(self._context, self._ends, registry, robot, body, spawn or SkillThreads())
        self._pauses = self._runner.pauses
        self._preemption = Preemption(self._context, self._ends, self._pauses)

    # -- calls ---------------------------------------------------------------------------------------------------

    def execute(self, call: CallSpec) -> Accepted | Refused:
        """Start a call, or say why not and who holds what it needs. Arguments are checked and clamped once more."""
        request = self._admission.check(call)
        if isinstance(request, Refused):
            return request
        context, skill, bound = self._context, request.skill, request.bound
        buffer = self._new_buffer(skill, call, bound.values)
        with context.lock:
            refused = self._admission.refusal(request)
            if refused is None:
                context.epochs.seen(call.epoch)
                deadline = Deadline(self._clock, partial(self._ends.too_late, call.call_id))
                run = RunningCall(
                    call, skill, bound.values, request.owner, request.subsystems, buffer, deadline, self._clock.now()
                )
                run.pause_evt = PauseEvent(partial(self._pauses.came_to_rest, run))
                context.calls.add(run)
                self._extend_deadline(run)
                for note in bound.clamped:
                    context.report(KernelEventType.CLAMPED, note, call)
                for message in context.calls.early(call.call_id):
                    message(run)
                context.changed()
        if refused is not None:
            context.flush()
            return refused
        self._runner.begin(run)
        context.flush()
        return Accepted(tuple(bound.clamped))

    def content(self, call_id: str, seq: int, text: str, last: bool) -> None:
        """Add character data to a call. A gap in `seq` ends the call as FAILED with SEQUENCE_GAP."""
        self._deliver(call_id, partial(self._put_content, seq=seq, text=text, last=last))

    def reset(self, call_id: str) -> None:
        """End a call as DONE: condition-based termination (law C5)."""
        self._deliver(call_id, partial(self._ends.stop, ending=RESET))

    def interrupt(self, call_id: str, cause: str) -> None:
        """End a call as INTERRUPTED within its stop time: event-driven termination (law C9)."""
        self._deliver(call_id, partial(self._ends.stop, ending=interruption(cause)))

    def pause(self, call_id: str, cause: str) -> None:
        """Ask one skill to pause; it keeps its subsystems. A skill that cannot pause is interrupted."""
        self._deliver(call_id, partial(self._pauses.pause_call, cause=cause))

    def resume(self, call_id: str) -> None:
        """Let a paused call go on, unless its process is paused. The pause does not count towards its deadline."""
        self._deliver(call_id, self._pauses.resume_call)

    # -- processes -----------------------------------------------------------------------------------------------

    def pause_process(self, process_id: str, cause: str) -> LeaseAnswer:
        """Add a pause cause. Calls come to rest or end within their stop times, and then their subsystems are free."""
        with self._context.lock:
            answer = self._preemption.pause(process_id, cause)
        self._context.flush()
        return answer

    def resume_process(self, process_id: str, cause: str, subsystems: Iterable[str] = ()) -> LeaseAnswer:
        """Take a pause cause back ("" = from every process that has it).

        The process goes on when that was the last cause and what it kept (or `subsystems`) is free. Otherwise NOT_RESUMED
        says what is not free, and the last cause stays. A cause that a pre-empter has given ends with the pre-empter alone.
        """
        with self._context.lock:
            answer = self._preemption.resume(process_id, cause, subsystems)
        self._context.flush()
        return answer

    def end_process(self, process_id: str, cause: str) -> LeaseAnswer:
        """End a process: its calls are interrupted, its older goals are void, its subsystems are free.

        Whom it has displaced goes on in the same step, or as soon as its own subsystems are free (cause `waiting` until
        then).
        """
        with self._context.lock:
            answer = self._preemption.end(process_id, cause)
        self._context.flush()
        return answer

    def preempt(self, rank: Rank, subsystems: Iterable[str], cause: str, process_id: str) -> LeaseAnswer:
        """Take subsystems from whoever uses or keeps them, for `process_id`, which keeps them from now on.

        The others are paused with the rank's cause until `process_id` ends. Its calls start when theirs are at rest.
        OUTRANKED, and nothing changes, when a holder has preempted with a higher rank; an equal one yields.
        """
        with self._context.lock:
            answer = self._preemption.preempt(rank, subsystems, cause, process_id)
        self._context.flush()
        return answer

    def release_idle(self, process_id: str) -> bool:
        """Free what a process keeps that neither runs nor is paused; return whether there was something."""
        with self._context.lock:
            freed = self._preemption.release_idle(process_id)
        self._context.flush()
        return freed

    # -- interrupts and halt -------------------------------------------------------------------------------------

    def interrupt_process(self, process_id: str, channels: Iterable[str], cause: str, *, epoch: int = 0) -> Interruption:
        """End what a process runs ("" = every process) on these channels (none = all), and void its older goals.

        Answers at once, with the new epoch and what was running; results follow within the skills' stop times. The
        process keeps its subsystems.
        """
        wanted, context = frozenset(channels), self._context
        with context.lock:
            new = context.epochs.advance(process_id, sorted(wanted), self._clock.now(), at_least=epoch)
            hit = [r for r in context.calls.running if process_id in ("", r.spec.process_id) and r.holds(wanted)]
            stopped = tuple(r.spec.call_id for r in hit if not r.reported)
            uncertain = tuple(r.spec.call_id for r in hit if r.reported)
            for run in hit:
                self._ends.stop(run, interruption(cause))
        context.flush()
        return Interruption(new, stopped, uncertain)

    def halt(self, cause: str) -> None:
        """Stop everything and refuse every call with HALTED until `clear`. The first cause stays."""
        with self._context.lock:
            self._ends.halt(cause)
        self._context.flush()

    def clear(self) -> None:
        """Accept calls again after a halt."""
        with self._context.lock:
            if self._context.halt_cause is not None:
                self._context.halt_cause = None
                self._context.report(KernelEventType.HALT_CLEARED, "the halt was cleared")
                self._context.changed()
        self._context.flush()

    # -- skills and state ----------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Read the robot's skill modules again from disk. Calls that run keep the skill they were started with.

        Raises RegistryError, and the present set stays, when a module does not import, declares what cannot work, or uses a
        limit the robot does not have.
        """

        def check(new: SkillRegistry) -> None:
            if lacking := _lacking_limit(new, self._robot):
                raise RegistryError(lacking)

        self._registry.replace_from_modules(self._robot.skills, text_skill=self._robot.text_skill, check=check)
        self._context.changed()
        self._context.flush()

    @property
    def stop_measured_s(self) -> Mapping[str, float]:
        """Return the longest stop of each skill that was stopped so far, by name."""
        with self._context.lock:
            return dict(self._context.stop_measured_s)

    def state(self) -> KernelSnapshot:
        """Return the kernel's state now."""
        context = self._context
        with context.lock:
            subsystems = []
            for name in context.leases.names():
                users, settings = context.leases.users(name), context.leases.settings(name)
                subsystems.append(
                    SubsystemState(
                        name,
                        settings.exclusive_per_process,
                        settings.parallel,
                        users[0] if users else "",
                        tuple(h.call_id for h in context.leases.holders(name)),
                    )
                )
            live = [r for r in context.calls.running if not r.reported]
            cause, halted = context.halt_cause or "", context.halt_cause is not None
            processes = self._preemption.states()
        running, calling = [r.spec.call_id for r in live], dict.fromkeys(r.spec.process_id for r in live)
        return KernelSnapshot(
            halted, cause, self._registry.version, tuple(subsystems), tuple(running), processes, tuple(calling)
        )

    # -- content and deadlines -----------------------------------------------------------------------------------

    def _deliver(self, call_id: str, message: Message) -> None:
        with self._context.lock:
            self._context.calls.deliver(call_id, message)
        self._context.flush()

    def _put_content(self, run: RunningCall, seq: int, text: str, last: bool) -> None:
        if run.buffer is None or run.ending is not None:
            return
        if run.buffer.put(seq, text, last):
            self._extend_deadline(run)
        else:
            error = f"text {seq} of {run.skill.name} came without the one before it; the stream lost a piece"
            self._ends.stop(run, Ending(Outcome.FAILED, ParseCode.SEQUENCE_GAP, error))

    def _extend_deadline(self, run: RunningCall) -> None:
        """Put off the deadline of a call. An open call ends with its reset, so only a deadline of its own bounds it."""
        settings = self._context.settings
        if run.spec.deadline_s > 0:
            run.deadline.extend(run.spec.deadline_s)
        elif not run.spec.open:
            run.deadline.extend(settings.deadline_factor * run.nominal_s() + settings.deadline_extra_s)

    def _new_buffer(self, skill: Skill, call: CallSpec, values: dict[str, Any]) -> ContentBuffer | None:
        """Return the buffer of a call's content.

        Text given as an attribute comes first; without streamed content it is all there is.
        """
        if skill.content is None:
            return None
        buffer = ContentBuffer(self._context.settings.content_timeout_s, first=str(values.pop(skill.content, "")))
        if not call.streams_content:
            buffer.close()
        return buffer


def _lacking_limit(registry: SkillRegistry, robot: RobotConfig) -> str:
    for skill in registry:
        if missing := unknown_limits(skill, robot.limits):
            return no_limit(skill, missing[0], robot)
    return ""
