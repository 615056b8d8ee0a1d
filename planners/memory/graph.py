# SPDX-License-Identifier: Apache-2.0
"""The graph of people, places, objects, facilities and robots with their relations (InteractGen III.B), kept as records of
the store and given as a networkx graph."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

import networkx as nx

from planners.memory.answers import readable, times
from planners.memory.episodes import SOURCE
from planners.memory.query import MAX_LIMIT, Query
from planners.memory.records import NOBODY, NOWHERE, Kind, Provenance, Record, Spot, Tier, Viewer, Visibility
from planners.memory.schema import COLUMNS, insert, record_of
from planners.memory.store import Store

Graph: TypeAlias = "nx.MultiDiGraph[str]"


class EntityType(str, Enum):
    """What a node of the graph is."""

    PERSON = "person"
    PLACE = "place"
    OBJECT = "object"
    FACILITY = "facility"
    ROBOT = "robot"


def node_name(entity: EntityType, name: str) -> str:
    """The name of a node: `object:ball`."""
    return f"{entity.value}:{name}"


def entity(
    type_: EntityType,
    name: str,
    time_s: float,
    *,
    attributes: Mapping[str, Any] | None = None,
    provenance: Provenance = NOBODY,
    spot: Spot = NOWHERE,
    visibility: Visibility = Visibility.SHARED,
    parents: tuple[int, ...] = (),
) -> Record:
    """The record of a node. Attributes are, for a person, such as `availability`; what is left out stays as it is."""
    if not name.strip():
        raise ValueError("a node of the graph needs a name")
    return Record(
        Tier.M3,
        Kind.ENTITY,
        time_s,
        f"{type_.value} {readable(name)}",
        {"type": type_.value, "name": name, "attributes": dict(attributes or {})},
        provenance,
        spot,
        visibility,
        key=f"entity:{node_name(type_, name)}",
        parents=parents,
    )


def relation(
    subject: str,
    name: str,
    target: str,
    time_s: float,
    *,
    attributes: Mapping[str, Any] | None = None,
    provenance: Provenance = NOBODY,
    spot: Spot = NOWHERE,
    visibility: Visibility = Visibility.SHARED,
    parents: tuple[int, ...] = (),
) -> Record:
    """The record of an edge between two nodes, such as `person:alice owns object:laptop`. Noted again, its count rises."""
    said = " ".join(readable(part.partition(":")[2] or part) for part in (subject, name, target))
    return Record(
        Tier.M3,
        Kind.RELATION,
        time_s,
        said,
        {
            "subject": subject,
            "relation": name,
            "object": target,
            "count": 1,
            "since_s": time_s,
            "attributes": dict(attributes or {}),
        },
        provenance,
        spot,
        visibility,
        key=f"relation:{subject}|{name}|{target}",
        parents=parents,
    )


def note(file: sqlite3.Connection, records: Iterable[Record]) -> None:
    """Merge nodes and edges into those there are: attributes are added, counts rise, the newest place stands."""
    for record in records:
        row = file.execute(f"SELECT {COLUMNS} FROM record WHERE key = ?", (f"{record.scope}\x1f{record.key}",)).fetchone()
        if row is not None:
            record = _merged(record_of(row), record)
        insert(file, [record])


def _merged(old: Record, new: Record) -> Record:
    newer, older = (new, old) if new.time_s >= old.time_s else (old, new)
    data = {**older.data, **newer.data}
    data["attributes"] = {**older.data.get("attributes", {}), **newer.data.get("attributes", {})}
    if new.kind == Kind.RELATION.value:
        data["count"] = int(old.data.get("count", 0)) + int(new.data.get("count", 1))
        data["since_s"] = min(float(old.data.get("since_s", old.time_s)), float(new.data.get("since_s", new.time_s)))
    spot = newer.spot if newer.spot != NOWHERE else older.spot
    return replace(newer, data=data, spot=spot, key=new.key, id=0, parents=new.parents)


def load(store: Store, viewer: Viewer | None = None) -> Graph:
    """The graph as it stands: nodes and edges carry their attributes, place, `time_s` and the `record` they come from. A
    record that is no node or edge, imported perhaps, is left out."""
    graph: Graph = nx.MultiDiGraph()
    for record in store.find(Query(kinds=(Kind.ENTITY.value,), viewer=viewer, limit=MAX_LIMIT)):
        told = record.data
        if not all(isinstance(told.get(k), str) for k in ("type", "name")):
            continue
        graph.add_node(
            f"{told['type']}:{told['name']}",
            **_attributes(told)
            | {"type": told["type"], "name": told["name"], "time_s": record.time_s, "spot": record.spot, "record": record.id},
        )
    for record in store.find(Query(kinds=(Kind.RELATION.value,), viewer=viewer, limit=MAX_LIMIT)):
        told = record.data
        if not all(isinstance(told.get(k), str) for k in ("subject", "relation", "object")):
            continue
        for end in (told["subject"], told["object"]):
            if end not in graph:
                graph.add_node(end, type=end.partition(":")[0], name=end.partition(":")[2])
        graph.add_edge(
            told["subject"],
            told["object"],
            key=told["relation"],
            **_attributes(told)
            | {
                "relation": told["relation"],
                "count": told.get("count", 1),
                "time_s": record.time_s,
                "spot": record.spot,
                "record": record.id,
            },
        )
    return graph


def _attributes(told: Mapping[str, Any]) -> dict[str, Any]:
    found = told.get("attributes")
    return {k: v for k, v in found.items() if k != "key"} if isinstance(found, dict) else {}


def describe(graph: Graph, around: Iterable[str] = (), steps: int = 1) -> list[str]:
    """The edges in words, the newest first: all, or those within some steps of these nodes. For a prompt they are data:
    see `planners.prompts.quoting`."""
    chosen = set(graph)
    if near := [n for n in around if n in graph]:
        both_ways = graph.to_undirected(as_view=True)
        chosen = set().union(*(nx.single_source_shortest_path_length(both_ways, n, cutoff=steps) for n in near))
    edges = [(d["time_s"], a, b, d) for a, b, d in graph.edges(data=True) if a in chosen and b in chosen]
    return [
        f"{readable(a.replace(':', ' '))} {readable(d['relation'])} {readable(b.replace(':', ' '))} ({d['count']})"
        for _, a, b, d in sorted(edges, key=lambda e: (-e[0], e[1], e[2]))
    ]


def from_sentence(record: Record, people: frozenset[str], facilities: frozenset[str], *, fresh: bool = True) -> list[Record]:
    """What a sentence (M1) says about the graph: who or what was where, and who spoke with whom. Not `fresh`: it was told
    before and has only grown, so counts stay."""
    found = _from_sentence(record, people, facilities)
    return found if fresh else [replace(r, data={**r.data, "count": 0}) if "count" in r.data else r for r in found]


def _from_sentence(record: Record, people: frozenset[str], facilities: frozenset[str]) -> list[Record]:
    robot = record.provenance.robot
    shared: dict[str, Any] = {
        "provenance": record.provenance,
        "visibility": record.visibility,
        "parents": (record.id,) if record.id else (),
    }
    me = node_name(EntityType.ROBOT, robot)
    found = [entity(EntityType.ROBOT, robot, record.time_s, **shared)] if robot else []
    if record.kind == Kind.VISIT.value and robot:
        place = str(record.data.get("place") or record.spot.room).strip()
        if not place:
            return found
        found.append(entity(EntityType.PLACE, place, record.time_s, spot=record.spot, **shared))
        found.append(relation(me, "explored", node_name(EntityType.PLACE, place), record.time_s, spot=record.spot, **shared))
        if record.spot.room and record.spot.room != place:
            found.append(entity(EntityType.PLACE, record.spot.room, record.time_s, **shared))
            inside = node_name(EntityType.PLACE, place), "in", node_name(EntityType.PLACE, record.spot.room)
            found.append(relation(*inside, record.time_s, **shared))
    elif record.kind == Kind.SIGHTING.value and robot:
        label = str(record.data.get("label", "")).strip()
        if not label:
            return found
        type_ = EntityType.PERSON if label in people else EntityType.FACILITY if label in facilities else EntityType.OBJECT
        seen = node_name(type_, label)
        found.append(entity(type_, label, record.time_s, spot=record.spot, **shared))
        found.append(relation(me, "saw", seen, record.time_s, spot=record.spot, **shared))
        if record.spot.room:
            found.append(entity(EntityType.PLACE, record.spot.room, record.time_s, **shared))
            place = node_name(EntityType.PLACE, record.spot.room)
            found.append(relation(seen, "seen_in", place, record.time_s, spot=record.spot, **shared))
    elif record.kind == Kind.HEARD.value and robot and record.provenance.sender:
        found.append(entity(EntityType.PERSON, record.provenance.sender, record.time_s, **shared))
        found.append(relation(node_name(EntityType.PERSON, record.provenance.sender), "talked_to", me, record.time_s, **shared))
    return found


def write_sentences(
    file: sqlite3.Connection,
    sentences: Sequence[Record],
    people: frozenset[str],
    facilities: frozenset[str],
    told: Sequence[Record] = (),
) -> None:
    """Store sentences, and note what they say about the graph, and what others say that were stored (`told`)."""
    known = {
        r.key for r in sentences if file.execute("SELECT 1 FROM record WHERE key = ?", (f"{r.scope}\x1f{r.key}",)).fetchone()
    }
    ids = insert(file, sentences)
    stored = [(r.with_id(i), r.key not in known) for r, i in zip(sentences, ids, strict=True) if i]
    for record, fresh in (*stored, *((r, True) for r in told)):
        note(file, from_sentence(record, people, facilities, fresh=fresh))


LEAST = 3
"""So often something must have been so to be called usual."""
MAX_HABIT_PARENTS = 100


def habits_of(summaries: Iterable[Record]) -> list[Record]:
    """The regularities in all summaries that there are; computed whole, so that what was forgotten leaves no trace."""
    places: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    asked: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    hours: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    tried: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    stands_on: defaultdict[tuple[str, ...], list[Record]] = defaultdict(list)
    for record in summaries:
        scope = record.scope
        if record.kind == Kind.DIGEST.value:
            for seen in record.data.get("seen", ()):
                if seen.get("room"):
                    places[scope, seen["label"]][seen["room"]] += int(seen["count"])
                    stands_on["place", scope, seen["label"]].append(record)
        elif record.kind == Kind.EPISODE.value:
            said = " ".join(str(record.data.get("instruction", "")).lower().split())[:200]
            if said:
                asked[scope, said][record.provenance.sender] += 1
                hours[scope, said][time.localtime(record.start_s).tm_hour] += 1
                stands_on["asked", scope, said].append(record)
            for function, outcomes in record.data.get("calls", {}).items():
                who = record.provenance.robot
                tried[scope, f"{who}\x1f{function}"].update(outcomes)
                stands_on["skill", scope, f"{who}\x1f{function}"].append(record)
    found = []
    for (scope, label), rooms in places.items():
        room, count = rooms.most_common(1)[0]
        total = sum(rooms.values())
        if count >= LEAST and count * 2 > total:
            text = f"The {label} is usually in the {readable(room)} ({count} of {total} sightings)."
            data: dict[str, Any] = {"habit": "usual_place", "label": label, "rooms": dict(rooms)}
            found.append(_habit(f"place:{label}", text, data, stands_on["place", scope, label], Spot(room=room)))
    for (scope, said), senders in asked.items():
        if (total := sum(senders.values())) >= LEAST:
            hour, share = hours[scope, said].most_common(1)[0]
            who, by = senders.most_common(1)[0]
            text = f"“{said}” was asked {times(total)}"
            text += f", mostly around {hour} o'clock" if share * 2 > total else ""
            text += f", mostly by {who}." if who and by * 2 > total else "."
            data = {"habit": "often_asked", "instruction": said, "count": total, "hours": dict(hours[scope, said])}
            found.append(_habit(f"asked:{said}", text, data, stands_on["asked", scope, said]))
    for (scope, name), outcomes in tried.items():
        robot, _, function = name.partition("\x1f")
        failed, total = outcomes["FAILED"] + outcomes["REFUSED"], sum(outcomes.values())
        if failed >= LEAST and failed * 2 > total:
            text = f"{robot} often fails at {readable(function)} ({failed} of {total} times)."
            data = {"habit": "often_fails", "function": function, "outcomes": dict(outcomes)}
            found.append(_habit(f"fails:{robot}:{function}", text, data, stands_on["skill", scope, name]))
    return found


def _habit(key: str, text: str, data: Mapping[str, Any], on: Sequence[Record], spot: Spot = NOWHERE) -> Record:
    newest = max(on, key=lambda r: r.time_s)
    visibility = min(r.visibility for r in on)
    robot, process = newest.provenance.robot, newest.provenance.process
    owner = Provenance(
        "" if visibility is Visibility.SHARED else robot, SOURCE, process if visibility is Visibility.PROCESS else ""
    )
    return Record(
        Tier.M3,
        Kind.HABIT,
        newest.time_s,
        text,
        data,
        owner,
        spot,
        visibility,
        min(r.start_s for r in on),
        key=f"habit:{key}",
        parents=tuple(dict.fromkeys(r.id for r in on if r.id))[-MAX_HABIT_PARENTS:],
    )
