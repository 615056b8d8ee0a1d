# SPDX-License-Identifier: Apache-2.0
"""What stood partly on something that was forgotten, made anew of what is left."""

from __future__ import annotations

from collections.abc import Sequence

from planners.memory import graph
from planners.memory.distil import Distiller
from planners.memory.episodes import HOUR_S, hour_digest, task_episode
from planners.memory.query import MAX_LIMIT, Query
from planners.memory.records import Kind, Record
from planners.memory.store import Store


def sentences_anew(store: Store, ids: Sequence[int], gap_s: float) -> list[Record]:
    """The sentences of these observations."""
    again = Distiller(lambda *_: None, gap_s)
    for record in store.get(ids):
        if not record.revoked_s:
            again.take(record)
    return again.drain(float("inf"))


def summaries_anew(store: Store, ids: Sequence[int]) -> list[Record]:
    """The summary of the task whose end is among these, or else of the hour; none when nothing is left."""
    kept = [r for r in store.get(ids) if not r.revoked_s]
    if ended := [r for r in kept if r.kind == Kind.OUTCOME.value]:
        return [task_episode(ended[0], [r for r in kept if r is not ended[0]])]
    scene = [r for r in kept if r.kind != Kind.CALL.value]
    if not scene:
        return []
    begun = min(r.time_s for r in scene) // HOUR_S * HOUR_S
    return [hour_digest(scene[0].provenance.robot, begun, scene)]


def nodes_anew(store: Store, keys: Sequence[str], people: frozenset[str], facilities: frozenset[str]) -> list[Record]:
    """The nodes and edges of these keys, from every sentence that tells of them."""
    kinds = (Kind.VISIT.value, Kind.SIGHTING.value, Kind.HEARD.value)
    found: list[Record] = []
    for record in reversed(store.find(Query(kinds=kinds, limit=MAX_LIMIT), deadline_s=30.0)):
        told = graph.from_sentence(record, people, facilities)
        found += [n for n in told if f"{n.scope}\x1f{n.key}" in keys]
    return found
