# SPDX-License-Identifier: Apache-2.0
"""Fold what robots tell into one JSON-able state, and find the least list of changes between two of them.

Pure and without ROS. States share the parts that have not changed, and nobody changes a state that was made. Times are seconds
on the clock of the node.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any, TypeAlias

from function_tokens.run_model import REFLEX_ID, ProcessRun, RunModel, call_label, runs
from skill_kernel.config.sections import shown
from skill_kernel.events import CallEvent, CallKind, Notice, RunEvent
from skill_kernel.processes.process import LayerUsage, ProcessSource, ProcessStatus

State: TypeAlias = dict[str, Any]
Path: TypeAlias = list[str | int]

MAX_CHAT = 200
"""Lines of talk that a robot's state holds; the oldest are forgotten."""
MAX_TEXT = 4000
"""Characters of a text that is shown: of a stream the last ones, of any other the first."""
MAX_TRAIL = 400
"""Points of a robot's way that are kept; the oldest are forgotten."""
MAX_OBJECTS = 200
"""Things on the map of a robot; those that were seen longest ago are forgotten."""
MAX_STREAMS = 32
"""Processes whose answers are kept; the oldest are forgotten."""
TRAIL_M = 0.1
"""Distance between two points of the way [m]."""
SHOWN_CHARS = 500
"""Characters of a line, a label or an error."""
STALE_S, LOST_S = 3.0, 10.0
"""Ages of the last sign of a robot from which on its state is stale, and it is lost."""
TALKING = "text"
"""Function by which a robot speaks."""
OWN_LOOP = {"s3": "s3", "s2": "s2"}
"""Loops of the layers that are not System 1's."""
ENDS = {"FAILED": "failed", "STOPPED": "stopped"}
_USAGE = [f.name for f in fields(LayerUsage)]


def patch(before: Any, after: Any) -> tuple[list[tuple[Path, Any]], list[Path]]:
    """Return what to set and what to delete, so that `before` becomes `after`; what is deleted goes first.

    A path holds keys of objects and indices of lists; the index behind the last element appends. A list is replaced as a whole
    where it has become shorter, or where most of it differs.
    """
    sets: list[tuple[Path, Any]] = []
    deletes: list[Path] = []
    _compare([], before, after, sets, deletes)
    return sets, deletes


