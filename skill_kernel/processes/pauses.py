# SPDX-License-Identifier: Apache-2.0
"""Why processes are paused and when they go on: the causes that S3 gives and takes (semantics sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from skill_kernel.processes.commands import Command, PauseProcess, ResumeProcess
from skill_kernel.processes.plans import ProcessPlans
from skill_kernel.processes.process import CAUSE_S3, Process, ProcessTable


class ProcessPauses:
    """Pause processes at the skill kernel and let them go on; the kernel's answers come back by method.

    A process that is `undecided` stays paused: it is not known yet whether it goes on after the one that displaced it.
    """

    def __init__(
        self,
        table: ProcessTable,
        on_command: Callable[[Command], None],
        plans: ProcessPlans,
        undecided: Callable[[Process], bool],
    ) -> None:
        self._table, self._do, self._plans, self._undecided = table, on_command, plans, undecided
        self._due: dict[str, set[str]] = {}
        """Causes to take back as soon as nobody is known to stand in the way."""
        self._asked: set[tuple[str, str]] = set()
        """Causes that the kernel has been asked to take back, and has not answered."""
        self._kept: set[tuple[str, str]] = set()
        """Those among them that were given anew meanwhile."""

    def pause(self, process: Process, cause: str) -> None:
        """Give a cause."""
        causes = process.pause_causes | {cause}
        self._table.change(process.process_id, pause_causes=causes, waits_for="")
        self._do(PauseProcess(process.process_id, cause))

    def displace(self, loser: Process, winner: Process) -> None:
        """Pause a process until the other one has ended."""
        self._table.change(loser.process_id, displaced_by=winner.process_id, resumes=True)
        self._put_off(loser.process_id, {CAUSE_S3})
        self.pause(loser, CAUSE_S3)

    def resume(self, process: Process, causes: set[str]) -> None:
        """Take causes back, as soon as its old plan is void everywhere."""
        if self._plans.is_voiding(process.process_id):
            self._put_off(process.process_id, causes)
            self._table.change(process.process_id, displaced_by="")
            return
        for cause in sorted(causes & process.pause_causes):
            self._asked.add((process.process_id, cause))
            self._do(ResumeProcess(process.process_id, cause))

    def stay(self, process: Process, cause: str) -> bool:
        """Keep a cause that is about to be taken back; return whether there was one."""
        process_id, due = process.process_id, self._due.get(process.process_id, set())
        if (process_id, cause) in self._asked:
            self._kept.add((process_id, cause))
            self._do(PauseProcess(process_id, cause))
        elif cause not in due:
            return False
        due.discard(cause)
        if CAUSE_S3 not in process.pause_causes:
            self._table.change(process_id, displaced_by="", resumes=False)
        return True

    def try_again(self) -> None:
        """Let those go on whose subsystems were held by nobody known here, or are still being given back."""
        for process in self._table.living:
            in_the_way = self._table.lives(process.displaced_by) or self._undecided(process)
            if self._due.get(process.process_id) and not in_the_way:
                self.resume(process, self._due.pop(process.process_id))

    def winner_ended(self, winner: Process) -> None:
        """Let the processes go on that this one had displaced."""
        for process in self._table.living:
            if process.displaced_by == winner.process_id and process.resumes and not self._undecided(process):
                self.resume(process, self._due.pop(process.process_id, {CAUSE_S3}))

    def forget(self, process_id: str) -> None:
        """Drop everything noted of a process that has ended."""
        self._due.pop(process_id, None)
        self._asked = {asked for asked in self._asked if asked[0] != process_id}
        self._kept &= self._asked

    # -- answers ------------------------------------------------------------------------------------------------------

    def paused(self, process_id: str, stopped: Sequence[str]) -> None:
        """Take the kernel's answer to a pause: these calls ended because they can neither pause nor tell what remains."""
        if stopped:
            self._plans.make_anew(process_id, "a call could not be paused")

    def resumed(self, process_id: str, cause: str, ok: bool, holders: Iterable[str] = ()) -> None:
        """Take the kernel's answer to a resume; it is not done while others hold what the process needs."""
        process = self._table.lives(process_id)
        self._asked.discard((process_id, cause))
        if process is None:
            return
        if (process_id, cause) in self._kept:
            self._kept.discard((process_id, cause))
            return
        others = [h for h in holders if h != process_id]
        if not ok and others:
            self._put_off(process_id, {cause})
            known = next((h for h in others if self._table.lives(h)), "")
            self._table.change(process_id, displaced_by=known, resumes=True)
            return
        left = process.pause_causes - {cause}
        displaced = process.displaced_by if CAUSE_S3 in left else ""
        self._table.change(process_id, pause_causes=left, displaced_by=displaced, resumes=bool(displaced), message="")

    def interrupted(self, process_id: str, epoch: int) -> None:
        """Take the answer to an interrupt of the plan: it is void everywhere, and the next one has this epoch."""
        process = self._plans.voided(process_id, epoch)
        if process is not None and self._due.get(process_id) and not process.displaced_by:
            self.resume(process, self._due.pop(process_id))

    def _put_off(self, process_id: str, causes: set[str]) -> None:
        self._due.setdefault(process_id, set()).update(causes)
