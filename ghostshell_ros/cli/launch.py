# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell launch`: start an XML launch file where `ros2 launch` is missing."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ghostshell_ros.cli.output import fail

if TYPE_CHECKING:
    from ghostshell_ros.launcher import ProcessSpec
    from ghostshell_ros.launcher.checks import Start
    from skill_kernel.review import Review


def launch(
    file: Annotated[str, typer.Argument(help="launch file, or the name of one of this package: coco")],
    arguments: Annotated[list[str] | None, typer.Argument(help="<name>:=<value> …", show_default=False)] = None,
    show_args: Annotated[bool, typer.Option("--show-args", "-s", help="show the file's arguments and end")] = False,
) -> None:
    """Start the processes of an XML launch file and show what they say; Ctrl-C ends them, a second one hastens it.

    Exit status: 0 all have ended, 1 it cannot be started as it is given (a sentence says why), or the runner was terminated.
    """
    from ghostshell_ros import launcher
    from ghostshell_ros.launcher import console
    from ghostshell_ros.launcher.checks import starts_of

    try:
        if show_args:
            print(console.arguments_text(launcher.declared_arguments(file)))
            return
        specs = launcher.describe(file, console.parse_arguments(arguments or []))
    except launcher.LaunchError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    for found in _checks(starts_of(specs, launcher.PACKAGE).values()):
        for remark in found.remarks:
            print(f"[WARNING] [launch]: {remark}", file=sys.stderr)
        if found.faults:
            fail(found.faults[0], command="launch", status=1)
    if fault := _fault_of_security(specs):
        fail(fault, command="launch", status=1)
    raise typer.Exit(console.run(specs))


def _checks(starts: Iterable[tuple[Start, Mapping[str, str]]]) -> list[Review]:
    """Return what is wrong with each robot. A fork looks: the robots' code and numpy would stay in this process with 16 MB."""
    try:
        ignoring: dict[str, Any] = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}
        with ProcessPoolExecutor(1, mp_context=get_context("fork"), **ignoring) as apart:
            return list(apart.map(_check, starts))
    except BrokenProcessPool:
        from skill_kernel.review import Review

        return [Review(("the robot's code ended the process that checked it; import its skills and body by hand to see why",))]


def _check(start: tuple[Start, Mapping[str, str]]) -> Review:
    return start[0].check(start[1])


def _fault_of_security(specs: Iterable[ProcessSpec]) -> str:
    """Return why ROS starts no node with the security that the launch asks for, or ""."""
    from ghostshell_ros.cli.security import refusal

    for spec in specs:
        if spec.environment.get("ROS_SECURITY_STRATEGY") == "Enforce" and "--enclave" in spec.command:
            why = refusal(spec.environment, str(spec.command[spec.command.index("--enclave") + 1]))
            return f"security:=enforce: {why}; `ghostshell security check` tells more" if why else ""
    return ""
