# SPDX-License-Identifier: Apache-2.0
"""`ghostshell guideline`: what a robot may, should and must not do by itself."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from ghostshell_ros.cli.prescribing import PrescriptionClient, add, show
from ghostshell_ros.cli.say import Robot, Wait

guideline = typer.Typer(help="Standing wishes: when one applies, the robot begins a task by itself.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="name of the guideline")]
GUIDELINE = 1


@guideline.command("add")
def add_(
    sentence: Annotated[str, typer.Argument(help='such as "you may pause a task that is not urgent to greet a visitor"')],
    name: Annotated[str, typer.Option(help="empty: made of the sentence")] = "",
    robot: Robot = "coco",
    wait: Wait = 5.0,
) -> None:
    """Keep a guideline; it holds from now on. What it contradicts is shown."""
    with PrescriptionClient(robot, wait) as client:
        add(client, sentence, name, GUIDELINE, getpass.getuser())


@guideline.command("list")
def list_(robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Show the guidelines of a robot, and the reflexes that contradict one."""
    with PrescriptionClient(robot, wait) as client:
        show([p for p in client.all() if p.kind == GUIDELINE or (p.kind != 0 and p.conflicts)], robot, "guidelines")


@guideline.command("remove")
def remove(name: Name, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Forget a guideline."""
    _do("REMOVE", name, robot, wait)


@guideline.command("enable")
def enable(name: Name, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Let a guideline hold again."""
    _do("ENABLE", name, robot, wait)


@guideline.command("disable")
def disable(name: Name, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Keep a guideline from holding until it is enabled."""
    _do("DISABLE", name, robot, wait)


def _do(command: str, name: str, robot: str, wait: float) -> None:
    with PrescriptionClient(robot, wait) as client:
        answer = client.do(command, name=name)
        print(f"{name}: {command.lower()}d")
        for conflict in answer.prescription.conflicts:
            print(f"CONFLICT with {conflict}")
