# SPDX-License-Identifier: Apache-2.0
"""Observations become sentences, summaries and knowledge, and go when their time is over."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from memory_kit import NOON, Clock, ended, heard, known, linked, settle, told, walk
from memory_model import observation

from planners.memory import Kind, Memory, Provenance, Query, Record, Store, Tier
from planners.memory.consolidation import ConsolidationSettings, Consolidator, expired


def test_observations_without_a_break_become_one_sentence_each_with_its_sources(memory: Memory) -> None:
    memory.put(*walk()).result()
    settle(memory)
    assert told(memory, Kind.VISIT) == [
        "kalos was in the office from 2026-05-04 12:00:30 to 12:00:59.",
        "kalos was in the hallway from 2026-05-04 12:00:20 to 12:00:29.",
        "kalos was in the kitchen from 2026-05-04 12:00:00 to 12:00:19.",
    ]
    seen = told(memory, Kind.SIGHTING)[-1]
    assert seen == "kalos saw a ball in the kitchen near (1.0, 2.0) from 2026-05-04 12:00:06 to 12:00:09."
    (ball,) = memory.store.find(Query(kinds=("sighting",), text="ball"))
    parents = memory.store.get(linked(memory.store, [ball.id])[0].parents)
    assert [p.time_s - NOON for p in parents] == [6, 7, 8, 9] and all(p.tier is Tier.M0 for p in parents)


def test_a_sentence_grows_over_many_steps_and_ends_at_a_gap_or_in_another_room(memory: Memory) -> None:
    for begin in range(10):
        memory.put(observation(NOON + begin, "kitchen", ["ball"])).result()
        settle(memory)
    memory.put(observation(NOON + 100, "kitchen", ["ball"]), observation(NOON + 102, "office")).result()
    memory.put(observation(NOON + 104, "kitchen")).result()
    settle(memory)
    sightings = memory.store.find(Query(kinds=("sighting",)))
    assert [(r.start_s - NOON, r.time_s - NOON) for r in sightings] == [(100, 100), (0, 9)]
    visits = memory.store.find(Query(kinds=("visit",)))
    assert [(r.spot.room, r.start_s - NOON) for r in visits] == [
        ("kitchen", 104),
        ("office", 102),
        ("kitchen", 100),
        ("kitchen", 0),
    ]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_consolidator_that_was_killed_goes_on_where_it_was(memory: Memory, clock: Clock, cut: int) -> None:
    memory.put(*walk()[:cut]).result()
    settle(memory)
    again = Consolidator(memory.store, wall=clock)
    memory.put(*walk()[cut:]).result()
    while again.step():
        pass
    spans = {(r.spot.room, r.start_s - NOON, r.time_s - NOON) for r in memory.store.find(Query(kinds=("visit",)))}
    assert spans == {("kitchen", 0, 19), ("hallway", 20, 29), ("office", 30, 59)}


def test_a_task_is_summed_up_when_it_ends_and_hours_when_they_are_over(memory: Memory, clock: Clock) -> None:
    call = Record(
        Tier.M1,
        Kind.CALL,
        NOON + 50,
        "kalos did goto_waypoint",
        {"function": "goto_waypoint", "outcome": "DONE"},
        Provenance("kalos", "events", "p1"),
    )
    memory.put(heard(NOON, "alice", "patrol"), *walk(), call, ended(NOON, NOON + 59, "patrol")).result()
    settle(memory)
    (episode,) = told(memory, Kind.EPISODE)
    assert "“patrol” for alice: success" in episode and "goto waypoint (1 done)" in episode
    assert "office (once)" in episode and "ball in the kitchen (once)" in episode
    assert told(memory, Kind.DIGEST) == [], "the hour is not over"
    memory.put(observation(NOON + 4000, "office")).result()
    settle(memory)
    (digest,) = memory.store.find(Query(kinds=("digest",)))
    assert digest.data["places"] == {"kitchen": 1, "hallway": 1, "office": 1} and digest.tier is Tier.M2


def test_what_is_so_again_and_again_becomes_knowledge(memory: Memory, clock: Clock) -> None:
    for day in range(4):
        at = NOON + day * 86_400
        memory.put(*walk(at), ended(at, at + 59, "Patrol", f"p{day}", "FAILED" if day else "SUCCESS")).result()
    memory.put(observation(NOON + 5 * 86_400, "office")).result()
    clock.now = NOON + 5 * 86_400
    settle(memory)
    habits = told(memory, Kind.HABIT)
    assert "The ball is usually in the kitchen (4 of 4 sightings)." in habits
    assert "“patrol” was asked 4 times, mostly around 12 o'clock, mostly by alice." in habits
    asked = memory.store.by_key("habit:place:ball")
    assert asked is not None and asked.tier is Tier.M3
    parents = memory.store.get(linked(memory.store, [asked.id])[0].parents)
    assert {p.kind for p in parents} == {"digest"}


def test_a_record_that_nobody_can_work_with_is_left_out_and_the_others_are_not(memory: Memory) -> None:
    strange = Record(Tier.M0, Kind.OBSERVATION, NOON + 1, data={"objects": ["no mapping"]}, provenance=Provenance("kalos"))
    nameless = Record(Tier.M1, Kind.SIGHTING, NOON + 1, "kalos saw", {"label": " "}, Provenance("kalos"))
    memory.put(*walk()[:20], strange, nameless, *walk()[20:]).result()
    settle(memory)
    assert memory.consolidator.skipped == 1 and len(told(memory, Kind.VISIT)) == 3


def test_readers_are_answered_while_a_backlog_is_consolidated(tmp_path: Path) -> None:
    store = Store(tmp_path / "m.sqlite3", power_safe=False, max_queue=100_000)
    for hour in range(4):
        store.put(*[observation(NOON + hour * 3000 + t, "office" if t % 50 else "kitchen", ["ball"]) for t in range(500)])
    store.do(lambda _: None).result()
    memory = Memory(store, wall=lambda: NOON, background=False)
    busy = threading.Event()
    answers: list[float] = []
    wrong: list[str] = []

    def read_on() -> None:
        while not busy.is_set():
            began = time.perf_counter()
            if not memory.ask("where did you last see the ball?", robot="kalos").text:
                wrong.append("no text")
            answers.append(time.perf_counter() - began)

    reader = threading.Thread(target=read_on)
    reader.start()
    settle(memory)
    busy.set()
    reader.join(10)
    assert not wrong and len(answers) > 10 and max(answers) < 2.0
    assert len(memory.store.find(Query(kinds=("sighting",), limit=1000))) > 0
    memory.close()


def test_records_go_when_their_time_is_over_but_not_before_they_are_consolidated(tmp_path: Path, clock: Clock) -> None:
    settings_ = ConsolidationSettings(raw_s=100.0, sentences_s=1000.0, max_raw=20)
    memory = Memory(Store(tmp_path / "m.sqlite3", power_safe=False), wall=clock, settings=settings_, background=False)
    memory.put(*walk()).result()
    with memory.store.reading() as file:
        assert expired(file, settings_, NOON + 1e6, consolidated=0) == []
    clock.now = NOON + 61
    settle(memory)
    raw = memory.store.find(Query(kinds=("observation",), limit=100))
    assert len(raw) == 20 and raw[-1].time_s == NOON + 40, "the newest of too many"
    clock.now = NOON + 200
    settle(memory)
    assert memory.store.find(Query(kinds=("observation",))) == [] and len(told(memory, Kind.VISIT)) == 3
    clock.now = NOON + 2000
    settle(memory)
    assert told(memory, Kind.VISIT) == [] and known(memory)
    memory.close()
