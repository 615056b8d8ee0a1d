# SPDX-License-Identifier: Apache-2.0
"""`ghostshell task` and `ghostshell prescribe`: sentences kept under a name, and where a sentence belongs."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from ghostshell_ros.cli.prescribing import KINDS, PrescriptionClient, add, lines, show
from ghostshell_ros.cli.say import Robot, Wait

task = typer.Typer(help="Goals kept under a name, to be begun again and again.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="name of the task")]
TASK, REFLEX, ANY = 0, 2, 255


@task.command("add")
def add_(
    sentence: Annotated[str, typer.Argument(help='such as "go to the kitchen and see whether the door is open"')],
    name: Annotated[str, typer.Option(help="empty: made of the sentence")] = "",
    robot: Robot = "coco",
    wait: Wait = 5.0,
) -> None:
    """Keep a task; it does not begin by that."""
    with PrescriptionClient(robot, wait) as client:
        add(client, sentence, name, TASK, getpass.getuser())


@task.command("list")
def list_(
    robot: Robot = "coco",
    wait: Wait = 5.0,
    all_: Annotated[bool, typer.Option("--all", help="guidelines and reflexes, too")] = False,
) -> None:
    """Show the tasks of a robot, with the reason why each is one."""
    with PrescriptionClient(robot, wait) as client:
        show([p for p in client.all() if all_ or p.kind == TASK], robot, "prescriptions" if all_ else "tasks")


@task.command("run")
def run(name: Name, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Begin a task now; `ghostshell ps` shows how it goes."""
    with PrescriptionClient(robot, wait) as client:
        print(f"{name}: process {client.do('RUN', name=name, author=getpass.getuser()).process_id}")


@task.command("remove")
def remove(name: Name, robot: Robot = "coco", wait: Wait = 5.0) -> None:
    """Forget a task."""
    with PrescriptionClient(robot, wait) as client:
        client.do("REMOVE", name=name)
        print(f"{name}: removed")


def prescribe(
    sentence: Annotated[str, typer.Argument(help="a task, a guideline or a reflex in plain words")],
    robot: Robot = "coco",
    wait: Wait = 5.0,
    dry: Annotated[bool, typer.Option("--dry", help="only say where it belongs")] = False,
) -> None:
    """Send a sentence to the layer whose latency fits, and say which and why: a task begins, a guideline holds from now on, a
    reflex waits for approval."""
    with PrescriptionClient(robot, wait) as client:
        found = client.do("ROUTE", sentence=sentence, kind=ANY).prescription
        if dry:
            print(f"{KINDS[found.kind]} ({found.layer}): {found.reason}")
            return
        if found.kind == TASK:
            answer = client.do("RUN", sentence=sentence, author=getpass.getuser())
            print(f"task ({found.layer}): {found.reason}\nprocess {answer.process_id}")
            return
        answer = client.do("ADD", sentence=sentence, kind=ANY, author=getpass.getuser())
        print("\n".join(lines([answer.prescription])))
        if answer.prescription.kind == REFLEX:
            print(f"Approve it with: ghostshell reflex approve {answer.prescription.name} --robot {robot}")
