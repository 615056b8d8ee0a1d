# SPDX-License-Identifier: Apache-2.0
"""Record one trial as plain data: ground truth and messages. The judge and the metrics read nothing else."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skill_kernel.events import CallEvent, CallKind, ModelEvent, ModelKind, NoticeKind, RunEvent

NOT_SKILLS = frozenset(
    {
        "step",
        "if",
        "else",
        "subtask_complete",
        "replace_steps",
        "wait",
        "observe",
        "stop",
        "sleep",
        "plan_done",
        "save",
        "run",
        "nothing",
        "think",
    }
)
"""Functions that control the flow or the bookkeeping, and move nothing."""
SPEECH = frozenset({"text", "speak"})


@dataclass(frozen=True)
class PoseAt:
    """True pose of the robot's base at time `at`, in m and rad; at a positive pitch the nose is down."""

    at: float
    x: float
    y: float
    yaw: float
    pitch: float = 0.0


@dataclass(frozen=True)
class Call:
    """A call as the scheduler's events report it; `ended` is nan while it runs. Times are ROS time in s."""

    process_id: str
    function: str
    arguments: dict[str, Any]
    channels: tuple[str, ...]
    started: float
    ended: float = math.nan
    outcome: str = ""
    told: str = ""

    @property
    def is_skill(self) -> bool:
        """Return whether the robot itself acts or acted; a refused or dropped call never began."""
        return self.function not in NOT_SKILLS and self.outcome not in ("REFUSED", "DROPPED")

    @property
    def is_step(self) -> bool:
        """Return whether the gap after it counts as waiting: behind speech a robot may be idle unnoticed."""
        return self.is_skill and self.function not in SPEECH

    def until(self, end: float) -> float:
        """Return when it ended, or `end` if it has not."""
        return end if math.isnan(self.ended) else self.ended


@dataclass(frozen=True)
class ModelAnswer:
    """One answer of a model: who asked, when it ended, what it cost. `code` is 0 if the answer could be used."""

    process_id: str
    layer: str
    ended: float
    seconds: float
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_usd: float
    code: int = 0


@dataclass(frozen=True)
class StateAt:
    """The status of a process (docs/semantics.md, section 5) from `at` on; `causes` are those of its pause."""

    at: float
    process_id: str
    status: str
    causes: tuple[str, ...] = ()
    code: int = 0
    message: str = ""


