# SPDX-License-Identifier: Apache-2.0
"""What a robot was taught, as records: interaction examples (incremental learning 3.4) and routines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from planners.memory.answers import readable
from planners.memory.records import NOWHERE, Kind, Provenance, Record, Spot, Tier, Visibility
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent
from skill_kernel.observation.model import Observation, Pose, SeenObject, Value

IN_SIGHT_S = 1.0
"""What was last detected longer ago is followed still, but no longer seen."""
LEAST_S = 0.2
"""Changes are kept no more often than that."""


class Sampler:
    """Keeps an observation every `period_s`, and at once when the robot comes to another room or sees other things."""

    def __init__(self, robot: str, period_s: float = 1.0) -> None:
        self._robot, self._period_s = robot, period_s
        self._last_s = -math.inf
        self._last: tuple[object, ...] = ()

    def take(self, observation: Observation, now: float) -> Record | None:
        """The record of an observation, or None when it says nothing new. `now` is on the observation's steady clock."""
        fields = {name: f.value for name, f in observation.fields.items() if f.value is not None and not f.stale(now)}
        things = [t for t in _objects(fields) if t.seen_s <= IN_SIGHT_S]
        pose, room = fields.get("pose"), fields.get("room")
        scene = (room, tuple(sorted({(t.label, t.track_id) for t in things})))
        waited = observation.time_s - self._last_s
        if 0 <= waited < (LEAST_S if scene != self._last else self._period_s):
            return None
        self._last_s, self._last = observation.time_s, scene
        data: dict[str, Any] = {n: v for n, v in fields.items() if n != "room" and isinstance(v, (bool, str)) or _finite(v)}
        data["objects"] = [_thing(t) for t in things]
        at = Spot(room=room) if isinstance(room, str) else Spot()
        if isinstance(pose, Pose) and pose.frame == "map":
            at = Spot(round(pose.x, 3), round(pose.y, 3), at.room)
            data["yaw"] = round(pose.yaw, 3)
        return Record(
            Tier.M0, Kind.OBSERVATION, observation.time_s, data=data, provenance=Provenance(self._robot, "observation"), spot=at
        )


def _objects(fields: Mapping[str, Value]) -> list[SeenObject]:
    found = fields.get("object_detections")
    return [t for t in found if isinstance(t, SeenObject)] if isinstance(found, tuple) else []


def _thing(thing: SeenObject) -> dict[str, Any]:
    told: dict[str, Any] = {"label": thing.label[:60], "track": thing.track_id, "confidence": round(thing.confidence, 2)}
    if math.isfinite(thing.x) and math.isfinite(thing.y):
        told |= {"x": round(thing.x, 2), "y": round(thing.y, 2)}
    return told


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


@dataclass(frozen=True)
class Correction:
    """What a person said was wrong, and the code that was right then."""

    feedback: str
    code: str


@dataclass(frozen=True)
class InteractionExample:
    """One interaction to learn from: the instruction, the code that should be written for it, how it came to that, and
    whether a person approved. `learned_from` is the process, "" for one that was given beforehand."""

    instruction: str
    code: str
    corrections: tuple[Correction, ...] = ()
    approved_by: str = ""
    learned_from: str = ""


@dataclass(frozen=True)
class TaughtRoutine:
    """A routine by its name: what it is for, and its body as a stream of function tokens."""

    name: str
    description: str
    body: str


def example_record(
    example: InteractionExample, time_s: float, provenance: Provenance, visibility: Visibility = Visibility.SHARED
) -> Record:
    """The record of an example; it is found by its instruction, and one with the same instruction replaces it."""
    said = " ".join(example.instruction.split())
    return Record(
        Tier.M3,
        Kind.EXAMPLE,
        time_s,
        said,
        asdict(example),
        provenance,
        visibility=visibility,
        key=f"example:{said.casefold()[:500]}",
    )


def example_of(record: Record) -> InteractionExample:
    """The example of a record of that kind. Raises ValueError for another."""
    _check(record, Kind.EXAMPLE)
    told = dict(record.data)
    corrections = tuple(Correction(**c) for c in told.pop("corrections", ()))
    return InteractionExample(**told, corrections=corrections)


def routine_record(
    routine: TaughtRoutine, time_s: float, provenance: Provenance, visibility: Visibility = Visibility.SHARED
) -> Record:
    """The record of a routine; one of the same name replaces it."""
    return Record(
        Tier.M3,
        Kind.ROUTINE,
        time_s,
        f"{routine.name}: {routine.description}",
        asdict(routine),
        provenance,
        visibility=visibility,
        key=f"routine:{routine.name.casefold()}",
    )


