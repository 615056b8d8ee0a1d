# SPDX-License-Identifier: Apache-2.0
"""Keep what robots learned from corrections as records of the kinds `example` and `routine`, with who confirmed each."""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from planners.learned import MAX_LESSON, LearnedError, LearnedStore, Lesson, LessonKind, Level, Proposal, State
from planners.memory.records import Provenance, Record, StoreError, Tier
from planners.memory.schema import by_ids, delete, insert, select
from planners.memory.store import Store
from skill_kernel.codes import MemoryCode
from skill_kernel.config.sections import shown

KINDS = tuple(kind.value for kind in LessonKind)
MAX_KEPT = 1000
"""Lessons of a robot, in whatever state; for a new one the oldest that is not used goes."""
MAX_WHO, MAX_WHY = 100, 500
"""Characters that are kept of who changed a lesson, and why."""
WRITTEN_S = 5.0
"""A change is waited for so long."""
REPLACED = "lesson {} takes its place"
WITH_ITS_LESSON = "it came with lesson {}"
_TOLD = ("correction", "level", "better", "state", "by", "why")
"""Fields of a lesson that its record's data holds as texts."""


class LessonBook(LearnedStore):
    """Keep the lessons of `robot` in the memory's file. `wall` is the time in seconds since 1970. May be used from any
    thread, and beside another program that uses the file."""

    def __init__(self, store: Store, robot: str, *, wall: Callable[[], float]) -> None:
        self._store, self.robot, self._wall = store, robot, wall

    def lessons(self) -> Sequence[Lesson]:
        try:
            with self._store.reading() as file:
                return [_lesson(record) for record in _kept(file, self.robot)]
        except StoreError:
            return ()

    def propose(self, proposal: Proposal) -> int:
        if not proposal.text.strip() or len(proposal.text) > MAX_LESSON:
            raise LearnedError(f"a lesson has 1 to {MAX_LESSON} characters, not {len(proposal.text)}; correct a shorter task")
        if sum(map(len, proposal.routines)) > MAX_LESSON or max(len(proposal.correction), len(proposal.better)) > MAX_LESSON:
            raise LearnedError(f"functions, correction and improvement of a lesson have {MAX_LESSON} characters at most each")
        if len(proposal.contradicts) > MAX_KEPT:
            raise LearnedError(f"a lesson takes the place of {MAX_KEPT} others at most, not {len(proposal.contradicts)}")

        def keep(file: sqlite3.Connection) -> int:
            if len(kept := _kept(file, self.robot)) >= MAX_KEPT:
                unused = [record.id for record in kept if record.data.get("state") != State.CONFIRMED.value]
                if not unused:
                    raise _refused(f"{self.robot} uses {MAX_KEPT} lessons; forget some: ghostshell memory forget")
                delete(file, unused[:1])
            return self._insert(file, proposal)

        return int(self._do(keep))

    def confirm(self, lesson: int, who: str) -> None:
        def confirm(file: sqlite3.Connection) -> None:
            record, told = self._find(file, lesson)
            if told.state is State.CONFIRMED:
                raise _refused(f"lesson {lesson} is confirmed already, by {told.by or 'somebody'}")
            if not told.text.strip():
                raise _refused(f"lesson {lesson} is damaged; forget it: ghostshell memory forget")
            self._take_back(file, set(told.contradicts), who, REPLACED.format(lesson))
            delete(file, [one.id for one in _kept(file, self.robot) if _of(one) == lesson])
            self._change(file, record, State.CONFIRMED, who)
            about = {
                name: getattr(told, name) for name in ("correction", "level", "better", "source", "sender", "door", "process")
            }
            for text in told.routines:
                routine = Proposal(text, kind=LessonKind.ROUTINE, **about)
                self._insert(file, routine, State.CONFIRMED, who, lesson)

        self._do(confirm)

    def revoke(self, lesson: int, who: str, why: str = "") -> None:
        def revoke(file: sqlite3.Connection) -> None:
            self._find(file, lesson)
            self._take_back(file, {lesson}, who, why)

        self._do(revoke)

    # -- on the writer's thread ---------------------------------------------------------------------------------------

    def _insert(
        self, file: sqlite3.Connection, proposal: Proposal, state: State = State.PROPOSED, who: str = "", of: int = 0
    ) -> int:
        """Store a lesson; `of` is the one that it came with."""
        data: dict[str, Any] = {
            "lesson": proposal.text,
            "correction": proposal.correction,
            "level": proposal.level.value,
            "better": proposal.better,
            "state": state.value,
            "by": who[:MAX_WHO],
            "contradicts": list(proposal.contradicts),
            "routines": list(proposal.routines),
            "of": of,
        }
        kind, now_s = proposal.kind.value, self._wall()
        text = f"{self.robot} learned from “{shown(proposal.correction, 200)}”: {shown(proposal.better, 300)}"
        origin = Provenance(self.robot, proposal.source, proposal.process, proposal.sender, proposal.door)
        key = f"{kind}:{self.robot}:{secrets.token_hex(8)}"
        return insert(file, [Record(Tier.M3, kind, now_s, text, data, origin, key=key, parents=_parents(of))])[0]

    def _find(self, file: sqlite3.Connection, lesson: int) -> tuple[Record, Lesson]:
        found = [r for r in by_ids(file, [lesson]) if r.kind in KINDS and r.provenance.robot == self.robot and not r.revoked_s]
        if not found:
            raise _refused(f"{self.robot} has no lesson {lesson}; ghostshell learned list shows those that it has")
        return found[0], _lesson(found[0])

    def _change(self, file: sqlite3.Connection, record: Record, state: State, who: str, why: str = "") -> None:
        data = {**record.data, "state": state.value, "by": who[:MAX_WHO], "why": why[:MAX_WHY]}
        now_s, parents = max(self._wall(), record.time_s), _parents(_of(record))
        insert(file, [replace(record, time_s=now_s, begun_s=record.start_s, data=data, parents=parents)])

    def _take_back(self, file: sqlite3.Connection, lessons: Collection[int], who: str, why: str) -> None:
        """Revoke lessons of this robot that are not revoked, and the functions that came with them; no other record."""
        for record in _kept(file, self.robot):
            of = _of(record)
            if (record.id in lessons or of in lessons) and record.data.get("state") != State.REVOKED.value:
                self._change(file, record, State.REVOKED, who, why if record.id in lessons else WITH_ITS_LESSON.format(of))

    def _do(self, job: Callable[[sqlite3.Connection], Any]) -> Any:
        try:
            return self._store.do(job).result(WRITTEN_S)
        except StoreError as error:
            raise LearnedError(str(error)) from error


