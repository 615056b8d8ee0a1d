# SPDX-License-Identifier: Apache-2.0
"""Run typed calls on the robot's subsystems, each on a thread of its own and with exactly one result (TypeGo 5.1)."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from skill_kernel.calls import (
    DONE,
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
from skill_kernel.config.sections import nearest, shown
from skill_kernel.events import CallEvent, CallKind, Notice, NoticeKind, ProcessEvent, ProcessKind, RunEvent
from skill_kernel.kernel.holds import BY_NAME, WAITING, EpochTable, Held, HoldTable, LeaseTable, Rank
from skill_kernel.kernel.running import CallTable, Deadline, Pausing, RunningCall, interruption, normalized
from skill_kernel.robot import RobotConfig, RobotConfigError
from skill_kernel.skills.arguments import ArgumentError, bind_typed, unknown_limits
from skill_kernel.skills.hearing import ContentBuffer, ContentLost, PauseEvent
from skill_kernel.skills.registry import RegistryError, SkillRegistry
from skill_kernel.skills.skill import Skill, SkillReturn

__all__ = ["Kernel", "KernelSettings", "Rank", "SkillCaller"]


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
        spawn: Callable[[Callable[[], None], str], None] = start_thread,
        settings: KernelSettings | None = None,
    ) -> None:
        if lacking := _lacking_limit(registry, robot):
            raise RobotConfigError(lacking)
        self._registry, self._robot, self._body, self._clock, self._spawn = registry, robot, body, clock, spawn
        self._settings = settings or KernelSettings()
        self._on_result, self._on_event, self._on_change, self._on_halt = on_result, on_event, on_change, on_halt
        self._leases = LeaseTable(robot.subsystems)
        self._holds, self._calls, self._epochs = HoldTable(self._leases), CallTable(), EpochTable()
        self._halt_cause: str | None = None
        self._stop_measured_s: dict[str, float] = {}
        self._lock, self._emptying = threading.Lock(), threading.Lock()
        self._outbox: deque[Callable[[], None]] = deque()

    # -- calls ---------------------------------------------------------------------------------------------------

    def execute(self, call: CallSpec) -> Refused | None:
        """Start a call, which then ends with exactly one result, or return why not and who holds what it needs.

        Arguments are checked and clamped once more; each that is clamped is a notice.
        """
        skill = self._registry.get(call.function)
        if skill is None:
            hint = nearest(call.function, self._registry.names, else_known=True)
            return Refused(CallCode.UNKNOWN_FUNCTION, f"there is no skill '{shown(call.function)}'{hint}")
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
        with self._step():
            refused = self._refusal(call, skill, subsystems)
            if refused is not None:
                return refused
            self._epochs.seen(call.epoch)
            run = RunningCall(
                call,
                skill,
                bound.values,
                subsystems,
                buffer,
                deadline=Deadline(self._clock, partial(self._too_late, call.call_id)),
                stop_deadline=Deadline(self._clock, partial(self._not_stopped, call.call_id)),
                accepted_s=self._clock.now(),
            )
            run.pause_evt = PauseEvent(partial(self._came_to_rest, run))
            self._calls[call.call_id] = run
            self._extend_deadline(run)
            for note in bound.clamped:
                self._notice(run, note)
            self._changed()
        self._begin(run)
        return None

    def _refusal(self, call: CallSpec, skill: Skill, subsystems: tuple[str, ...]) -> Refused | None:
        """Return why the call cannot run now; None when it can, and then it holds its leases."""
        lowest = self._epochs.lowest(call.process_id, (*call.channels, *subsystems), self._clock.now())
        if call.epoch < lowest:
            text = f"{skill.name} is of epoch {call.epoch}; an interrupt ended all before epoch {lowest}"
            return Refused(CallCode.STALE_EPOCH, text)
        if (cause := self._halt_cause) is not None:
            return Refused(CallCode.HALTED, f"the robot is halted ({cause}); clear the halt first")
        if call.call_id in self._calls or call.call_id in self._calls.ended:
            text = f"call id {call.call_id} was used before; each call needs its own"
            return Refused(CallCode.INVALID_ARGUMENT, text)
        if causes := self._holds.causes(call.process_id):
            text = f"process {call.process_id} is paused by {', '.join(causes)}; {skill.name} may run when it is resumed"
            return Refused(CallCode.PROCESS_PAUSED, text)
        if (count := len(self._calls)) >= self._settings.max_running:
            return Refused(CallCode.QUEUE_FULL, f"{count} calls run already; wait until some have ended")
        held = self._leases.acquire(call, subsystems)
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
            self._report(CallEvent(kind=CallKind.CONTENTION, **{**call.about, "channels": subsystems, **contention}))
        return Refused(CallCode.SUBSYSTEM_HELD, text, held.process_id)

    def content(self, call_id: str, seq: int, text: str, last: bool) -> None:
        """Add character data to a call. A gap in `seq` ends the call as FAILED with SEQUENCE_GAP."""
        self._deliver(call_id, partial(self._put_content, seq=seq, text=text, last=last))

    def reset(self, call_id: str) -> None:
        """End a call as DONE: condition-based termination (law C5)."""
        self._deliver(call_id, partial(self._stop, ending=DONE))

    def interrupt(self, call_id: str, cause: str) -> None:
        """End a call as INTERRUPTED within its stop time: event-driven termination (law C9)."""
        self._deliver(call_id, partial(self._stop, ending=interruption(cause)))

    # -- processes -----------------------------------------------------------------------------------------------

    def pause_process(self, process_id: str, cause: str) -> LeaseAnswer:
        """Add a pause cause. Calls come to rest or end within their stop times, and then their subsystems are free.

        OUTRANKED when the process has preempted with a higher rank than that cause has.
        """
        if not process_id:
            return _nameless("pause")
        with self._step():
            rank = self._holds.rank(process_id)
            if rank < Rank.of_cause(cause):
                why = f"process {process_id} has rank {rank.name.lower()}, above the cause '{cause}'; wait until it has ended"
                return LeaseAnswer(LeaseCode.OUTRANKED, why, (process_id,))
            return self._pause(process_id, cause)

    def resume_process(self, process_id: str, cause: str) -> LeaseAnswer:
        """Take a pause cause back.

        The process goes on when that was the last cause and what it kept is free. Otherwise NOT_RESUMED says what is not
        free, and the last cause stays. A cause that a pre-empter has given ends with the pre-empter alone.
        """
        if not process_id:
            return _nameless("resume")
        with self._step():
            return self._resume(process_id, cause)

    def end_process(self, process_id: str, cause: str) -> LeaseAnswer:
        """End a process: its calls are interrupted, its older goals are void, its subsystems are free.

        Whom it has displaced goes on in the same step, or as soon as its own subsystems are free (cause `waiting` until
        then).
        """
        if not process_id:
            return _nameless("end")
        stopped = []
        with self._step():
            self._epochs.advance(process_id, (), self._clock.now())
            for run in self._calls.of(process_id):
                if not run.reported:
                    stopped.append(run.spec.call_id)
                self._stop(run, interruption(cause))
            self._release(process_id)
            self._changed()
        return LeaseAnswer(stopped=tuple(stopped))

    def preempt(self, rank: Rank, subsystems: Iterable[str], cause: str, process_id: str) -> LeaseAnswer:
        """Take subsystems from whoever uses or keeps them, for `process_id`, which keeps them from now on.

        The others are paused with the rank's cause until `process_id` ends. Its calls start when theirs are at rest.
        OUTRANKED, and nothing changes, when a holder has preempted with a higher rank; an equal one yields.
        """
        wanted = tuple(dict.fromkeys(subsystems))
        if not process_id:
            return _nameless("preempt for")
        with self._step():
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
            self._changed()
        paused, stopped = (tuple(c for a in answers for c in a.paused), tuple(c for a in answers for c in a.stopped))
        return LeaseAnswer(holders=tuple(users), paused=paused, stopped=stopped)

    def release_idle(self, process_id: str) -> bool:
        """Free what a process keeps that neither runs nor is paused; return whether there was something."""
        with self._step():
            if self._calls.of(process_id) or self._holds.causes(process_id) or not self._release(process_id):
                return False
            self._changed()
        return True

    def _pause(self, process_id: str, cause: str, words: str = "", by: str = BY_NAME) -> LeaseAnswer:
        known = cause in self._holds.causes(process_id)
        first = self._holds.pause(process_id, cause, by)
        paused, stopped = [], []
        for run in self._calls.of(process_id):
            before = run.ending
            if self._pause_run(run, words or cause) if first else run.pausing is not Pausing.NONE:
                paused.append(run.spec.call_id)
            elif before is not run.ending:
                stopped.append(run.spec.call_id)
        if not known:
            self._report(ProcessEvent(kind=ProcessKind.PAUSED, process_id=process_id, cause=cause))
            self._changed()
        return LeaseAnswer(paused=tuple(paused), stopped=tuple(stopped))

    def _resume(self, process_id: str, cause: str) -> LeaseAnswer:
        """Take a cause back. The last one goes only when all that the process needs is free again."""
        holds = self._holds
        if not holds.causes(process_id):
            return LeaseAnswer()
        givers = holds.givers(process_id, cause)
        last = not givers and holds.causes(process_id) == (cause,)
        if not last and holds.drop(process_id, cause):
            self._changed()
        waits = not last and holds.causes(process_id) == (WAITING,)
        if last or waits:
            held = self._wake_process(process_id, cause)
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
        self._serve_waiting(displaced)
        for other in displaced:
            if self._holds.causes(other):
                self._report(ProcessEvent(kind=ProcessKind.PAUSED, process_id=other, cause=WAITING))
        return freed

    # -- interrupts and halt -------------------------------------------------------------------------------------

    def interrupt_process(self, process_id: str, channels: Iterable[str], cause: str, *, epoch: int = 0) -> Interruption:
        """End what a process runs ("" = every process) on these channels (none = all), and void its older goals.

        Answers at once, with the new epoch and what was running; results follow within the skills' stop times. The
        process keeps its subsystems.
        """
        wanted = frozenset(channels)
        with self._step():
            new = self._epochs.advance(process_id, sorted(wanted), self._clock.now(), at_least=epoch)
            hit = [r for r in self._calls.values() if process_id in ("", r.spec.process_id) and r.holds(wanted)]
            stopped = tuple(r.spec.call_id for r in hit if not r.reported)
            uncertain = tuple(r.spec.call_id for r in hit if r.reported)
            for run in hit:
                self._stop(run, interruption(cause))
        return Interruption(new, stopped, uncertain)

    def halt(self, cause: str) -> None:
        """Stop everything and refuse every call with HALTED until `clear`. The first cause stays."""
        with self._step():
            self._halt(cause)

    def clear(self) -> None:
        """Accept calls again after a halt."""
        with self._step():
            if self._halt_cause is not None:
                self._halt_cause = None
                self._report(Notice(kind=NoticeKind.HALT_CLEARED, text="the halt was cleared"))
                self._changed()

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
        self._changed()
        self._flush()

    @property
    def stop_measured_s(self) -> Mapping[str, float]:
        """Return the longest stop of each skill that was stopped so far, by name."""
        with self._step():
            return dict(self._stop_measured_s)

    def state(self) -> KernelSnapshot:
        with self._step():
            live = [r for r in self._calls.values() if not r.reported]
            return KernelSnapshot(
                self._halt_cause is not None,
                self._halt_cause or "",
                self._registry.version,
                tuple(self._subsystem(name) for name in self._leases.names()),
                tuple(r.spec.call_id for r in live),
                tuple(self._process(process_id) for process_id in self._holds.processes()),
                tuple(dict.fromkeys(r.spec.process_id for r in live)),
            )

    def _subsystem(self, name: str) -> SubsystemState:
        settings, user = self._leases.settings(name), next(iter(self._leases.users(name)), "")
        calls = tuple(call.call_id for call in self._leases.holders(name))
        return SubsystemState(name, settings.exclusive_per_process, settings.parallel, user, calls)

    def _process(self, process_id: str) -> ProcessHoldState:
        paused = [r for r in self._calls.of(process_id) if r.pausing is not Pausing.NONE and not r.reported]
        kept, causes = self._leases.reserved_for(process_id), self._holds.causes(process_id)
        return ProcessHoldState(process_id, kept, causes, tuple(r.spec.call_id for r in paused))

    # -- content and deadlines -----------------------------------------------------------------------------------

    def _deliver(self, call_id: str, message: Callable[[RunningCall], None]) -> None:
        """Give a message to its call. One for a call that is not known, or has its result, is void."""
        with self._step():
            run = self._calls.get(call_id)
            if run is not None and not run.reported:
                message(run)

    def _put_content(self, run: RunningCall, seq: int, text: str, last: bool) -> None:
        if run.buffer is None or run.ending is not None or run.body_ended:
            return
        if run.buffer.put(seq, text, last):
            self._extend_deadline(run)
        else:
            error = f"text {seq} of {run.skill.name} came without the one before it; the stream lost a piece"
            self._stop(run, CallResult(Outcome.FAILED, ParseCode.SEQUENCE_GAP, error))

    def _extend_deadline(self, run: RunningCall) -> None:
        """Put off the deadline of a call. An open call ends with its reset and has none."""
        if not run.spec.open:
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

    # -- steps and what they tell; methods from here on need the lock, unless they say otherwise ------------------

    @contextmanager
    def _step(self) -> Iterator[None]:
        """Hold the lock. A step that did not raise then gives what is free to who waits, and flushes the outbox."""
        with self._lock:
            yield
            self._serve_waiting()
        self._flush()

    def _flush(self) -> None:
        """Call what was put into the outbox, in that order, without the lock. It never waits for another thread that flushes.

        A callback that raises is logged, and the others follow.
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

    def _report(self, event: RunEvent) -> None:
        """Report an event once the lock is released."""
        self._outbox.append(lambda: self._on_event(event))

    def _notice(self, run: RunningCall, text: str, code: CallCode = CallCode.NONE) -> None:
        """Report what a person should read about a call."""
        self._report(Notice(text=text, error_code=code, error_msg=text if code else "", **run.spec.about))

    def _changed(self) -> None:
        self._outbox.append(self._on_change)

    # -- stops and ends ------------------------------------------------------------------------------------------

    def _stop(self, run: RunningCall, ending: CallResult) -> None:
        """Ask a call to end within its stop time; past that the robot is halted. Only the first cause counts."""
        now_s = self._clock.now()
        if not run.tell(ending, now_s) or run.reported:
            return
        run.deadline.clear()
        if run.body_ended:
            self._end(run, run.result(now_s))
        elif run.pausing is not Pausing.STOPPING:  # then it counts from the pause
            run.stop_deadline.extend(self._bound_s(run))

    def _halt(self, cause: str) -> None:
        """Stop everything and accept nothing more; the first cause stays."""
        if self._halt_cause is None:
            self._halt_cause = cause
            self._report(Notice(kind=NoticeKind.HALTED, text=cause, error_code=CallCode.HALTED, error_msg=cause))
            self._changed()
        for run in list(self._calls.values()):
            self._stop(run, CallResult(Outcome.INTERRUPTED, CallCode.HALTED, f"the robot was halted: {cause}"))

    def _too_late(self, call_id: str) -> None:
        """Stop a call whose deadline has passed. Takes the lock."""
        with self._step():
            run = self._calls.get(call_id)
            if run is not None and run.deadline.passed:
                took_s = self._clock.now() - run.accepted_s
                error = f"{run.skill.name} was not done after {took_s:.1f} s, its deadline; it was stopped"
                self._stop(run, CallResult(Outcome.FAILED, CallCode.DEADLINE, error))

    def _bound_s(self, run: RunningCall) -> float:
        return run.declared_s(run.skill.stop_bound_s) + self._settings.stop_margin_s

    def _not_stopped(self, call_id: str) -> None:
        """Stop a call that has not come to rest in time for a pause; halt the robot for one that has not stopped in time.

        Takes the lock.
        """
        with self._step():
            run = self._calls.get(call_id)
            if run is None or run.body_ended or run.reported or not run.stop_deadline.passed:
                return
            within = f"within {self._bound_s(run):g} s"
            if run.pausing is Pausing.ASKED and run.ending is None:
                why = f"{run.skill.name} did not come to rest {within} of a pause (pause_evt.rest was not called)"
                self._stop(run, interruption(why, CallCode.PROCESS_PAUSED))
                return
            run.tell(interruption("its process was paused"), self._clock.now())
            self._uncertain(run, f"{run.skill.name} did not stop {within}")

    def _uncertain(self, run: RunningCall, what: str) -> None:
        """End a call whose body may still move and halt the robot; `what` says why that is not known."""
        result = run.uncertain_result(what, self._clock.now())
        self._notice(run, result.error, CallCode.STOP_UNCERTAIN)
        self._outbox.append(lambda: self._on_halt(result.error))
        self._end(run, result)
        self._halt(result.error)
        self._changed()

    def _end(self, run: RunningCall, result: CallResult) -> None:
        """Give a call its one result, and free its leases once its skill has returned."""
        run.reported = True
        self._outbox.append(lambda: self._on_result(run.spec.call_id, result))
        if run.body_ended:
            self._forget(run)

    def _forget(self, run: RunningCall) -> None:
        """Remove a call of which nothing is left."""
        run.deadline.clear()
        run.stop_deadline.clear()
        if run.leased:
            self._leases.release(run.spec, run.all_subsystems)
        self._calls.forget(run)
        self._changed()

    # -- pauses of a process: its calls give their leases away, and take them back first (TypeGo 5.2) ------------

    def _pause_run(self, run: RunningCall, cause: str) -> bool:
        """Pause a call because its process does; false when it ends instead."""
        if run.reported or run.ending is not None:
            return False
        if run.begun and not run.body_ended and not run.skill.pausable and not run.skill.restartable:
            why = f"its process was paused ({cause}) and {run.skill.name} cannot pause; plan it anew"
            self._stop(run, interruption(why, CallCode.PROCESS_PAUSED))
            return False
        if run.pausing is Pausing.STOPPING:  # paused, resumed and paused again before it has returned
            return True
        run.deadline.pause()
        if run.skill.pausable or run.body_ended or not run.begun:
            run.pause_evt.set()
        if run.body_ended or not run.begun:
            self._park(run)
            return True
        if run.skill.pausable:
            run.pausing = Pausing.ASKED
        else:
            run.pausing = Pausing.STOPPING
            run.ask_to_stop(self._clock.now())
        run.stop_deadline.extend(self._bound_s(run))
        return True

    def _came_to_rest(self, run: RunningCall) -> None:
        """Park a call whose skill waits in `PauseEvent.rest`. Takes the lock."""
        with self._step():
            if run.pausing is Pausing.ASKED and run.pause_evt.is_set():
                self._park(run)

    def _serve_waiting(self, causes: Mapping[str, str] | None = None) -> None:
        """Give free subsystems to the processes that wait for them; `causes` are reported instead of `waiting`."""
        for process_id in self._holds.waiting:
            self._wake_process(process_id, (causes or {}).get(process_id, WAITING))

    def _wake_process(self, process_id: str, cause: str) -> Held | None:
        """Let a process go on with all it needs, or with nothing and return who has the first that is not free."""
        held = self._holds.reserve_again(process_id)
        if held is None:
            held = self._resume_runs(process_id)
            if held is not None:
                self._leases.free(process_id)
        if held is None:
            self._holds.wake(process_id)
            self._report(ProcessEvent(kind=ProcessKind.RESUMED, process_id=process_id, cause=cause))
            self._changed()
        return held

    def _resume_runs(self, process_id: str) -> Held | None:
        """Let the calls of a process go on with their leases, or none and return who holds what one of them needs."""
        paused = [r for r in self._calls.of(process_id) if r.ending is None and not r.reported]
        taken: list[RunningCall] = []
        for run in [r for r in paused if r.pausing is Pausing.PARKED]:
            held = self._leases.acquire(run.spec, run.all_subsystems)
            if held is not None:
                for other in taken:
                    self._leases.release(other.spec, other.all_subsystems)
                return held
            taken.append(run)
        for run in paused:
            if run.pausing in (Pausing.ASKED, Pausing.PARKED):
                self._go_on(run)
        return None

    def _park(self, run: RunningCall) -> None:
        run.stop_deadline.clear()
        run.pausing = Pausing.PARKED
        self._leases.release(run.spec, run.all_subsystems)
        self._changed()

    def _go_on(self, run: RunningCall) -> None:
        run.stop_deadline.clear()
        run.pausing = Pausing.NONE
        run.deadline.resume()
        run.pause_evt.clear()
        if run.starts_anew:
            run.starts_anew = run.body_ended = False
            run.stop_asked_s, run.body_result = None, None
            run.stop_evt.clear()
            self._outbox.append(lambda: self._begin(run))

    # -- threads; nothing here is called with the lock -----------------------------------------------------------

    def _begin(self, run: RunningCall) -> None:
        """Start the skill's thread. Takes the lock when there is none to be had."""
        try:
            self._spawn(partial(self._run, run), f"{run.skill.name}-{run.spec.call_id[:8]}")
        except RuntimeError as error:
            why = f"{run.skill.name} got no thread ({error}); too much runs at once"
            self._returned(run, SkillReturn.failure(why))

    def _perform(self, skill: Skill, run: RunningCall, arguments: Mapping[str, Any], *, until_reset: bool) -> SkillReturn:
        """Call a skill's function with what is injected, on the thread of `run`, a call of it or of a composite around it."""
        known = {
            "body": self._body,
            "stop_evt": run.stop_evt,
            "pause_evt": run.pause_evt,
            "until_reset": until_reset,
            "kernel": SkillCaller(self, run),
        }
        return normalized(skill.function(**arguments, **{name: known[name] for name in skill.injected}), skill.name)

    def _call_inside(self, run: RunningCall, name: str, arguments: Mapping[str, Any]) -> SkillReturn:
        """Run a skill to its end inside a composite."""
        skill = self._registry.get(name)
        if skill is None:
            return SkillReturn.failure(f"there is no skill '{name}'", CallCode.UNKNOWN_FUNCTION)
        try:
            bound = bind_typed(skill, arguments, self._robot.limits)
        except ArgumentError as error:
            return SkillReturn.failure(error.message, error.code)
        values = bound.values
        if bound.clamped:
            with self._step():
                for note in bound.clamped:
                    self._notice(run, note)
        wanted = [s for s in skill.subsystems_for(values) if s not in run.subsystems]
        if skill.content is not None:
            text = str(values.pop(skill.content, ""))
            values[skill.content] = iter([text]) if skill.content_streams else text
        refused = self._take_inside(run, name, wanted)
        if refused is not None:
            return refused
        try:
            return self._perform(skill, run, values, until_reset=False)
        finally:
            with self._step():
                for subsystem in wanted:
                    run.nested[subsystem] -= 1
                    if not run.nested[subsystem]:
                        del run.nested[subsystem]
                        if run.leased:
                            self._leases.release(run.spec, [subsystem])
                self._changed()

    def _take_inside(self, run: RunningCall, name: str, wanted: list[str]) -> SkillReturn | None:
        """Take the subsystems of the next skill. Between two skills a composite is at rest, so a pause is waited out here."""
        while True:
            with self._step():
                if run.ending is not None or run.stop_evt.is_set():
                    return SkillReturn.interruption(f"stopped before {name} began")
                if not run.pause_evt.is_set():
                    held = self._leases.acquire(run.spec, [s for s in wanted if s not in run.nested])
                    if held is not None:
                        text = f"{name} needs {held.subsystem}, which process {held.process_id} holds"
                        return SkillReturn.failure(text, CallCode.SUBSYSTEM_HELD)
                    for subsystem in wanted:
                        run.nested[subsystem] = run.nested.get(subsystem, 0) + 1
                    self._changed()
                    return None
            run.pause_evt.rest()

    def _run(self, run: RunningCall) -> None:
        try:
            arguments = dict(run.arguments)
            if run.skill.content is not None and run.buffer is not None:
                arguments[run.skill.content] = run.buffer if run.skill.content_streams else "".join(run.buffer)
            if self._may_begin(run):
                body = self._perform(run.skill, run, arguments, until_reset=run.spec.open)
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
            with self._step():
                if run.ending is not None:
                    return False
                if not run.pause_evt.is_set():
                    run.begun = True
                    run.start_s = self._clock.now() if run.start_s < 0 else run.start_s
                    return True
            run.pause_evt.rest()

    def _returned(self, run: RunningCall, body: SkillReturn) -> None:
        left: list[dict[str, Any]] | None = None
        if run.skill.restartable and run.pausing is Pausing.STOPPING:
            try:
                left = run.remaining(body)
            except Exception as error:  # noqa: BLE001 - the skill's author's code
                body = _raised(run, error)
        with self._step():
            self._settle(run, body, left)

    def _settle(self, run: RunningCall, body: SkillReturn, left: list[dict[str, Any]] | None) -> None:
        now_s, name = self._clock.now(), run.skill.name
        run.body_ended, run.body_result = True, body
        if run.stop_asked_s is not None and run.begun:
            self._stop_measured_s[name] = max(now_s - run.stop_asked_s, self._stop_measured_s.get(name, 0.0))
        if run.reported:
            self._notice(run, f"{name} has stopped after all, {now_s - run.accepted_s:.1f} s on")
            self._forget(run)
            return
        if not body.ok and body.error_code == CallCode.STOP_UNCERTAIN:
            self._uncertain(run, body.message or f"{name} does not know whether it stopped")
            return
        if run.pausing is Pausing.STOPPING and run.ending is None:
            run.pausing = Pausing.NONE
            if body.interrupted and left:
                if left[0] != run.arguments:
                    run.parts.append(body.message)
                run.arguments, run.starts_anew, run.begun = left[0], True, False
                if self._holds.causes(run.spec.process_id):
                    self._park(run)
                else:
                    self._go_on(run)
                return
            if body.interrupted and left is None:
                why = f"its process was paused, and {name} does not tell what remains; plan it anew"
                run.ending = interruption(why, CallCode.PROCESS_PAUSED)
            elif body.interrupted:
                run.body_result = body = SkillReturn.success(body.message)
        run.deadline.clear()
        if run.ending is not None or not run.spec.open or not body.ok:
            self._end(run, run.result(now_s))
        elif self._holds.causes(run.spec.process_id):  # nothing of an open call moves any more whose skill has returned
            self._park(run)


