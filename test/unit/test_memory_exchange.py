# SPDX-License-Identifier: Apache-2.0
"""Exports that bring what changed, and lines that are no records."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planners.memory import Kind, Provenance, Query, Record, Store, Tier
from planners.memory.exchange import ExchangeError, Imported, export_lines, import_lines
from planners.memory.experience import TaughtRoutine, routine_record
from planners.memory.graph import EntityType, entity, note

NOON = time.mktime((2026, 5, 4, 12, 0, 0, 0, 0, -1))
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


def test_what_changed_since_the_last_import_comes_with_the_next_one(stores: tuple[Store, Store]) -> None:
    here, there = stores
    here.put(routine_record(TaughtRoutine("dance", "v1", "<spin/>"), NOON, KALOS)).result()
    pass_on(here, there)
    here.put(routine_record(TaughtRoutine("dance", "v2", "<hop/>"), NOON + 10, KALOS)).result()
    assert pass_on(here, there) == Imported(0, 1)
    assert [r.data for r in there.find(Query(kinds=("routine",)))] == [r.data for r in here.find(Query(kinds=("routine",)))]
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
    here.revoke([secret], now_s=NOON + 9, who="alice").result()
    pass_on(here, there)
    assert texts(there) == []


def test_a_node_noted_again_here_still_falls_with_its_origin(stores: tuple[Store, Store]) -> None:
    here, there = stores
    here.do(lambda f: note(f, [entity(EntityType.PERSON, "alice", NOON, attributes={"pin": "1234"})])).result()
    pass_on(here, there)
    there.do(lambda f: note(f, [entity(EntityType.PERSON, "alice", NOON + 5)])).result()
    (node,) = here.find(Query())
    here.revoke([node.id], now_s=NOON + 9, who="alice").result()
    pass_on(here, there)
    assert "1234" not in json.dumps([dict(r.data) for r in there.find(Query(revoked=True))])


def test_what_was_forgotten_here_does_not_come_from_another_store(stores: tuple[Store, Store]) -> None:
    here, there = stores
    told = Record(Tier.M1, Kind.HEARD, NOON, "my PIN is 1234", provenance=KALOS, key="heard:kalos:p1")
    for store in stores:
        store.put(told).result()
    there.revoke([1], now_s=NOON + 9, who="alice").result()
    assert pass_on(here, there) == Imported(0, 1)
    assert texts(there) == []


def wrong_data(told: dict[str, Any]) -> None:
    told["data"] = {"v": float("nan")}


def wrong_room(told: dict[str, Any]) -> None:
    told["spot"]["room"] = 5


def wrong_time(told: dict[str, Any]) -> None:
    told["time_s"] = 10**400


def no_time(told: dict[str, Any]) -> None:
    told["time_s"] = None


def wrong_keep(told: dict[str, Any]) -> None:
    told["keep_until_s"] = "zzz"


def wrong_key(told: dict[str, Any]) -> None:
    told["key"] = ["k"]


def wrong_sender(told: dict[str, Any]) -> None:
    told["provenance"]["sender"] = {}


@pytest.mark.parametrize("spoil", [wrong_data, wrong_room, wrong_time, no_time, wrong_keep, wrong_key, wrong_sender])
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
