# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell dry-run`: schedule a stream on a virtual clock, without ROS and without a robot."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.tokens import InputError, pieces, problem_line, until_reader_leaves, write_utf8
from function_tokens.scheduling.conditions import AssumedConditions
from ghostshell_ros.cli.output import fail

if TYPE_CHECKING:
    from bench.dry_run import DryRun
    from function_tokens.mapper import Mapper
    from skill_kernel.robot import RobotConfig


class Assume(str, Enum):
    """Name the value of conditions that neither --holds nor --fails gives."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"

    @property
    def value_of(self) -> bool | None:
        """Return the value as the scheduler takes it."""
        return None if self is Assume.UNKNOWN else self is Assume.TRUE


def dry_run(
    file: Annotated[Path | None, typer.Argument(help="stream of function tokens; - or nothing reads standard input")] = None,
    robot: Annotated[str, typer.Option(help="robot whose skills are used, a name or a YAML file")] = "",
    skills: Annotated[Path | None, typer.Option(help="Python file with @robot_skill functions")] = None,
    strict: Annotated[bool, typer.Option("--strict/--lenient", help="end at the first violation, or mend and go on")] = False,
    plot: Annotated[Path | None, typer.Option(help="write a Gantt picture by channel (PNG)")] = None,
    interrupt_at: Annotated[float | None, typer.Option(min=0.0, help="interrupt everything at this time [s]")] = None,
    routines: Annotated[Path | None, typer.Option(help="JSON file of saved routines, for <run> and <save>")] = None,
    holds: Annotated[list[str] | None, typer.Option(help="a condition of <if> that holds; may be given several times")] = None,
    fails: Annotated[list[str] | None, typer.Option(help="a condition that does not hold; as above")] = None,
    assume: Annotated[Assume, typer.Option(help="what all other conditions are taken to be")] = Assume.TRUE,
) -> None:
    """Print the schedule: one JSON object a call with function, args, channel, start, end and outcome; the branches of a step
    are calls too, those not taken DROPPED.

    Nothing is observed: --holds, --fails and --assume give the value of a condition; a notice names each assumed one.
    Durations are the skills' declared nominal_s. Exit status: 0 all well, 1 something was refused or a step failed, 2 the
    stream broke a rule in strict mode or the input cannot be used.
    """
    write_utf8()
    if bool(robot) == bool(skills):
        fail("name the skills with either --robot NAME or --skills FILE.py", command="dry-run")
    with contextlib.redirect_stdout(sys.stderr):  # the result is all that standard output gets
        mapper, said, check = _mapper(robot, skills)
        text = _text(file)
        given = {**dict.fromkeys(holds or (), True), **dict.fromkeys(fails or (), False)}
        conditions = AssumedConditions(given, assume.value_of, check)
        run = _scheduled(text, mapper, strict, interrupt_at, routines, conditions)
        said += _assumed(conditions)
    from bench.dry_run import call_line

    with until_reader_leaves():
        for call in run.calls:
            print(json.dumps(call_line(call), ensure_ascii=False))
        sys.stdout.flush()
    for message in [*said, *run.repairs, *run.notices]:
        print(json.dumps({"notice": message}, ensure_ascii=False), file=sys.stderr)
    if plot is not None:
        _draw(run, plot, text)
    if run.error is not None:
        print(problem_line(run.error), file=sys.stderr)
        raise typer.Exit(2)
    if run.refused or run.failed:
        raise typer.Exit(1)


def _mapper(robot: str, skills: Path | None) -> tuple[Mapper, list[str], Callable[[str], str]]:
    """Return the mapper, remarks on it, and a function that names the fault of a condition."""
    from function_tokens.mapper import Mapper
    from skill_kernel.robot import RobotConfig, RobotConfigError
    from skill_kernel.skills.registry import RegistryError, SkillRegistry
    from skill_kernel.skills.skill import SkillDefinitionError

    try:
        if skills is None:
            config = RobotConfig.load(robot)
            registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
            return Mapper.for_robot(config, registry), [], _checking(config)
        sys.path.append(str(skills.resolve().parent))  # a file may import its neighbours, as when Python runs it
        registry = SkillRegistry.from_file(skills)
        empty = f"{skills} declares no skill: @robot_skill(…) stands before functions at the top level of the file"
        return Mapper(registry), [] if len(registry) else [empty], lambda condition: ""
    except (RegistryError, RobotConfigError, SkillDefinitionError) as error:
        fail(error, command="dry-run")


def _checking(config: RobotConfig) -> Callable[[str], str]:
    from skill_kernel.guard import GuardError
    from skill_kernel.guard.condition_text import read_condition
    from skill_kernel.observation.accessors import accessors_of

    accessors = accessors_of(config)

    def fault(condition: str) -> str:
        try:
            read_condition(condition, accessors)
        except GuardError as error:
            return error.message
        return ""

    return fault


def _assumed(conditions: AssumedConditions) -> list[str]:
    words = {True: "true", False: "false", None: "unknown"}
    said = [f"condition '{c}' is taken as {words[h]}; --holds or --fails says otherwise" for c, h in conditions.assumed.items()]
    return [*said, *(f"condition '{condition}' was given, but no branch asked for it" for condition in conditions.unused)]


def _text(file: Path | None) -> str:
    try:
        return "".join(pieces(file))
    except InputError as error:
        fail(error, command="dry-run")


def _scheduled(
    text: str, mapper: Mapper, strict: bool, interrupt_at: float | None, routines: Path | None, conditions: AssumedConditions
) -> DryRun:
    from bench.dry_run import dry_run as schedule
    from function_tokens.routines import RoutineStore

    with tempfile.TemporaryDirectory() as scratch:
        store = RoutineStore(routines or Path(scratch) / "routines.json", clock=time.time)
        run = schedule(
            text,
            mapper,
            mode="strict" if strict else "lenient",
            interrupt_at_s=interrupt_at,
            routines=store,
            conditions=conditions,
        )
    if store.load_error is not None:
        run.notices.insert(0, str(store.load_error))
    return run


def _draw(run: DryRun, path: Path, text: str) -> None:
    from bench.gantt import draw_timeline

    try:
        draw_timeline(run.calls, path, title="Dry run on the virtual clock", stream=text, note="durations: nominal_s")
    except OSError as error:
        fail(f"the picture cannot be written to {path}: {error.strerror or error}", command="dry-run")
