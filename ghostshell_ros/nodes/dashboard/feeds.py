# SPDX-License-Identifier: Apache-2.0
"""Read what a robot tells on its topics into its part of the page: heard now, or decoded from a recording."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from ghostshell.msg import (
    KernelState,
    LessonArray,
    LlmChunk,
    Observation,
    Plan,
    PrescriptionArray,
    ProcessArray,
    ProcessHeartbeat,
    QuestionArray,
    ReflexStateArray,
    StepQueue,
)
from rclpy.qos import QoSProfile
from std_msgs.msg import Bool, String

from ghostshell_ros.nodes.dashboard.state import MAX_TEXT, RobotPage
from ghostshell_ros.runtime.lifecycle import TOPIC as DRIVER_STATES
from ghostshell_ros.runtime.lifecycle import DriverState
from ghostshell_ros.wire.observation_messages import from_message
from ghostshell_ros.wire.qos import LATCHED, OBSERVATION, PLANS, QUEUES, SENSORS, STREAM
from ghostshell_ros.wire.values import seconds
from skill_kernel.config.observation import Serialise
from skill_kernel.config.sections import shown
from skill_kernel.observation.model import FieldValue, Kind, Pose, SeenObject
from skill_kernel.observation.render import shown as value_shown
from skill_kernel.robot import RobotConfig

MOST_SHOWN = 400
"""Characters of a field's value."""
TASK, GUIDELINE = 0, 1
REFLEX_STATES = ("proposed", "approved", "disabled")
REFLEX_ACTIONS = (("test", "approve", "remove"), ("test", "disable", "remove"), ("test", "enable", "remove"))
"""Actions on a reflex by its state: proposed, approved, disabled."""
LESSON_STATES = ("proposed", "confirmed", "revoked")
LESSON_ACTIONS = (("approve", "revoke"), ("revoke",), ("approve",))
"""Actions on a lesson by its state: proposed, confirmed, revoked."""


class RobotReader:
    """Read messages of one robot into its page. `roles` says what the fields of its observation are, where that is known."""

    def __init__(self, page: RobotPage, now_s: Callable[[], float]) -> None:
        self.page, self._now_s = page, now_s
        self._roles: dict[str, str] = {}
        self._diagnostics: dict[str, dict[str, Any]] = {}

    def about(self, config: RobotConfig) -> None:
        """Take the robot's file: its rooms, and what it observes."""
        self._roles = {name: field.role for name, field in config.observation.items()}
        rooms: list[dict[str, Any]] = []
        for name, room in config.rooms.items():
            if room.x is not None and room.y is not None:
                rooms.append({"name": name, "box": [room.x[0], room.y[0], room.x[1], room.y[1]]})
            else:
                rooms.append({"name": name, "polygon": [list(corner) for corner in room.corners]})
        self.page.rooms(rooms)

    def processes(self, message: ProcessArray) -> None:
        """Take the processes as they are now."""
        for p in message.processes:
            created_s, ended_s = seconds(p.created), seconds(p.ended)
            known = p.process_id in self.page.model.processes
            self.page.process(p, created_s, ended_s or (seconds(message.stamp) if known else created_s))

    def plan(self, message: Plan) -> None:
        self.page.plan(message, seconds(message.stamp))

    def steps(self, message: StepQueue) -> None:
        self.page.steps(message, seconds(message.stamp))

    def halted(self, message: Bool) -> None:
        """Take whether the gate holds it halted. Each halt has a number above the one before."""
        before = self.page.halted
        news = message.data and before["on"] is False
        self.page.halt(on=message.data, cause=None if message.data else "", number=before["number"] + 1 if news else None)

    def halt_cause(self, message: String) -> None:
        """Take why it is halted."""
        self.page.halt(cause=shown(message.data, MOST_SHOWN))

    def team_state(self, message: KernelState) -> None:
        """Take whether all robots of a team are halted, which has no gate of its own."""
        self.halted(Bool(data=message.halted))
        self.halt_cause(String(data=message.halt_cause))

    def questions(self, message: QuestionArray) -> None:
        asked = {
            q.id: {
                "process": q.process_id,
                "text": q.text,
                "choices": list(q.choices),
                "any_words": q.any_words,
                "person": q.person,
                "why": q.why,
                "until": seconds(q.until),
            }
            for q in message.questions
        }
        self.page.facts("questions", asked)

    def chunk(self, message: LlmChunk) -> None:
        self.page.chunk(message.process_id, message.stream_id, message.text)

    def observation(self, message: Observation) -> None:
        stamp_s = seconds(message.stamp)
        observed = from_message(message, 0.0)
        self.page.sign(min(stamp_s, self._now_s()) if stamp_s else self._now_s())
        self.page.facts("observation", {name: self._field(field, observed.stamp) for name, field in observed.fields.items()})
        for field in observed.fields.values():
            if field.kind is Kind.POSE:
                here = None if field.stale(observed.stamp) else field.value
                self.page.pose((here.x, here.y, here.yaw) if isinstance(here, Pose) else None)
            elif field.kind is Kind.OBJECTS and isinstance(field.value, tuple):
                things = [o for o in field.value if isinstance(o, SeenObject)]
                self.page.seen((f"{o.label} {o.track_id}", o.label, o.x, o.y, stamp_s - o.seen_s) for o in things)

    def _field(self, field: FieldValue, stamp_s: float) -> dict[str, Any]:
        value = field.missing if field.value is None else _words(value_shown(field.value, Serialise()))
        age_s = field.age(stamp_s)
        return {
            "role": self._roles.get(field.name, ""),
            "value": shown(value, MOST_SHOWN),
            "age": -1 if math.isinf(age_s) else round(age_s) if age_s >= 1.0 else 0,
            "stale": field.stale(stamp_s),
        }

    def drivers(self, message: DiagnosticArray) -> None:
        states = [DriverState.of(status) for status in message.status]
        self.page.facts("drivers", {one.name.rsplit("/", 1)[-1]: one.state for one in states})

    def diagnostics(self, message: DiagnosticArray) -> None:
        """Take the health of nodes."""
        for status in message.status:
            level = status.level[0] if isinstance(status.level, bytes) else int(status.level)
            told = {"level": level, "message": shown(status.message, MOST_SHOWN)}
            self._diagnostics = {**self._diagnostics, status.name.rsplit("/", 1)[-1]: told}
        self.page.facts("diagnostics", self._diagnostics)

    def reflexes(self, message: ReflexStateArray) -> None:
        self.page.model.reflexes = {r.name: r.sentence for r in message.reflexes}
        self.page.rules("reflex", [_reflex(r) for r in message.reflexes])

    def prescriptions(self, message: PrescriptionArray) -> None:
        """Take the tasks and guidelines. A reflex is told by its own node."""
        for kind, name in ((GUIDELINE, "guideline"), (TASK, "task")):
            self.page.rules(name, [_prescription(p) for p in message.prescriptions if p.kind == kind])

    def learned(self, message: LessonArray) -> None:
        """Take what it learned from corrections."""
        self.page.rules("learned", list(map(_lesson, message.lessons)))

    def beat(self, _: ProcessHeartbeat) -> None:
        """Take note that it lives."""
        self.page.sign(self._now_s())


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    if isinstance(value, list):
        return "; ".join(map(_words, value))
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _reflex(reflex: Any) -> dict[str, Any]:
    detail = [["code", reflex.source], ["written by", reflex.model], ["approved by", reflex.approver], ["note", reflex.reason]]
    fired = [["fired", str(reflex.fired)], ["last", reflex.last]] if reflex.fired else []
    return {
        "name": reflex.name,
        "text": reflex.sentence,
        "state": "acting" if reflex.acting else REFLEX_STATES[reflex.state],
        "detail": [line for line in (*detail, *fired) if line[1]],
        "actions": list(REFLEX_ACTIONS[reflex.state]),
    }


