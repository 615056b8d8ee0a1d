# SPDX-License-Identifier: Apache-2.0
"""Build the prompts of System 1, of its first action and of System 2: static fronts that providers can cache, and one message a
question with what has changed (TypeGo 6)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from function_tokens.routines import Routine
from planners.plan import GlobalEvent, Plan, Subtask
from planners.prompts.blocks import Layer, block, text_beside
from planners.prompts.prompt import (
    DATA,
    CallReport,
    RobotFacts,
    compose,
    condition_lines,
    example_tag,
    functions,
    layer_front,
    observation_now,
    remembered,
    task,
)
from planners.strategies.layered.criteria import trace_accessors
from planners.strategy import Task
from skill_kernel.robot import AnswerKind

_PLAN_RULES = text_beside(__file__, "plan_rules.txt")
_STEP_RULES = text_beside(__file__, "step_rules.txt")
_FIRST_RULES = text_beside(__file__, "first_action_rules.txt")
SHOWN_DONE = 30
"""Newest ended calls that a prompt shows."""


def _abilities(robot: RobotFacts) -> tuple[str, str]:
    """Return what System 1 and 2 are both shown, in the same bytes: what it can do, and what conditions may ask."""
    table = {**robot.accessors, **trace_accessors((skill.name for skill in robot.skills), tuple)}
    return functions(robot.skills, robot.options), condition_lines(table)


def system_prompt(robot: RobotFacts, *, subtasks: int) -> str:
    """Return System 2's static front. `subtasks`: how many a plan may have."""
    example, calls = _picked(robot, "plan"), _example_calls(robot)
    if calls and not example:
        name = calls[0].strip("</>").split(" ")[0]
        lines = f"<subtask criteria=\"done('{name}')\">{name.replace('_', ' ')}</subtask>"
        example = f"\nExample of a plan: {lines}<subtask>tell the person what was seen</subtask>\n"
    rules = _PLAN_RULES.format(robot=robot.name, subtasks=subtasks, example=example)
    return layer_front(Layer.S2, rules, robot, *_abilities(robot))


def step_system(robot: RobotFacts) -> str:
    """Return System 1's static front."""
    calls, options = _example_calls(robot), robot.options
    example = _picked(robot, "steps")
    if len(calls) > 1 and not example:
        branches = f'<if cond="always">{calls[1]}</if><else>{calls[0]}</else>'
        example = f"\nExample of an answer: <step>{calls[0]}I am on my way.</step><step>{branches}</step><subtask_complete/>\n"
    tags = {name: options.tag(name) for name in ("wait", "sleep", "run", "save")}
    rules = _STEP_RULES.format(robot=robot.name, example=example, **tags)
    return layer_front(Layer.S1, rules, robot, *_abilities(robot))


def first_action_system(robot: RobotFacts) -> str:
    """Return the static front for the one immediate call."""
    allowed = [skill for skill in robot.skills if skill.name in robot.first_actions]
    code = functions(allowed, robot.options)
    return layer_front(
        Layer.S1P, _FIRST_RULES.format(robot=robot.name, example=_picked(robot, "first")), robot, code, fields=False
    )


def _picked(robot: RobotFacts, kind: AnswerKind) -> str:
    """Return the examples that were picked for the robot."""
    lines = "".join(f"- {asked}\n  {answer}\n" for asked, answer in robot.examples.get(kind, {}).items())
    return f"\nExamples:\n{lines}" if lines else ""


def _example_calls(robot: RobotFacts) -> list[str]:
    """Return a call of the first skill of each channel, which the mapper takes."""
    first: dict[tuple[str, ...], str] = {}
    for skill in robot.skills:
        if not skill.speaks_text and (tag := example_tag(skill, robot.options.limits)):
            first.setdefault(skill.subsystems, tag)
    return list(first.values())


def background_of(
    of: Task, *, start: Mapping[str, Any] | None = None, memory: Sequence[str] = (), routines: Iterable[Routine] = ()
) -> str:
    """Return what hardly changes while a task lives, for both layers: the task, where it all began (`start`), the tasks before
    it, lines of the memory, and what the robot was taught."""
    taught = [{"name": r.name, "description": r.description} for r in routines]
    return compose(
        task(of.instruction, of.sender, start),
        block("EARLIER", of.earlier, f"tasks that have ended; nothing of them is to be done unless TASK says so; {DATA}"),
        remembered(memory),
        block("ROUTINES", taught, f"it was taught; {DATA}"),
    )


def plan_message(
    background: str,
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
        background,
        block("PLAN", [_subtask(s) for s in subtasks], "as it stands"),
        block("EVENTS", [asdict(e) for e in events], "of the plan; fired: how often it has come true"),
        block("DONE", [c.shown() for c in calls], f"what was really done; {DATA}"),
        block("WHY", why, f"you are asked; {DATA}"),
        block("CLAIM", [] if claim is None else [claim or "(ended)"], "last_step of a task that is held for done", own=True),
        observation_now(observation),
    )


def _subtask(subtask: Subtask) -> dict[str, Any]:
    shown = dict(subtask.shown())
    return {**shown, "watch": list(subtask.watch)} if subtask.watch else shown


def step_message(
    background: str,
    *,
    plan: Sequence[Subtask],
    subtask: Subtask,
    observation: Mapping[str, Any] | None,
    room: int,
    done_ids: Collection[str] = (),
    fired: Sequence[GlobalEvent] = (),
    done: Sequence[CallReport] = (),
    running: Sequence[str | Mapping[str, Any]] = (),
    queue: Sequence[str] = (),
    faults: Sequence[str] = (),
) -> str:
    """Return what has changed, for System 1. `done_ids`: subtasks that it knows to be done, whatever the plan says; `room`:
    steps that may be added."""
    marked = {x.id: "PENDING" for x in plan if not x.done} | {subtask.id: "ACTIVE"} | dict.fromkeys(done_ids, "DONE")
    responses = [{"condition": e.condition, "response": e.response} for e in fired]
    return compose(
        background,
        block("PLAN", [x.shown(marked.get(x.id, "")) for x in plan or (subtask,)], "of the task, by the layer above"),
        block("SUBTASK", [subtask.id], "write the steps of this one"),
        block("FIRED", responses, "came true; do the response first"),
        block("DONE", [c.shown() for c in done[-SHOWN_DONE:]], f"what was really done; {DATA}"),
        block("RUNNING", running, "is being done", own=True),
        block("QUEUE", queue, "written already, not begun", own=True),
        block("MAY ADD", [room], "steps"),
        block("FAULTS", faults, f"in your last answers; avoid them; {DATA}"),
        observation_now(observation),
    )


def first_action_message(instruction: str, sender: str, observation: Mapping[str, Any] | None) -> str:
    """Return what has changed, for the first action."""
    return compose(task(instruction, sender), observation_now(observation))