class SkillCaller:
    """Call skills on the composite skill's thread: its `kernel` parameter (TypeGo 4).

    They share its stop and pause events, its process and its result. Subsystems that it does not hold itself are taken for
    the time of the call.
    """

    def __init__(self, kernel: Kernel, run: RunningCall) -> None:
        self._kernel, self._run = kernel, run

    @property
    def process_id(self) -> str:
        return self._run.spec.process_id

    def call(self, name: str, /, **arguments: Any) -> SkillReturn:
        """Run a skill to its end. A failure is returned, not raised; an exception of the skill passes through."""
        return self._kernel._call_inside(self._run, name, arguments)


def _nameless(what: str) -> LeaseAnswer:
    return LeaseAnswer(LeaseCode.INVALID_REQUEST, f"there is no process to {what}; give its process_id")


def _lacking_limit(skills: Iterable[Skill], robot: RobotConfig) -> str:
    for skill in skills:
        for limit in unknown_limits(skill, robot.limits):
            return f"skill '{skill.name}' uses limit '{limit}'; add it to limits of robot '{robot.name}'"
    return ""


def _raised(run: RunningCall, error: BaseException) -> SkillReturn:
    text = shown(error, 300)
    return SkillReturn.failure(f"{run.skill.name} raised {type(error).__name__}: {text}", CallCode.SKILL_RAISED)