def _prescription(one: Any) -> dict[str, Any]:
    switch = "disable" if one.enabled else "enable"
    return {
        "name": one.name,
        "text": one.sentence,
        "state": "enabled" if one.enabled else "disabled",
        "detail": [[one.layer, one.reason], *(["conflict", conflict] for conflict in one.conflicts)],
        "actions": ["run", "remove"] if one.kind == TASK else [switch, "remove"],
    }


def _lesson(lesson: Any) -> dict[str, Any]:
    detail = [
        ["code", lesson.text[:MAX_TEXT]],
        ["functions", "\n\n".join(lesson.routines)[:MAX_TEXT]],
        ["changes", lesson.better],
        ["level", lesson.level],
        ["said by", lesson.sender],
        ["changed by", lesson.by],
        ["note", lesson.why],
        ["contradicts", ", ".join(map(str, lesson.contradicts))],
    ]
    return {
        "name": str(lesson.id),
        "text": lesson.correction,
        "state": LESSON_STATES[lesson.state],
        "detail": [line for line in detail if line[1]],
        "actions": list(LESSON_ACTIONS[lesson.state]),
    }


@dataclass(frozen=True)
class Feed:
    """Name a topic below a robot, and how it is read. One that is `kept` tells the story: it is heard while nobody looks."""

    topic: str
    kind: Any
    qos: QoSProfile
    read: Callable[[RobotReader, Any], None]
    kept: bool = False


FEEDS = (
    Feed("processes", ProcessArray, LATCHED, RobotReader.processes, kept=True),
    Feed("plans", Plan, PLANS, RobotReader.plan, kept=True),
    Feed("halted", Bool, LATCHED, RobotReader.halted, kept=True),
    Feed("halt_cause", String, LATCHED, RobotReader.halt_cause, kept=True),
    Feed("questions", QuestionArray, LATCHED, RobotReader.questions, kept=True),
    Feed("step_queue", StepQueue, QUEUES, RobotReader.steps),
    Feed("llm_chunks", LlmChunk, STREAM, RobotReader.chunk),
    Feed("observation", Observation, OBSERVATION, RobotReader.observation),
    Feed("scheduler_heartbeat", ProcessHeartbeat, SENSORS, RobotReader.beat),
    Feed(DRIVER_STATES, DiagnosticArray, LATCHED, RobotReader.drivers),
    Feed("reflex_states", ReflexStateArray, LATCHED, RobotReader.reflexes),
    Feed("prescriptions", PrescriptionArray, LATCHED, RobotReader.prescriptions),
    Feed("learned", LessonArray, LATCHED, RobotReader.learned),
)
TEAM_FEEDS = (Feed("kernel_state", KernelState, LATCHED, RobotReader.team_state, kept=True),)
"""Topics that a team has besides."""
BY_TOPIC: Mapping[str, Feed] = {feed.topic: feed for feed in FEEDS}
