# SPDX-License-Identifier: Apache-2.0
"""The memory's store against a model in plain Python, under kills, full disks, damaged files and hostile words."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from memory_kit import Disk, fails, forget, linked, retry_soon
from memory_model import WORDS, Model, queries, records
from thorough import examples

from planners.memory import Circle, Provenance, Query, Record, Spot, Store, StoreError, Tier, Visibility
from planners.memory.schema import connect
from skill_kernel.codes import MemoryCode

pytestmark = pytest.mark.component

ROOT = Path(__file__).resolve().parents[2]


def note(time_s: float = 1.0, text: str = "", tier: Tier = Tier.M1, **fields: object) -> Record:
    return Record(tier, "note", time_s, text, **fields)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "memory.sqlite3", power_safe=False)
    yield made
    made.close()


class StoreAgainstModel(RuleBasedStateMachine):
    """Hypothesis chooses what is put, forgotten and asked."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(Path(self.folder.name) / "m.sqlite3", power_safe=False)
        self.model = Model()
        self.now = 100.0

    @rule(data=st.data())
    def put(self, data: st.DataObject) -> None:
        batch = data.draw(st.lists(records(list(self.model.records)), min_size=1, max_size=4))
        self.model.put(batch, self.store.put(*batch).result())

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        if self.model.records:
            chosen = data.draw(st.lists(st.sampled_from(list(self.model.records)), max_size=2))
            self.now += 1.0
            done = forget(self.store, chosen, self.now)
            assert set(done) == self.model.revoke(chosen, self.now)

    @rule(asked=st.lists(queries(), min_size=5, max_size=5))
    def ask(self, asked: list[Query]) -> None:
        for query in asked:
            assert [r.id for r in self.store.find(query)] == self.model.find(query), query

    @rule(word=st.sampled_from(WORDS))
    def words(self, word: str) -> None:
        found = {r.id for r in self.store.find(Query(text=word, limit=1000))}
        assert found == {r.id for r in self.model.records.values() if word in r.text.split()}

    @rule()
    def read(self) -> None:
        stored = {r.id: r for r in linked(self.store, list(self.model.records))}
        for record_id, record in self.model.records.items():
            found = stored[record_id]
            assert (found.text, found.spot, found.key, found.scope, found.revoked_s) == (
                record.text,
                record.spot,
                record.key,
                record.scope,
                record.revoked_s,
            )
            assert found.provenance == record.provenance
            assert record.key or found.parents == record.parents

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


@pytest.mark.hypothesis
def test_the_store_does_what_a_plain_model_does() -> None:
    run_state_machine_as_test(
        StoreAgainstModel, settings=settings(max_examples=examples(40), stateful_step_count=30, print_blob=True)
    )


WRITER = """
import sys, itertools
from pathlib import Path
from planners.memory import Record, Store, Tier
store = Store(Path(sys.argv[1]), power_safe=False)
for number in itertools.count():
    ids = store.put(*[Record(Tier.M1, "note", number, f"batch {number} of many", {"n": n}) for n in range(7)]).result()
    sys.stdout.write(f"{number} {ids[0]} {ids[-1]}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("after", [3, 40, 200])
def test_a_kill_in_mid_write_loses_nothing_acknowledged_and_halves_no_batch(tmp_path: Path, after: int) -> None:
    path = tmp_path / "memory.sqlite3"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert writer.stdout is not None
    acknowledged = [writer.stdout.readline() for _ in range(after)]
    writer.send_signal(signal.SIGKILL)
    acknowledged += [line for line in writer.stdout if line.endswith("\n")]
    writer.wait(10)
    again = Store(path)
    stored = {r.id: r for r in again.find(Query(limit=10_000))}
    for line in acknowledged:
        number, first, last = map(int, line.split())
        assert [stored[i].time_s for i in range(first, last + 1)] == [number] * 7
    assert len(stored) % 7 == 0
    assert len(again.find(Query(text=f"batch {len(acknowledged) - 1}", limit=1))) == 1
    with again.reading() as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    again.close()


def test_a_full_disk_is_a_named_error_reading_goes_on_and_what_waits_is_written_when_there_is_room(
    tmp_path: Path, disk: Disk
) -> None:
    disk.pages = 60
    told: list[StoreError | None] = []
    full, freed = threading.Event(), threading.Event()

    def on_problem(problem: StoreError | None) -> None:
        told.append(problem)
        (freed if problem is None else full).set()

    store = Store(tmp_path / "m.sqlite3", power_safe=False, on_problem=on_problem, max_queue=50)
    first = store.put(note(1.0, "the first one")).result()
    big = [store.put(note(2.0, "x" * 9000)) for _ in range(40)]
    assert full.wait(10) and told[0] is not None and told[0].code is MemoryCode.STORE_FULL and "free space" in str(told[0])
    with fails(MemoryCode.STORE_FULL):
        store.put(note(3.0, "no room")).result()
    assert [r.text for r in store.get(first)] == ["the first one"]
    assert store.find(Query(text="first one"))
    for _ in range(60):
        store.put(note(4.0, "beyond the queue"))
    state = store.state
    assert (
        state.queued <= 50 and state.dropped > 0 and state.problem is not None and state.problem.code is MemoryCode.STORE_FULL
    )
    disk.pages = 0
    assert freed.wait(20) and told[-1] is None
    store.do(lambda _: None).result()
    assert sum(t.done() for t in big) == 40 and store.state.queued == 0
    assert store.put(note(5.0, "room again")).result()
    store.close()


LIMITED = """
import resource, sys
from pathlib import Path
from planners.memory import Query, Record, Store, StoreError, Tier
store = Store(Path(sys.argv[1]))
store.put(Record(Tier.M1, "note", 1, "before")).result()
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
try:
    for n in range(200):
        store.put(Record(Tier.M1, "note", n, "y" * 9000)).result()