@dataclass
class Trace:
    """One trial. `end` is when the task's process ended, or when waiting for it was given up; `added` is about an instruction
    that was given meanwhile; `objects` holds true places (time, x, y) by name, `sounds` when a sound was played to its end,
    `notes` the halts."""

    asked: float = math.nan
    end: float = math.nan
    process_id: str = ""
    status: str = ""
    code: int = 0
    message: str = ""
    added: float = math.nan
    added_id: str = ""
    added_status: str = ""
    poses: list[PoseAt] = field(default_factory=list)
    objects: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    postures: list[tuple[float, str]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    answers: list[ModelAnswer] = field(default_factory=list)
    states: list[StateAt] = field(default_factory=list)
    sounds: list[float] = field(default_factory=list)
    notes: list[tuple[float, str]] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    """Actions that were claimed in words and that no DONE call supports."""

    @property
    def total(self) -> float:
        """Seconds from the instruction to the end."""
        return self.end - self.asked

    def own(self, process_id: str = "") -> list[Call]:
        """Return the calls of the task's process (or of another), by start time."""
        wanted = process_id or self.process_id
        return sorted((c for c in self.calls if c.process_id == wanted), key=lambda c: c.started)

    def pose_at(self, time: float) -> PoseAt:
        """Return the last true pose up to `time`, or the first one of all."""
        before = [p for p in self.poses if p.at <= time]
        return before[-1] if before else self.poses[0]

    def place_of(self, name: str, time: float) -> tuple[float, float]:
        """Return the true place of an object at a time."""
        places = self.objects.get(name, [])
        before = [p for p in places if p[0] <= time] or places[:1]
        return before[-1][1:] if before else (math.nan, math.nan)

    def posture_at(self, time: float) -> str:
        """Return the true posture at a time."""
        before = [p for p in self.postures if p[0] <= time] or self.postures[:1]
        return before[-1][1] if before else ""

    def said(self, process_id: str = "") -> str:
        """Return the words spoken for the task's process (or for another); query_memory speaks its answer."""
        parts = []
        for call in self.own(process_id):
            if call.function in SPEECH and call.outcome in ("DONE", "INTERRUPTED"):
                parts.append(call.told.removeprefix("said: ") if call.told else str(call.arguments.get("text", "")))
            elif call.function == "query_memory" and call.outcome == "DONE" and "(not said" not in call.told:
                parts.append(call.told)
        return " ".join(p for p in parts if p and p != "said nothing")

    def close(self) -> None:
        """Set when and how the task's process ended, from the scheduler's events."""
        own = [s for s in self.states if s.process_id == self.process_id]
        if own:
            self.code, self.message = own[-1].code, own[-1].message
        self.end = own[-1].at if own and self.status else self.poses[-1].at if self.poses else self.asked
        # What the robot did after the end of its task is not judged.
        self.poses = [p for p in self.poses if p.at <= self.end + 0.2] or self.poses[:1]

    def write(self, path: Path) -> None:
        """Save it as JSON, for whoever wants to know what happened."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dataclasses.asdict(self)) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Trace:
        """Return a trace that `write` saved."""
        raw = json.loads(path.read_text(encoding="utf-8"))
        raw["poses"] = [PoseAt(**p) for p in raw["poses"]]
        raw["calls"] = [Call(**{**c, "channels": tuple(c["channels"])}) for c in raw["calls"]]
        raw["answers"] = [ModelAnswer(**a) for a in raw["answers"]]
        raw["states"] = [StateAt(**{**s, "causes": tuple(s["causes"])}) for s in raw["states"]]
        raw["objects"] = {name: [(t, x, y) for t, x, y in places] for name, places in raw["objects"].items()}
        raw["postures"] = [(t, p) for t, p in raw["postures"]]
        raw["notes"] = [(t, n) for t, n in raw["notes"]]
        return cls(**raw)


class Recorder:
    """Write the events of a run into a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._calls: dict[str, int] = {}

    def take(self, event: RunEvent) -> None:
        """Take note of an event."""
        if isinstance(event, CallEvent) and event.kind is CallKind.STARTED:
            self._calls[event.call_id] = len(self._trace.calls)
            self._trace.calls.append(_call(event))
        elif isinstance(event, CallEvent) and event.kind is CallKind.ENDED:
            self._ended(event)
        elif isinstance(event, ModelEvent) and event.kind is ModelKind.ANSWERED:
            self._trace.answers.append(_answer(event))
        elif event.kind is NoticeKind.HALTED:
            self._trace.notes.append((event.stamp_s, event.told or "halted"))
        elif event.kind is NoticeKind.UNPROVEN:
            self._trace.unproven.append(event.told)

    def _ended(self, event: CallEvent) -> None:
        ended = dataclasses.replace(_call(event), ended=event.stamp_s, outcome=event.outcome_name or "?", told=event.told)
        index = self._calls.get(event.call_id)
        if index is None:
            self._trace.calls.append(ended)
        else:
            self._trace.calls[index] = dataclasses.replace(ended, started=self._trace.calls[index].started)


def _call(event: CallEvent) -> Call:
    return Call(event.process_id, event.function, event.arguments, event.channels, event.stamp_s)


def _answer(event: ModelEvent) -> ModelAnswer:
    return ModelAnswer(
        event.process_id,
        event.layer,
        event.stamp_s,
        event.end_s - event.start_s if event.end_s >= event.start_s >= 0 else 0.0,
        event.prompt_tokens,
        event.cached_tokens,
        event.completion_tokens,
        event.cost_usd,
        event.error_code,
    )
