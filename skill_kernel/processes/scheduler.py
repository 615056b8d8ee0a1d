# SPDX-License-Identifier: Apache-2.0
"""The core of S3: several processes on one body, without a model (TypeGo 5.2; semantics section 5). Pure and on an
injected clock: events in by method, commands out through one callback, on one thread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from skill_kernel.calls import ProcessHoldState
from skill_kernel.codes import TaskCode
from skill_kernel.processes.commands import Changed, Command, InterruptPlan, PauseProcess, ProcessError, SchedulerSettings
from skill_kernel.processes.pauses import ProcessPauses
from skill_kernel.processes.phrases import Wording, read_wording
from skill_kernel.processes.plans import ProcessEnds, ProcessPlans
from skill_kernel.processes.process import CAUSE_USER, OWN_CAUSES, Process, ProcessSource, ProcessStatus, ProcessTable
from skill_kernel.processes.relations import ProcessRelations, Verdict, verdict

IDLE_RETRY_S = 60.0
"""How long idle behaviour that failed is left alone."""


class IdleWatch:
    """Decide when idle behaviour begins: once nothing else has run for the time set (TypeGo 5.2).

    Idle behaviour that the user stopped stays away until the next instruction, and so it does after a restart that found
    processes.
    """

    def __init__(self, settings: SchedulerSettings, now: Callable[[], float]) -> None:
        self._settings, self._now = settings, now
        self._quiet_since_s = now()
        self._not_before_s = -math.inf
        self._unwanted = False

    def due(self, living: Iterable[Process]) -> bool:
        """Return whether idle behaviour is to begin now. What the user paused does not keep the robot busy."""
        if any(CAUSE_USER not in p.pause_causes or p.source is ProcessSource.IDLE for p in living):
            self.disturbed()
        due_s = max(self._quiet_since_s + self._settings.idle_after_s, self._not_before_s)
        return bool(self._settings.idle) and not self._unwanted and self._now() >= due_s

    def disturbed(self) -> None:
        """Note that something else has happened just now."""
        self._quiet_since_s = self._now()

    def instructed(self) -> None:
        """Note that somebody uses the robot again."""
        self._unwanted = False

    def unwanted(self) -> None:
        """Begin no idle behaviour before the next instruction."""
        self._unwanted = True

    def ended(self, process: Process) -> None:
        """Note the end of a process."""
        if process.source is ProcessSource.IDLE and process.status is ProcessStatus.FAILED:
            self._not_before_s = self._now() + IDLE_RETRY_S


class ProcessScheduler:
    """Own the processes of one robot.

    New ones join those that run; the preemption table decides only on contention for an exclusive subsystem, or for an
    instruction that begins with a stop word. A process whose calls a pause had to stop is planned again with a higher epoch
    when it goes on. Nothing here waits: the answers to commands come back as further events.
    """

    def __init__(
        self,
        on_command: Callable[[Command], None],
        *,
        new_id: Callable[[], str],
        now: Callable[[], float],
        settings: SchedulerSettings | None = None,
    ) -> None:
        self._settings = settings or SchedulerSettings()
        self._do = on_command
        self._table = ProcessTable(new_id, now, self._changed, keep=self._settings.keep)
        self._ends = ProcessEnds(self._table, on_command, self._after)
        self._idle = IdleWatch(self._settings, now)
        self.plans = ProcessPlans(self._table, on_command, self._ends)
        """Take the reports of planner, channel scheduler and kernel."""
        self.pauses = ProcessPauses(self._table, on_command, self.plans, lambda process: self.relations.undecided(process))
        """Take the kernel's answers to commands."""
        self.relations = ProcessRelations(
            self._table,
            self._ends,
            self._replace,
            lambda one, other: self._order.get(one, 0) > self._order.get(other, 0),
            self.pauses.winner_ended,
        )
        """Take what somebody read of an instruction's meaning."""
        self._count = 0
        self._order: dict[str, int] = {}
        """When a user asked for it last; the preemption table goes by it."""
        self._halted = False
        self._ending_all = False

    # -- what is asked ------------------------------------------------------------------------------------------------

    @property
    def processes(self) -> list[Process]:
        """Return every process still known, oldest first."""
        return self._table.processes

    @property
    def living(self) -> list[Process]:
        """Return those that have not ended, oldest first."""
        return self._table.living

    def get(self, process_id: str) -> Process | None:
        """Return the process of that id, or None."""
        return self._table.get(process_id)

    # -- instructions and commands ------------------------------------------------------------------------------------

    def instruct(
        self, text: str, *, door: str = "", sender: str = "", source: ProcessSource = ProcessSource.USER, strategy: str = ""
    ) -> Process:
        """Make an instruction a process beside the running ones, with the named strategy or that of the settings.

        Raises ProcessError when there are too many, or when the strategy is unknown; what moves is paused all the same when
        the user's instruction began with a stop.
        """
        said = read_wording(text)
        if said.returns and not said.stops and not self._table.living:
            said = Wording(text.strip())
        if refusal := self._refusal(strategy):
            for other in self._table.living if said.stops and source is ProcessSource.USER else ():
                if not other.pause_causes:
                    self.pauses.pause(other, CAUSE_USER)
            raise refusal
        if source is ProcessSource.USER:
            self._idle.instructed()
        process = self._table.create(
            said.task,
            door=door,
            sender=sender,
            strategy=strategy or self._settings.strategy,
            source=source,
            returns=said.returns,
            epoch=self.plans.epoch,
        )
        self._asked(process.process_id)
        if said.stops:
            for other in self._table.living:
                if other.process_id != process.process_id and not other.pause_causes & OWN_CAUSES:
                    self._preempt(process, other)
        return self._table.get(process.process_id) or process

    def chosen(self, process_id: str, command: str) -> Process:
        """Return the process a command "stop", "pause" or "resume" means, "" = the newest it fits.

        Raises KeyError with the reason when there is none of that id, or nothing to choose from.
        """
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
        if process.source is ProcessSource.IDLE:
            self._idle.unwanted()
        self._ends.end(process, ProcessStatus.STOPPED, code, why)

    def fail(self, process_id: str, code: TaskCode, why: str) -> None:
        """End a living process as FAILED and stop whatever it does."""
        process = self._table.lives(process_id)
        if process is not None:
            self._ends.end(process, ProcessStatus.FAILED, code, why)

    def _refusal(self, strategy: str) -> ProcessError | None:
        if len(self._table.living) >= self._settings.max_processes:
            told = f"{self._settings.max_processes} processes live already; wait for one to end, or end one: ghostshell stop ID"
            return ProcessError(told)
        known = self._settings.strategies
        if strategy and strategy not in known:
            told = f"strategy '{strategy[:40]}' is unknown; use one of {', '.join(known)}, or none"
            return ProcessError(told, TaskCode.UNKNOWN_STRATEGY)
        return None

    def pause(self, process_id: str) -> None:
        """Pause until the user resumes it. Raises ProcessError when it has ended or is paused by the user already."""
        process = self._living(process_id, "paused")
        if CAUSE_USER not in process.pause_causes:
            self.pauses.pause(process, CAUSE_USER)
        elif not self.pauses.stay(process, CAUSE_USER):
            raise ProcessError(f"process {process_id} is paused already; ghostshell resume {process_id} lets it go on")

    def resume(self, process_id: str) -> str:
        """Take the user's pause back; return what the process still waits for, "" for nothing known.

        Raises ProcessError when the user has not paused it.
        """
        process = self._living(process_id, "resumed")
        if CAUSE_USER not in process.pause_causes:
            state = f"paused by {', '.join(sorted(process.pause_causes))}" if process.pause_causes else process.status.name
            raise ProcessError(f"process {process_id} is {state}; only what the user paused can be resumed by hand")
        self._asked(process_id)
        self.pauses.resume(process, {CAUSE_USER})
        return f"process {process.displaced_by} runs in its place" if process.displaced_by else ""

    def end_all(self, why: str, code: TaskCode = TaskCode.ROBOT_HALTED) -> None:
        """End every process, also paused ones, so that none goes on when the robot is let go again."""
        self._ending_all = True
        for process in self._table.living:
            self._ends.end(process, ProcessStatus.STOPPED, code, why)
        self._ending_all = False

    def halted(self, halted: bool) -> None:
        """Note that the robot is halted, which ends every process, or no longer is."""
        if halted and not self._halted:
            self.end_all("the robot was halted")
        self._halted = halted
        self._idle.disturbed()

    # -- contention ---------------------------------------------------------------------------------------------------

    def contention(self, wants_id: str, holder_id: str) -> None:
        """Settle that `wants_id` was refused an exclusive subsystem that `holder_id` holds. Repeats do nothing."""
        wants, holder = self._table.lives(wants_id), self._table.lives(holder_id)
        if wants is None or holder is None or wants_id == holder_id or wants.pause_causes:
            return
        if holder.pause_causes:  # it is giving away what it has
            self._table.change(wants_id, waits_for=holder_id)
            return
        newer, older = (wants, holder) if self._order[wants_id] > self._order[holder_id] else (holder, wants)
        if self._verdict(newer, older) is Verdict.WAIT:
            if newer is holder:
                self.pauses.displace(newer, older)
        else:
            self._preempt(newer, older)
        wants = self._table.lives(wants_id)
        if wants is not None and not wants.pause_causes:
            self._table.change(wants_id, waits_for=holder_id)

    def kernel_state(self, holds: Iterable[ProcessHoldState]) -> None:
        """Take what the skill kernel keeps for each process now. Its causes beside our own (s0, teleop) count as well."""
        held = {hold.process_id: hold for hold in holds}
        for process in self._table.living:
            mine = held.get(process.process_id) or ProcessHoldState(process.process_id)
            causes = (process.pause_causes & OWN_CAUSES) | (frozenset(mine.pause_causes) - OWN_CAUSES)
            holder = held.get(process.waits_for)
            waits = process.waits_for if holder is not None and holder.subsystems and not causes else ""
            self._table.change(
                process.process_id, subsystems=tuple(sorted(mine.subsystems)), pause_causes=causes, waits_for=waits
            )
        self.pauses.try_again()

    def _verdict(self, newer: Process, older: Process) -> Verdict:
        found = verdict(newer.source, older.source, returns=self.relations.returns(newer, older))
        return Verdict.WAIT if found is Verdict.ONE_ONLY else found

    def _preempt(self, newer: Process, older: Process) -> None:
        found = self._verdict(newer, older)
        if found is Verdict.PAUSE or (found is Verdict.REPLACE and self.relations.puts_off(newer, older)):
            self.pauses.displace(older, newer)
        elif found is Verdict.REPLACE:
            self._replace(older, newer)

    def _replace(self, loser: Process, winner: Process) -> None:
        """End the loser; what it had displaced contends with the winner in its place."""
        heirs = [p for p in self._table.living if p.displaced_by == loser.process_id]
        for heir in heirs:
            self._table.change(heir.process_id, displaced_by=winner.process_id)
        self._ends.end(loser, ProcessStatus.STOPPED, TaskCode.REPLACED, "a newer instruction took over")
        for heir in heirs:
            if self._verdict(winner, heir) is Verdict.REPLACE:
                self._replace(heir, winner)

    def _asked(self, process_id: str) -> None:
        self._order[process_id] = self._count = self._count + 1

    # -- time, and an earlier run -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Try what waits again and begin idle behaviour if it is due. Called now and then."""
        self.pauses.try_again()
        if not self._halted and self._idle.due(self._table.living):
            self._idle.disturbed()
            idle = self._table.create(
                self._settings.idle,
                door="idle",
                sender="the robot itself",
                strategy=self._settings.strategy,
                source=ProcessSource.IDLE,
                epoch=self.plans.epoch,
            )
            self._asked(idle.process_id)

    def restore(self, processes: Iterable[Process]) -> None:
        """Take up the processes of an earlier run as they were.

        Living ones are paused by the user's cause and are planned again when the user resumes them; `reach` stops what they
        may still do.
        """
        restored = [p.restored("the process scheduler was started anew; resume or stop it") for p in processes]
        for process in restored:
            if not process.status.ended:
                self.plans.taken_up(process.process_id)
                self._asked(process.process_id)
                self._idle.unwanted()
        self._table.restore(restored)

    def reach(self) -> None:
        """Pause restored processes at the other nodes, which answer now, and void what was planned for them."""
        for process in self._table.living:
            if self.plans.is_voiding(process.process_id):
                self._do(PauseProcess(process.process_id, CAUSE_USER))
                self._do(InterruptPlan(process.process_id, process.message))

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _living(self, process_id: str, what: str) -> Process:
        process = self._table.lives(process_id)
        if process is None:
            known = self._table.get(process_id)
            raise ProcessError(f"process {process_id} is {known.status.name if known else 'unknown'}; it cannot be {what}")
        return process

    def _after(self, ended: Process) -> None:
        """Let what an ended process had displaced go on."""
        self.pauses.forget(ended.process_id)
        self._order.pop(ended.process_id, None)
        self.plans.forget(ended.process_id)
        self._idle.ended(ended)
        if self._ending_all:
            return
        self.pauses.winner_ended(ended)

    def _changed(self, process: Process) -> None:
        self._do(Changed(process))