def routine_of(record: Record) -> TaughtRoutine:
    """The routine of a record of that kind. Raises ValueError for another."""
    _check(record, Kind.ROUTINE)
    return TaughtRoutine(**record.data)


def _check(record: Record, kind: Kind) -> None:
    if record.kind != kind.value:
        raise ValueError(f"record {record.id} is of kind {record.kind}, not {kind.value}")


SHOWN = 500
"""Characters of an instruction, a message or a spoken text that a sentence keeps."""
OWN = frozenset({"query_memory"})
"""Calls that ask the memory itself: their answers are no new knowledge."""
PLACE_ARGUMENT = "waypoint"
"""A call with this argument that is done has brought the robot to that place."""


@dataclass(frozen=True)
class Task:
    """A process as it stands. `ended_s` is 0 while it lives; `by_itself` when nobody asked for it."""

    process_id: str
    instruction: str
    sender: str
    door: str
    created_s: float
    ended_s: float = 0.0
    status: str = ""
    message: str = ""
    by_itself: bool = False


class Recorder:
    """Of one robot. What is told twice has the same key and is kept once."""

    def __init__(self, robot: str, *, period_s: float = 1.0) -> None:
        self._robot = robot
        self._sampler = Sampler(robot, period_s)
        self._spot = NOWHERE

    def observation(self, observation: Observation, now: float) -> list[Record]:
        """See `Sampler.take`."""
        record = self._sampler.take(observation, now)
        if record is None:
            return []
        self._spot = record.spot
        return [record]

    def task(self, task: Task) -> list[Record]:
        """Who asked for it, and, when it is over, how it ended."""
        who = Provenance(self._robot, "processes", task.process_id, task.sender, task.door)
        said, told = task.instruction[:SHOWN], {"instruction": task.instruction[:5000]}
        asker = task.sender or "somebody"
        text = f"{self._robot} began by itself: “{said}”" if task.by_itself else f"{asker} said through {task.door}: “{said}”"
        begun = Record(
            Tier.M1,
            Kind.EVENT if task.by_itself else Kind.HEARD,
            task.created_s,
            text,
            told,
            who,
            self._spot,
            key=f"heard:{self._robot}:{task.process_id}",
        )
        if not task.ended_s:
            return [begun]
        ended_s = max(task.ended_s, task.created_s)
        why = f" ({task.message[:SHOWN]})" if task.message else ""
        ended = Record(
            Tier.M1,
            Kind.OUTCOME,
            ended_s,
            f"{self._robot} ended “{said}”: {task.status.lower()}{why}",
            {**told, "status": task.status, "message": task.message[:SHOWN]},
            who,
            self._spot,
            begun_s=task.created_s if task.created_s < ended_s else None,
            key=f"outcome:{self._robot}:{task.process_id}",
        )
        return [begun, ended]

    def call(self, call: CallEvent) -> list[Record]:
        """Return what was done and how it ended; also the place it brought the robot to, where no observation names rooms."""
        if call.function in OWN:
            return []
        arguments, outcome, function = call.arguments, call.outcome_name or "?", readable(call.function or "?")
        who = Provenance(self._robot, "events", call.process_id)
        done = call.outcome is Outcome.DONE
        if call.function == "text":
            spoken = str(arguments.get("text", call.told))[:SHOWN]
            text = f"{self._robot} said: “{spoken}”"
        else:
            with_ = ", ".join(f"{k}={str(v)[:60]}" for k, v in arguments.items())
            how = f", {call.told[:SHOWN]}" if call.told else ""
            text = f"{self._robot} did {function}({with_}): {outcome.lower()}{how}"
        told = {"function": call.function or "?", "arguments": arguments, "outcome": outcome}
        found = [Record(Tier.M1, Kind.CALL, call.stamp_s, text, told, who, self._spot)]
        place = arguments.get(PLACE_ARGUMENT)
        if done and isinstance(place, str) and place and not self._spot.room:
            at = Spot(self._spot.x, self._spot.y, place)
            found.append(
                Record(
                    Tier.M1, Kind.VISIT, call.stamp_s, f"{self._robot} came to {readable(place)}.", {"place": place}, who, at
                )
            )
        return found

    def event(self, name: str, time_s: float, text: str, process_id: str = "") -> list[Record]:
        """Something a person should know of: a notice, a halt, an interrupt."""
        who = Provenance(self._robot, "events", process_id)
        said = f"{self._robot}: {readable(name)}{f', {text[:SHOWN]}' if text else ''}"
        return [Record(Tier.M1, Kind.EVENT, time_s, said, {"event": name}, who, self._spot)]
