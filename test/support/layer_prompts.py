# SPDX-License-Identifier: Apache-2.0
"""Kalos's prompts of all planning layers, made by the builders that the nodes use, for tests of who answers them."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kalos_fake import config, registry

from bench.baselines import PlanAndExecutePlanner, ReactPlanner
from bench.performing import SETTINGS
from bench.simulated_model.layers import answer
from bench.simulated_model.prompt import Question
from planners.judging import judge_message, judge_system
from planners.models.base import ModelRequest
from planners.plan import GlobalEvent, Plan, Subtask, SubtaskStatus
from planners.processes import advisor
from planners.prompts.blocks import block
from planners.prompts.prompt import CallReport, GrammarOptions, RobotFacts
from planners.strategies.layered import prompts
from planners.strategies.layered.prompts import (
    background_of,
    first_action_message,
    first_action_system,
    step_message,
    step_system,
)
from planners.strategies.stream.stream_planner import StreamPlanner
from planners.strategy import Task
from skill_kernel.observation.accessors import accessors_of

Observation = Mapping[str, Any]
OPTIONS = GrammarOptions(config().builtin_names, config().limits)
FIELDS = {name: field.role for name, field in config().observation.items() if field.serialise.prompt}
ROBOT = RobotFacts(
    config().name,
    config().description,
    registry(),
    OPTIONS,
    accessors_of(config()),
    FIELDS,
    config().waypoints,
    config().first_actions,
)
S1, S1P, JUDGE = step_system(ROBOT), first_action_system(ROBOT), judge_system(ROBOT)
S2 = prompts.system_prompt(ROBOT, subtasks=12)
S3 = advisor.system_prompt(ROBOT)


def thing(label: str, distance_m: float = 1.8, at: tuple[float, float] | None = None) -> dict[str, Any]:
    """Something in sight, as an observation tells it."""
    seen = {"id": 1, "label": label, "bearing_deg": 3, "distance_m": distance_m}
    return {**seen, "x_m": at[0], "y_m": at[1]} if at else seen


def observed(
    room: str = "hallway", at: tuple[float, float] = (0.0, 0.0), things: Sequence[Mapping[str, Any]] | None = (), **more: Any
) -> dict[str, Any]:
    """Return an observation; `things` None: what is in sight is stale."""
    seen: Any = {"stale_s": 4.0, "last": []} if things is None else [dict(t) for t in things]
    pose = {"x_m": at[0], "y_m": at[1], "heading_deg": 0, "frame": "map"}
    return {"pose": pose, "room": room, "posture": "stand", "battery": 80, "object_detections": seen, **more}


def call(function: str, outcome: str = "DONE", message: str = "", **arguments: Any) -> CallReport:
    """Return a call that has ended."""
    return CallReport(function, arguments, outcome, message)


def running(step: str, *calls: CallReport) -> list[str | dict[str, Any]]:
    """Return a step that is being done, with those of its calls that have begun."""
    return [step, *({"function": c.function, "arguments": dict(c.arguments)} for c in calls)]


def said(request: ModelRequest, *, greedy: bool = False) -> str:
    """Return the honest answer to a request."""
    users = tuple(m.text for m in request.messages if m.role == "user")
    return answer(Question(request.system, users), greedy=greedy)


def first_action(instruction: str, observation: Observation) -> str:
    """S1P's answer."""
    return answer(Question(S1P, (first_action_message(instruction, "", observation),)))


def planned(instruction: str, observation: Observation, plan: Plan | None = None, done: Sequence[CallReport] = ()) -> str:
    """S2's answer."""
    text = prompts.plan_message(
        background_of(Task("p1", instruction)), plan=plan, calls=done, why=["a test asks"], observation=observation
    )
    return answer(Question(S2, (text,)))


def plan_for(instruction: str, observation: Observation, done: int = 0) -> Plan:
    """S2's first plan as the task planner keeps it, the first `done` subtasks achieved."""
    text = planned(instruction, observation)
    found = re.findall(r'<subtask criteria="([^"]*)"[^>]*>(.*?)</subtask>', text)
    status = [SubtaskStatus.DONE if i < done else SubtaskStatus.PENDING for i in range(len(found))]
    subtasks = tuple(
        Subtask(f"t{i + 1}", html.unescape(words), html.unescape(criteria), status[i])
        for i, (criteria, words) in enumerate(found)
    )
    return Plan(1, True, subtasks)


def steps(
    instruction: str,
    plan: Plan,
    at: int,
    observation: Observation,
    *,
    done: Sequence[CallReport] = (),
    now: Sequence[Mapping[str, Any]] = (),
    queue: Sequence[str] = (),
    room: int = 3,
    fired: Sequence[GlobalEvent] = (),
    greedy: bool = False,
) -> str:
    """S1's answer for the subtask of this number."""
    text = step_message(
        background_of(Task("p1", instruction)),
        plan=plan.subtasks,
        subtask=plan.subtasks[at],
        observation=observation,
        room=room,
        fired=fired,
        done=done,
        running=now,
        queue=queue,
    )
    return answer(Question(S1, (text,)), greedy=greedy)


def judged(condition: str, observation: Observation | None) -> str:
    """Return the judge's answer."""
    return answer(Question(JUDGE, (judge_message(condition, observation),)))


def advised(
    instruction: str = "", *, guidelines: Sequence[Mapping[str, str]] = (), observation: Observation | None = None
) -> str:
    """S3's answer while one process runs."""
    parts = [
        block("INSTRUCTION", [{"process": "p2", "instruction": instruction, "from": "user"}] if instruction else []),
        block("PROCESSES", [{"process": "p1", "instruction": "find a ball", "source": "user", "status": "IN_PROGRESS"}]),
        block("GUIDELINES", guidelines),
        block("OBSERVATION", [observation] if observation else []),
        block("WHY", ["a test asks"]),
    ]
    return answer(Question(S3, ("\n".join(p for p in parts if p),)))


def baseline(kind: type[ReactPlanner] | type[PlanAndExecutePlanner]) -> Any:
    """Return a baseline's planner for Kalos."""
    return kind(ROBOT, SETTINGS)


def stream_planner() -> StreamPlanner:
    """Return the planner of function tokens for Kalos."""
    return StreamPlanner(ROBOT, lambda: (), SETTINGS)
