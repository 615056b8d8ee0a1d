# SPDX-License-Identifier: Apache-2.0
"""People, places and things as a graph."""

from __future__ import annotations

import networkx as nx
from memory_kit import NOON

from planners.memory import Memory
from planners.memory.graph import entity, note, relation


def test_what_was_seen_makes_a_graph_that_networkx_can_walk(walked: Memory) -> None:
    graph = walked.graph()
    assert graph.nodes["person:alice"]["type"] == "person" and "robot:kalos" in graph
    way = nx.shortest_path(graph.to_undirected(), "object:ball", "object:apple")
    assert way == ["object:ball", "robot:kalos", "object:apple"]
    assert graph["object:ball"]["place:kitchen"]["seen_in"]["count"] == 1


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
    graph = memory.graph()
    assert graph.nodes[alice]["availability"] == "free" and graph.nodes[alice]["office"] == "4b"
    assert graph[alice]["object:laptop"]["owns"]["count"] == 2
