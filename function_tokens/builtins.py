# SPDX-License-Identifier: Apache-2.0
"""Declare the functions that every robot has, like skills; the scheduler itself carries them out (semantics, section 3)."""

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from skill_kernel.skills.skill import MAIN, Skill, robot_skill


@robot_skill("wait", subsystem=MAIN)
def wait() -> None:
    """Everything inside runs as usual; what follows </wait> starts only when all of it has ended."""


@robot_skill("sleep", subsystem=MAIN, nominal_s=lambda seconds: seconds)
def sleep(seconds: Annotated[float, Field(ge=0, le=3600, description="seconds")]) -> None:
    """Do nothing for a time; what follows waits."""


@robot_skill("observe", subsystem=MAIN, decides=True)
def observe() -> None:
    """End this answer here. You are asked again when the motion has ended, with what really happened."""


@robot_skill("stop", subsystem=MAIN)
def stop(channel: str = "") -> None:
    """Stop what runs on a channel (without a channel: everything started before)."""


@robot_skill("save", subsystem=MAIN)
def save(name: str, description: str = "") -> None:
    """Keep the enclosed sequence as a routine under a name, without performing it; replaces one of that name."""


@robot_skill("run", subsystem=MAIN)
def run(name: str) -> None:
    """Perform a saved routine."""


@robot_skill("plan_done", subsystem=MAIN)
def plan_done() -> None:
    """End the turn: the instruction has been carried out, and nothing more follows."""


@robot_skill("step", subsystem=MAIN)
def step() -> None:
    """Open a part of a plan: what follows </step> starts only when everything inside has ended."""


@robot_skill("if", subsystem=MAIN)
def branch(cond: str) -> None:
    """Inside a step: what is in it runs if the condition holds and no branch before it did."""


@robot_skill("else", subsystem=MAIN)
def otherwise() -> None:
    """Inside a step: what is in it runs if no branch before it did."""


@robot_skill("subtask_complete", subsystem=MAIN)
def subtask_complete() -> None:
    """Mark the current subtask as done once everything before this has ended."""


@robot_skill("replace_steps", subsystem=MAIN)
def replace_steps() -> None:
    """Drop all steps that have not begun; write the new ones behind it."""


def _by_name(*functions: Callable[..., None]) -> dict[str, Skill]:
    skills: list[Skill] = [getattr(f, "__robot_skill__") for f in functions]  # noqa: B009
    return {skill.name: skill for skill in skills}


BUILTINS: dict[str, Skill] = _by_name(wait, sleep, observe, stop, save, run, plan_done)
"""Built-in functions by name."""

STEP_BUILTINS: dict[str, Skill] = _by_name(step, branch, otherwise, subtask_complete, replace_steps)
"""Built-in functions of plans in steps. They mean the same in every strategy; only the prompt of `layered` shows them."""

STEP_LABELS = frozenset({"id", "name"})
"""Attributes with which a step may be numbered; nothing depends on them."""

STEP_ALIASES = dict.fromkeys(("elif", "elseif", "else_if", "elsif"), "if")
"""Branches are a list of which the first that holds runs, so that all are the same."""

STEP_NAMES = frozenset(STEP_BUILTINS) | frozenset(STEP_ALIASES)

BRANCHES = frozenset({"if", "else"})

FURTHER = frozenset({"else", *STEP_ALIASES})
"""Tags of branches that stand behind another one."""

NOT_IN_ROUTINES = frozenset({"save", "observe", "plan_done", "subtask_complete", "replace_steps"})
"""Built-ins that end a turn, record, or speak of the plan around them; a routine cannot hold them."""

NOT_UNDER_CONDITION = frozenset({"save", "observe", "plan_done"})
"""Built-ins that act when they are read; under a condition nobody knows yet they would act as if it held."""

RESERVED = frozenset(BUILTINS) | STEP_NAMES
"""Names no skill may take."""
