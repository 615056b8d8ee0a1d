# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell foxglove`: show robots to Foxglove and Lichtblick on this machine, which can read and nothing else."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import WAIT_S, robots_there, spun
from ghostshell_ros.cli.say import EachRobot, Wait

PORT = 8765
"""The port that Foxglove offers by itself."""


def foxglove(
    robot: EachRobot = "",
    wait: Wait = WAIT_S,
    port: Annotated[int, typer.Option(min=1, max=65_535, help="port on 127.0.0.1")] = PORT,
) -> None:
    """Show a robot, or every one that is there, in Foxglove or Lichtblick on this machine, until Ctrl-C (docs/foxglove.md)."""
    try:
        from ghostshell_ros.nodes.dashboard import foxglove_view
    except ImportError as error:
        how = "pip install -r requirements/foxglove.txt"
        fail(f"it needs a package that is missing ({error}): {how}", command="foxglove")
    from foxglove import Context, start_server

    from ghostshell_ros.runtime.node_runtime import NodeHost

    context = Context()
    try:
        server = start_server(name="GhostShell", host="127.0.0.1", port=port, capabilities=[], context=context)
    except Exception as error:  # noqa: BLE001 - the SDK names no class for it
        fail(f"port {port} cannot be served ({error}); name another one with --port", command="foxglove")
    names = [robot] if robot else robots_there(wait)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with spun(lambda: foxglove_view.FoxgloveView(names[0], context)), NodeHost() as others:
        for name in names[1:]:
            others.add(foxglove_view.FoxgloveView(name, context))
        others.start()
        typer.echo(f"foxglove: ws://127.0.0.1:{port}, {', '.join(names)}; layout config/foxglove/ghostshell.json; Ctrl-C ends")
        ended.wait()
    server.stop()
