# SPDX-License-Identifier: Apache-2.0
"""`ghostshell reflex`: adds, tries, approves and removes the reflexes of a running robot."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ghostshell_ros.cli.robot_client import RobotClient
from ghostshell_ros.cli.say import Robot, Wait

reflex = typer.Typer(
    help="What a robot does at once, without any model: write it as a sentence, try it, approve it.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(help="name of the reflex")]
Person = Annotated[str, typer.Option("--by", help="who does this; empty: the user of this machine")]
COMPILE_S = 150.0
"""A model may take its time, twice."""
SHOWN = 60
CONFLICTS_S = 1.0
REFLEX = 2
"""Kind of a prescription (Prescription.msg)."""


@reflex.command("add")
def add(
    sentence: Annotated[str, typer.Argument(help='such as "when anything is closer than 0.2 m in front, step back 0.5 m"')],
    robot: Robot = "coco",
    wait: Wait = 3.0,
    name: Annotated[str, typer.Option(help="empty: made of the sentence")] = "",
    priority: Annotated[int, typer.Option(min=0, max=100, help="a higher one interrupts a lower one")] = 50,
    cooldown_s: Annotated[float, typer.Option(min=0.1, help="rest after its action [s]")] = 2.0,
    repeats: Annotated[bool, typer.Option("--repeats", help="fire again while the condition stays true")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="by the grammar, whatever model there is")] = False,
    code: Annotated[Path | None, typer.Option(help="file with the two functions, instead of compiling the sentence")] = None,
    by: Person = "",
) -> None:
    """Make a reflex of a sentence. It is proposed: it does not fire before it is approved."""
    source = ""
    if code is not None:
        try:
            source = code.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            print(f"ghostshell reflex add: {code} cannot be read ({error})", file=sys.stderr)
            raise typer.Exit(2) from error
    with _Client(robot, wait) as client:
        answer = client.do(
            "ADD",
            COMPILE_S,
            sentence=sentence,
            source=source,
            name=name,
            priority=priority,
            cooldown_s=cooldown_s,
            repeats=repeats,
            offline=offline,
            person=by or getpass.getuser(),
        )
        _show(answer.reflexes)
        print(answer.report)
        if answer.reflexes:
            print(f"\nApprove it with: ghostshell reflex approve {answer.reflexes[0].name} --robot {robot}")


@reflex.command("list")
def list_(robot: Robot = "coco", wait: Wait = 3.0) -> None:
    """Show the reflexes of a robot."""
    from rich.console import Console
    from rich.table import Table

    with _Client(robot, wait) as client:
        reflexes = client.do("LIST", wait).reflexes
        table = Table("name", "state", "prio", "holds", "fired", "µs", "sentence", "why or last")
        for state in reflexes:
            table.add_row(*_row(state))
        if reflexes:
            Console().print(table)
        else:
            print(f"{robot}: there are no reflexes")
        for name, conflict in client.conflicts():
            print(f"{name}: CONFLICT with {conflict}")


@reflex.command("show")
def show(name: Name, robot: Robot = "coco", wait: Wait = 3.0) -> None:
    """Show one reflex with its code."""
    with _Client(robot, wait) as client:
        _show(client.do("LIST", wait, name=name).reflexes)


@reflex.command("test")
def test(
    name: Name,
    robot: Robot = "coco",
    wait: Wait = 3.0,
    file: Annotated[
        Path | None, typer.Option(help="recorded observations, one as JSON a line; none: those of the last minutes")
    ] = None,
) -> None:
    """Tell when a reflex would have fired, and what it would have done."""
    with _Client(robot, wait) as client:
        observations = str(file.expanduser().resolve()) if file is not None else ""
        print(client.do("TEST", COMPILE_S, name=name, observations_file=observations).report)


@reflex.command("approve")
def approve(
    name: Name,
    robot: Robot = "coco",
    wait: Wait = 3.0,
    by: Person = "",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask")] = False,
) -> None:
    """Let a proposed reflex fire from now on; shows its code and what it would have done, and asks."""
    with _Client(robot, wait) as client:
        if not yes:
            _show(client.do("LIST", wait, name=name).reflexes)
            print(client.do("TEST", COMPILE_S, name=name).report)
            typer.confirm(f"May '{name}' move the robot by itself from now on?", abort=True)
        print(client.do("APPROVE", wait, name=name, person=by or getpass.getuser()).report)


@reflex.command("remove")
def remove(name: Name, robot: Robot = "coco", wait: Wait = 3.0) -> None:
    """Delete a reflex."""
    _do("REMOVE", name, robot, wait)


@reflex.command("enable")
def enable(name: Name, robot: Robot = "coco", wait: Wait = 3.0) -> None:
    """Let an approved reflex that was disabled fire again."""
    _do("ENABLE", name, robot, wait)


@reflex.command("disable")
def disable(name: Name, robot: Robot = "coco", wait: Wait = 3.0, by: Person = "") -> None:
    """Keep a reflex from firing until it is enabled."""
    _do("DISABLE", name, robot, wait, person=by or getpass.getuser())


def _do(command: str, name: str, robot: str, wait: float, **fields: Any) -> None:
    with _Client(robot, wait) as client:
        client.do(command, wait, name=name, **fields)
        print(f"{name}: {command.lower()}d")


class _Client(RobotClient):
    """Asks the node reflexes; ends the command with status 1 when it refuses."""

    def __init__(self, robot: str, wait_s: float) -> None:
        super().__init__(
            robot,
            wait_s,
            service="ghostshell/CompileReflex compile_reflex",
            topic="ghostshell/PrescriptionArray prescriptions",
            nobody=f"the node reflexes of robot '{robot}' does not answer; is it launched on this ROS domain?",
        )

    def __enter__(self) -> _Client:
        super().__enter__()
        return self

    def do(self, command: str, answer_s: float, **fields: Any) -> Any:
        """Return the answer to a request that must be obeyed."""
        Request = self.type.Request
        self.prove(Request(command=Request.LIST))
        answer = self.ask(Request(command=getattr(Request, command), **fields), answer_s)
        if not answer.success:
            print(f"ghostshell reflex {command.lower()}: {answer.error_msg}", file=sys.stderr)
            raise typer.Exit(1)
        return answer

    def conflicts(self) -> list[tuple[str, str]]:
        """Return which reflex contradicts which guideline, nothing where the process scheduler does not run."""
        told = self.newest(CONFLICTS_S)
        prescriptions = told.prescriptions if told is not None else []
        return [(p.name, conflict) for p in prescriptions if p.kind == REFLEX for conflict in p.conflicts]


def _states() -> tuple[str, ...]:
    return ("proposed", "approved", "disabled")


def _row(state: Any) -> list[str]:
    holds = ("no", "yes", "unknown")[state.holds]
    if state.holds == 2 and state.stale_field:
        holds = f"unknown: {state.stale_field}"
    sentence = state.sentence if len(state.sentence) <= SHOWN else state.sentence[: SHOWN - 1] + "…"
    return [
        state.name,
        "acting" if state.acting else _states()[state.state],
        str(state.priority),
        holds,
        str(state.fired),
        f"{state.mean_us:.0f}",
        sentence,
        state.reason or state.last,
    ]


def _show(reflexes: Any) -> None:
    for state in reflexes:
        approved = f", approved by {state.approver}" if state.approver else ""
        print(f"{state.name} ({_states()[state.state]}{approved}; written by {state.model or 'nobody'})")
        print(f"“{state.sentence}”" + (f"\n{state.reason}" if state.reason else ""))
        print(f"\n{state.source}")
