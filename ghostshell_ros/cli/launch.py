# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell launch`: start an XML launch file where `ros2 launch` is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ghostshell_ros.cli.output import fail

if TYPE_CHECKING:
    from ghostshell_ros.launcher import ProcessSpec


def launch(
    file: Annotated[str, typer.Argument(help="launch file, or the name of one of this package: coco")],
    arguments: Annotated[list[str] | None, typer.Argument(help="<name>:=<value> …", show_default=False)] = None,
    show_args: Annotated[bool, typer.Option("--show-args", "-s", help="show the file's arguments and end")] = False,
) -> None:
    """Start the processes of an XML launch file and show what they say; Ctrl-C ends them, a second one hastens it.

    Exit status: 0 all have ended, 1 the file cannot be started, a robot's file is wrong, or the runner was terminated.
    """
    from ghostshell_ros import launcher
    from ghostshell_ros.launcher import console

    try:
        if show_args:
            print(console.arguments_text(launcher.declared_arguments(file)))
            return
        specs = launcher.describe(file, console.parse_arguments(arguments or []))
    except launcher.LaunchError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    fault = _fault_of_robots(specs) or _fault_of_security(specs)
    if fault:
        fail(fault, command="launch", status=1)
    raise typer.Exit(console.run(specs))


def _fault_of_robots(specs: Iterable[ProcessSpec]) -> str:
    """Return what is wrong with the robots of this package's nodes, or "". Each node would say the same."""
    from ghostshell_ros.launcher import PACKAGE, InlineParameters
    from skill_kernel.robot import RobotConfig, RobotConfigError
    from skill_kernel.skills.registry import RegistryError, SkillRegistry

    own = [spec for spec in specs if Path(str(spec.command[0])).parent.name == PACKAGE]
    values = [word.values for spec in own for word in spec.command if isinstance(word, InlineParameters)]
    for name in dict.fromkeys(str(given["robot"]) for given in values if "robot" in given):
        try:
            robot = RobotConfig.load(name)
            SkillRegistry.from_modules(robot.skills, text_skill=robot.text_skill)
            if robot.body:
                robot.load_body()
        except RobotConfigError as error:
            return str(error)
        except RegistryError as error:
            return f"robot '{name}': {error}"
    return ""


def _fault_of_security(specs: Iterable[ProcessSpec]) -> str:
    """Return why ROS starts no node with the security that the launch asks for, or ""."""
    from ghostshell_ros.cli.security import refusal

    for spec in specs:
        if spec.environment.get("ROS_SECURITY_STRATEGY") == "Enforce" and "--enclave" in spec.command:
            why = refusal(spec.environment, str(spec.command[spec.command.index("--enclave") + 1]))
            return f"security:=enforce: {why}; `ghostshell security check` tells more" if why else ""
    return ""
