# SPDX-License-Identifier: Apache-2.0
"""What was forgotten stays forgotten, whoever tells it again and whatever was under way."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest
from memory_kit import NOON, Clock, everything, known, linked, settle, told
from memory_model import observation

from planners.memory import Kind, Memory, Provenance, Query, Record, Spot, Tier, Viewer, Visibility
from planners.memory.experience import Recorder
from skill_kernel.processes.process import Process, ProcessStatus

ASKED = Process("p1", "my PIN is 1234", "chat", "bob", "stream", NOON)
OVER = replace(ASKED, ended_s=NOON + 9, status=ProcessStatus.SUCCESS)


@pytest.fixture
def clock() -> Clock:
    made = Clock()
    made.now = NOON + 100
    return made


def found(memory: Memory, kind: Kind) -> list[Record]:
    return memory.store.find(Query(kinds=(kind.value,), limit=1000))


def forget(memory: Memory, *records: Record) -> None:
    memory.forget([r.id for r in records], who="bob").result()


def all_words(memory: Memory) -> str:
    return " ".join(r.text + json.dumps(dict(r.data)) for r in everything(memory.store))


@pytest.mark.parametrize("first", [ASKED, OVER], ids=["alive", "ended"])
@pytest.mark.parametrize("again", [ASKED, OVER], ids=["told again alive", "told again ended"])
def test_forgotten_words_do_not_come_back_when_the_robot_tells_them_again(
    memory: Memory, first: Process, again: Process
) -> None:
    memory.put(*Recorder("kalos").task(first)).result()
    settle(memory)
    forget(memory, *found(memory, Kind.HEARD))
    settle(memory)
    assert "1234" not in all_words(memory), "the end of the task and its summary repeat the words"
    ids = memory.put(*Recorder("kalos").task(again), *Recorder("kalos").task(replace(again, process_id="p2"))).result()
    settle(memory)
    assert [r.provenance.process for r in found(memory, Kind.HEARD)] == ["p2"] and 0 in ids
    assert {r.provenance.process for r in found(memory, Kind.EPISODE)} <= {"p2"}


def test_a_note_of_the_same_key_may_be_taken_down_again(memory: Memory) -> None:
    (first,) = memory.put(Record(Tier.M1, Kind.NOTE, NOON, "old", key="note:1")).result()
    memory.forget([first], who="bob").result()
    assert memory.put(Record(Tier.M1, Kind.NOTE, NOON, "new", key="note:1")).result() != [0]
    assert [r.text for r in found(memory, Kind.NOTE)] == ["new"]


def test_what_is_forgotten_while_consolidation_works_is_not_written(memory: Memory) -> None:
    ids = memory.put(*[observation(NOON + t, "kitchen", ["ball"]) for t in range(600)]).result()
    working = threading.Thread(target=settle, args=[memory])
    working.start()
    memory.forget(ids, who="bob").result()
    working.join(20)
    settle(memory)
    assert found(memory, Kind.SIGHTING) == [] and "ball" not in all_words(memory)


def test_an_observation_forgotten_before_its_sentence_is_made_is_in_no_sentence(memory: Memory) -> None:
    ids = memory.put(*[observation(NOON + t, "kitchen", ["ball"] if t == 2 else []) for t in range(5)]).result()
    memory.forget([ids[2]], who="bob").result()
    settle(memory)
    assert "ball" not in all_words(memory)
    (visit,) = found(memory, Kind.VISIT)
    assert visit.start_s == NOON and ids[2] not in linked(memory.store, [visit.id])[0].parents


def test_a_thing_in_sight_is_a_new_sighting_after_the_one_that_was_forgotten(memory: Memory) -> None:
    memory.put(*[observation(NOON + t, "kitchen", ["ball"]) for t in range(5)]).result()
    settle(memory)
    forget(memory, *found(memory, Kind.SIGHTING))
    memory.put(observation(NOON + 5, "kitchen", ["ball"])).result()
    settle(memory)
    memory.put(observation(NOON + 6, "kitchen", ["ball"])).result()
    settle(memory)
    (sighting,) = found(memory, Kind.SIGHTING)
    assert (sighting.start_s, sighting.time_s) == (NOON + 5, NOON + 6)


def test_all_observations_of_a_long_sighting_are_forgotten_with_it(memory: Memory) -> None:
    memory.put(*[observation(NOON + t / 4, "kitchen", ["ball"]) for t in range(300)]).result()
    settle(memory)
    forget(memory, *found(memory, Kind.SIGHTING))
    settle(memory)
    assert "ball" not in all_words(memory)


def heard(time_s: float, robot: str) -> Record:
    return Record(Tier.M1, Kind.HEARD, time_s, f"bob spoke to {robot}", provenance=Provenance(robot, "p", robot, "bob", "chat"))


def test_knowledge_falls_with_its_last_source_in_whatever_order_they_came(memory: Memory) -> None:
    memory.put(heard(NOON + 50, "kalos"), heard(NOON + 40, "coco")).result()
    settle(memory)
    assert "entity:person:bob" in known(memory)
    forget(memory, *found(memory, Kind.HEARD))
    settle(memory)
    assert "bob" not in " ".join(r.text for r in memory.store.find(Query(limit=1000)))


@pytest.mark.parametrize("times", [(50, 40), (40, 50)])
def test_a_node_names_every_sentence_that_told_of_it(memory: Memory, times: tuple[int, int]) -> None:
    ids = memory.put(heard(NOON + times[0], "kalos"), heard(NOON + times[1], "coco")).result()
    settle(memory)
    bob = memory.store.by_key("entity:person:bob")
    assert bob is not None and linked(memory.store, [bob.id])[0].parents == tuple(ids)


@pytest.mark.parametrize("which", [0, 1])
def test_a_relation_tells_of_the_sources_that_are_left(memory: Memory, which: int) -> None:
    for begun in (NOON, NOON + 50):
        memory.put(*[observation(begun + t, "kitchen", ["ball"]) for t in range(3)]).result()
        settle(memory)
    sightings = found(memory, Kind.SIGHTING)
    forget(memory, sightings[which])
    settle(memory)
    (seen,) = [r for r in found(memory, Kind.RELATION) if r.data["relation"] == "seen_in"]
    kept = sightings[1 - which]
    assert seen.time_s == kept.time_s and linked(memory.store, [seen.id])[0].parents == (kept.id,)


def test_a_relation_stands_on_the_sentence_made_anew(memory: Memory) -> None:
    ids = memory.put(*[observation(NOON + t, "kitchen", ["ball"]) for t in range(3)]).result()
    settle(memory)
    memory.forget([ids[1]], who="bob").result()
    settle(memory)
    (seen,) = [r for r in found(memory, Kind.RELATION) if r.data["relation"] == "seen_in"]
    (sighting,) = found(memory, Kind.SIGHTING)
    assert linked(memory.store, [seen.id])[0].parents == (sighting.id,)


def test_an_episode_whose_end_was_forgotten_leaves_no_summary_of_an_hour_that_is_not_over(memory: Memory) -> None:
    memory.put(observation(NOON + 1, "kitchen", ["ball"]), *Recorder("kalos").task(OVER)).result()
    settle(memory)
    forget(memory, *found(memory, Kind.OUTCOME))
    settle(memory)
    assert found(memory, Kind.DIGEST) == [] and found(memory, Kind.EPISODE) == []


def test_what_a_process_keeps_to_itself_is_in_no_summary_of_another(memory: Memory) -> None:
    own = {"provenance": Provenance("kalos", "observation", "q"), "visibility": Visibility.PROCESS, "spot": Spot(room="vault")}
    data = {"objects": [{"label": "gold", "track": 1}]}
    private = [Record(Tier.M0, Kind.OBSERVATION, NOON + t, data=data, **own) for t in range(5)]
    memory.put(*private, *Recorder("kalos").task(OVER), observation(NOON + 8000, "office")).result()
    settle(memory)
    for process in ("p1", "q", ""):
        shown = memory.store.find(Query(viewer=Viewer("kalos", process), limit=1000))
        assert any("gold" in r.text for r in shown) == (process == "q")
    (episode,) = found(memory, Kind.EPISODE)
    assert episode.visibility is Visibility.SHARED and "vault" not in episode.text


def test_forgetting_by_words_takes_every_record_with_all_of_them(memory: Memory) -> None:
    many = [Record(Tier.M1, Kind.NOTE, NOON + n, "alice has a secret password") for n in range(1900)]
    memory.put(*many, Record(Tier.M1, Kind.NOTE, NOON, "alice came"), Record(Tier.M1, Kind.NOTE, NOON, "a password")).result()
    assert len(memory.store.all_ids(Query(text="alice password", limit=1))) == 1900
    assert len(memory.store.all_ids(Query(kinds=("note",)))) == 1902


def test_what_is_forgotten_is_gone_from_all_that_was_made_of_it_and_the_rest_is_made_anew(walked: Memory) -> None:
    (ball,) = walked.store.find(Query(kinds=("sighting",), text="ball"))
    assert "ball" in " ".join(told(walked, Kind.EPISODE, Kind.RELATION, Kind.ENTITY))
    gone = walked.forget([ball.id], who="alice", why="she asked for it").result()
    settle(walked)
    assert walked.ask("where did you last see the ball?", robot="kalos").text.startswith("I remember no ball")
    assert walked.store.find(Query(text="ball", limit=100)) == []
    assert not any("ball" in json.dumps(r.data) + r.text for r in everything(walked.store))
    (episode,) = told(walked, Kind.EPISODE)
    assert "apple" in episode and "kitchen" in episode
    assert "kalos was in the kitchen" in " ".join(told(walked, Kind.VISIT))
    (left,) = walked.store.get([ball.id])
    assert left.id in gone and left.revoked_s == NOON + 120 and left.data["forgotten_by"] == "alice"


def test_a_raw_observation_forgotten_leaves_what_the_others_say(walked: Memory) -> None:
    raw = [r for r in walked.store.find(Query(tiers=(Tier.M0,), limit=1000)) if r.time_s == NOON + 7]
    walked.forget([raw[0].id], who="alice").result()
    settle(walked)
    (ball,) = walked.store.find(Query(kinds=("sighting",), text="ball"))
    assert (ball.start_s - NOON, ball.time_s - NOON) == (6, 9)
    assert raw[0].id not in linked(walked.store, [ball.id])[0].parents
    assert "relation:object:ball|seen_in|place:kitchen" in known(walked)
