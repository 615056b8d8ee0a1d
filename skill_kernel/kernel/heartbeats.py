# SPDX-License-Identifier: Apache-2.0
"""Track who answers for a process, and tell what to stop or free when nobody does any more (architecture, Liveness)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Source(Enum):
    """Name who sends heartbeats: the owners of processes, and the channel scheduler for processes whose calls it has sent."""

    PROCESSES = "process_heartbeat"
    CALLS = "scheduler_heartbeat"


@dataclass(frozen=True)
class Silence:
    """List processes that lost their heartbeat.

    Nobody owns the `ended` ones any more; nobody would end the calls of the `orphaned` ones. Nobody has ever answered for
    the `unclaimed` ones, or not since their last call: what they keep between calls is to be freed.
    """

    ended: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()
    unclaimed: tuple[str, ...] = ()


class Heartbeats:
    """Notice processes whose owner or scheduler has fallen silent. Used on one thread.

    Checks are counted, not seconds: a node that was stalled itself finds old beats in its queue before it has missed
    enough. A process that an owner has announced ends with its owner's silence; one that only the channel scheduler named
    loses its calls and what it keeps with the scheduler's.
    """

    def __init__(self, checks: int) -> None:
        self._allowed = checks
        self._owned: dict[str, int] = {}
        self._called: dict[str, int] = {}
        self._unclaimed: dict[str, int] = {}
        self._calling: dict[str, int] = {}
        """Checks in a row at which calls of a process ran."""
        self._scheduler: int | None = None

    def hear(self, source: Source, process_ids: Iterable[str]) -> None:
        """Take in a heartbeat."""
        if source is Source.CALLS:
            self._scheduler = 0
        table = self._owned if source is Source.PROCESSES else self._called
        for process_id in process_ids:
            table[process_id] = 0
            self._unclaimed.pop(process_id, None)

    def check(self, known: Iterable[str], calling: Iterable[str] = ()) -> Silence:
        """Count one check and return who has been silent for too long.

        `known` are the processes that run or keep something in the kernel, `calling` those that run calls.
        """
        present = tuple(known)
        self._calling = {p: self._calling.get(p, 0) + 1 for p in calling}
        ended = self._missed(self._owned)
        orphaned = [p for p in self._missed(self._called) if not self._just_began(p)]
        unclaimed = [p for p in orphaned if p not in self._owned]
        if self._scheduler is not None:
            self._scheduler += 1
            if self._scheduler > self._allowed:
                self._scheduler = None
                orphaned += [p for p in present if p not in self._owned and p not in orphaned]
        waiting = {p: self._unclaimed.get(p, 0) + 1 for p in present if p not in self._owned and p not in self._called}
        unclaimed += [p for p, checks in waiting.items() if checks > self._allowed]
        self._unclaimed = {p: checks for p, checks in waiting.items() if checks <= self._allowed}
        return Silence(tuple(ended), tuple(p for p in orphaned if p not in ended), tuple(dict.fromkeys(unclaimed)))

    def _just_began(self, process_id: str) -> bool:
        """Return whether the silence about a process is younger than its running call.

        Between two calls the scheduler rightly does not name a process, so silence counts from the beginning of the call.
        """
        checks = self._calling.get(process_id, 0)
        if not 0 < checks <= self._allowed:
            return False
        self._called[process_id] = checks
        return True

    def _missed(self, table: dict[str, int]) -> list[str]:
        for process_id in table:
            table[process_id] += 1
        missed = [process_id for process_id, checks in table.items() if checks > self._allowed]
        for process_id in missed:
            del table[process_id]
        return missed
