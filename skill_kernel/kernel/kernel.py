# SPDX-License-Identifier: Apache-2.0
"""The skill kernel: runs typed calls on the robot's subsystems, each with exactly one result (TypeGo 5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from skill_kernel.calls import (
    DONE,
    Accepted,
    CallResult,
    CallSpec,
    Interruption,
    KernelSnapshot,
    LeaseAnswer,
    ProcessHoldState,
    Refused,
    SubsystemState,
)
from skill_kernel.clock import Clock
from skill_kernel.codes import CallCode, LeaseCode, Outcome, ParseCode
from skill_kernel.config.sections import nearest
from skill_kernel.events import CallEvent, CallKind, Notice, NoticeKind, ProcessEvent, ProcessKind, RunEvent
from skill_kernel.kernel.holds import BY_NAME, WAITING, EpochTable, Held, Owner, Rank
from skill_kernel.kernel.runner import CallRunner, KernelSettings, start_thread
from skill_kernel.kernel.running import Deadline, Message, Pausing, RunningCall, interruption
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.skills.arguments import ArgumentError, bind_typed, unknown_limits
from skill_kernel.skills.hearing import ContentBuffer, PauseEvent
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
        on_event: Callable[[RunEvent], None] = lambda event: None,
        on_change: Callable[[], None] = lambda: None,
        on_halt: Callable[[str], None] = lambda cause: None,
        spawn: Callable[[Callable[[], None], str], None] | None = None,
        settings: KernelSettings | None = None,
    ) -> None:
        if lacking := _lacking_limit(registry, robot):
            raise RobotConfigError(lacking)
        self._registry, self._robot, self._clock = registry, robot, clock
        self._settings = settings or KernelSettings()
        tell: dict[str, Any] = {"on_result": on_result, "on_event": on_event, "on_change": on_change, "on_halt": on_halt}
        self._runner = CallRunner(registry, robot, body, clock, self._settings, spawn or start_thread, **tell)
        self._leases, self._holds, self._calls = self._runner.leases, self._runner.holds, self._runner.calls
        self._epochs = EpochTable()

    # -- calls ---------------------------------------------------------------------------------------------------

    def execute(self, call: CallSpec) -> Accepted | Refused:
        """Start a call, or say why not and who holds what it needs. Arguments are checked and clamped once more."""
        skill = self._registry.get(call.function)
        if skill is None:
            hint = nearest(call.function, self._registry.names, else_known=True)
            return Refused(CallCode.UNKNOWN_FUNCTION, f"there is no skill '{call.function[:80]}'{hint}")
        if lacking := _lacking_limit([skill], self._robot):  # the skill set may have been replaced
            return Refused(CallCode.SKILL_FAILED, lacking)
        try:
            bound = bind_typed(skill, call.arguments, self._robot.limits)
            subsystems = skill.subsystems_for(bound.values)
        except ArgumentError as error:
            return Refused(error.code, error.message)
        except Exception as error:  # noqa: BLE001 - a subsystem made of an argument that has no text
            why = f"{skill.name} cannot tell its subsystem: {type(error).__name__}: {error}"
            return Refused(CallCode.SKILL_FAILED, why)
        buffer = self._new_buffer(skill, call, bound.values)
        with self._runner.step():
            owner = Owner(call.process_id, call.call_id, open=call.open, nested=bool(call.parent_id))
            refused = self._refusal(call, skill, owner, subsystems)
            if refused is not None:
                return refused
            self._epochs.seen(call.epoch)
            deadline = Deadline(self._clock, partial(self._runner.too_late, call.call_id))
            run = RunningCall(call, skill, bound.values, owner, subsystems, buffer, deadline, self._clock.now())
            run.pause_evt = PauseEvent(partial(self._runner.came_to_rest, run))
            early = self._calls.add(run)
            self._extend_deadline(run)
            for note in bound.clamped:
                self._runner.notice(run, note)
            for message in early:
                message(run)
            self._runner.changed()
        self._runner.begin(run)
        return Accepted(tuple(bound.clamped))

    def _refusal(self, call: CallSpec, skill: Skill, owner: Owner, subsystems: tuple[str, ...]) -> Refused | None:
        """Return why the call cannot run now; None when it can, and then it holds its leases."""
        lowest = self._epochs.lowest(call.process_id, (*call.channels, *subsystems), self._clock.now())
        if call.epoch < lowest:
            text = f"{skill.name} is of epoch {call.epoch}; an interrupt ended all before epoch {lowest}"
            return Refused(CallCode.STALE_EPOCH, text)
        if (cause := self._runner.halt_cause) is not None:
            return Refused(CallCode.HALTED, f"the robot is halted ({cause}); clear the halt first")
        if self._calls.used(call.call_id):
            text = f"call id {call.call_id} was used before; each call needs its own"
            return Refused(CallCode.INVALID_ARGUMENT, text)
        if causes := self._holds.causes(call.process_id):
            text = f"process {call.process_id} is paused by {', '.join(causes)}; {skill.name} may run when it is resumed"
            return Refused(CallCode.PROCESS_PAUSED, text)
        if (count := len(self._calls.running)) >= self._settings.max_running:
            return Refused(CallCode.QUEUE_FULL, f"{count} calls run already; wait until some have ended")
        held = self._leases.acquire(owner, subsystems)
        return None if held is None else self._held(call, skill, subsystems, held)

    def _held(self, call: CallSpec, skill: Skill, subsystems: tuple[str, ...], held: Held) -> Refused:
        needs = f"{skill.name} needs {held.subsystem}, which "
        holder, own = self._calls.get(held.call_id), held.process_id == call.process_id
        if own and holder is not None and holder in self._calls.around(call):
            text = f"{needs}the {holder.skill.name} around it holds; write it after the end tag"
            return Refused(CallCode.CHANNEL_HELD_BY_ANCESTOR, text, held.process_id)
        exclusive = self._leases.settings(held.subsystem).exclusive_per_process
        text = f"{needs}process {held.process_id} keeps until it pauses or ends"
        if holder is not None:
            until = "it ends" if own or not exclusive else "its process pauses or ends"
            text = f"{needs}{holder.skill.name} (call {held.call_id} of process {held.process_id}) holds until {until}"
        if exclusive and not own:
            contention = {"holder_id": held.process_id, "error_code": CallCode.SUBSYSTEM_HELD, "error_msg": text}
            self._runner.report(CallEvent(kind=CallKind.CONTENTION, **{**call.about, "channels": subsystems, **contention}))
        return Refused(CallCode.SUBSYSTEM_HELD, text, held.process_id)

    def content(self, call_id: str, seq: int, text: str, last: bool) -> None:
        """Add character data to a call. A gap in `seq` ends the call as FAILED with SEQUENCE_GAP."""
        self._deliver(call_id, partial(self._put_content, seq=seq, text=text, last=last))

    def reset(self, call_id: str) -> None:
        """End a call as DONE: condition-based termination (law C5)."""
        self._deliver(call_id, partial(self._runner.stop, ending=DONE))

    def interrupt(self, call_id: str, cause: str) -> None:
        """End a call as INTERRUPTED within its stop time: event-driven termination (law C9)."""
        self._deliver(call_id, partial(self._runner.stop, ending=interruption(cause)))

    def pause(self, call_id: str, cause: str) -> None:
        """Ask one skill to pause; it keeps its subsystems. A skill that cannot pause is interrupted."""
        self._deliver(call_id, partial(self._runner.pause_call, cause=cause))

    def resume(self, call_id: str) -> None:
        """Let a paused call go on, unless its process is paused. The pause does not count towards its deadline."""
        self._deliver(call_id, self._runner.resume_call)

    # -- processes -----------------------------------------------------------------------------------------------

    def pause_process(self, process_id: str, cause: str) -> LeaseAnswer:
        """Add a pause cause. Calls come to rest or end within their stop times, and then their subsystems are free.

        OUTRANKED when the process has preempted with a higher rank than that cause has.
        """
        if not process_id:
            return _nameless("pause")
        with self._runner.step():
            rank = self._holds.rank(process_id)
            if rank < Rank.of_cause(cause):
                why = f"process {process_id} has rank {rank.name.lower()}, above the cause '{cause}'; wait until it has ended"
                return LeaseAnswer(LeaseCode.OUTRANKED, why, (process_id,))
            return self._pause(process_id, cause)

    def resume_process(self, process_id: str, cause: str, subsystems: Iterable[str] = ()) -> LeaseAnswer:
        """Take a pause cause back ("" = from every process that has it).

        The process goes on when that was the last cause and what it kept (or `subsystems`) is free. Otherwise NOT_RESUMED
        says what is not free, and the last cause stays. A cause that a pre-empter has given ends with the pre-empter alone.
        """
        with self._runner.step():
            if process_id:
                return self._resume(process_id, cause, subsystems)
            answers = [self._resume(p, cause, subsystems) for p in self._holds.paused_by(cause)]
        failed = [a for a in answers if a.code]
        holders = tuple(dict.fromkeys(h for a in failed for h in a.holders))
        code = failed[0].code if failed else LeaseCode.NONE
        return LeaseAnswer(code, "; ".join(a.message for a in failed), holders)

    def end_process(self, process_id: str, cause: str) -> LeaseAnswer:
        """End a process: its calls are interrupted, its older goals are void, its subsystems are free.

        Whom it has displaced goes on in the same step, or as soon as its own subsystems are free (cause `waiting` until
        then).
        """
        if not process_id:
            return _nameless("end")
        stopped = []
        with self._runner.step():
            self._epochs.advance(process_id, (), self._clock.now())
            for run in self._calls.of(process_id):
                if not run.reported:
                    stopped.append(run.spec.call_id)
                self._runner.stop(run, interruption(cause))
            self._release(process_id)
            self._runner.changed()
        return LeaseAnswer(stopped=tuple(stopped))

    def preempt(self, rank: Rank, subsystems: Iterable[str], cause: str, process_id: str) -> LeaseAnswer:
        """Take subsystems from whoever uses or keeps them, for `process_id`, which keeps them from now on.

        The others are paused with the rank's cause until `process_id` ends. Its calls start when theirs are at rest.
        OUTRANKED, and nothing changes, when a holder has preempted with a higher rank; an equal one yields.
        """
        wanted = tuple(dict.fromkeys(subsystems))
        if not process_id:
            return _nameless("preempt for")
        with self._runner.step():
            if own := self._holds.causes(process_id):
                why = f"process {process_id} is itself paused by {', '.join(own)}; resume it first"
                return LeaseAnswer(LeaseCode.NOT_RESUMED, why)
            users = dict.fromkeys(p for name in wanted for p in self._leases.users(name) if p != process_id)
            above = [p for p in users if self._holds.rank(p) < rank]
            if above:
                held = ", ".join(f"{p} ({self._holds.rank(p).name.lower()})" for p in above)
                why = f"rank {rank.name.lower()} may not take {', '.join(wanted)} from {held}; ask again when it has ended"
                return LeaseAnswer(LeaseCode.OUTRANKED, why, tuple(above))
            answers = [self._pause(p, rank.cause, cause, by=process_id) for p in users]
            self._holds.promote(process_id, rank, wanted)
            self._runner.changed()
        paused, stopped = (tuple(c for a in answers for c in a.paused), tuple(c for a in answers for c in a.stopped))
        return LeaseAnswer(holders=tuple(users), paused=paused, stopped=stopped)

    def release_idle(self, process_id: str) -> bool:
        """Free what a process keeps that neither runs nor is paused; return whether there was something."""
        with self._runner.step():
            if self._calls.of(process_id) or self._holds.causes(process_id) or not self._release(process_id):
                return False
            self._runner.changed()
        return True

    def _pause(self, process_id: str, cause: str, words: str = "", by: str = BY_NAME) -> LeaseAnswer:
        known = cause in self._holds.causes(process_id)
        first = self._holds.pause(process_id, cause, by)
        paused, stopped = [], []
        for run in self._calls.of(process_id):
            before = run.ending
            if self._runner.pause_run(run, words or cause) if first else run.pausing is not Pausing.NONE:
                paused.append(run.spec.call_id)
            elif before is not run.ending:
                stopped.append(run.spec.call_id)
        if not known:
            self._runner.report(ProcessEvent(kind=ProcessKind.PAUSED, process_id=process_id, cause=cause))
            self._runner.changed()
        return LeaseAnswer(paused=tuple(paused), stopped=tuple(stopped))

    def _resume(self, process_id: str, cause: str, subsystems: Iterable[str]) -> LeaseAnswer:
        """Take a cause back. The last one goes only when all that the process needs is free again."""
        holds = self._holds
        if not holds.causes(process_id):
            return LeaseAnswer()
        givers = holds.givers(process_id, cause)
        last = not givers and holds.causes(process_id) == (cause,)
        if not last and holds.drop(process_id, cause):
            self._runner.changed()
        waits = not last and holds.causes(process_id) == (WAITING,)
        if last or waits:
            held = self._runner.go_on(process_id, cause, () if waits else subsystems)
            if held is None:
                return LeaseAnswer()
            until = "resume again once it is at rest" if held.call_id else "pause or end that one, or wait"
            until = "it goes on by itself" if waits else until
            why = f"process {process_id} needs {held.subsystem}, which process {held.process_id} holds; {until}"
            return LeaseAnswer(LeaseCode.NOT_RESUMED, why, () if waits else (held.process_id,))
        if givers:
            why = f"process {', '.join(givers)} has taken what process {process_id} needs ({cause}); it goes on when that ends"
        else:
            left = ", ".join(holds.causes(process_id))
            why = f"process {process_id} stays paused by {left}; resume it with that cause, too"
        return LeaseAnswer(LeaseCode.NOT_RESUMED, why)

    def _release(self, process_id: str) -> bool:
        """Free what it keeps, and let those it has displaced go on."""
        freed = self._holds.end(process_id)
        displaced = self._holds.take_back(process_id)
        self._runner.serve_waiting(displaced)
        for other in displaced:
            if self._holds.causes(other):
                self._runner.report(ProcessEvent(kind=ProcessKind.PAUSED, process_id=other, cause=WAITING))
        return freed

    # -- interrupts and halt -------------------------------------------------------------------------------------

    def interrupt_process(self, process_id: str, channels: Iterable[str], cause: str, *, epoch: int = 0) -> Interruption:
        """End what a process runs ("" = every process) on these channels (none = all), and void its older goals.

        Answers at once, with the new epoch and what was running; results follow within the skills' stop times. The
        process keeps its subsystems.
        """
        wanted = frozenset(channels)
        with self._runner.step():
            new = self._epochs.advance(process_id, sorted(wanted), self._clock.now(), at_least=epoch)
            hit = [r for r in self._calls.running if process_id in ("", r.spec.process_id) and r.holds(wanted)]
            stopped = tuple(r.spec.call_id for r in hit if not r.reported)
            uncertain = tuple(r.spec.call_id for r in hit if r.reported)
            for run in hit:
                self._runner.stop(run, interruption(cause))
        return Interruption(new, stopped, uncertain)

    def halt(self, cause: str) -> None:
        """Stop everything and refuse every call with HALTED until `clear`. The first cause stays."""
        with self._runner.step():
            self._runner.halt(cause)

    def clear(self) -> None:
        """Accept calls again after a halt."""
        with self._runner.step():
            if self._runner.halt_cause is not None:
                self._runner.halt_cause = None
                self._runner.report(Notice(kind=NoticeKind.HALT_CLEARED, text="the halt was cleared"))
                self._runner.changed()

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
        self._runner.changed()
        self._runner.flush()

    @property
    def stop_measured_s(self) -> Mapping[str, float]:
        """Return the longest stop of each skill that was stopped so far, by name."""
        with self._runner.step():
            return dict(self._runner.stop_measured_s)

    def state(self) -> KernelSnapshot:
        """Return the kernel's state now."""
        with self._runner.step():
            live = [r for r in self._calls.running if not r.reported]
            return KernelSnapshot(
                self._runner.halt_cause is not None,
                self._runner.halt_cause or "",
                self._registry.version,
                tuple(self._subsystem(name) for name in self._leases.names()),
                tuple(r.spec.call_id for r in live),
                tuple(self._process(process_id) for process_id in self._holds.processes()),
                tuple(dict.fromkeys(r.spec.process_id for r in live)),
            )

    def _subsystem(self, name: str) -> SubsystemState:
        settings, user = self._leases.settings(name), next(iter(self._leases.users(name)), "")
        calls = tuple(owner.call_id for owner in self._leases.holders(name))
        return SubsystemState(name, settings.exclusive_per_process, settings.parallel, user, calls)

    def _process(self, process_id: str) -> ProcessHoldState:
        paused = [r for r in self._calls.of(process_id) if r.pausing is not Pausing.NONE and not r.reported]
        kept, causes = self._leases.reserved_for(process_id), self._holds.causes(process_id)
        return ProcessHoldState(process_id, kept, causes, tuple(r.spec.call_id for r in paused))

    # -- content and deadlines -----------------------------------------------------------------------------------

    def _deliver(self, call_id: str, message: Message) -> None:
        with self._runner.step():
            self._calls.deliver(call_id, message)

    def _put_content(self, run: RunningCall, seq: int, text: str, last: bool) -> None:
        if run.buffer is None or run.ending is not None:
            return
        if run.buffer.put(seq, text, last):
            self._extend_deadline(run)
        else:
            error = f"text {seq} of {run.skill.name} came without the one before it; the stream lost a piece"
            self._runner.stop(run, CallResult(Outcome.FAILED, ParseCode.SEQUENCE_GAP, error))

    def _extend_deadline(self, run: RunningCall) -> None:
        """Put off the deadline of a call. An open call ends with its reset, so only a deadline of its own bounds it."""
        if run.spec.deadline_s > 0:
            run.deadline.extend(run.spec.deadline_s)
        elif not run.spec.open:
            nominal_s = run.declared_s(run.skill.nominal_for)
            run.deadline.extend(self._settings.deadline_factor * nominal_s + self._settings.deadline_extra_s)

    def _new_buffer(self, skill: Skill, call: CallSpec, values: dict[str, Any]) -> ContentBuffer | None:
        """Return the buffer of a call's content.

        Text given as an attribute comes first; without streamed content it is all there is.
        """
        if skill.content is None:
            return None
        buffer = ContentBuffer(self._settings.content_timeout_s, first=str(values.pop(skill.content, "")))
        if not call.streams_content:
            buffer.close()
        return buffer


def _nameless(what: str) -> LeaseAnswer:
    return LeaseAnswer(LeaseCode.INVALID_REQUEST, f"there is no process to {what}; give its process_id")


def _lacking_limit(skills: Iterable[Skill], robot: RobotConfig) -> str:
    for skill in skills:
        for limit in unknown_limits(skill, robot.limits):
            return f"skill '{skill.name}' uses limit '{limit}'; add it to limits of robot '{robot.name}'"
    return ""
