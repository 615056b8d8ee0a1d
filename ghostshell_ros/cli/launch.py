# SPDX-License-Identifier: Apache-2.0
"""`ghostshell launch`: starts an XML launch file where `ros2 launch` is missing."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def launch(
    file: Annotated[str, typer.Argument(help="launch file, or the name of one of this package: coco")],
    arguments: Annotated[list[str] | None, typer.Argument(help="<name>:=<value> …", show_default=False)] = None,
    show_args: Annotated[bool, typer.Option("--show-args", "-s", help="show the file's arguments and end")] = False,
) -> None:
    """Start the processes of an XML launch file and show what they say; Ctrl-C ends them, a second one hastens it.

    Exit status: 0 all have ended, 1 the file cannot be started or the runner was terminated.
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
    raise typer.Exit(console.run(specs))
