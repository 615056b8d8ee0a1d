# SPDX-License-Identifier: Apache-2.0
"""Schedule several processes on one body, without a model: the core of S3 (TypeGo 5.2; semantics section 5).

Pure and on an injected clock: events come in by method, commands go out through one link, on one thread.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from skill_kernel.calls import ProcessHoldState
from skill_kernel.codes import CallCode, Outcome, TaskCode
from skill_kernel.config.sections import shown
from skill_kernel.events import CallEvent, CallKind, ModelEvent, ModelKind, ProcessEvent, ProcessKind, RunEvent, StreamKind
from skill_kernel.processes.phrases import Wording, read_wording
from skill_kernel.processes.process import (
    CAUSE_S3,
    CAUSE_USER,
    EVENT_CHARS,
    FIRED,
    HISTORY,
    NOTHING_MORE,
    OWN_CAUSES,
    CallPurpose,
    CallRecord,
    Process,
    ProcessError,
    ProcessSource,
    ProcessStatus,
    Relation,
    SchedulerSettings,
    Tally,
    Verdict,
    added,
    skipped,
    verdict,
)

IDLE_RETRY_S = 60.0
"""Time for which idle behaviour that failed is left alone."""

PLANNER, SCHEDULER, SENDER = "action_planner", "channel_scheduler", "sender"
SCHEDULER_TICKS, DEBTOR_TICKS = 5, 20
"""Ticks of silence, after which the channel scheduler counts as gone, and a process ends for which the silent node works."""


_BROKEN = frozenset({int(TaskCode.CALL_FAILED), int(TaskCode.CANCELLED), int(TaskCode.NODE_UNAVAILABLE)})
"""Codes with which a paused process's plan ends because its call was stopped or its planner is gone: it is planned anew."""


class RobotCommands(Protocol):
    """Carry out what the process scheduler asks of the rest of the robot. Nothing here waits: answers come back by method."""

    def changed(self, process: Process) -> None:
        """Hear that a process has changed to this block."""

    def amended(self, process: Process) -> None:
        """Hear what an ended process has cost that was learned later; its end has been told before."""

    def end(self, process_id: str, cause: str) -> None:
        """Interrupt whatever a process does, along the whole way, then free what it holds."""

    def release(self, process_id: str) -> None:
        """Free what a process holds that has ended by itself."""

    def pause(self, process_id: str, cause: str) -> None:
        """Add a pause cause at the skill kernel; the answer goes to `ProcessScheduler.paused`."""

    def resume(self, process_id: str, cause: str) -> None:
        """Take a pause cause back at the skill kernel; the answer goes to `ProcessScheduler.resumed`."""

    def void_plan(self, process_id: str, cause: str) -> None:
        """Void everything planned so far; the new epoch goes to `ProcessScheduler.interrupted`."""


@dataclass
class _Book:
    """Keep what only the scheduler needs to know of a process."""

    order: int = 0
    """Number of the last time that a user asked for it; the preemption table goes by it."""
    wanted: set[str] = field(default_factory=set)
    """Own pause causes that stand. Others that the kernel still has are to be taken back."""
    resuming: set[str] = field(default_factory=set)
    """Causes that the kernel has been asked to take back."""
    voiding: bool = False
    """True while its plan is void here and not everywhere yet."""
    streams: set[str] = field(default_factory=set)
    old_streams: set[str] = field(default_factory=set)
    shown: frozenset[str] = frozenset()
    """Processes that a reading may relate to this new one."""
    undecided: set[str] = field(default_factory=set)
    """Processes that pause until the reading of this new one comes."""
    read: bool = True
    """False while somebody reads what its instruction says of the others."""
    returning: set[str] = field(default_factory=set)
    """Processes that go on after this one."""
    debtor: str = ""
    """Node that owes the next sign of life, "" for none."""
    silent_ticks: int = 0
    """Ticks since its last one."""
    alone_ticks: int | None = None
    """Ticks since its sender was last there; None for a process whose sender never said so."""


