# SPDX-License-Identifier: Apache-2.0
"""People, places and things as a graph, a record for each node and edge."""

from __future__ import annotations

from memory_kit import NOON, known

from planners.memory import Memory
from planners.memory.graph import entity, note, relation


def test_what_was_seen_makes_nodes_and_edges(walked: Memory) -> None:
    graph = known(walked)
    assert graph["entity:person:alice"]["type"] == "person" and "entity:robot:kalos" in graph
    assert {"relation:robot:kalos|saw|object:ball", "relation:robot:kalos|saw|object:apple"} <= set(graph)
    assert graph["relation:object:ball|seen_in|place:kitchen"]["count"] == 1


def test_a_node_noted_again_keeps_what_it_had_and_edges_count(memory: Memory) -> None:
    alice = "person:alice"
    memory.store.do(
        lambda f: note(
            f,
            [
                entity("person", "alice", NOON, attributes={"availability": "busy", "office": "4b"}),
                relation(alice, "owns", "object:laptop", NOON),
                relation(alice, "owns", "object:laptop", NOON + 1),
                entity("person", "alice", NOON + 5, attributes={"availability": "free"}),
                entity("person", "alice", NOON + 2, attributes={"availability": "late news"}),
            ],
        )
    ).result()
    graph = known(memory)
    assert graph["entity:person:alice"]["attributes"] == {"availability": "free", "office": "4b"}
    assert graph["relation:person:alice|owns|object:laptop"]["count"] == 2
