# SPDX-License-Identifier: Apache-2.0
"""Build the prompts of System 1, of its first action and of System 2: static fronts that providers can cache, and one message a
question with what has changed (TypeGo 6)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from planners.plan import GlobalEvent, Plan, Subtask
from planners.prompts.blocks import Layer, block, text_beside
from planners.prompts.prompt import (
    DATA,
    CallReport,
    RobotFacts,
    compose,
    conditions,
    functions,
    layer_front,
    observation_now,
    task,
)

_PLAN_RULES = text_beside(__file__, "plan_rules.txt")
_STEP_RULES = text_beside(__file__, "step_rules.txt")
_FIRST_RULES = text_beside(__file__, "first_action_rules.txt")


def system_prompt(robot: RobotFacts, *, subtasks: int) -> str:
    """Return System 2's static front. `subtasks`: how many a plan may have."""
    return layer_front(
        Layer.S2,
        _PLAN_RULES.format(robot=robot.name, subtasks=subtasks),
        robot,
        functions(robot.skills, robot.options, heading="# What it can do (another layer chooses and calls these)"),
        conditions(robot, "# What conditions of events may ask"),
        remark=", which `watch` may name",
        note="",
    )


def plan_message(
    instruction: str,
    sender: str,
    *,
    plan: Plan | None,
    calls: Sequence[CallReport],
    why: Sequence[str],
    observation: Mapping[str, Any] | None,
    claim: str | None = None,
) -> str:
    """Return what System 2 is asked now. `claim`: the last step of a task that is held for done, None when it is not."""
    subtasks, events = (plan.subtasks, plan.events) if plan is not None else ((), ())
    return compose(
        task(instruction, sender),
        block("PLAN", [_subtask(s) for s in subtasks], "as it stands"),
        block("EVENTS", [asdict(e) for e in events], "of the plan; fired: how often it has come true"),
        block("DONE", [c.shown() for c in calls], f"what was really done; {DATA}"),
        block("WHY", why, f"you are asked; {DATA}"),
        block("CLAIM", [] if claim is None else [{"last_step": claim}], "the task is held for done; look again"),
        observation_now(observation),
    )


def _subtask(subtask: Subtask) -> dict[str, Any]:
    shown = dict(subtask.shown())
    return {**shown, "watch": list(subtask.watch)} if subtask.watch else shown


BUILTIN_NAMES = ("wait", "sleep")
"""Built-in functions that steps are taught; the others mean something else or nothing in them."""
SHOWN_DONE = 30
"""Newest ended calls that a prompt shows."""


def step_system(robot: RobotFacts) -> str:
    """Return System 1's static front."""
    code = functions(robot.skills, robot.options, BUILTIN_NAMES, spans=True)
    return layer_front(Layer.S1, _STEP_RULES.format(robot=robot.name), robot, code, conditions(robot))


def first_action_system(robot: RobotFacts) -> str:
    """Return the static front for the one immediate call."""
    allowed = [skill for skill in robot.skills if skill.name in robot.first_actions]
    code = functions(allowed, robot.options, spans=True)
    return layer_front(Layer.S1P, _FIRST_RULES.format(robot=robot.name), robot, code)


def step_message(
    instruction: str,
    sender: str,
    *,
    plan: Sequence[Subtask],
    subtask: Subtask,
    observation: Mapping[str, Any] | None,
    room: int,
    done_ids: Collection[str] = (),
    fired: Sequence[GlobalEvent] = (),
    done: Sequence[CallReport] = (),
    running: Sequence[Mapping[str, Any]] = (),
    queue: Sequence[str] = (),
    faults: Sequence[str] = (),
) -> str:
    """Return what has changed, for System 1. `done_ids`: subtasks that it knows to be done, whatever the plan says; `room`:
    steps that may be added."""
    status = {subtask.id: "ACTIVE", **dict.fromkeys(done_ids, "DONE")}
    responses = [{"condition": e.condition, "response": e.response} for e in fired]
    return compose(
        task(instruction, sender),
        block("PLAN", [x.shown(status.get(x.id, "")) for x in plan], "of the task, by the layer above"),
        block("SUBTASK", [subtask.shown("ACTIVE")], "write the steps of this one"),
        block("FIRED", responses, "came true; do the response first"),
        block("DONE", [c.shown() for c in done[-SHOWN_DONE:]], f"what was really done; {DATA}"),
        block("RUNNING", running, "is being done"),
        block("QUEUE", queue, "written already, not begun"),
        block("ROOM", [room], "steps you may add"),
        block("FAULTS", faults, f"in your last answers; avoid them; {DATA}"),
        observation_now(observation),
    )


def first_action_message(instruction: str, sender: str, observation: Mapping[str, Any] | None) -> str:
    """Return what has changed, for the first action."""
    return compose(task(instruction, sender), observation_now(observation))
