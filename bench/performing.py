# SPDX-License-Identifier: Apache-2.0
"""Performs a task's stream on the virtual clock with CoCo's real skills, or asks a model for the stream first."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.calls import CallRun
from bench.dry_run import dry_run
from bench.scoring import Task
from function_tokens.mapper import Mapper
from function_tokens.routines import Routine, RoutineStore
from planners.models.base import CancelToken, ModelClient, ModelError, ModelRequest, TextDelta
from planners.prompts.prompt import CallReport, GrammarOptions, RobotFacts
from planners.strategies.stream.stream_planner import StreamPlanner
from planners.strategies.turns import PlanEnded, TurnResult
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry

SETTINGS: Mapping[str, Any] = {
    "max_turns": 8,
    "prompt": "full",
    "dialect": "xml",
    "history_tokens": 3000,
    "deadline_s": 60.0,
    "max_output_tokens": 2048,
}
"""Settings of a planner without a node."""


@dataclass(frozen=True)
class Performance:
    """Result of a stream: the calls in token order, the routines kept (name, description, what performing it would
    do), what ended it early, if anything did, and why the turn ended."""

    calls: list[CallRun]
    kept: tuple[tuple[str, str, list[CallRun]], ...] = ()
    error: str = ""
    stream: str = ""
    reason: str = "end"


@dataclass(frozen=True)
class Robot:
    """CoCo's skills and limits, without a body."""

    config: RobotConfig
    registry: SkillRegistry
    mapper: Mapper = field(compare=False)

    @classmethod
    def coco(cls) -> Robot:
        """CoCo as configured."""
        config = RobotConfig.load("coco")
        registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
        return cls(config, registry, Mapper(config, registry))

    @property
    def options(self) -> GrammarOptions:
        """Return how the robot's streams are written."""
        return GrammarOptions(self.config.builtin_names, self.config.limits)


def perform(task: Task, stream: str, robot: Robot) -> Performance:
    """Schedule one stream in the task's situation."""
    with tempfile.TemporaryDirectory() as folder:
        return _perform(task, stream, robot, _routines(task, folder))


def ask(
    task: Task, client: ModelClient | Callable[[RoutineStore], ModelClient], robot: Robot, *, prompt: str = "full"
) -> Performance:
    """Ask a model as the planning node does, several turns where it observes, and schedule what it writes. `prompt` is that
    parameter of strategy `stream`."""
    with tempfile.TemporaryDirectory() as folder:
        store = _routines(task, folder)
        model = client(store) if callable(client) else client
        about = RobotFacts(robot.config.name, robot.config.description, robot.registry, robot.options)
        planner = StreamPlanner(about, store.list, {**SETTINGS, "prompt": prompt})
        for turn in task.setup.turns:
            planner.begin(turn.user)
            planner.wrote(turn.stream)
        request: ModelRequest | PlanEnded = planner.begin(task.instruction)
        calls: list[CallRun] = []
        streams: list[str] = []
        while isinstance(request, ModelRequest):
            try:
                text = "".join(e.text for e in model.stream(request, cancel=CancelToken()) if isinstance(e, TextDelta))
            except ModelError as error:
                return Performance(calls, error=f"{error.code.name}: {error.message}", stream="\n".join(streams))
            planner.wrote(text)
            streams.append(text)
            part = _perform(task, text, robot, store)
            calls += _later(part.calls, max((c.end_s or 0.0 for c in calls), default=0.0), len(streams))
            request = planner.follow(_turn_result(part))
        why = request.message if request.code else ""
        return Performance(calls, _kept(store, robot), why, "\n".join(streams))


def _routines(task: Task, folder: str) -> RoutineStore:
    store = RoutineStore(Path(folder) / "routines.json", clock=time.time)
    for routine in task.setup.routines:
        store.save(routine.name, routine.description, routine.source)
    return store


def _perform(task: Task, stream: str, robot: Robot, store: RoutineStore) -> Performance:
    run = dry_run(stream, robot.mapper, interrupt_at_s=task.interrupt_s, routines=store)
    return Performance(run.calls, _kept(store, robot), str(run.error or ""), stream, run.reason)


def _kept(store: RoutineStore, robot: Robot) -> tuple[tuple[str, str, list[CallRun]], ...]:
    routines: Sequence[Routine] = store.list()
    return tuple((r.name, r.description, dry_run(r.source, robot.mapper, routines=store).calls) for r in routines)


def _turn_result(part: Performance) -> TurnResult:
    shown = (c for c in part.calls if c.function != "observe")
    reports = [CallReport(c.function, c.arguments, c.outcome_name, c.error, c.start_s, c.end_s) for c in shown]
    return TurnResult(part.reason, calls=reports)


def _later(calls: Sequence[CallRun], offset_s: float, turn: int) -> list[CallRun]:
    return [
        replace(
            c,
            call_id=f"t{turn}.{c.call_id}",
            parent_id=f"t{turn}.{c.parent_id}" if c.parent_id else "",
            start_s=None if c.start_s is None else c.start_s + offset_s,
            end_s=None if c.end_s is None else c.end_s + offset_s,
        )
        for c in calls
    ]