def _compare(path: Path, before: Any, after: Any, sets: list[tuple[Path, Any]], deletes: list[Path]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        deletes.extend([*path, key] for key in before if key not in after)
        for key, value in after.items():
            if key in before:
                _compare([*path, key], before[key], value, sets, deletes)
            else:
                sets.append(([*path, key], value))
    elif isinstance(before, list) and isinstance(after, list):
        _compare_lists(path, before, after, sets, deletes)
    elif type(before) is not type(after) or before != after:
        sets.append((path, after))


def _compare_lists(path: Path, before: list[Any], after: list[Any], sets: list[Any], deletes: list[Path]) -> None:
    differ = [n for n, (old, new) in enumerate(zip(before, after, strict=False)) if not _same(old, new)]
    if len(after) < len(before) or 2 * len(differ) > len(before):
        sets.append((path, after))
        return
    for n in differ:
        _compare([*path, n], before[n], after[n], sets, deletes)
    sets.extend(([*path, n], after[n]) for n in range(len(before), len(after)))


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are the same in JSON: true is not 1."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object in a text; an empty one where it holds none."""
    with suppress(ValueError, RecursionError):
        read = json.loads(text)
        return read if isinstance(read, dict) else {}
    return {}


class RobotPage:
    """Hold what one robot, team or recording has told; `render` gives its part of the state.

    Events may come twice, late, out of turn, or for the first time in the middle of a run.
    """

    def __init__(self, *, team: bool = False, recorded: bool = False) -> None:
        self.model = RunModel()
        self.team, self.recorded = team, recorded
        self.heard_s = -math.inf
        """When it gave its last sign."""
        self._chat: deque[dict[str, Any]] = deque(maxlen=MAX_CHAT)
        self._streams: dict[str, str] = {}
        self._open: dict[str, str] = {}
        """Streams that are being written, by process."""
        self._trail: deque[list[float]] = deque(maxlen=MAX_TRAIL)
        self._objects: dict[str, dict[str, Any]] = {}
        self._rules: dict[str, list[dict[str, Any]]] = {}
        self._budgets: dict[str, str] = {}
        self._told: set[str] = set()
        """Processes whose instruction is part of the talk."""
        self._new_calls: set[str] = set()
        self._new_processes: set[str] = set()
        self._due: set[str] = {"map", "loops"}
        self._made: State = {
            "link": "live",
            "age_s": 0,
            "team": team,
            "halted": {"on": None, "cause": "", "number": 0},
            "processes": {},
            "calls": {},
            "chat": [],
            "streams": {},
            "questions": {},
            "rules": [],
            "observation": {},
            "map": {"pose": None, "rooms": [], "objects": [], "trail": []},
            "drivers": {},
            "diagnostics": {},
            "cameras": [],
            "loops": {},
        }

    @property
    def halted(self) -> State:
        """Return what is known of a halt: on, cause and number."""
        known: State = self._made["halted"]
        return known

    @property
    def cameras(self) -> list[str]:
        """Return the topics of its cameras, below its namespace."""
        known: list[str] = self._made["cameras"]
        return known

    # -- what it tells ------------------------------------------------------------------------------------------------

    def event(self, event: RunEvent) -> None:
        """Take an event, at its stamp. Also a late one, which is no news, may tell when a call began."""
        news = self.model.take(event)
        self.heard_s = max(self.heard_s, event.stamp_s)
        self._new_processes.add(event.process_id)
        if isinstance(event, CallEvent):
            self._new_calls.add(event.call_id)
            if news and event.kind is CallKind.STARTED and event.function == TALKING:
                self._say(event.stamp_s, "robot", str(event.arguments.get("text", "")), event.process_id)
        elif news and isinstance(event, Notice):
            self._say(event.stamp_s, "notice", event.told or event.kind.name.lower().replace("_", " "), event.process_id)

    def process(self, told: Any, begun_s: float, at_s: float) -> None:
        """Take a latched ProcessState, of a process that began at `begun_s` and is in this state since `at_s` at the latest."""
        process_id, status, source = told.process_id, ProcessStatus(told.status).name, ProcessSource(told.source).name
        if process_id not in self.model.processes:
            self.model.process(process_id, begun_s).enter("WAITING", begun_s)
        about = {"instruction": told.instruction, "source": source, "why": ", ".join(told.pause_causes)}
        news = self.model.see_process(process_id, at_s, status=status, **about)
        process = self.model.processes[process_id]
        if sum(u.calls for u in told.usage) >= sum(u.calls for u in process.usage):
            process.usage = tuple(LayerUsage(**{name: getattr(u, name) for name in _USAGE}) for u in told.usage)
        self._new_processes.add(process_id)
        if process_id not in self._told:
            self._told.add(process_id)
            self._say(begun_s, "person" if source == "USER" else "notice", told.instruction, process_id)
        if news and status in ENDS:
            self._say(at_s, "notice", f"{ENDS[status]}: {told.message}" if told.message else ENDS[status], process_id)
        if process.ended:
            self._open.pop(process_id, None)

    def plan(self, plan: Any, at_s: float) -> None:
        """Take a revision of a Plan."""
        self.model.see_plan(plan.process_id, at_s, [(one.description, one.status) for one in plan.subtasks])
        self._new_processes.add(plan.process_id)

    def steps(self, steps: Any, at_s: float) -> None:
        """Take the StepQueue of a process."""
        process = self.model.process(steps.process_id, at_s)
        process.running_step, process.queued_steps = steps.running, len(steps.queued) + steps.more
        process.steps_done = steps.done
        self._new_processes.add(steps.process_id)

    def chunk(self, process_id: str, stream_id: str, text: str) -> None:
        """Take a piece of a model's answer. A new stream of a process begins its text anew."""
        begun = self._streams.pop(process_id, "") if self._open.get(process_id) == stream_id else ""
        self._open[process_id] = stream_id
        self._streams[process_id] = (begun + text)[-MAX_TEXT:]
        while len(self._streams) > MAX_STREAMS:
            del self._streams[next(iter(self._streams))]
        self._due.add("streams")

    def halt(self, *, on: bool | None = None, cause: str | None = None, number: int | None = None) -> None:
        """Take what is told of a halt; what is None stays as it was."""
        given = {"on": on, "cause": cause, "number": number}
        self._put("halted", {**self._made["halted"], **{k: v for k, v in given.items() if v is not None}})

    def rules(self, kind: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """Take the rules of a kind, each with name, text, state, detail and actions."""
        self._rules[kind] = [{"kind": kind, **rule} for rule in rules]
        self._put("rules", [rule for one in self._rules.values() for rule in one])

    def pose(self, pose: Sequence[float] | None) -> None:
        """Take where it is: x, y [m] and yaw [rad]; None where it does not know."""
        if pose is None or not all(map(math.isfinite, pose)):
            self._map("pose", None)
            return
        x, y, yaw = pose
        if not self._trail or math.dist(self._trail[-1], (x, y)) >= TRAIL_M:
            self._trail.append([round(x, 2), round(y, 2)])
            self._map("trail", list(self._trail))
        self._map("pose", [round(x, 2), round(y, 2), round(yaw, 2)])

    def seen(self, objects: Iterable[tuple[str, str, float, float, float]]) -> None:
        """Take things that it sees: what tells one from another, name, x, y [m] and when it was seen."""
        for key, name, x, y, seen_s in objects:
            if math.isfinite(x) and math.isfinite(y):
                self._objects.pop(key, None)
                about = {"name": shown(name), "x": round(x, 2), "y": round(y, 2), "seen_s": round(seen_s)}
                self._objects[key] = about
        while len(self._objects) > MAX_OBJECTS:
            del self._objects[next(iter(self._objects))]
        self._map("objects", list(self._objects.values()))

    def rooms(self, rooms: Sequence[Mapping[str, Any]]) -> None:
        """Take the rooms, each with its name and its polygon or box [m]."""
        self._map("rooms", [dict(room) for room in rooms])

    def budget(self, loop: str, told: str) -> None:
        """Take what is left of a loop's budget, in words."""
        self._budgets[loop] = told
        self._due.add("loops")

    def facts(self, name: str, value: Any) -> None:
        """Take the open questions, the observation, the drivers, the diagnostics or the cameras as they are now."""
        self._put(name, value)

    def sign(self, at_s: float) -> None:
        """Take note that it lives."""
        self.heard_s = max(self.heard_s, at_s)

    def _say(self, at_s: float, who: str, text: str, process_id: str) -> None:
        if text:
            said = {"at": round(at_s, 2), "from": who, "text": _cut(text), "process": process_id}
            behind = sum(1 for line in self._chat if line["at"] > said["at"])
            if said not in self._chat:
                if len(self._chat) == MAX_CHAT:
                    self._chat.popleft()
                self._chat.insert(max(0, len(self._chat) - behind), said)
                self._due.add("chat")

    def _put(self, name: str, value: Any) -> None:
        if not _same(self._made[name], value):
            self._made = {**self._made, name: value}

    def _map(self, name: str, value: Any) -> None:
        self._put("map", {**self._made["map"], name: value})

    # -- its part of the state ----------------------------------------------------------------------------------------

    def render(self, now_s: float) -> State:
        """Return its part of the state; what has not changed is the same object as before."""
        for process in map(self.model.processes.get, self._new_processes):
            if process is not None and process.ended:
                self._new_calls |= {i for i, call in process.calls.items() if call.kind is not CallKind.ENDED}
        if self._new_calls:
            self._render_calls()
        if self._new_processes:
            self._render_processes()
        if "chat" in self._due:
            self._put("chat", list(self._chat))
        if "streams" in self._due:
            self._put("streams", dict(self._streams))
        if "loops" in self._due:
            self._put("loops", self._loops())
        self._due.clear()
        age_s = 0.0 if self.recorded else max(0.0, now_s - self.heard_s)
        link = "live" if age_s < STALE_S else "stale" if age_s < LOST_S else "lost"
        self._put("age_s", 0 if link == "live" else round(min(age_s, 1e6)))
        self._put("link", link)
        return self._made

    def _render_calls(self) -> None:
        known, new = self._made["calls"], self._new_calls
        made = {i: self._call(c) if i in new or i not in known else known[i] for i, c in self.model.calls.items()}
        self._made = {**self._made, "calls": made}
        new.clear()
        self._due.add("loops")

    def _call(self, call: CallEvent) -> State:
        """Return a call. Where it did not end before its process, its end was missed: a node was started anew."""
        process = self.model.processes.get(call.process_id)
        missed = call.kind is not CallKind.ENDED and process is not None and process.ended
        return {**_call(call), "unheard": True} if missed else _call(call)

    def _render_processes(self) -> None:
        known, new = self._made["processes"], self._new_processes
        made = {}
        for name, process in self.model.processes.items():
            if not name:  # what is asked for no process, as System 3 asks
                continue
            made[name] = _process(process) if name in new or name not in known else known[name]
            if name in known and _same(made[name], known[name]):
                made[name] = known[name]
        self._made = {**self._made, "processes": made}
        self._told &= self.model.processes.keys()
        new.clear()
        self._due.add("loops")

    def _loops(self) -> State:
        living = [p for p in self.model.processes.values() if not p.ended]
        acting = any(runs(c) for c in self.model.calls.values() if c.process_id.startswith(REFLEX_ID))
        queues = {
            "s3": sum(p.status == "WAITING" for p in living),
            "s2": sum(status == 0 for p in living for _, status in p.subtasks),
            "s1": sum(p.queued_steps for p in living),
            "s0": 0,
        }
        busy = {_loop(layer) for p in living for layer in p.asking}
        costs: dict[str, float] = {}
        for process in self.model.processes.values():
            for layer in process.usage:
                if layer.cost_usd >= 0:
                    costs[_loop(layer.layer)] = costs.get(_loop(layer.layer), 0.0) + layer.cost_usd
        return {
            loop: {
                "busy": acting if loop == "s0" else loop in busy,
                "queue": queue,
                "cost_usd": round(costs.get(loop, -1.0), 6),
                "budget": self._budgets.get(loop),
            }
            for loop, queue in queues.items()
        }


def _loop(layer: str) -> str:
    return OWN_LOOP.get(layer, "s1")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def _time(time_s: float) -> float:
    return round(time_s, 3) if math.isfinite(time_s) else -1.0


def _call(call: CallEvent) -> State:
    return {
        "process": call.process_id,
        "function": call.function,
        "label": shown(call_label(call.function, call.arguments), SHOWN_CHARS),
        "channels": list(call.channels),
        "kind": call.kind.name,
        "outcome": call.outcome_name,
        "start": _time(call.start_s),
        "end": _time(call.end_s),
        "text": shown(call.message, SHOWN_CHARS),
        "error": shown(call.error_msg, SHOWN_CHARS),
    }


def _process(process: ProcessRun) -> State:
    return {
        "instruction": _cut(process.instruction),
        "source": process.source,
        "states": [[state.name, _time(state.begin_s), state.why] for state in process.states],
        "usage": [
            {
                "layer": layer.layer,
                "asked": layer.calls,
                "prompt_tokens": layer.prompt_tokens,
                "completion_tokens": layer.completion_tokens,
                "cost_usd": round(layer.cost_usd, 6),
            }
            for layer in process.usage
        ],
        "subtasks": [[text, status] for text, status in process.subtasks],
        "step": shown(process.running_step, SHOWN_CHARS),
        "queued": process.queued_steps,
        "steps_done": process.steps_done,
        "asking": {layer: _time(question.begun_s) for layer, question in process.asking.items()},
    }


class PageState:
    """Hold the robots of the page and make its whole state, as the page gets it: docs/page.md."""

    def __init__(self) -> None:
        self.robots: dict[str, RobotPage] = {}
        self.recordings: list[str] = []
        self.replaying = ""
        """Name of the recording that is shown as one more robot."""
        self._made: State = {"robots": {}}

    def render(self, now_s: float) -> State:
        """Return the state; what has not changed is the same object as before."""
        robots = {name: robot.render(now_s) for name, robot in self.robots.items()}
        before = self._made["robots"]
        if robots.keys() == before.keys() and all(robots[name] is before[name] for name in robots):
            robots = before
        self._made = {"now": math.floor(now_s), "recordings": self.recordings, "replaying": self.replaying, "robots": robots}
        return self._made
