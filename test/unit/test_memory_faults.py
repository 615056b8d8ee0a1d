# SPDX-License-Identifier: Apache-2.0
"""The memory when its disk is full, its file is cut short or half made, or a record in it is one nobody can work with."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from memory_kit import NOON, Clock, Disk, fails, known, linked, retry_soon, settle
from memory_model import observation

from planners.memory import Kind, Memory, Provenance, Query, Record, Spot, Store, StoreError, Tier
from planners.memory.consolidation import Consolidator
from planners.memory.graph import entity, note
from planners.memory.schema import connect, prepare
from skill_kernel.codes import MemoryCode

pytestmark = pytest.mark.component

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clock() -> Clock:
    made = Clock()
    made.now = NOON + 100
    return made


def heard(number: int) -> Record:
    who = Provenance("kalos", "processes", f"p{number}", "bob", "chat")
    return Record(Tier.M1, Kind.HEARD, NOON + number, "bob said hello", {"instruction": "hello"}, who)


def test_steps_that_failed_on_a_full_disk_are_done_once_when_there_is_room(tmp_path: Path, disk: Disk) -> None:
    disk.pages = 60
    full, freed = threading.Event(), threading.Event()
    store = Store(
        tmp_path / "m.sqlite3", power_safe=False, on_problem=lambda problem: (freed if problem is None else full).set()
    )
    memory = Memory(store, wall=lambda: NOON + 100, background=False)
    memory.put(*map(heard, range(20))).result()
    for _ in range(40):
        memory.put(Record(Tier.M1, Kind.NOTE, NOON, "x" * 9000))
    assert full.wait(10)
    before = len(store._waiting)
    for _ in range(8):
        with fails(MemoryCode.STORE_FULL):
            memory.consolidator.step()
    assert len(store._waiting) == before, "what failed does not wait in the queue as well"
    disk.pages = 0
    assert freed.wait(20)
    store.do(lambda _: None).result()
    settle(memory)
    (talked,) = store.find(Query(kinds=("relation",)))
    assert len(linked(store, [talked.id])[0].parents) == 20
    memory.close()


def test_a_full_store_frees_the_room_of_what_has_served_its_time(tmp_path: Path, disk: Disk) -> None:
    disk.pages = 80
    freed = threading.Event()
    store = Store(tmp_path / "m.sqlite3", power_safe=False, on_problem=lambda problem: freed.set() if problem is None else None)
    now = [NOON]
    memory = Memory(store, wall=lambda: now[0], background=False)
    while store.state.problem is None:
        settle(memory)
        waiting = memory.put(Record(Tier.M0, "scan", NOON, data={"filling": "x" * 8000}))
        with suppress(StoreError):
            waiting.result()
    now[0] = NOON + 2 * 86_400
    with suppress(StoreError):
        memory.consolidator.step()
    assert freed.wait(20) and waiting.result()
    assert [r.id for r in store.find(Query(kinds=("scan",), limit=100))] == waiting.result()
    memory.close()


def test_two_consolidators_of_one_store_do_nothing_twice(memory: Memory) -> None:
    memory.put(*map(heard, range(5))).result()
    both = [memory.consolidator, Consolidator(memory.store, wall=lambda: NOON + 100)]
    threads = [threading.Thread(target=each.step) for each in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    (talked,) = memory.store.find(Query(kinds=("relation",)))
    assert len(linked(memory.store, [talked.id])[0].parents) == 5


def test_no_fault_ends_the_thread_that_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    freed = threading.Event()
    told: list[StoreError] = []

    def on_problem(problem: StoreError | None) -> None:
        if problem is None:
            freed.set()
        else:
            told.append(problem)
            monkeypatch.setattr("planners.memory.store.prepare", prepare)

    def broken(_: Path) -> str:
        raise TypeError("no such thing")

    retry_soon(monkeypatch)
    store = Store(tmp_path / "m.sqlite3", on_problem=on_problem)
    monkeypatch.setattr("planners.memory.store.prepare", broken)
    waiting = store.put(Record(Tier.M1, Kind.NOTE, NOON, "kept"))
    assert freed.wait(20) and "TypeError: no such thing" in str(told[0])
    assert waiting.result()
    store.close()


def test_an_hour_nobody_can_sum_up_is_left_out_and_the_rest_goes_on(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Record:
        raise OSError("no such time")

    monkeypatch.setattr("planners.memory.consolidation.hour_digest", broken)
    monkeypatch.setattr("planners.memory.consolidation.habits_of", broken)
    old = Record(Tier.M0, "note", NOON - 1e6, "its time is over")
    memory.put(old, observation(NOON, "kitchen"), observation(NOON + 8000, "office")).result()
    settle(memory)
    assert memory.consolidator.skipped >= 2
    assert memory.store.find(Query(kinds=("note",))) == []


@pytest.mark.parametrize("wrong", [{"time_s": 1e17}, {"time_s": -1.0}, {"time_s": 5.0, "begun_s": -1.0}])
def test_times_that_no_calendar_holds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="1970 to 2100"):
        Record(Tier.M1, Kind.VISIT, **wrong)  # type: ignore[arg-type]


def test_a_node_without_a_name_is_nobody_in_an_answer(memory: Memory) -> None:
    memory.put(
        Record(Tier.M3, Kind.ENTITY, NOON, "x", {"a": 1}), Record(Tier.M3, Kind.RELATION, NOON, "y", {"subject": "a:b"})
    ).result()
    memory.store.do(lambda f: note(f, [entity("person", "alice", NOON)])).result()
    assert known(memory)["entity:person:alice"]["type"] == "person"
    assert memory.ask("who did you see?", robot="kalos").text == "I remember nobody."


CUT_SHORT = """
import os, sqlite3, sys
from pathlib import Path
from planners.memory import Query, Record, Store, StoreError, Tier
path = Path(sys.argv[1])
store = Store(path, power_safe=False)
for begin in range(0, 5000, 500):
    store.put(*[Record(Tier.M1, "note", 1.0 + n, f"sentence {n} " * 20) for n in range(begin, begin + 500)]).result()
