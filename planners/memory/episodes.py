# SPDX-License-Identifier: Apache-2.0
"""M1 → M2: what one task, or one hour of a robot, comes to; in words by template, or by a model that is handed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from planners.memory.distil import SOURCE
from planners.memory.records import Kind, Provenance, Record, Tier, Visibility
from planners.memory.sentences import clock, listed, readable, times

MAX_PARENTS = 500
HOUR_S = 3600.0


class Summariser(Protocol):
    """Puts the sentences of an episode in fewer words."""

    def summarise(self, plain: str, sentences: Sequence[str]) -> str:
        """A better wording of `plain`, which was made by template; "" to leave it. Raises nothing."""


def task_episode(outcome: Record, during: Sequence[Record]) -> Record:
    """The summary of a task: `outcome` is the record of its end, `during` the sentences of its robot in that time."""
    robot, process = outcome.provenance.robot, outcome.provenance.process
    calls = [r for r in during if r.kind == Kind.CALL.value and r.provenance.process == process]
    done: dict[str, Counter[str]] = {}
    for call in calls:
        done.setdefault(str(call.data.get("function", "?")), Counter())[str(call.data.get("outcome", "?"))] += 1
    places, seen = _places(during), _seen(during)
    told = outcome.data
    said = f"“{told.get('instruction', '')}”"
    by = f" for {outcome.provenance.sender}" if outcome.provenance.sender else ""
    parts = [
        f"From {clock(outcome.start_s)} to {clock(outcome.time_s)[11:]} {robot} worked on {said}{by}: "
        f"{str(told.get('status', 'ended')).lower()}."
    ]
    if done:
        parts.append(f"It did {listed(f'{readable(f)} ({_outcomes(c)})' for f, c in done.items())}.")
    parts += _of_scene(places, seen)
    if told.get("message"):
        parts.append(f"At the end: {told['message']}")
    data = {**told, "calls": {f: dict(c) for f, c in done.items()}, "places": dict(places), "seen": _flat(seen)}
    return Record(
        Tier.M2,
        Kind.EPISODE,
        outcome.time_s,
        " ".join(parts)[:5000],
        data,
        Provenance(robot, SOURCE, process, outcome.provenance.sender, outcome.provenance.door),
        outcome.spot,
        _narrowest([outcome, *during]),
        outcome.begun_s,
        key=f"episode:{robot}:{process}",
        parents=_parents([outcome, *calls, *(r for r in during if r.kind in _SCENE)]),
    )


def hour_digest(robot: str, begun_s: float, during: Sequence[Record]) -> Record:
    """The summary of an hour: where the robot was and what it saw, whatever it was working on."""
    places, seen = _places(during), _seen(during)
    begun = min(r.start_s for r in during)
    ended = max(r.time_s for r in during)
    parts = [f"Between {clock(begun)} and {clock(ended)[11:]}:", *_of_scene(places, seen, robot)]
    scene = [r for r in during if r.kind in _SCENE]
    return Record(
        Tier.M2,
        Kind.DIGEST,
        ended,
        " ".join(parts)[:5000],
        {"places": dict(places), "seen": _flat(seen)},
        Provenance(robot, SOURCE),
        visibility=_narrowest(scene),
        begun_s=begun if begun < ended else None,
        key=f"digest:{robot}:{begun_s:.0f}",
        parents=_parents(scene),
    )


_SCENE = (Kind.VISIT.value, Kind.SIGHTING.value)


def _places(during: Sequence[Record]) -> Counter[str]:
    return Counter(str(r.data.get("place") or r.spot.room) for r in during if r.kind == Kind.VISIT.value)


def _seen(during: Sequence[Record]) -> Counter[tuple[str, str]]:
    return Counter((str(r.data.get("label", "")), r.spot.room) for r in during if r.kind == Kind.SIGHTING.value)


def _flat(seen: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"label": label, "room": room, "count": n} for (label, room), n in seen.most_common(100)]


def _of_scene(places: Counter[str], seen: Counter[tuple[str, str]], robot: str = "It") -> list[str]:
    parts = []
    if places:
        parts.append(f"{robot} was in {listed(f'{readable(p)} ({times(n)})' for p, n in places.most_common())}.")
    if seen:
        things = (f"{label}{f' in the {readable(r)}' if r else ''} ({times(n)})" for (label, r), n in seen.most_common())
        parts.append(f"{robot} saw {listed(things)}.")
    return parts


def _outcomes(counter: Counter[str]) -> str:
    return ", ".join(f"{n} {name.lower()}" for name, n in counter.most_common())


def _narrowest(records: Sequence[Record]) -> Visibility:
    """A summary is shown to nobody who may not see all that it was made of."""
    return min((r.visibility for r in records), default=Visibility.SHARED)


def _parents(records: Sequence[Record]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(r.id for r in records if r.id))[-MAX_PARENTS:]
