# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell dry-run`: schedule a stream on a virtual clock, without ROS and without a robot."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bench.commands.tokens import InputError, pieces, problem_line, until_reader_leaves, write_utf8
from bench.dry_run import AssumedConditions, plain
from ghostshell_ros.cli.output import fail

if TYPE_CHECKING:
    from bench.dry_run import DryRun
    from function_tokens.mapper import Mapper
    from skill_kernel.review import Review
    from skill_kernel.robot import RobotConfig


class Assume(str, Enum):
    """Select the value of conditions given by neither --holds nor --fails."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"

    @property
    def truth(self) -> bool | None:
        """Return the value as the scheduler takes it."""
        return None if self is Assume.UNKNOWN else self is Assume.TRUE


class Dialect(str, Enum):
    """Name how a model calls functions."""

    XML = "xml"
    TOOLS = "tools"


def dry_run(
    file: Annotated[Path | None, typer.Argument(help="stream of function tokens; - or nothing reads standard input")] = None,
    robot: Annotated[str, typer.Option(help="robot whose skills are used, a name or a YAML file")] = "",
    skills: Annotated[Path | None, typer.Option(help="Python file with @robot_skill functions")] = None,
    dialect: Annotated[
        Dialect, typer.Option(help='tools: each line {"name": …, "arguments": …} is a native call, any other is text')
    ] = Dialect.XML,
    strict: Annotated[bool, typer.Option("--strict/--lenient", help="end at a violation, or repair and continue")] = False,
    plot: Annotated[Path | None, typer.Option(help="write a Gantt picture by channel (PNG)")] = None,
    interrupt_at: Annotated[float | None, typer.Option(min=0.0, help="interrupt everything at this time [s]")] = None,
    routines: Annotated[Path | None, typer.Option(help="JSON file of routines for <run>; <save> does not change it")] = None,
    holds: Annotated[list[str] | None, typer.Option(help="a condition of <if> that holds; may be given several times")] = None,
    fails: Annotated[list[str] | None, typer.Option(help="a condition that does not hold; as above")] = None,
    assume: Annotated[Assume, typer.Option(help="what all other conditions are taken to be")] = Assume.TRUE,
) -> None:
    """Print the schedule: one JSON object per call with function, args, channel, start, end and outcome; the branches of a step
    are calls too, those not taken DROPPED.

    Nothing is observed: --holds, --fails and --assume give the value of a condition; a notice names each assumed one.
    Durations are the skills' declared nominal_s. Exit status: 0 success, 1 a call was refused or failed or the robot could
    not be launched as it is, 2 the stream broke a rule in strict mode, the input cannot be used, or the picture cannot be
    written.
    """
    write_utf8()
    if bool(robot) == bool(skills):
        fail("name the skills with either --robot NAME or --skills FILE.py", command="dry-run")
    if both := {plain(c) for c in holds or ()} & {plain(c) for c in fails or ()}:
        fail(f"condition '{min(both)}' is given by --holds and by --fails; give it by one of them", command="dry-run")
    with contextlib.redirect_stdout(sys.stderr):  # keep standard output for the result
        mapper, found, check = _mapper(robot, skills)
        text = _text(file) if dialect is Dialect.XML else _as_tokens(_text(file))
        given = {**dict.fromkeys(holds or (), True), **dict.fromkeys(fails or (), False)}
        conditions = AssumedConditions(given, assume.truth, check)
        run = _scheduled(text, mapper, strict, interrupt_at, routines, conditions)
        remarks = [*found.faults, *found.remarks, *_assumed(conditions)]
    from bench.dry_run import call_line

    with until_reader_leaves():
        for call in run.calls:
            print(json.dumps(call_line(call), ensure_ascii=False))
        sys.stdout.flush()
    for message in [*remarks, *run.repairs, *run.notices]:
        print(json.dumps({"notice": message}, ensure_ascii=False), file=sys.stderr)
    if run.error is not None:
        print(problem_line(run.error), file=sys.stderr)
    status = 2 if run.error is not None else int(run.refused or run.failed or bool(found.faults))
    if plot is not None:
        _draw(run, plot, text, status or 2)
    raise typer.Exit(status)


def _mapper(robot: str, skills: Path | None) -> tuple[Mapper, Review, Callable[[str], str]]:
    """Return the mapper, what a review of the robot found, and a function that names the fault of a condition."""
    from bench.dry_run import ANY_ROBOT, skills_of
    from function_tokens.mapper import Mapper
    from skill_kernel.review import Review, remarks_on, review
    from skill_kernel.robot import RobotConfig, RobotConfigError
    from skill_kernel.skills.registry import RegistryError, SkillRegistry
    from skill_kernel.skills.skill import SkillDefinitionError

    try:
        if skills is None:
            config = RobotConfig.load(robot)
            registry = SkillRegistry.from_modules(config.skills, text_skill=config.text_skill)
            found = review(robot)
            return Mapper(config, registry), found, _checking(config)
        sys.path.append(str(skills.resolve().parent))  # a file may import its neighbours, which replace no other module
        registry = skills_of(skills)
        empty = f"{skills} declares no skill: @robot_skill(…) stands before functions at the top level of the file"
        remarks = [remark for skill in registry for remark in remarks_on(skill)] if len(registry) else [empty]
        return Mapper(ANY_ROBOT, registry), Review((), tuple(remarks)), lambda condition: ""
    except (RegistryError, RobotConfigError, SkillDefinitionError) as error:
        fail(error, command="dry-run")


def _checking(config: RobotConfig) -> Callable[[str], str]:
    from skill_kernel.guard.condition_text import read_condition
    from skill_kernel.guard.reading import GuardError
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
    assumed = conditions.assumed.items()
    remarks = [f"condition '{c}' is taken as {words[value]}; override with --holds or --fails" for c, value in assumed]
    return [*remarks, *(f"condition '{condition}' was given, but no branch used it" for condition in conditions.unused)]


def _text(file: Path | None) -> str:
    try:
        return "".join(pieces(file))
    except InputError as error:
        fail(error, command="dry-run")


def _as_tokens(text: str) -> str:
    """Return native calls and text, one a line, as function tokens."""
    from planners.models.tool_calls import CallWriter

    written, writer = "", CallWriter()
    for number, line in enumerate(text.splitlines(keepends=True)):
        try:
            call = json.loads(line)
            arguments = call["arguments"]
            given = arguments if isinstance(arguments, str) else json.dumps(arguments)
            written += writer.feed(number, "", call["name"], given) + writer.end()
        except (LookupError, RecursionError, TypeError, ValueError):
            written += line
    return written


def _scheduled(
    text: str, mapper: Mapper, strict: bool, interrupt_at: float | None, routines: Path | None, conditions: AssumedConditions
) -> DryRun:
    from bench.dry_run import dry_run as schedule
    from function_tokens.routines import RoutineStore

    with tempfile.TemporaryDirectory() as scratch:
        copy, fault = Path(scratch) / "routines.json", ""
        try:
            if routines is not None and routines.exists():
                shutil.copyfile(routines, copy)
        except OSError as error:
            fault = f"routine file {routines} cannot be read ({error.strerror or error})"
        store = RoutineStore(copy, clock=time.time)
        if store.load_error is not None:
            fault = str(store.load_error).replace(str(copy), str(routines))
        run = schedule(
            text,
            mapper,
            mode="strict" if strict else "lenient",
            interrupt_at_s=interrupt_at,
            routines=store,
            conditions=conditions,
        )
    if fault:
        run.notices.insert(0, fault)
    return run


def _draw(run: DryRun, path: Path, text: str, status: int) -> None:
    """Draw the picture. End the command with `status` where it cannot be written."""
    from bench.gantt import draw_timeline

    try:
        draw_timeline(run.calls, path, title="Dry run on the virtual clock", stream=text, note="durations: nominal_s")
    except OSError as error:
        fail(f"the picture cannot be written to {path}: {error.strerror or error}", command="dry-run", status=status)
