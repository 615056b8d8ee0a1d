# SPDX-License-Identifier: Apache-2.0
"""The core of S3: several processes on one body, without a model (TypeGo 5.2; semantics section 5). Pure and on an
injected clock: events in by method, commands out through one callback, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.process import (
    CAUSE_S3,
    CAUSE_USER,
    HISTORY,
    OWN_CAUSES,
    CallRecord,
    Process,
    ProcessSource,
    ProcessStatus,
    ProcessTable,
)
from skill_kernel.process_commands import (
    Changed,
    Command,
    EndProcess,
    Held,
    InterruptPlan,
    PauseProcess,
    ProcessError,
    ReleaseProcess,
    ResumeProcess,
    SchedulerSettings,
)
from skill_kernel.process_phrases import Wording, read_wording
from skill_kernel.process_preemption import Verdict, verdict

IDLE_RETRY_S = 60.0
"""How long idle behaviour that failed is left alone."""

_BROKEN = frozenset({int(TaskCode.CALL_FAILED), int(TaskCode.CANCELLED), int(TaskCode.NODE_UNAVAILABLE)})
"""How the plan of a paused process ends when a pause stopped its call or its planner is gone: it is planned anew."""


class ProcessScheduler:
    """Owns the processes. New ones join those that run; only contention for an exclusive subsystem, or an instruction
    that begins with a stop word, makes the preemption table decide.

    A process whose calls a pause had to stop is planned anew with a higher epoch when it goes on. Nothing here waits:
    the answers to commands come back as further events.
    """

    def __init__(self, on_command: Callable[[Command], None], *, new_id: Callable[[], str], now: Callable[[], float],
                 settings: SchedulerSettings | None = None) -> None:  # fmt: skip
        self._settings = settings or SchedulerSettings()
        self._do = on_command
        self._now = now
        self._table = ProcessTable(new_id, now, self._changed, keep=self._settings.keep)
        self._replanning: set[str] = set()
        self._due: dict[str, set[str]] = {}
        """Pause causes to take back once what displaced the process has ended."""
        self._streams: dict[str, set[str]] = {}
        self._old_streams: dict[str, set[str]] = {}
        self._epoch = 0
        self._count = 0
        self._order: dict[str, int] = {}
        """When a user asked for it last; the preemption table goes by it."""
        self._halted = False
        self._ending_all = False
        self._quiet_since_s = now()
        self._idle_not_before_s = 0.0
        self._idle_held = False

    # -- what is asked ------------------------------------------------------------------------------------------------

    @property
    def processes(self) -> list[Process]:
        """Every process still known, oldest first."""
        return self._table.processes

    @property
    def living(self) -> list[Process]:
        """Those that have not ended, oldest first."""
        return self._table.living

    def get(self, process_id: str) -> Process | None:
        """The process of that id, or None."""
        return self._table.get(process_id)

    # -- instructions and commands ------------------------------------------------------------------------------------

    def instruct(self, text: str, *, door: str = "", sender: str = "",
                 source: ProcessSource = ProcessSource.USER) -> Process:  # fmt: skip
        """Make an instruction a process beside the running ones. Raises ProcessError when there are too many; what moves
        is paused all the same when the instruction began with a stop."""
        said = read_wording(text)
        if said.returns and not said.stops and not self._table.living:
            said = Wording(text.strip())
        if len(self._table.living) >= self._settings.max_processes:
            for other in self._table.living if said.stops else ():
                if not other.pause_causes:
                    self._pause(other, CAUSE_USER)
            raise ProcessError(
                f"{self._settings.max_processes} processes live already; wait for one to end, or end one: ghostshell stop ID"
            )
        self._idle_held = False
        process = self._table.create(
            said.task, door=door, sender=sender, strategy=self._settings.strategy, source=source,
            returns=said.returns, epoch=self._epoch,
        )  # fmt: skip
        self._asked(process.process_id)
        if said.stops:
            for other in self._table.living:
                if other.process_id != process.process_id and not other.pause_causes & OWN_CAUSES:
                    self._preempt(process, other)
        return self._table.get(process.process_id) or process

    def chosen(self, process_id: str, command: str) -> Process:
        """The process a command "stop", "pause" or "resume" means, "" = the newest it fits. Raises KeyError with the
        reason when there is none of that id, or nothing to choose from."""
        if process_id:
            found = self._table.get(process_id)
            if found is None:
                raise KeyError(f"there is no process '{process_id}'")
            return found
        for process in reversed(self._table.living):
            paused = bool(process.pause_causes)
            if command == "stop" or paused == (command == "resume"):
                return process
        raise KeyError("nothing runs" if command != "resume" else "no process is paused")

    def stop(self, process_id: str, why: str, code: TaskCode = TaskCode.CANCELLED) -> None:
        """End a process for good. Raises ProcessError when it has ended."""
        process = self._living(process_id, "stopped")
        self._idle_held = self._idle_held or process.source is ProcessSource.IDLE
        self._end(process, ProcessStatus.STOPPED, code, why)

    def fail(self, process_id: str, code: TaskCode, why: str) -> None:
        """End a living process as FAILED and stop whatever it does."""
        process = self._table.lives(process_id)
        if process is not None:
            self._end(process, ProcessStatus.FAILED, code, why)

    def pause(self, process_id: str) -> None:
        """Pause until the user resumes it. Raises ProcessError when it has ended or is paused by the user already."""
        process = self._living(process_id, "paused")
        if CAUSE_USER in process.pause_causes:
            raise ProcessError(f"process {process_id} is paused already; ghostshell resume {process_id} lets it go on")
        self._pause(process, CAUSE_USER)

    def resume(self, process_id: str) -> str:
        """Take the user's pause back; says what it still waits for, "" for nothing known. Raises ProcessError when the
        user has not paused it."""
        process = self._living(process_id, "resumed")
        if CAUSE_USER not in process.pause_causes:
            state = f"paused by {', '.join(sorted(process.pause_causes))}" if process.pause_causes else process.status.name
            raise ProcessError(f"process {process_id} is {state}; only what the user paused can be resumed by hand")
        self._asked(process_id)
        self._return(process, {CAUSE_USER})
        return f"process {process.displaced_by} runs in its place" if process.displaced_by else ""

    def end_all(self, why: str, code: TaskCode = TaskCode.ROBOT_HALTED) -> None:
        """End every process, also paused ones, so that none goes on when the robot is let go again."""
        self._ending_all = True
        for process in self._table.living:
            self._end(process, ProcessStatus.STOPPED, code, why)
        self._ending_all = False

    def halted(self, halted: bool) -> None:
        """The robot is halted, which ends every process, or no longer is."""
        if halted and not self._halted:
            self.end_all("the robot was halted")
        self._halted = halted
        self._quiet_since_s = self._now()

    # -- contention ---------------------------------------------------------------------------------------------------

    def contention(self, wants_id: str, holder_id: str) -> None:
        """`wants_id` was refused an exclusive subsystem that `holder_id` holds. Repeats do nothing."""
        wants, holder = self._table.lives(wants_id), self._table.lives(holder_id)
        if wants is None or holder is None or wants_id == holder_id or wants.pause_causes:
            return
        if holder.pause_causes:  # it is giving away what it has
            self._table.change(wants_id, waits_for=holder_id)
            return
        newer, older = (wants, holder) if self._order[wants_id] > self._order[holder_id] else (holder, wants)
        if self._verdict(newer, older) is Verdict.WAIT:
            if newer is holder:
                self._displace(newer, older)
        else:
            self._preempt(newer, older)
        wants = self._table.lives(wants_id)
        if wants is not None and not wants.pause_causes:
            self._table.change(wants_id, waits_for=holder_id)

    def kernel_state(self, held: Mapping[str, Held]) -> None:
        """What the skill kernel keeps for each process now. Its causes beside our own (s0, teleop) count as well."""
        for process in self._table.living:
            mine = held.get(process.process_id, Held())
            causes = (process.pause_causes & OWN_CAUSES) | (mine.pause_causes - OWN_CAUSES)
            holder = held.get(process.waits_for, Held()) if process.waits_for else None
            waits = process.waits_for if holder is not None and holder.subsystems and not causes else ""
            self._table.change(
                process.process_id, subsystems=tuple(sorted(mine.subsystems)), pause_causes=causes, waits_for=waits
            )
        self._try_again()

    def _verdict(self, newer: Process, older: Process) -> Verdict:
        found = verdict(newer.source, older.source, returns=newer.returns)
        return Verdict.WAIT if found is Verdict.ONE_ONLY else found

    def _preempt(self, newer: Process, older: Process) -> None:
        found = self._verdict(newer, older)
        if found is Verdict.PAUSE:
            self._displace(older, newer)
        elif found is Verdict.REPLACE:
            self._replace(older, newer)

    def _displace(self, loser: Process, winner: Process) -> None:
        self._table.change(loser.process_id, displaced_by=winner.process_id, resumes=True)
        self._due.setdefault(loser.process_id, set()).add(CAUSE_S3)
        self._pause(loser, CAUSE_S3)

    def _replace(self, loser: Process, winner: Process) -> None:
        """What the loser had displaced contends with the winner in its place."""
        heirs = [p for p in self._table.living if p.displaced_by == loser.process_id]
        for heir in heirs:
            self._table.change(heir.process_id, displaced_by=winner.process_id)
        self._end(loser, ProcessStatus.STOPPED, TaskCode.REPLACED, "a newer instruction took over")
        for heir in heirs:
            if self._verdict(winner, heir) is Verdict.REPLACE:
                self._replace(heir, winner)

    # -- pause, resume, plan anew -------------------------------------------------------------------------------------

    def paused(self, process_id: str, stopped: Sequence[str]) -> None:
        """The kernel's answer to a pause: these calls ended because they can neither pause nor tell what remains."""
        if stopped:
            self._replan(process_id, "a call could not be paused")

    def resumed(self, process_id: str, cause: str, ok: bool, holders: Iterable[str] = ()) -> None:
        """The kernel's answer to a resume; not done while others hold what the process needs."""
        process = self._table.lives(process_id)
        if process is None:
            return
        others = [h for h in holders if h != process_id]
        if not ok and others:
            self._due.setdefault(process_id, set()).add(cause)
            known = next((h for h in others if self._table.lives(h)), "")
            self._table.change(process_id, displaced_by=known, resumes=True)
            return
        left = process.pause_causes - {cause}
        displaced = process.displaced_by if CAUSE_S3 in left else ""
        self._table.change(process_id, pause_causes=left, displaced_by=displaced, resumes=bool(displaced), message="")

    def interrupted(self, process_id: str, epoch: int) -> None:
        """The plan is void everywhere: the next one has this epoch."""
        self.learn_epoch(epoch)
        if process_id not in self._replanning:
            return
        self._replanning.discard(process_id)
        process = self._table.lives(process_id)
        if process is None:
            return
        self._old_streams[process_id] = set(self._streams.get(process_id, ()))
        self._table.change(
            process_id, epoch=max(epoch, process.epoch + 1), plan=process.plan + 1, plan_ended=False, drained=True,
            code=0, waits_for="",
        )  # fmt: skip
        if self._due.get(process_id) and not process.displaced_by:
            self._return(process, self._due.pop(process_id))

    def learn_epoch(self, epoch: int) -> None:
        """An interrupt of every process voids older goals of processes to come, too: they begin with the newest epoch."""
        self._epoch = max(self._epoch, epoch)

    def _pause(self, process: Process, cause: str) -> None:
        causes = process.pause_causes | {cause}
        self._table.change(process.process_id, pause_causes=causes, waits_for="")
        self._do(PauseProcess(process.process_id, cause))

    def _return(self, process: Process, causes: set[str]) -> None:
        """Let it go on, as soon as its old plan is void everywhere."""
        if process.process_id in self._replanning:
            self._due.setdefault(process.process_id, set()).update(causes)
            self._table.change(process.process_id, displaced_by="")
            return
        for cause in sorted(causes & process.pause_causes):
            self._do(ResumeProcess(process.process_id, cause))

    def _try_again(self) -> None:
        """Let those go on whose subsystems were held by nobody known here, or are still being given back."""
        for process in self._table.living:
            if self._due.get(process.process_id) and not self._table.lives(process.displaced_by):
                self._return(process, self._due.pop(process.process_id))

    def _asked(self, process_id: str) -> None:
        self._order[process_id] = self._count = self._count + 1

    def _replan(self, process_id: str, why: str) -> None:
        if self._table.lives(process_id) is not None and process_id not in self._replanning:
            self._replanning.add(process_id)
            self._do(InterruptPlan(process_id, f"it is planned anew when it goes on: {why}"))

    # -- what the others report ---------------------------------------------------------------------------------------

    def stream_started(self, process_id: str, stream_id: str) -> None:
        """Calls of a stream may follow."""
        if self._table.lives(process_id) is not None:
            self._streams.setdefault(process_id, set()).add(stream_id)
            self._table.change(process_id, drained=False)

    def drained(self, process_id: str) -> None:
        """Every call has ended and no stream is open."""
        self._settle(process_id, drained=True)

    def plan_ended(self, process_id: str, epoch: int, code: int, message: str) -> None:
        """The planner has no further turn for the plan of that epoch."""
        process = self._table.lives(process_id)
        if process is None or process_id in self._replanning or epoch != process.epoch:
            return
        if process.pause_causes and code in _BROKEN:
            self._replan(process_id, message)
        else:
            self._settle(process_id, plan_ended=True, code=code, message=message)

    def call_started(self, process_id: str, record: CallRecord) -> None:
        """A call of the process runs."""
        process = self._table.lives(process_id)
        if process is not None:
            self._table.change(process_id, running=(*process.running, record), waits_for="")

    def call_ended(self, process_id: str, stream_id: str, record: CallRecord) -> None:
        """A call has its outcome."""
        process = self._table.lives(process_id)
        if process is None:
            return
        failed = record.outcome in (Outcome.FAILED.value, Outcome.REFUSED.value)
        self._table.change(
            process_id,
            running=tuple(c for c in process.running if c.call_id != record.call_id),
            history=(*process.history, record)[-HISTORY:],
            calls=process.calls + 1,
            calls_done=process.calls_done + (record.outcome == Outcome.DONE.value),
            calls_failed=process.calls_failed + failed,
        )
        if stream_id in self._old_streams.get(process_id, ()) or process_id in self._replanning:
            return
        if record.code == CallCode.KERNEL_UNAVAILABLE:
            # Nobody knows what still moves: interrupting halts the gate where the kernel does not answer.
            self._end(process, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, record.message)
        elif record.code == CallCode.STALE_EPOCH:
            why = f"somebody else interrupted it at the skill kernel: {record.message}"
            self._end(process, ProcessStatus.STOPPED, TaskCode.CANCELLED, why)
        elif record.code == CallCode.PROCESS_PAUSED and record.outcome == Outcome.INTERRUPTED.value:
            self._replan(process_id, f"{record.function} could not be paused")

    def usage(self, process_id: str, prompt_tokens: int, completion_tokens: int, cost_usd: float) -> None:
        """A stream of the model has ended; `cost_usd` below 0 when no price is known."""
        process = self._table.lives(process_id)
        if process is not None:
            cost = max(process.cost_usd, 0.0) + cost_usd if cost_usd >= 0 else process.cost_usd
            self._table.change(
                process_id, prompt_tokens=process.prompt_tokens + prompt_tokens,
                completion_tokens=process.completion_tokens + completion_tokens, cost_usd=cost, turn=process.turn + 1,
            )  # fmt: skip

    def calls_lost(self, why: str) -> None:
        """The node that keeps the order of calls is gone: running processes end, paused ones are planned anew."""
        for process in self._table.living:
            if process.pause_causes:
                self._replan(process.process_id, why)
            else:
                self._end(process, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, why)

    # -- time, and an earlier run -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Called now and then: what waits for a holder nobody here knows is tried again, idle behaviour begins."""
        self._try_again()
        now = self._now()
        if any(CAUSE_USER not in p.pause_causes or p.source is ProcessSource.IDLE for p in self._table.living):
            self._quiet_since_s = now
        due_s = max(self._quiet_since_s + self._settings.idle_after_s, self._idle_not_before_s)
        if self._settings.idle and not self._halted and not self._idle_held and now >= due_s:
            self._quiet_since_s = now
            idle = self._table.create(
                self._settings.idle, door="idle", sender="the robot itself", strategy=self._settings.strategy,
                source=ProcessSource.IDLE, epoch=self._epoch,
            )  # fmt: skip
            self._asked(idle.process_id)

    def restore(self, processes: Iterable[Process]) -> None:
        """Take up the processes of an earlier run as they were. Living ones are paused by the user's cause and are
        planned anew when the user resumes them; `reach` stops what they may still do."""
        restored = [p.restored("the process scheduler was started anew; resume or stop it") for p in processes]
        for process in restored:
            if not process.status.ended:
                self._replanning.add(process.process_id)
                self._asked(process.process_id)
        self._idle_held = bool(self._replanning)
        self._table.restore(restored)

    def reach(self) -> None:
        """The other nodes answer: pause restored processes there and void what was planned for them."""
        for process in self._table.living:
            if process.process_id in self._replanning:
                self._do(PauseProcess(process.process_id, CAUSE_USER))
                self._do(InterruptPlan(process.process_id, process.message))

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _living(self, process_id: str, what: str) -> Process:
        process = self._table.lives(process_id)
        if process is None:
            known = self._table.get(process_id)
            raise ProcessError(f"process {process_id} is {known.status.name if known else 'unknown'}; it cannot be {what}")
        return process

    def _settle(self, process_id: str, **changes: object) -> None:
        before = self._table.lives(process_id)
        after = self._table.change(process_id, **changes)
        if before is not None and after is not None and after.status.ended:
            self._do(ReleaseProcess(process_id))
            self._after(after)

    def _end(self, process: Process, status: ProcessStatus, code: TaskCode, why: str) -> None:
        ended = self._table.end(process.process_id, status, int(code), why)
        self._do(EndProcess(process.process_id, why))
        if ended is not None:
            self._after(ended)

    def _after(self, ended: Process) -> None:
        """What it displaced goes on."""
        for known in (self._due, self._streams, self._old_streams, self._order):
            known.pop(ended.process_id, None)
        self._replanning.discard(ended.process_id)
        if ended.source is ProcessSource.IDLE and ended.status is ProcessStatus.FAILED:
            self._idle_not_before_s = self._now() + IDLE_RETRY_S
        if self._ending_all:
            return
        for process in self._table.living:
            if process.displaced_by == ended.process_id and process.resumes:
                self._return(process, self._due.pop(process.process_id, {CAUSE_S3}))

    def _changed(self, process: Process) -> None:
        self._do(Changed(process))
