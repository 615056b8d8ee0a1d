# SPDX-License-Identifier: Apache-2.0
"""Exports that bring what changed, and lines that are no records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memory_kit import NOON, everything, forget, linked

from planners.memory import Kind, Memory, Provenance, Query, Record, Spot, Store, Tier
from planners.memory.exchange import ExchangeError, Imported, export_lines, import_lines
from planners.memory.graph import entity, note

KALOS = Provenance("kalos")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    made = Store(tmp_path / "a.sqlite3", power_safe=False), Store(tmp_path / "b.sqlite3", power_safe=False)
    yield made
    for store in made:
        store.close()


def pass_on(here: Store, there: Store) -> Imported:
    return import_lines(there, list(export_lines(here)))


def texts(store: Store) -> list[str]:
    return [r.text for r in store.find(Query(limit=100))]


def noted(time_s: float, text: str) -> Record:
    return Record(Tier.M1, Kind.NOTE, time_s, text, provenance=KALOS, key="note:1")


def known(time_s: float, version: str) -> Record:
    return Record(Tier.M3, Kind.HABIT, time_s, f"dances {version}", {"version": version}, KALOS, key="habit:dance")


def test_what_changed_since_the_last_import_comes_with_the_next_one(stores: tuple[Store, Store]) -> None:
    here, there = stores
    here.put(known(NOON, "v1")).result()
    pass_on(here, there)
    here.put(known(NOON + 10, "v2")).result()
    assert pass_on(here, there) == Imported(0, 1)
    assert [r.data for r in there.find(Query(kinds=("habit",)))] == [{"version": "v2"}]
    assert pass_on(here, there) == Imported(0, 1)


def test_an_older_version_replaces_no_newer_one(stores: tuple[Store, Store]) -> None:
    here, there = stores
    here.put(noted(NOON, "theirs")).result()
    pass_on(here, there)
    there.put(noted(NOON + 5, "mine, and newer")).result()
    pass_on(here, there)
    assert texts(there) == ["mine, and newer"]


def test_what_replaced_a_record_of_ones_own_is_forgotten_with_its_origin(stores: tuple[Store, Store]) -> None:
    here, there = stores
    there.put(noted(NOON, "old and local")).result()
    (secret,) = here.put(noted(NOON + 5, "secret")).result()
    pass_on(here, there)
    assert texts(there) == ["secret"]
    forget(here, [secret], NOON + 9)
    pass_on(here, there)
    assert texts(there) == []


def test_a_node_noted_again_here_still_falls_with_its_origin(stores: tuple[Store, Store]) -> None:
    here, there = stores
    here.do(lambda f: note(f, [entity("person", "alice", NOON, spot=Spot(room="vault 1234"))])).result()
    pass_on(here, there)
    there.do(lambda f: note(f, [entity("person", "alice", NOON + 5)])).result()
    (node,) = here.find(Query())
    forget(here, [node.id], NOON + 9)
    pass_on(here, there)
    assert "1234" not in "".join(r.spot.room for r in everything(there))


def test_what_was_forgotten_here_does_not_come_from_another_store(stores: tuple[Store, Store]) -> None:
    here, there = stores
    told = Record(Tier.M1, Kind.HEARD, NOON, "my PIN is 1234", provenance=KALOS, key="heard:kalos:p1")
    for store in stores:
        store.put(told).result()
    forget(there, [1], NOON + 9)
    assert pass_on(here, there) == Imported(0, 1)
    assert texts(there) == []


def extended_visit(store: Store) -> int:
    """Put a visit that a later observation extends; return the id of that observation."""

    def visit(parent: int, time_s: float) -> Record:
        return Record(Tier.M1, Kind.VISIT, time_s, "in the hall", provenance=KALOS, key="visit:1", parents=(parent,))

    (first,) = store.put(Record(Tier.M0, Kind.OBSERVATION, NOON, provenance=KALOS)).result()
    store.put(visit(first, NOON)).result()
    store.put(*[Record(Tier.M1, Kind.NOTE, NOON + n, f"note {n}", provenance=KALOS) for n in range(500)]).result()
    (later,) = store.put(Record(Tier.M0, Kind.OBSERVATION, NOON + 9, provenance=KALOS)).result()
    store.put(visit(later, NOON + 9)).result()
    return later


def forget_its_latest_observation(store: Store) -> list[Record]:
    """Forget the latest observation; return the visits that are left."""
    (latest, *_) = store.find(Query(kinds=("observation",)))
    forget(store, [latest.id], NOON + 99)
    return store.find(Query(kinds=("visit",)))


def test_a_record_stays_linked_to_parents_that_are_newer_than_it(stores: tuple[Store, Store]) -> None:
    here, there = stores
    later = extended_visit(here)
    assert here.find(Query(kinds=("visit",)))[0].id < later
    pass_on(here, there)
    (visit,) = there.find(Query(kinds=("visit",)))
    assert len(linked(there, [visit.id])[0].parents) == 2
    assert forget_its_latest_observation(there) == []


def test_importing_again_links_what_an_import_that_was_cut_off_left_unlinked(stores: tuple[Store, Store]) -> None:
    here, there = stores
    extended_visit(here)
    lines = list(export_lines(here))

    def cut_off() -> Iterator[str]:
        yield from lines[:501]
        raise OSError("the disk was pulled out")

    with pytest.raises(OSError, match="pulled out"):
        import_lines(there, cut_off())
    assert import_lines(there, lines).known == 500
    assert import_lines(there, lines) == Imported(0, len(lines) - 1)
    assert forget_its_latest_observation(there) == []


def test_a_line_before_the_header_ends_the_import(stores: tuple[Store, Store]) -> None:
    here, there = stores
    here.put(noted(NOON, "one")).result()
    with pytest.raises(ExchangeError, match="line 1 .*header"):
        import_lines(there, list(export_lines(here))[1:])
    assert texts(there) == []


def test_of_two_records_with_one_uid_the_first_stays(stores: tuple[Store, Store]) -> None:
    here, there = stores
    here.put(noted(NOON, "one"), replace(noted(NOON + 5, "two"), key="note:2")).result()
    head, one, two = export_lines(here)
    import_lines(there, [head, one, json.dumps({**json.loads(two), "uid": json.loads(one)["uid"]})])
    assert texts(there) == ["one"]


def wrong_data(told: dict[str, Any]) -> None:
    told["data"] = {"v": float("nan")}


def wrong_room(told: dict[str, Any]) -> None:
    told["spot"]["room"] = 5


def wrong_time(told: dict[str, Any]) -> None:
    told["time_s"] = 10**400


def no_time(told: dict[str, Any]) -> None:
    told["time_s"] = None


def wrong_key(told: dict[str, Any]) -> None:
    told["key"] = ["k"]


def wrong_sender(told: dict[str, Any]) -> None:
    told["provenance"]["sender"] = {}


@pytest.mark.parametrize("spoil", [wrong_data, wrong_room, wrong_time, no_time, wrong_key, wrong_sender])
def test_a_field_of_another_type_is_told_with_its_line_and_the_lines_before_stay(
    stores: tuple[Store, Store], spoil: Callable[[dict[str, Any]], None]
) -> None:
    here, there = stores
    here.put(*[Record(Tier.M1, Kind.NOTE, NOON + n, f"note {n}", provenance=KALOS) for n in range(3)]).result()
    lines = list(export_lines(here))
    told = json.loads(lines[2])
    spoil(told)
    lines[2] = json.dumps(told)
    with pytest.raises(ExchangeError, match="line 3"):
        import_lines(there, lines)
    assert texts(there) == ["note 0"]


def test_an_export_makes_the_same_memory_elsewhere_and_forgetting_travels_with_it(walked: Memory, tmp_path: Path) -> None:
    other = Memory(Store(tmp_path / "other.sqlite3", power_safe=False), wall=lambda: NOON, background=False)
    lines = list(export_lines(walked.store))
    assert import_lines(other.store, lines) == Imported(len(lines) - 1, 0)
    assert import_lines(other.store, lines) == Imported(0, len(lines) - 1)
    assert import_lines(walked.store, lines) == Imported(0, len(lines) - 1)

    def plain(memory: Memory) -> list[tuple[object, ...]]:
        found = memory.store.find(Query(limit=1000))
        return sorted((r.kind, r.time_s, r.text, json.dumps(r.data), r.provenance, r.spot, r.key) for r in found)  # type: ignore[type-var]

    assert plain(other) == plain(walked)
    (ball,) = other.store.find(Query(kinds=("sighting",), text="ball"))
    assert len(linked(other.store, [ball.id])[0].parents) == 4
    (mine,) = walked.store.find(Query(kinds=("sighting",), text="ball"))
    walked.forget([mine.id], who="alice").result()
    import_lines(other.store, list(export_lines(walked.store)))
    assert other.store.find(Query(kinds=("sighting",), text="ball")) == []
    other.close()


def test_an_export_restores_a_store_that_lost_everything(walked: Memory, tmp_path: Path) -> None:
    lines = list(export_lines(walked.store))
    fresh = Store(tmp_path / "fresh.sqlite3")
    import_lines(fresh, lines)
    assert len(fresh.find(Query(limit=1000))) == len(walked.store.find(Query(limit=1000))) > 60
    fresh.close()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", ""),
        ("[]", "JSON object"),
        ('{"text": "a"}', "'uid' is missing"),
        ('{"uid": [1]}', ""),
        ('{"format": "other", "version": 2}', "version 2"),
        ('{"format": "ghostshell-memory", "version": 99}', "version 2"),
        ('{"uid": -1, "spot": {}}', ""),
        ('{"uid": 1, "tier": "M9", "spot": {}, "provenance": {}}', "'M9' is missing or unknown"),
    ],
)
def test_a_line_that_is_no_record_is_named_and_those_before_it_stay(memory: Memory, line: str, why: str) -> None:
    memory.put(Record(Tier.M1, Kind.NOTE, NOON, "one")).result()
    head, good = list(export_lines(memory.store))
    with pytest.raises(ExchangeError, match=f"line 3 .*{why}"):
        import_lines(memory.store, [head, json.dumps({**json.loads(good), "uid": 1}), line])
    assert len(memory.store.find(Query())) == 2