with sqlite3.connect(path) as file:
    file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
store.find(Query(limit=100))
os.truncate(path, 20_000)
try:
    print(len(store.find(Query(limit=10_000))))
except StoreError as error:
    print(type(error).__name__)
"""


def test_a_file_cut_short_is_an_error_and_not_the_end_of_the_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CUT_SHORT, str(tmp_path / "m.sqlite3")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0 and "Error" in done.stdout, done.stderr


def test_no_part_of_the_file_is_mapped(tmp_path: Path) -> None:
    file = connect(tmp_path / "m.sqlite3", write=True)
    assert file.execute("PRAGMA mmap_size").fetchone()[0] == 0
    file.close()


def call(number: int) -> Record:
    told, who = {"function": "search", "outcome": "DONE"}, Provenance("kalos", "events", "p")
    return Record(Tier.M1, Kind.CALL, NOON + 100 + number / 100, "kalos did search(what=ball)", told, who)


@pytest.mark.parametrize(("calls", "known"), [(1010, True), pytest.param(20_050, False, marks=pytest.mark.slow)])
def test_a_thing_is_found_among_many_newer_records_with_its_name_or_the_answer_says_that_it_looked_at_few(
    memory: Memory, calls: int, known: bool
) -> None:
    where = Spot(1.0, 2.0, "kitchen")
    memory.put(Record(Tier.M1, Kind.SIGHTING, NOON, "kalos saw a ball", {"label": "ball"}, Provenance("kalos"), where))
    for begin in range(0, calls, 5000):
        memory.put(*map(call, range(begin, min(begin + 5000, calls)))).result(60)
    found = memory.ask("where did you last see the ball?", robot="kalos")
    assert found.text.startswith("I last saw the ball in the kitchen") == known
    assert ("only the newest" in found.note) == (not known)