except StoreError as error:
    print(error.code.name, len(store.find(Query(text="before"))))
"""


def test_a_file_that_may_not_grow_is_a_named_error_too(tmp_path: Path) -> None:
    assert resource.RLIMIT_FSIZE
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "m.sqlite3")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    name, found = done.stdout.split()
    assert name in (("STORE_FULL",) if sys.version_info >= (3, 11) else ("STORE_FULL", "STORE_UNAVAILABLE")) and found == "1"


@pytest.mark.parametrize("content", [b"not a database at all" * 300, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_corrupt_file_is_a_named_error_and_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.sqlite3"
    path.write_bytes(content)
    with fails(MemoryCode.STORE_CORRUPT, "move it away"):
        Store(path)
    assert path.read_bytes() == content


def test_a_patient_store_answers_with_the_error_until_the_file_is_moved_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry_soon(monkeypatch)
    path = tmp_path / "m.sqlite3"
    path.write_bytes(b"garbage" * 1000)
    well = threading.Event()
    store = Store(path, patient=True, on_problem=lambda problem: well.set() if problem is None else None)
    with fails(MemoryCode.STORE_CORRUPT):
        store.find(Query())
    waiting = store.put(note(1.0, "kept waiting"))
    with fails(MemoryCode.STORE_CORRUPT):
        waiting.result()
    path.rename(tmp_path / "broken")
    assert well.wait(20)
    assert [r.text for r in store.get(waiting.result())] == ["kept waiting"]
    store.close()


def test_pages_overwritten_in_the_middle_are_a_named_error_where_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite3"
    store = Store(path, power_safe=False)
    store.put(*[note(float(n), f"sentence {n} of the long story") for n in range(3000)]).result()
    store.close()
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (path.stat().st_size - 16384))
    with fails(MemoryCode.STORE_CORRUPT):
        Store(path).find(Query(text="sentence", limit=3000))


def test_another_programs_database_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite3"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE mine (x)")
    with fails(MemoryCode.STORE_CORRUPT, "something else"):
        Store(path)


HOSTILE = [
    '"',
    "'",
    "a OR b",
    "alice's ball",
    "NOT",
    "*",
    "ball*",
    "text:ball",
    "NEAR(a b)",
    "ball AND",
    "(",
    ")",
    "^ball",
    "-ball",
    "{a}",
    "\x00",
    "ball\x00",
    "ball; DROP TABLE record",
    '"ball" OR "',
    "\ufb00",
    "\ud800",
    "\U0001f916",
    "a" * 5000,
    "ball + door",
    "?",
    "--",
    "\u7403",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_query_text_is_syntax(store: Store, text: str) -> None:
    store.put(note(1.0, "the red ball lies at the door"), note(2.0, "nothing here")).result()
    found = [r.text for r in store.find(Query(text=text))]
    assert set(found) <= {"the red ball lies at the door"}
    assert len(store.find(Query(text="ball door"))) == 1


@given(text=st.text(max_size=60))
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_stored_found_again_and_never_an_error(store: Store, text: str) -> None:
    (record_id,) = store.put(note(1.0, text)).result()
    assert store.get([record_id])[0].text == text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    store.find(Query(text=text))
    store.search(Query(text=text), every=True)


def test_rare_words_come_before_frequent_ones_however_old(store: Store) -> None:
    store.put(note(1.0, "the red umbrella stands in the lobby")).result()
    for begin in range(0, 5000, 500):
        store.put(*[note(10.0 + begin + n, "a red ball in the lobby") for n in range(500)])
    store.do(lambda _: None).result()
    found, complete = store.search(Query(text="where is the red umbrella", limit=3))
    assert [r.text[:16] for r in found] == ["the red umbrella"] and complete
    frequent, complete = store.search(Query(text="red lobby", limit=3))
    assert frequent[0].time_s == 5009.0 and not complete, "of frequent words the newest, and it says so"


def test_a_record_that_cannot_be_stored_spoils_no_other(store: Store) -> None:
    class Trick(dict):  # type: ignore[type-arg]
        def __bool__(self) -> bool:
            return True

        def items(self) -> object:  # json asks for it
            raise ValueError("no")

    bad = note(1.0, "bad", data=Trick(a=1))
    tickets = [store.put(r) for r in (note(1.0, "one"), bad, note(2.0, "two"))]
    assert tickets[0].result() and tickets[2].result()
    with fails(MemoryCode.QUERY_INVALID):
        tickets[1].result()


@pytest.mark.parametrize(
    "wrong",
    [
        {"time_s": float("nan")},
        {"kind": "No Kind"},
        {"begun_s": 9.0},
        {"spot": Spot(1.0, None)},
        {"text": "x" * 30_000},
        {"spot": Spot(float("inf"), 0.0)},
    ],
)
def test_what_no_record_can_be_is_refused_when_it_is_made(wrong: dict[str, object]) -> None:
    fields: dict[str, object] = {"tier": Tier.M1, "kind": "note", "time_s": 1.0, "text": "fine"}
    with pytest.raises(ValueError, match=r".+"):
        Record(**{**fields, **wrong})


def test_raw_observations_are_dropped_before_anything_else_and_counted(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.sqlite3", power_safe=False, max_queue=100)
    held = threading.Event()
    store.do(lambda _: held.wait(10))
    raw = [store.put(note(1.0, tier=Tier.M0)) for _ in range(100)]
    sentences = [store.put(note(1.0)) for _ in range(25)]
    assert store.state.dropped == 25
    held.set()
    store.do(lambda _: None).result()
    assert all(t.result() for t in sentences + raw[:75])
    with pytest.raises(StoreError, match="dropped"):
        raw[75].result()
    store.close()


def test_a_query_ends_at_its_deadline(store: Store) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with fails(MemoryCode.QUERY_TIMEOUT, "deadline"), store.reading(0.1) as file:
        file.execute(endless).fetchone()
    assert store.find(Query()) == []


def test_private_records_are_shown_to_their_owner_only_and_keys_of_two_owners_do_not_meet(store: Store) -> None:
    for robot in ("coco", "kalos"):
        who = Provenance(robot, process="p")
        store.put(*[note(1.0, f"{robot} {v.name}", provenance=who, visibility=v, key="k") for v in Visibility]).result()
    from planners.memory import Viewer

    assert {r.text for r in store.find(Query(viewer=Viewer("coco", "p")))} == {"coco PROCESS", "coco ROBOT", "kalos SHARED"}
    assert {r.text for r in store.find(Query(viewer=Viewer("kalos")))} == {"kalos ROBOT", "kalos SHARED"}
    assert {r.text for r in store.find(Query(viewer=Viewer()))} == {"kalos SHARED"}
    assert len(store.find(Query())) == 5


def test_a_circle_larger_than_the_map_finds_all_that_has_a_place(store: Store) -> None:
    store.put(note(1.0, "here", spot=Spot(1e7, -1e7)), note(2.0, "nowhere"), note(3.0, "there", spot=Spot(0.0, 0.0))).result()
    assert [r.text for r in store.find(Query(near=Circle(0.0, 0.0, 9e5)))] == ["there"]
    assert [r.text for r in store.find(Query(near=Circle(1e7, -1e7, 1.0)))] == ["here"]


def test_records_of_one_time_come_newest_stored_first_also_from_several_indexes(store: Store) -> None:
    made = [Record(Tier.M1, kind, 5.0) for kind in ("call", "heard", "call", "heard", "other", "other", "other")]
    ids = store.put(*made).result()
    assert [r.id for r in store.find(Query(kinds=("call", "heard")))] == ids[3::-1]


def test_acknowledged_means_flushed_to_the_disk_unless_told_otherwise(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.sqlite3")
    store.do(lambda _: None).result()
    assert store.do(lambda file: file.execute("PRAGMA synchronous").fetchone()[0]).result() == 2
    store.close()
    file = connect(tmp_path / "m.sqlite3", write=True, power_safe=False)
    assert file.execute("PRAGMA synchronous").fetchone()[0] == 1
    file.close()
