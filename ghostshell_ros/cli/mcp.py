# SPDX-License-Identifier: Apache-2.0
"""Define `ghostshell mcp`: serve robots to one program by the Model Context Protocol, through standard input and output."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from ghostshell_ros.cli.output import fail
from ghostshell_ros.cli.robot_client import command_node, spun
from ghostshell_ros.cli.say import EachRobot
from ghostshell_ros.nodes.dashboard.access import Record, Visitor
from ghostshell_ros.runtime.data import data_folder
from skill_kernel.roles import Role

if TYPE_CHECKING:
    from ghostshell_ros.nodes.dashboard.asked_robot import AskedRobots
    from ghostshell_ros.nodes.dashboard.mcp_door import McpDoor


def mcp(
    robot: EachRobot = "",
    as_: Annotated[
        Role | None, typer.Option("--as", help="role whose key signs what is asked; without it, the weakest that may")
    ] = None,
) -> None:
    """Serve a robot, or every one that is there, to an MCP client that starts this command. Docs: docs/mcp.md."""
    try:
        import anyio

        from ghostshell_ros.nodes.dashboard.asked_robot import AskedRobots
        from ghostshell_ros.nodes.dashboard.mcp_door import McpDoor
    except ImportError as error:
        fail(f"the packages of requirements/page.txt are missing ({error}); run make setup", command="mcp")
    record = Record(data_folder() / "page").write
    with spun(lambda: command_node("")) as node:
        robots = AskedRobots(node, only=[robot] if robot else ())
        try:
            anyio.run(_serve, McpDoor(robots, record, Visitor(as_)), robots)
        finally:
            robots.close()


async def _serve(door: McpDoor, robots: AskedRobots) -> None:
    """Serve until the client closes the pipe, or a signal ends it."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def end() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                await robots.end_all(f"its MCP server was ended by {signal.Signals(number).name}")
                os._exit(128 + number)  # the thread that reads standard input cannot be ended

    async with anyio.create_task_group() as group, stdio_server() as (read, write):
        group.start_soon(end)
        group.start_soon(door.watch)
        await door.server.run(read, write, door.server.create_initialization_options())
        group.cancel_scope.cancel()
