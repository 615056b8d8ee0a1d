# SPDX-License-Identifier: Apache-2.0
"""People, places and things as a graph, a record for each node and edge."""

from __future__ import annotations

from memory_kit import NOON, known

from planners.memory import Memory, Spot
from planners.memory.graph import entity, note, relation


def test_what_was_seen_makes_nodes_and_edges(walked: Memory) -> None:
    graph = known(walked)
    assert graph["entity:person:alice"]["type"] == "person" and "entity:robot:kalos" in graph
    assert {"relation:robot:kalos|saw|object:ball", "relation:robot:kalos|saw|object:apple"} <= set(graph)
    assert graph["relation:object:ball|seen_in|place:kitchen"]["subject"] == "object:ball"


def test_a_node_noted_again_keeps_the_newest_place_it_had(memory: Memory) -> None:
    notes = [
        entity("person", "alice", NOON, spot=Spot(room="office")),
        relation("person:alice", "owns", "object:laptop", NOON),
        relation("person:alice", "owns", "object:laptop", NOON + 1),
        entity("person", "alice", NOON + 5),
        entity("person", "alice", NOON + 2, spot=Spot(room="kitchen")),
    ]
    memory.store.do(lambda f: note(f, notes)).result()
    alice, owns = (memory.store.by_key(k) for k in ("entity:person:alice", "relation:person:alice|owns|object:laptop"))
    assert alice is not None and (alice.time_s, alice.spot.room) == (NOON + 5, "office")
    assert owns is not None and owns.time_s == NOON + 1
