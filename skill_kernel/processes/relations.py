# SPDX-License-Identifier: Apache-2.0
"""How a new process stands to those that run: the preemption table (TypeGo 5.2), and within it what somebody read
of an instruction's meaning (semantics section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from skill_kernel.codes import TaskCode
from skill_kernel.processes.commands import ProcessError
from skill_kernel.processes.plans import ProcessEnds
from skill_kernel.processes.process import CAUSE_USER, Process, ProcessSource, ProcessStatus, ProcessTable

_USER, _REACTIVE, _IDLE = ProcessSource.USER, ProcessSource.REACTIVE, ProcessSource.IDLE


class Verdict(Enum):
    """Tell what becomes of a new process and one that runs."""

    REPLACE = "replace"
    """The running one ends and does not come back."""
    PAUSE = "pause"
    """The running one pauses and goes on when the new one has ended."""
    WAIT = "wait"
    """The new one waits until the running one has ended."""
    ONE_ONLY = "one only"
    """There is no second one: the new one does not begin."""


TABLE: dict[tuple[ProcessSource, ProcessSource], Verdict] = {
    (_USER, _USER): Verdict.REPLACE,
    (_USER, _REACTIVE): Verdict.REPLACE,
    (_USER, _IDLE): Verdict.PAUSE,
    (_REACTIVE, _USER): Verdict.PAUSE,
    (_REACTIVE, _REACTIVE): Verdict.WAIT,
    (_REACTIVE, _IDLE): Verdict.PAUSE,
    (_IDLE, _USER): Verdict.WAIT,
    (_IDLE, _REACTIVE): Verdict.WAIT,
    (_IDLE, _IDLE): Verdict.ONE_ONLY,
}
"""(new, running) → verdict."""


def verdict(new: ProcessSource, running: ProcessSource, *, returns: bool = False) -> Verdict:
    """Return what the table says; with `returns` the new task asks that what it displaces goes on after it."""
    found = TABLE[new, running]
    return Verdict.PAUSE if returns and found is Verdict.REPLACE else found


class Relation(str, Enum):
    """Tell what a new instruction says of one that runs."""

    REPLACE = "replace"
    """It is no longer wanted."""
    JOIN = "join"
    """Both are wanted."""
    RETURN = "return"
    """It goes on after the new one, should the new one displace it."""


class ProcessRelations:
    """Apply what was read late, as far as it is still true.

    While an answer is awaited, a process that the table would REPLACE only pauses, even if the new one ends meanwhile: it
    may turn out that its return was asked for. `decide` then does what the table says, and `settled` hears of a new process
    that has ended before that.
    """

    def __init__(
        self,
        table: ProcessTable,
        ends: ProcessEnds,
        replace: Callable[[Process, Process], None],
        newer: Callable[[str, str], bool],
        settled: Callable[[Process], None],
    ) -> None:
        self._table, self._ends, self._replace, self._newer, self._settled = table, ends, replace, newer, settled
        self._shown: dict[str, frozenset[str]] = {}
        self._open: dict[str, set[str]] = {}
        """By the new process whose answer is awaited: those that pause until it comes."""
        self._returning: dict[str, set[str]] = {}

    def expect(self, new_id: str, others: Iterable[str]) -> None:
        """Note that somebody reads what `new_id` says of these."""
        self._shown[new_id] = frozenset(others)
        self._open[new_id] = set()

    def puts_off(self, newer: Process, older: Process) -> bool:
        """Return whether a process that the table ends only pauses, because an answer is awaited."""
        if newer.process_id not in self._open or older.process_id not in self._shown[newer.process_id]:
            return False
        self._open[newer.process_id].add(older.process_id)
        return True

    def returns(self, newer: Process, older: Process) -> bool:
        """Return whether the older one goes on after the newer one."""
        return newer.returns or older.process_id in self._returning.get(newer.process_id, ())

    def apply(self, new_id: str, old_id: str, relation: Relation) -> str:
        """Do what was read and return in words what came of it, "" when there was nothing to do.

        Raises ProcessError for what the table or the user forbids.
        """
        if old_id not in self._shown.get(new_id, ()):
            raise ProcessError(f"process {old_id} was not there when the instruction came; nothing was done")
        old, new = self._table.get(old_id), self._table.get(new_id)
        if old is None or new is None or relation is Relation.JOIN:
            return ""
        found = verdict(new.source, old.source)
        if found is not Verdict.REPLACE and not (found is Verdict.PAUSE and relation is Relation.RETURN):
            names = f"a {new.source.name.lower()} process and a {old.source.name.lower()} one"
            raise ProcessError(f"'{relation.value}' is not what the preemption table has for {names}; process {old_id} stays")
        return self._end(new, old) if relation is Relation.REPLACE else self._let_return(new, old)

    def decide(self, new_id: str) -> None:
        """End what only paused until now, unless a return was asked for: nothing more will be read."""
        new = self._table.get(new_id)
        for old_id in sorted(self._open.pop(new_id, ())):
            old = self._table.lives(old_id)
            if new is not None and old is not None and old.displaced_by == new_id and not self.returns(new, old):
                self._replace(old, new)
        if new is not None and new.status.ended:
            self._settled(new)

    def undecided(self, process: Process) -> bool:
        """Return whether an answer is awaited that says if it goes on after the one that displaced it."""
        return process.process_id in self._open.get(process.displaced_by, ())

    def forget(self, process_id: str) -> None:
        """Note that nobody reads the instruction any more."""
        self._shown.pop(process_id, None)
        if self._table.lives(process_id) is None:
            self._returning.pop(process_id, None)

    def _end(self, new: Process, old: Process) -> str:
        if old.status.ended:
            return ""
        if new.status.ended and new.status is not ProcessStatus.SUCCESS:
            return f"process {old.process_id} stays: the one that was to take its place is {new.status.name}"
        if CAUSE_USER in old.pause_causes:
            raise ProcessError(f"process {old.process_id} was paused by hand and stays; end it with: ghostshell stop")
        if not new.status.ended and self._newer(old.process_id, new.process_id):
            raise ProcessError(f"process {old.process_id} was resumed by hand since; it stays")
        why = f"a newer instruction takes its place: {new.instruction[:100]}"
        self._ends.end(old, ProcessStatus.STOPPED, TaskCode.REPLACED, why)
        return f"process {old.process_id} ended: {why}"

    def _let_return(self, new: Process, old: Process) -> str:
        if old.status.ended:
            if old.code != TaskCode.REPLACED:
                return ""
            return f"process {old.process_id} had ended before it was clear that it should return; give it again"
        if (new.status.ended and not self.undecided(old)) or new.source is not ProcessSource.USER:
            return ""
        self._returning.setdefault(new.process_id, set()).add(old.process_id)
        return f"process {old.process_id} goes on after {new.process_id}, should that displace it"
