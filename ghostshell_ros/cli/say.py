# SPDX-License-Identifier: Apache-2.0
"""`ghostshell say`, `halt` and `clear`: what a person says to a running robot."""

from __future__ import annotations

import re
import sys
from typing import Annotated

import typer

from ghostshell_ros.cli.robot_client import RobotClient as ServiceClient
from ghostshell_ros.cli.robot_client import spun


def _namespace(robot: str) -> str:
    """Return the robot's name without slashes at its ends. Raises typer.BadParameter when no robot can be called so."""
    name = robot.strip("/")
    if not re.fullmatch(r"[A-Za-z_]\w*(/[A-Za-z_]\w*)*", name, re.ASCII):
        raise typer.BadParameter(f"'{robot}' is no robot's name; it has letters, digits and underscores, no digit first")
    return name


Robot = Annotated[str, typer.Option("--robot", callback=_namespace, help="namespace of the robot")]
Wait = Annotated[float, typer.Option(min=0.1, help="wait for the robot at most [s]")]


def say(
    instruction: Annotated[str, typer.Argument(help="what the robot should do, in plain words")],
    robot: Robot = "coco",
    wait: Wait = 10.0,
    timeout: Annotated[float, typer.Option(min=1.0, help="the task may take so long [s]")] = 600.0,
) -> None:
    """Send an instruction and follow the task live until it ends; Ctrl-C cancels it.

    Exit status: 0 the task succeeded, 1 it did not, 2 no robot answers.
    """
    from ghostshell_ros.cli.follow import NotThereError, RobotClient, make_view, run_task, told, wait_ready
    from skill_kernel.processes.process import ProcessStatus

    try:
        with spun(lambda: RobotClient(robot)) as client:
            wait_ready(client, wait)
            end = run_task(client, make_view(f"{robot}: {instruction}"), instruction, timeout_s=timeout)
    except NotThereError as error:
        print(f"ghostshell say: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    print(told(end))
    obeyed = end.status == ProcessStatus.STOPPED and not end.error_code
    raise typer.Exit(0 if obeyed or end.status == ProcessStatus.SUCCESS else 1)


def halt(robot: Robot = "coco", wait: Wait = 10.0) -> None:
    """Halt the robot at its safety gate; it stays halted until cleared."""
    _trigger("halt", robot, wait)


def clear(robot: Robot = "coco", wait: Wait = 10.0) -> None:
    """Clear a halt, so that the robot takes instructions again."""
    _trigger("clear_halt", robot, wait)


def _trigger(service: str, robot: str, wait: float) -> None:
    nobody = f"no robot '{robot}' answers ({service}); is it launched on this ROS domain?"
    with ServiceClient(robot, wait, service=f"std_srvs/Trigger {service}", nobody=nobody) as client:
        answer = client.ask(client.type.Request())
        print(f"{robot}: {answer.message or service}")
        raise typer.Exit(0 if answer.success else 1)
