# SPDX-License-Identifier: Apache-2.0
"""What a robot's topics tell, as records: who asked for what, what was done and how it ended, what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from planners.memory.observing import Sampler
from planners.memory.records import NOWHERE, Kind, Provenance, Record, Spot, Tier
from planners.memory.sentences import readable
from skill_kernel.observation.model import Observation

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


@dataclass(frozen=True)
class EndedCall:
    """A call that has ended. `begun_s` is 0 when it never started."""

    process_id: str
    function: str
    arguments: Mapping[str, Any]
    outcome: str
    message: str
    time_s: float


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

    def call(self, call: EndedCall) -> list[Record]:
        """What was done and how it ended; also the place it brought the robot to, where no observation names rooms."""
        if call.function in OWN:
            return []
        who = Provenance(self._robot, "events", call.process_id)
        done = call.outcome == "DONE"
        if call.function == "text":
            spoken = str(call.arguments.get("text", call.message))[:SHOWN]
            text = f"{self._robot} said: “{spoken}”"
        else:
            with_ = ", ".join(f"{k}={str(v)[:60]}" for k, v in call.arguments.items())
            how = f", {call.message[:SHOWN]}" if call.message else ""
            text = f"{self._robot} did {readable(call.function)}({with_}): {call.outcome.lower()}{how}"
        told = {"function": call.function, "arguments": dict(call.arguments), "outcome": call.outcome}
        found = [Record(Tier.M1, Kind.CALL, call.time_s, text, told, who, self._spot)]
        place = call.arguments.get(PLACE_ARGUMENT)
        if done and isinstance(place, str) and place and not self._spot.room:
            at = Spot(self._spot.x, self._spot.y, place)
            found.append(
                Record(Tier.M1, Kind.VISIT, call.time_s, f"{self._robot} came to {readable(place)}.", {"place": place}, who, at)
            )
        return found

    def event(self, name: str, time_s: float, text: str, process_id: str = "") -> list[Record]:
        """Something a person should know of: a notice, a halt, an interrupt."""
        who = Provenance(self._robot, "events", process_id)
        said = f"{self._robot}: {readable(name)}{f', {text[:SHOWN]}' if text else ''}"
        return [Record(Tier.M1, Kind.EVENT, time_s, said, {"event": name}, who, self._spot)]
