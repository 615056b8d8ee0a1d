# SPDX-License-Identifier: Apache-2.0
"""Make records of what a robot sees, hears and does: observations, tasks, calls and events."""

import math
from typing import Any

from planners.language.questions import readable
from planners.memory import graph
from planners.memory.records import NOWHERE, Kind, Provenance, Record, Spot, Tier
from planners.scene import IN_SIGHT_S
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent
from skill_kernel.observation.model import Observation, Pose, SeenObject
from skill_kernel.processes.process import Process, ProcessSource

SHOWN = 500
"""Characters of an instruction, a message or a spoken text that a sentence keeps."""
OWN = frozenset({"query_memory"})
"""Calls that ask the memory itself: their answers are no new knowledge."""
FACTS = "facts"
"""Provenance of what an agent of a team has told of the world."""
NODES = frozenset({"person", "place", "object", "facility", "robot"})
PLACING = frozenset({"in", "at", "on", "near", "is in", "is at", "在"})
PLACE_ARGUMENT = "waypoint"
"""A call with this argument that is done has brought the robot to that place."""


class Recorder:
    """Make the records of one robot. What is told twice has the same key and is kept once."""

    def __init__(self, robot: str, *, period_s: float = 1.0) -> None:
        self._robot, self._period_s = robot, period_s
        self._spot = NOWHERE
        self._last_s = -math.inf
        self._scene: tuple[object, ...] = ()

    def observation(self, observation: Observation, now: float) -> list[Record]:
        """Keep an observation every `period_s`, and at once when the robot comes to another room or sees other things. `now`
        is on the observation's steady clock."""
        fields = {name: f.value for name, f in observation.fields.items() if f.value is not None and not f.stale(now)}
        detections, pose, room = fields.get("object_detections"), fields.get("pose"), fields.get("room")
        things = [t for t in detections if isinstance(t, SeenObject)] if isinstance(detections, tuple) else []
        things = [t for t in things if t.seen_s <= IN_SIGHT_S]
        scene = (room, tuple(sorted({(t.label, t.track_id) for t in things})))
        if scene == self._scene and 0 <= observation.time_s - self._last_s < self._period_s:
            return []
        self._last_s, self._scene = observation.time_s, scene
        data: dict[str, Any] = {
            name: value
            for name, value in fields.items()
            if name != "room" and isinstance(value, (str, int, float)) and (isinstance(value, str) or math.isfinite(value))
        }
        data["objects"] = [_thing(t) for t in things]
        self._spot = Spot(room=room) if isinstance(room, str) else NOWHERE
        if isinstance(pose, Pose) and pose.frame == "map":
            self._spot = Spot(round(pose.x, 3), round(pose.y, 3), self._spot.room)
            data["yaw"] = round(pose.yaw, 3)
        who = Provenance(self._robot, "observation")
        return [Record(Tier.M0, Kind.OBSERVATION, observation.time_s, "", data, who, self._spot)]

    def task(self, task: Process) -> list[Record]:
        """Return who asked for it and, when it is over, how it ended."""
        who = Provenance(self._robot, "processes", task.process_id, task.sender, task.door)
        said, told = task.instruction[:SHOWN], {"instruction": task.instruction[:5000]}
        kind, text = Kind.HEARD, f"{task.sender or 'somebody'} said through {task.door}: “{said}”"
        if task.source is ProcessSource.IDLE:
            kind, text = Kind.EVENT, f"{self._robot} began by itself: “{said}”"
        of = f"{self._robot}:{task.process_id}"
        found = [Record(Tier.M1, kind, task.created_s, text, told, who, self._spot, key=f"heard:{of}")]
        if task.ended_s:
            why, status = task.message[:SHOWN], task.status.name
            text = f"{self._robot} ended “{said}”: {status.lower()}{f' ({why})' if why else ''}"
            told = {**told, "status": status, "message": why}
            ended_s, key = max(task.ended_s, task.created_s), f"outcome:{of}"
            found.append(Record(Tier.M1, Kind.OUTCOME, ended_s, text, told, who, self._spot, begun_s=task.created_s, key=key))
        return found

    def call(self, call: CallEvent) -> list[Record]:
        """Return what was done and how it ended; also the place it brought the robot to, where no observation names rooms."""
        if call.function in OWN:
            return []
        arguments, outcome = call.arguments, call.outcome_name or "?"
        who = Provenance(self._robot, "events", call.process_id)
        if call.function == "text":
            text = f"{self._robot} said: “{str(arguments.get('text', call.told))[:SHOWN]}”"
        else:
            with_ = ", ".join(f"{k}={str(v)[:60]}" for k, v in arguments.items())
            how = f", {call.told[:SHOWN]}" if call.told else ""
            text = f"{self._robot} did {readable(call.function or '?')}({with_}): {outcome.lower()}{how}"
        told = {"function": call.function or "?", "arguments": arguments, "outcome": outcome}
        found = [Record(Tier.M1, Kind.CALL, call.stamp_s, text, told, who, self._spot)]
        place = arguments.get(PLACE_ARGUMENT)
        if call.outcome is Outcome.DONE and isinstance(place, str) and place and not self._spot.room:
            text, at = f"{self._robot} came to {readable(place)}.", Spot(self._spot.x, self._spot.y, place)
            found.append(Record(Tier.M1, Kind.VISIT, call.stamp_s, text, {"place": place}, who, at))
        return found

    def event(self, name: str, time_s: float, text: str, process_id: str = "") -> list[Record]:
        """Return something that a person should know of: a notice, a halt, an interrupt; or an edge of the graph, a fact."""
        who = Provenance(self._robot, FACTS if name == "fact" else "events", process_id)
        if name == "fact":
            return _fact(text, time_s, who)
        said = f"{self._robot}: {readable(name)}{f', {text[:SHOWN]}' if text else ''}"
        return [Record(Tier.M1, Kind.EVENT, time_s, said, {"event": name}, who, self._spot)]


def _fact(text: str, time_s: float, who: Provenance) -> list[Record]:
    """Return the nodes and the edge of a fact, `person:Li|in|place:lab`; none for what is no fact. A name without a type is an
    object, or a place where something is in or at it."""
    subject, name, target = (part.strip()[:SHOWN] for part in (*text.split("|"), "", "", "")[:3])
    if not (subject and name and target):
        return []
    usual = {subject: "object", target: "place" if name.casefold() in PLACING else "object"}
    nodes = [one.split(":", 1) if one.partition(":")[0] in NODES else [usual[one], one] for one in (subject, target)]
    edge = graph.relation(*(":".join(nodes[0]), name, ":".join(nodes[1])), time_s, provenance=who)
    return [*(graph.entity(of, called, time_s, provenance=who) for of, called in nodes if called.strip()), edge]


def _thing(thing: SeenObject) -> dict[str, Any]:
    told: dict[str, Any] = {"label": thing.label[:60], "track": thing.track_id, "confidence": round(thing.confidence, 2)}
    if math.isfinite(thing.x) and math.isfinite(thing.y):
        told |= {"x": round(thing.x, 2), "y": round(thing.y, 2)}
    return told