def robots_that_learned(store: Store) -> list[str]:
    """Return the robots of which there are lessons. Raises StoreError."""
    with store.reading() as file:
        where = f"kind IN ({', '.join('?' * len(KINDS))}) AND revoked = 0"
        return sorted(robot for (robot,) in file.execute(f"SELECT DISTINCT robot FROM record WHERE {where}", KINDS))


def _kept(file: sqlite3.Connection, robot: str) -> list[Record]:
    """Return the records of a robot's lessons, the oldest first; those that were forgotten are no more."""
    where = f"kind IN ({', '.join('?' * len(KINDS))}) AND robot = ? AND revoked = 0 ORDER BY id"
    try:
        return select(file, f"record WHERE {where}", (*KINDS, robot))
    except StoreError:  # one is damaged: the others are as good as before
        ids = [number for (number,) in file.execute(f"SELECT id FROM record WHERE {where}", (*KINDS, robot))]
    found: list[Record] = []
    for number in ids:
        with suppress(StoreError):
            found += by_ids(file, [number])
    return found


def _of(record: Record) -> int:
    of = record.data.get("of")
    return of if isinstance(of, int) else 0


def _parents(of: int) -> tuple[int, ...]:
    return (of,) if of else ()


def _lesson(record: Record) -> Lesson:
    """Return the lesson that a record holds. One whose data is damaged is as good as taken back."""
    data, origin = record.data, record.provenance
    told = {name: str(data.get(name, "")) for name in _TOLD}
    return Lesson(
        **{**told, "level": _one_of(Level, told["level"], Level.PLAN), "state": _one_of(State, told["state"], State.REVOKED)},
        text=str(data.get("lesson", "")),
        contradicts=tuple(one for one in _list(data, "contradicts") if isinstance(one, int)),
        routines=tuple(one for one in _list(data, "routines") if isinstance(one, str)),
        kind=LessonKind(record.kind),
        source=origin.source,
        sender=origin.sender,
        door=origin.door,
        process=origin.process,
        id=record.id,
        time_s=record.start_s,
        changed_s=record.time_s,
    )


def _list(data: Mapping[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    return value if isinstance(value, list) else []


def _one_of(kind: Any, value: str, otherwise: Any) -> Any:
    return kind(value) if value in [one.value for one in kind] else otherwise


def _refused(why: str) -> StoreError:
    return StoreError(why, MemoryCode.QUERY_INVALID)