class ProcessScheduler:
    """Own the processes of one robot.

    New ones join those that run; the preemption table decides only on contention for an exclusive subsystem, or for an
    instruction that begins with a stop word. A plan that cannot go on, as after a pause that had to stop its calls, is voided
    everywhere first; only then does the process get the next one, of a higher epoch. Later reports of a void plan count for
    the history alone. Nothing here waits: the robot's answers come back as further events.

    Idle behaviour begins once nothing else has run for the time set. When the user stopped it, or a restart found
    processes, it stays away until the next instruction. Processes of other planners, as those of a team, are known by what
    the kernel keeps for them: idle behaviour gives way to them, any other process and they wait for one another.
    """

    def __init__(
        self, link: RobotCommands, *, new_id: Callable[[], str], now: Callable[[], float], settings: SchedulerSettings
    ) -> None:
        self._link, self._new_id, self._now, self._settings = link, new_id, now, settings
        self._processes: dict[str, Process] = {}
        self._books: dict[str, _Book] = {}
        self.epoch = 0
        """The newest epoch known: an interrupt of every process voids older goals of processes to come, too."""
        self._count = 0
        self._quiet_since_s, self._idle_not_before_s, self._idle_unwanted = now(), -math.inf, False
        self._halted = False
        self._strangers = False
        """True while the kernel keeps something for a process of another planner."""
        self._ending_all = False
        self._silent_ticks = -math.inf
        """Ticks since the channel scheduler's last sign of life."""

    @property
    def processes(self) -> list[Process]:
        """Return every process still known, oldest first."""
        return list(self._processes.values())

    @property
    def living(self) -> list[Process]:
        """Return those that have not ended, oldest first."""
        return [p for p in self._processes.values() if not p.status.ended]

    def get(self, process_id: str) -> Process | None:
        return self._processes.get(process_id)

    def lives(self, process_id: str) -> Process | None:
        """Return the process of that id if it has not ended."""
        process = self._processes.get(process_id)
        return process if process is not None and not process.status.ended else None

    # -- instructions and commands ------------------------------------------------------------------------------------

    def instruct(
        self, text: str, *, door: str = "", sender: str = "", source: ProcessSource = ProcessSource.USER, strategy: str = ""
    ) -> Process:
        """Make an instruction a process beside the running ones, with the named strategy or that of the settings.

        Raises ProcessError when there are too many, or when the strategy is unknown; what moves is paused all the same when
        the user's instruction began with a stop.
        """
        said = read_wording(text)
        if said.returns and not said.stops and not self.living:
            said = Wording(text.strip())
        if refusal := self._refusal(strategy):
            for other in self.living if said.stops and source is ProcessSource.USER else ():
                if not other.pause_causes:
                    self._pause(other, CAUSE_USER)
            raise refusal
        if source is ProcessSource.USER:
            self._idle_unwanted = False
        process = self._begin(said.task, door, sender, source, strategy, returns=said.returns)
        if said.stops:
            for other in self.living:
                if other.process_id != process.process_id and not other.pause_causes & OWN_CAUSES:
                    self._preempt(process, other)
        return self.get(process.process_id) or process

    def _begin(
        self, task: str, door: str, sender: str, source: ProcessSource, strategy: str = "", *, returns: bool = False
    ) -> Process:
        strategy = strategy or self._settings.strategy
        fresh = Process(self._new_id(), task, door, sender, strategy, self._now(), source, returns=returns, epoch=self.epoch)
        self._processes[fresh.process_id], self._books[fresh.process_id] = fresh, _Book()
        self._forget_surplus()
        self._link.changed(fresh)
        self._asked(fresh.process_id)
        return fresh

    def chosen(self, process_id: str, command: str) -> Process:
        """Return the process a command "stop", "pause" or "resume" means, "" = the newest it fits.

        Raises KeyError with the reason when there is none of that id, or nothing to choose from.
        """
        if process_id:
            found = self.get(process_id)
            if found is None:
                raise KeyError(f"there is no process '{shown(process_id)}'")
            return found
        for process in reversed(self.living):
            paused = bool(process.pause_causes)
            if command == "stop" or paused == (command == "resume"):
                return process
        raise KeyError("nothing runs" if command != "resume" else "no process is paused")

    def stop(self, process_id: str, why: str, code: TaskCode = TaskCode.CANCELLED) -> None:
        """End a process for good. Raises ProcessError when it has ended."""
        process = self._living(process_id, "stopped")
        if process.source is ProcessSource.IDLE:
            self._idle_unwanted = True
        self._end(process, ProcessStatus.STOPPED, code, why)

    def fail(self, process_id: str, code: TaskCode, why: str) -> None:
        """End a living process as FAILED and stop whatever it does."""
        process = self.lives(process_id)
        if process is not None:
            self._end(process, ProcessStatus.FAILED, code, why)

    def _refusal(self, strategy: str) -> ProcessError | None:
        if len(self.living) >= self._settings.max_processes:
            told = f"{self._settings.max_processes} processes live already; wait for one to end, or end one: ghostshell stop ID"
            return ProcessError(told)
        known = self._settings.strategies
        if strategy and strategy not in known:
            told = f"strategy '{shown(strategy)}' is unknown; use one of {', '.join(known)}, or none"
            return ProcessError(told, TaskCode.UNKNOWN_STRATEGY)
        return None

    def pause(self, process_id: str) -> None:
        """Pause until the user resumes it. Raises ProcessError when it has ended or is paused by the user already."""
        process = self._living(process_id, "paused")
        if CAUSE_USER in self._books[process_id].wanted:
            raise ProcessError(f"process {process_id} is paused already; ghostshell resume {process_id} lets it go on")
        if CAUSE_S3 not in process.pause_causes:
            self._change(process_id, displaced_by="")
        self._pause(process, CAUSE_USER)

    def resume(self, process_id: str) -> str:
        """Take the user's pause back; return what the process still waits for, "" for nothing known.

        Raises ProcessError when the user has not paused it.
        """
        process = self._living(process_id, "resumed")
        if CAUSE_USER not in process.pause_causes:
            state = f"paused by {', '.join(sorted(process.pause_causes))}" if process.pause_causes else process.status.name
            raise ProcessError(f"process {process_id} is {state}; only what the user paused can be resumed by hand")
        self._asked(process_id)
        self._let_go_on(process, CAUSE_USER)
        first = self.lives(process.displaced_by)
        return f"first “{shown(first.instruction)}” runs in its place" if first is not None else ""

    def end_all(self, why: str, code: TaskCode = TaskCode.ROBOT_HALTED) -> None:
        """End every process, also paused ones, so that none goes on when the robot is let go again."""
        self._ending_all = True
        for process in self.living:
            self._end(process, ProcessStatus.STOPPED, code, why)
        self._ending_all = False

    def halted(self, halted: bool, cause: str = "") -> None:
        """Note that the robot is halted and why, which ends every process, or no longer is."""
        if halted and not self._halted:
            self.end_all(f"the robot was halted: {cause}".rstrip(": "))
        self._halted = halted
        self._quiet_since_s = self._now()

    # -- contention ---------------------------------------------------------------------------------------------------

    def contention(self, wants_id: str, holder_id: str) -> None:
        """Settle that `wants_id` was refused an exclusive subsystem that `holder_id` holds. Repeats do nothing."""
        wants, holder = self.lives(wants_id), self.lives(holder_id)
        if self.get(wants_id) is None and holder is not None and holder.source is ProcessSource.IDLE:
            if not holder.pause_causes:
                why = f"process {wants_id} of another planner needs what it holds"
                self._end(holder, ProcessStatus.STOPPED, TaskCode.REPLACED, why)
            return
        if wants is None or holder is None or wants_id == holder_id or wants.pause_causes:
            return
        if holder.pause_causes:  # it is giving away what it has
            self._change(wants_id, waits_for=holder_id)
            return
        newer, older = (wants, holder) if self._books[wants_id].order > self._books[holder_id].order else (holder, wants)
        if self._verdict(newer, older) is Verdict.WAIT:
            if newer is holder:
                self._displace(newer, older)
        else:
            self._preempt(newer, older)
        wants = self.lives(wants_id)
        if wants is not None and not wants.pause_causes:
            self._change(wants_id, waits_for=holder_id)

    def kernel_state(self, holds: Iterable[ProcessHoldState]) -> None:
        """Take what the skill kernel keeps for each process now, and why it is paused there."""
        held = {hold.process_id: hold for hold in holds}
        self._strangers = any(hold.subsystems for process_id, hold in held.items() if process_id not in self._processes)
        for process in self.living:
            mine = held.get(process.process_id) or ProcessHoldState(process.process_id)
            causes = frozenset(mine.pause_causes) | self._books[process.process_id].wanted
            holder = held.get(process.waits_for)
            waits = process.waits_for if holder is not None and holder.subsystems and not causes else ""
            self._change(process.process_id, subsystems=tuple(sorted(mine.subsystems)), pause_causes=causes, waits_for=waits)
        self._try_again()

    def _verdict(self, newer: Process, older: Process) -> Verdict:
        found = verdict(newer.source, older.source, returns=self._returns(newer, older))
        return Verdict.WAIT if found is Verdict.ONE_ONLY else found

    def _preempt(self, newer: Process, older: Process) -> None:
        found = self._verdict(newer, older)
        if found is Verdict.PAUSE or (found is Verdict.REPLACE and self._puts_off(newer, older)):
            self._displace(older, newer)
        elif found is Verdict.REPLACE:
            self._replace(older, newer)

    def _replace(self, loser: Process, winner: Process) -> None:
        """End the loser; what it had displaced contends with the winner in its place."""
        heirs = [p for p in self.living if p.displaced_by == loser.process_id]
        for heir in heirs:
            self._change(heir.process_id, displaced_by=winner.process_id)
        self._end(loser, ProcessStatus.STOPPED, TaskCode.REPLACED, _replaced_by(winner))
        for heir in heirs:
            if self._verdict(winner, heir) is Verdict.REPLACE:
                self._replace(heir, winner)

    def _asked(self, process_id: str) -> None:
        self._books[process_id].order = self._count = self._count + 1

    # -- pauses -------------------------------------------------------------------------------------------------------

    def _pause(self, process: Process, cause: str) -> None:
        """Give a cause."""
        self._books[process.process_id].wanted.add(cause)
        self._change(process.process_id, pause_causes=process.pause_causes | {cause}, waits_for="")
        self._link.pause(process.process_id, cause)

    def _displace(self, loser: Process, winner: Process) -> None:
        """Pause a process until the other one has ended."""
        self._change(loser.process_id, displaced_by=winner.process_id)
        self._pause(loser, CAUSE_S3)

    def _let_go_on(self, process: Process, cause: str) -> None:
        """Take a cause back that no longer stands."""
        self._books[process.process_id].wanted.discard(cause)
        self._take_back(process)

    def _take_back(self, process: Process) -> None:
        """Ask the kernel to take back what no longer stands, once the old plan is void everywhere."""
        book = self._books[process.process_id]
        for cause in sorted((process.pause_causes & OWN_CAUSES) - book.wanted - book.resuming):
            if not book.voiding:
                book.resuming.add(cause)
                self._link.resume(process.process_id, cause)

    def _try_again(self) -> None:
        """Let those go on whose subsystems were held by nobody known here, or are still being given back."""
        for process in self.living:
            if not self.lives(process.displaced_by) and not self._undecided(process):
                self._take_back(process)

    def _winner_ended(self, winner: Process) -> None:
        """Let the processes go on that this one had displaced."""
        for process in self.living:
            if process.displaced_by == winner.process_id and not self._undecided(process):
                self._let_go_on(process, CAUSE_S3)

    def paused(self, process_id: str, stopped: Sequence[str]) -> None:
        """Take the kernel's answer to a pause: these calls ended because they can neither pause nor tell what remains."""
        if stopped:
            self._make_anew(process_id, "a call could not be paused")

    def resumed(self, process_id: str, cause: str, ok: bool, holders: Iterable[str] = ()) -> None:
        """Take the kernel's answer to a resume; it is not done while others hold what the process needs."""
        process, book = self.lives(process_id), self._books.get(process_id, _Book())
        book.resuming.discard(cause)
        if process is None or cause in book.wanted:
            return
        others = [h for h in holders if h != process_id]
        if not ok and others:
            known = next((h for h in others if self.lives(h)), "")
            self._change(process_id, pause_causes=process.pause_causes | {cause}, displaced_by=known)
            return
        left = process.pause_causes - {cause}
        displaced = process.displaced_by if CAUSE_S3 in left else ""
        self._change(process_id, pause_causes=left, displaced_by=displaced, message="")

    def interrupted(self, process_id: str, epoch: int) -> None:
        """Take the answer to an interrupt of the plan: it is void everywhere, and the next one has this epoch."""
        self.learn_epoch(epoch)
        process, book = self.lives(process_id), self._books.get(process_id, _Book())
        if process is None or not book.voiding:
            return
        book.voiding, book.old_streams = False, set(book.streams)
        fresh = {"plan_ended": False, "drained": True, "code": 0, "waits_for": ""}
        self._change(process_id, epoch=max(epoch, process.epoch + 1), plan=process.plan + 1, **fresh)
        self._try_again()

    # -- what an instruction means for those that run -----------------------------------------------------------------

    def expect(self, new_id: str, others: Iterable[str]) -> None:
        """Note that somebody reads what `new_id` says of these.

        Until `decide`, a process that the table would REPLACE only pauses, even if the new one ends meanwhile: it may turn
        out that its return was asked for.
        """
        book = self._books[new_id]
        book.shown, book.read = frozenset(others), False

    def relate(self, new_id: str, old_id: str, relation: Relation) -> str:
        """Do what was read and return in words what came of it, "" when there was nothing to do.

        Raises ProcessError for what the table or the user forbids.
        """
        if new_id not in self._books or old_id not in self._books[new_id].shown:
            raise ProcessError(f"process {old_id} was not there when the instruction came; nothing was done")
        old, new = self.get(old_id), self.get(new_id)
        if old is None or new is None or relation is Relation.JOIN:
            return ""
        found = verdict(new.source, old.source)
        if found is not Verdict.REPLACE and not (found is Verdict.PAUSE and relation is Relation.RETURN):
            names = f"a {new.source.name.lower()} process and a {old.source.name.lower()} one"
            raise ProcessError(f"'{relation.value}' is not what the preemption table has for {names}; process {old_id} stays")
        return self._take_place(new, old) if relation is Relation.REPLACE else self._let_return(new, old)

    def decide(self, new_id: str) -> None:
        """End what only paused until now, unless a return was asked for: nothing more will be read."""
        new, book = self.get(new_id), self._books.get(new_id, _Book())
        held, book.undecided, book.read = book.undecided, set(), True
        for old_id in sorted(held):
            old = self.lives(old_id)
            if new is not None and old is not None and old.displaced_by == new_id and not self._returns(new, old):
                self._replace(old, new)
        if new is not None and new.status.ended:
            self._winner_ended(new)
        book.shown = frozenset()

    def _puts_off(self, newer: Process, older: Process) -> bool:
        """Return whether a process that the table ends only pauses, because a reading is awaited."""
        book = self._books[newer.process_id]
        if book.read or older.process_id not in book.shown:
            return False
        book.undecided.add(older.process_id)
        return True

    def _returns(self, newer: Process, older: Process) -> bool:
        """Return whether the older one goes on after the newer one."""
        return newer.returns or older.process_id in self._books[newer.process_id].returning

    def _undecided(self, process: Process) -> bool:
        """Return whether a reading is awaited that says if it goes on after the one that displaced it."""
        book = self._books.get(process.displaced_by)
        return book is not None and process.process_id in book.undecided

    def _take_place(self, new: Process, old: Process) -> str:
        if old.status.ended:
            return ""
        if new.status.ended and new.status is not ProcessStatus.SUCCESS:
            return f"process {old.process_id} stays: the one that was to take its place is {new.status.name}"
        if CAUSE_USER in old.pause_causes:
            raise ProcessError(f"process {old.process_id} was paused by hand and stays; end it with: ghostshell stop")
        if not new.status.ended and self._books[old.process_id].order > self._books[new.process_id].order:
            raise ProcessError(f"process {old.process_id} was resumed by hand since; it stays")
        self._end(old, ProcessStatus.STOPPED, TaskCode.REPLACED, _replaced_by(new))
        return f"process {old.process_id} ended: {_replaced_by(new)}"

    def _let_return(self, new: Process, old: Process) -> str:
        if old.status.ended:
            if old.code != TaskCode.REPLACED:
                return ""
            return f"process {old.process_id} had ended before it was clear that it should return; give it again"
        if (new.status.ended and not self._undecided(old)) or new.source is not ProcessSource.USER:
            return ""
        self._books[new.process_id].returning.add(old.process_id)
        return f"process {old.process_id} goes on after {new.process_id}, should that displace it"

    # -- changes ------------------------------------------------------------------------------------------------------

    def _change(self, process_id: str, **changes: Any) -> Process | None:
        """Replace fields of a living process; its status follows. The robot hears only of a difference."""
        old = self.lives(process_id)
        if old is None:
            return self.get(process_id)
        process = replace(old, **changes).settled(self._now())
        if process.status.ended and len(process.history) < HISTORY:
            process = replace(process, unproven=tuple(self._settings.unproven(process)))
        if process != old:
            self._processes[process_id] = process
            self._link.changed(process)
        return process

    def _end(self, process: Process, status: ProcessStatus, code: TaskCode, why: str) -> None:
        """End a living process now, whatever it does."""
        tally = process.tally
        for call in process.running:
            tally = self._counted(tally, replace(call, outcome=Outcome.INTERRUPTED.value))
        how = {"status": status, "code": int(code), "message": why, "ended_s": self._now(), "plan_ended": False}
        how |= {"tally": tally, "achievement": tally.achievement(success=False)}
        ended = self._change(process.process_id, **how, **NOTHING_MORE)
        self._link.end(process.process_id, why)
        if ended is not None:
            self._after(ended)

    def _settle(self, process_id: str, **changes: Any) -> None:
        """Change fields that may complete a process."""
        before = self.lives(process_id)
        after = self._change(process_id, **changes)
        if before is not None and after is not None and after.status.ended:
            self._link.release(process_id)
            self._after(after)

    def _forget_surplus(self) -> None:
        """Forget ended processes beyond the number to keep."""
        ended = [p.process_id for p in self.processes if p.status.ended]
        for process_id in ended[: max(0, len(self._processes) - self._settings.keep)]:
            del self._processes[process_id], self._books[process_id]

    def _make_anew(self, process_id: str, why: str) -> None:
        """Void the plan of a living process."""
        if self.lives(process_id) is not None and not self._books[process_id].voiding:
            self._books[process_id].voiding = True
            self._link.void_plan(process_id, f"it is planned anew when it goes on: {why}")

    # -- what is reported ---------------------------------------------------------------------------------------------

    def learn_epoch(self, epoch: int) -> None:
        """Note an epoch that somebody was told."""
        self.epoch = max(self.epoch, epoch)

    def take(self, event: RunEvent) -> None:
        """Take what a node tells of a process. What a model has used counts also after the end."""
        process_id = event.process_id
        process, living = self.get(process_id), self.lives(process_id)
        if isinstance(event, ProcessEvent) and event.kind is ProcessKind.INTERRUPTED:  # perhaps by somebody else
            self.learn_epoch(event.epoch)
        elif isinstance(event, ModelEvent) and process is not None:
            self._take_model(process, event)
        elif event.kind is CallKind.CONTENTION:
            self.contention(process_id, event.holder_id)
        elif living is None:
            return
        elif isinstance(event, CallEvent):
            self._take_call(living, event)
        elif event.kind is StreamKind.STARTED:
            self._books[process_id].streams.add(event.stream_id)
            self._change(process_id, drained=False)
        elif event.kind is StreamKind.ENDED and event.node == PLANNER:
            self._change(process_id, turn=living.turn + 1)
        elif event.kind is ProcessKind.DRAINED:
            self._settle(process_id, drained=True)
        elif isinstance(event, ProcessEvent) and event.kind is ProcessKind.PLAN_ENDED:
            self._end_plan(living, event)
        elif isinstance(event, ProcessEvent) and event.kind is ProcessKind.PLAN_EVENT:
            fired = f"{event.plan_item_id}: {event.plan_item}"[:EVENT_CHARS]
            self._change(process_id, fired_events=(*living.fired_events, fired)[-FIRED:])
            self._make_anew(process_id, f"an event came true: {fired}")

    def _end_plan(self, process: Process, event: ProcessEvent) -> None:
        """Note that the planner has no further turn for the plan of that epoch."""
        if self._books[process.process_id].voiding or event.epoch != process.epoch:
            return
        if process.pause_causes and event.error_code in _BROKEN:
            self._make_anew(process.process_id, event.error_msg)
        else:
            self._settle(process.process_id, plan_ended=True, code=event.error_code, message=event.error_msg)

    def _take_call(self, process: Process, event: CallEvent) -> None:
        process_id, book, record = process.process_id, self._books[process.process_id], CallRecord.of(event)
        if event.kind is CallKind.STARTED:
            self._change(process_id, running=(*process.running, record), waits_for="")
        if event.kind is not CallKind.ENDED:
            return
        counts = self._purpose(event.function) is not CallPurpose.ORDER
        self._change(
            process_id,
            running=tuple(c for c in process.running if c.call_id != event.call_id),
            history=(*process.history, record)[-HISTORY:],
            calls=process.calls + counts,
            calls_done=process.calls_done + (counts and event.outcome is Outcome.DONE),
            calls_failed=process.calls_failed + (counts and event.outcome in (Outcome.FAILED, Outcome.REFUSED)),
            tally=self._counted(process.tally, record),
        )
        if book.voiding or event.stream_id in book.old_streams or self._settings.team:
            return
        if event.error_code == CallCode.KERNEL_UNAVAILABLE:
            # Nobody knows what still moves: interrupting halts the gate where the kernel does not answer.
            self._end(process, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, event.told)
        elif event.error_code == CallCode.STALE_EPOCH:
            why = f"somebody else interrupted it at the skill kernel: {event.told}"
            self._end(process, ProcessStatus.STOPPED, TaskCode.CANCELLED, why)
        elif event.error_code == CallCode.PROCESS_PAUSED and event.outcome is Outcome.INTERRUPTED:
            self._make_anew(process_id, f"{event.function} could not be paused")

    def _counted(self, tally: Tally, call: CallRecord) -> Tally:
        return tally.plus(call.function, call.outcome, call.code, self._purpose(call.function))

    def _purpose(self, function: str) -> CallPurpose:
        return self._settings.purposes.get(function, CallPurpose.ACT)

    def steps_replaced(self, process_id: str) -> None:
        """Note that its plan was changed on purpose: what was dropped until now is not wanted any more."""
        if (process := self.lives(process_id)) is not None:
            self._change(process_id, tally=replace(process.tally, dropped=frozenset()))

    def _take_model(self, process: Process, event: ModelEvent) -> None:
        """Count what a layer's model was asked. A layer that was answered is no longer degraded."""
        if event.kind is ModelKind.ANSWERED and process.status.ended:
            self._processes[process.process_id] = ended = replace(process, usage=added(process.usage, event))
            self._link.amended(ended)
        elif event.kind is ModelKind.ANSWERED:
            degraded = tuple(d for d in process.degraded if event.failed or d[0] != event.layer)
            self._change(process.process_id, usage=added(process.usage, event), degraded=degraded)
        elif event.kind is ModelKind.SKIPPED:
            self._change(process.process_id, usage=skipped(process.usage, event.layer))
        elif event.kind is ModelKind.DEGRADED:
            others = tuple(d for d in process.degraded if d[0] != event.layer)
            self._change(process.process_id, degraded=(*others, (event.layer, event.fallback)))

    def calls_lost(self, why: str) -> None:
        """End running processes and plan paused ones again, because the node that keeps the order of calls is gone."""
        for process in self.living:
            if process.pause_causes:
                self._make_anew(process.process_id, why)
            else:
                self._end(process, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, why)

    # -- time, and an earlier run -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Try what waits again, end what nobody works for, and begin idle behaviour if it is due. Called now and then."""
        self._try_again()
        self._watch()
        now_s = self._now()
        # What the user paused does not keep the robot busy. A clock that was set back starts the wait again.
        if self._strangers or any(CAUSE_USER not in p.pause_causes or p.source is ProcessSource.IDLE for p in self.living):
            self._quiet_since_s = now_s
        self._quiet_since_s = min(self._quiet_since_s, now_s)
        self._idle_not_before_s = min(self._idle_not_before_s, now_s + IDLE_RETRY_S)
        if not self._settings.idle or self._halted or self._idle_unwanted:
            return
        if now_s >= max(self._quiet_since_s + self._settings.idle_after_s, self._idle_not_before_s):
            self._quiet_since_s = now_s
            self._begin(self._settings.idle, "idle", "the robot itself", ProcessSource.IDLE)

    def alive(self, node: str, process_ids: Iterable[str]) -> None:
        """Take a sign of life of a node: it works for these processes now."""
        if node == SCHEDULER:
            self._silent_ticks = 0
        for book in (self._books[process_id] for process_id in process_ids if process_id in self._books):
            if node == SENDER:
                book.alone_ticks = 0
            elif book.debtor == node:
                book.silent_ticks = 0

    def _watch(self) -> None:
        """End what nobody works for. Ticks are counted, not seconds: after a stall of its own it hears first what waited."""
        self._silent_ticks += 1
        if self._silent_ticks == SCHEDULER_TICKS:
            self.calls_lost(f"node {SCHEDULER} is silent, and with it the calls that waited; repeat the instruction")
        for process in self.living:
            book, calls = self._books[process.process_id], process.plan_ended or process.running
            debtor = "" if process.pause_causes or book.voiding else SCHEDULER if calls else PLANNER
            book.silent_ticks = book.silent_ticks + 1 if debtor == book.debtor else 0
            book.debtor = debtor
            if debtor and book.silent_ticks > DEBTOR_TICKS:
                why = f"node {debtor} no longer answers for it; see its log, and repeat the instruction"
                self._end(process, ProcessStatus.FAILED, TaskCode.NODE_UNAVAILABLE, why)
            elif book.alone_ticks is not None:
                book.alone_ticks += 1
                if book.alone_ticks > DEBTOR_TICKS:
                    self._end(process, ProcessStatus.STOPPED, TaskCode.CANCELLED, "whoever sent it has gone")

    def restore(self, processes: Iterable[Process]) -> None:
        """Take up the processes of an earlier run, oldest first, as they were.

        Living ones are paused by the user's cause and are planned again when the user resumes them; `reach` stops what they
        may still do.
        """
        for found in processes:
            process = found.restored("the process scheduler was started anew; resume or stop it")
            self._processes[process.process_id] = process
            self._books[process.process_id] = _Book(wanted=set(process.pause_causes), voiding=not process.status.ended)
            if not process.status.ended:
                self._asked(process.process_id)
                self._idle_unwanted = True
                self._link.changed(process)
        self._forget_surplus()

    def reach(self) -> None:
        """Pause restored processes at the other nodes, which answer now, and void what was planned for them."""
        for process in self.living:
            if self._books[process.process_id].voiding:
                self._link.pause(process.process_id, CAUSE_USER)
                self._link.void_plan(process.process_id, process.message)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _living(self, process_id: str, what: str) -> Process:
        process = self.lives(process_id)
        if process is None:
            known = self.get(process_id)
            raise ProcessError(f"process {process_id} is {known.status.name if known else 'unknown'}; it cannot be {what}")
        return process

    def _after(self, ended: Process) -> None:
        """Let what an ended process had displaced go on."""
        if ended.source is ProcessSource.IDLE and ended.status is ProcessStatus.FAILED:
            self._idle_not_before_s = self._now() + IDLE_RETRY_S
        if not self._ending_all:
            self._winner_ended(ended)


def _replaced_by(newer: Process) -> str:
    return f"a newer instruction takes its place: {shown(newer.instruction)}"
