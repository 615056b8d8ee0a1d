# SPDX-License-Identifier: Apache-2.0
"""`ghostshell dry-run`: the schedule of a stream on a virtual clock, without ROS and without a robot."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from ghostshell_ros.cli.stream_input import InputError, pieces
from ghostshell_ros.cli.tokens import problem_line

if TYPE_CHECKING:
    from ghostshell_ros.shell.mapper import Mapper


def dry_run(
    file: Annotated[Path | None, typer.Argument(help="stream of function tokens; - or nothing reads standard input")] = None,
    robot: Annotated[str, typer.Option(help="robot whose skills are used, a name or a YAML file")] = "",
    skills: Annotated[Path | None, typer.Option(help="Python file with @robot_skill functions")] = None,
    strict: Annotated[bool, typer.Option("--strict/--lenient", help="end at the first violation, or mend and go on")] = False,
    plot: Annotated[Path | None, typer.Option(help="write a Gantt picture by channel (PNG)")] = None,
    interrupt_at: Annotated[float | None, typer.Option(min=0.0, help="interrupt everything at this time [s]")] = None,
    routines: Annotated[Path | None, typer.Option(help="JSON file of saved routines, for <run> and <save>")] = None,
) -> None:
    """Print what would happen: one JSON object a call with function, args, channel, start, end and outcome.

    Durations are the skills' declared nominal_s. Exit status: 0 all well, 1 something was refused, 2 the stream broke a
    rule in strict mode or the input cannot be used.
    """
    from ghostshell_ros.shell.dryrun import dry_run as schedule
    from ghostshell_ros.shell.routines import RoutineStore
    from skill_kernel.registry import RegistryError
    from skill_kernel.robot import RobotConfigError
    from skill_kernel.skill import SkillDefinitionError

    if bool(robot) == bool(skills):
        _fail("name the skills with either --robot NAME or --skills FILE.py")
    try:
        mapper = _mapper(robot, skills)
    except (RegistryError, RobotConfigError, SkillDefinitionError) as error:
        _fail(str(error))
    try:
        text = "".join(pieces(file))
    except InputError as error:
        _fail(str(error))
    with tempfile.TemporaryDirectory() as scratch:
        store = RoutineStore(routines or Path(scratch) / "routines.json", clock=time.time)
        try:
            run = schedule(
                text, mapper, mode="strict" if strict else "lenient", interrupt_at_s=interrupt_at, routines=store
            )
        except SkillDefinitionError as error:
            _fail(str(error))
    for call in run.calls:
        print(json.dumps(call.as_json(), ensure_ascii=False))
    for message in [*run.repairs, *run.notices]:
        print(json.dumps({"notice": message}, ensure_ascii=False), file=sys.stderr)
    if plot is not None:
        from ghostshell_ros.cli.gantt import draw_timeline

        draw_timeline(run.calls, plot, title="Dry run on the virtual clock", stream=text, note="durations: nominal_s")
    if run.error is not None:
        print(problem_line(run.error), file=sys.stderr)
        raise typer.Exit(2)
    if run.refused:
        raise typer.Exit(1)


def _mapper(robot: str, skills: Path | None) -> Mapper:
    from ghostshell_ros.shell.mapper import Mapper
    from skill_kernel.registry import SkillRegistry
    from skill_kernel.robot import RobotConfig

    if skills is not None:
        return Mapper(SkillRegistry.from_file(skills))
    config = RobotConfig.load(robot)
    return Mapper.for_robot(config, SkillRegistry.from_modules(config.skills, text_skill=config.text_skill))


def _fail(message: str) -> NoReturn:
    print(f"ghostshell dry-run: {message}", file=sys.stderr)
    raise typer.Exit(2)
