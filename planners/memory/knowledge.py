# SPDX-License-Identifier: Apache-2.0
"""M2 → M3: what holds again and again: where things usually are, what is often asked, what often fails."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from planners.memory.distil import SOURCE
from planners.memory.records import NOWHERE, Kind, Provenance, Record, Spot, Tier, Visibility
from planners.memory.sentences import readable, times

LEAST = 3
"""So often something must have been so to be called usual."""
MAX_PARENTS = 100


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
        parents=tuple(dict.fromkeys(r.id for r in on if r.id))[-MAX_PARENTS:],
    )
