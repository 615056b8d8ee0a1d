# SPDX-License-Identifier: Apache-2.0
"""Make lasting knowledge: the graph of people, places, objects, facilities and robots with their relations (InteractGen
III.B), a record for each node and edge; and the habits that the summaries show."""

import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from planners.language.questions import readable
from planners.memory.answers import times
from planners.memory.records import NOWHERE, SOURCE, Kind, Provenance, Record, Spot, Tier, Visibility, narrowest
from planners.memory.schema import insert, select


def entity(type_: str, name: str, time_s: float, **fields: Any) -> Record:
    """Return the record of a node `type:name`: person, place, object, facility or robot. `fields` are those of a record."""
    if not name.strip():
        raise ValueError("a node of the graph needs a name")
    data = {"type": type_, "name": name}
    text = f"{type_} {readable(name)}"
    return Record(Tier.M3, Kind.ENTITY, time_s, text, data, key=f"entity:{type_}:{name}", **fields)


def relation(subject: str, name: str, target: str, time_s: float, **fields: Any) -> Record:
    """Return the record of an edge between two nodes (`person:alice owns object:laptop`)."""
    said = " ".join(readable(part.partition(":")[2] or part) for part in (subject, name, target))
    data = {"subject": subject, "relation": name, "object": target}
    return Record(Tier.M3, Kind.RELATION, time_s, said, data, key=f"relation:{subject}|{name}|{target}", **fields)


def note(file: sqlite3.Connection, records: Iterable[Record]) -> None:
    """Store nodes and edges; one that is known already keeps its place where the newer one has none."""
    for record in records:
        known = select(file, "record WHERE key = ?", (f"{record.scope}\x1f{record.key}",)) if record.spot == NOWHERE else ()
        insert(file, [replace(record, spot=old.spot) for old in known] or [record])


def from_sentence(record: Record, labels: Mapping[str, str]) -> list[Record]:
    """Return what a sentence (M1) says about the graph: who or what was where, who spoke with whom."""
    robot, spot, room = record.provenance.robot, record.spot, record.spot.room
    if not robot or record.kind not in (Kind.VISIT.value, Kind.SIGHTING.value, Kind.HEARD.value):
        return []
    found: list[Record] = []
    of: dict[str, Any] = {"provenance": record.provenance, "visibility": record.visibility, "parents": (record.id,)}

    def node(type_: str, name: str, spot: Spot = NOWHERE) -> str:
        found.append(entity(type_, name, record.time_s, spot=spot, **of))
        return f"{type_}:{name}"

    def edge(subject: str, name: str, target: str, spot: Spot = NOWHERE) -> None:
        found.append(relation(subject, name, target, record.time_s, spot=spot, **of))

    me = node("robot", robot)
    if record.kind == Kind.VISIT.value:
        if place := str(record.data.get("place") or room).strip():
            here = node("place", place, spot)
            edge(me, "explored", here, spot)
            if room and room != place:
                edge(here, "in", node("place", room))
    elif record.kind == Kind.SIGHTING.value:
        if label := str(record.data.get("label", "")).strip():
            seen = node(labels.get(label, "object"), label, spot)
            edge(me, "saw", seen, spot)
            if room:
                edge(seen, "seen_in", node("place", room), spot)
    elif record.provenance.sender:
        edge(node("person", record.provenance.sender), "talked_to", me)
    return found


LEAST = 3
"""Number of times that something must have been so to be called usual."""
MAX_HABIT_PARENTS = 100


def habits_of(summaries: Iterable[Record]) -> list[Record]:
    """Return the regularities in all summaries that there are; computed whole, so that what was forgotten leaves no trace."""
    counts: defaultdict[tuple[str, str, str], Counter[Any]] = defaultdict(Counter)
    on: defaultdict[tuple[str, str, str], list[Record]] = defaultdict(list)

    def add(what: str, subject: str, value: object, record: Record, count: int = 1) -> None:
        counts[what, record.scope, subject][value] += count
        on[what, record.scope, subject].append(record)

    for record in summaries:
        if record.kind == Kind.DIGEST.value:
            for seen in record.data.get("seen", ()):
                if seen.get("room"):
                    add("place", seen["label"], seen["room"], record, int(seen["count"]))
        elif record.kind == Kind.EPISODE.value:
            if said := " ".join(str(record.data.get("instruction", "")).lower().split())[:200]:
                add("asked", said, record.provenance.sender, record)
                add("hour", said, time.localtime(record.start_s).tm_hour, record)
            for function, outcomes in record.data.get("calls", {}).items():
                for outcome, count in outcomes.items():
                    add("fails", f"{record.provenance.robot}:{function}", outcome, record, count)
    found = []
    for (what, scope, subject), counter in counts.items():
        total, (usual, count) = sum(counter.values()), counter.most_common(1)[0]
        data: dict[str, Any]
        if what == "place" and count >= LEAST and count * 2 > total:
            text = f"The {subject} is usually in the {readable(usual)} ({count} of {total} sightings)."
            data = {"habit": "usual_place", "label": subject, "rooms": dict(counter)}
            found.append(_habit(f"place:{subject}", text, data, on[what, scope, subject], Spot(room=usual)))
        elif what == "asked" and total >= LEAST:
            hours = counts["hour", scope, subject]
            hour, share = hours.most_common(1)[0]
            text = f"“{subject}” was asked {times(total)}"
            text += f", mostly around {hour} o'clock" if share * 2 > total else ""
            text += f", mostly by {usual}." if usual and count * 2 > total else "."
            data = {"habit": "often_asked", "instruction": subject, "count": total, "hours": dict(hours)}
            found.append(_habit(f"asked:{subject}", text, data, on[what, scope, subject]))
        elif what == "fails":
            robot, _, function = subject.partition(":")
            failed = counter["FAILED"] + counter["REFUSED"]
            if failed >= LEAST and failed * 2 > total:
                text = f"{robot} often fails at {readable(function)} ({failed} of {total} times)."
                data = {"habit": "often_fails", "function": function, "outcomes": dict(counter)}
                found.append(_habit(f"fails:{subject}", text, data, on[what, scope, subject]))
    return found


def _habit(key: str, text: str, data: Mapping[str, Any], on: Sequence[Record], spot: Spot = NOWHERE) -> Record:
    newest = max(on, key=lambda r: r.time_s)
    visibility = narrowest(on)
    robot, process = newest.provenance.robot, newest.provenance.process
    owner = Provenance(
        "" if visibility is Visibility.SHARED else robot, SOURCE, process if visibility is Visibility.PROCESS else ""
    )
    parents = tuple(dict.fromkeys(r.id for r in on))[-MAX_HABIT_PARENTS:]
    begun_s = min(r.start_s for r in on)
    return Record(
        Tier.M3, Kind.HABIT, newest.time_s, text, data, owner, spot, visibility, begun_s, key=f"habit:{key}", parents=parents
    )
