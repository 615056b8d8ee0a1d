# SPDX-License-Identifier: Apache-2.0
"""The functions every robot has: declared like skills, carried out by the scheduler itself (semantics, section 3)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from skill_kernel.skill import MAIN, Skill, robot_skill


@robot_skill("wait", subsystem=MAIN)
def wait() -> None:
    """Everything inside runs as usual; what follows </wait> starts only when all of it has ended."""


@robot_skill("sleep", subsystem=MAIN, nominal_s=lambda seconds: seconds)
def sleep(seconds: Annotated[float, Field(ge=0, le=3600, description="seconds")]) -> None:
    """Do nothing for a time; what follows waits."""


@robot_skill("observe", subsystem=MAIN)
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
    """The instruction has been carried out; nothing more follows."""


BUILTINS: dict[str, Skill] = {
    f.__name__: getattr(f, "__robot_skill__") for f in (wait, sleep, observe, stop, save, run, plan_done)  # noqa: B009
}
"""Built-in functions by name."""

STEP_NAMES = frozenset({"step", "if", "else", "subtask_complete"})
"""Tags of strategy `layered`; reserved in every strategy and refused where they have no meaning."""

RESERVED = frozenset(BUILTINS) | STEP_NAMES
"""Names no skill may take."""
