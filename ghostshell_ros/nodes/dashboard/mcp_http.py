# SPDX-License-Identifier: Apache-2.0
"""Serve the MCP door by Streamable HTTP: an ASGI application behind the guard of the page, for clients that bear its token.

The SDK takes a second to import, and many pages need it never: it is imported when a program first asks.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import anyio
from rclpy.node import Node
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from ghostshell_ros.nodes.dashboard.access import Visitor
from ghostshell_ros.nodes.dashboard.server import TOKEN, VISITOR

if TYPE_CHECKING:
    from ghostshell_ros.nodes.dashboard.asked_robot import AskedRobots
    from ghostshell_ros.nodes.dashboard.mcp_door import McpDoor

MOST_SESSIONS = 32
IDLE_S = 600.0
"""A session of which nothing is heard for so long is forgotten; its client begins another one."""
MOST_BYTES = 65_536
"""Longest request."""


class McpHttp:
    """Serve the robots that `node` discovers to MCP clients, a session for the token that began it; `record` keeps each act."""

    def __init__(self, node: Node, record: Any) -> None:
        self._node, self._record = node, record
        self._opening = anyio.Lock()
        self._manager: Any = None
        self._serving: tuple[asyncio.Task[None], AskedRobots] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. When it is over, or its client gone, what it began is over. Where the door does not start the
        answer says why, and the next request starts it again."""
        try:
            async with self._opening:
                await self._open()
        except Exception as error:  # noqa: BLE001 - whatever it is, a program that waits for its answer is told
            why = f"the door for programs does not start: {type(error).__name__}: {error}"
            self._node.get_logger().error(why)
            await PlainTextResponse(f"{why}; the next request starts it again\n", 503)(scope, receive, send)
            return
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        from ghostshell_ros.nodes.dashboard.mcp_door import GONE

        gone = anyio.Event()
        user = AuthenticatedUser(AccessToken(token=scope[TOKEN], client_id=scope[VISITOR].name, scopes=[]))
        try:
            await self._manager.handle_request({**scope, GONE: gone, "user": user}, receive, send)
        finally:
            gone.set()

    async def close(self) -> None:
        """End all sessions, and with them what they began."""
        if self._serving is not None and not self._serving[0].done():
            serving, robots = self._serving
            await robots.end_all("the page was ended")
            serving.cancel()
            await asyncio.wait((serving,))

    async def _open(self) -> None:
        """Start the door where it does not run. Raises what kept it from starting."""
        if self._serving is not None and not self._serving[0].done():
            return
        door, robots = await anyio.to_thread.run_sync(self._made)
        ready = asyncio.Event()
        serving, started = asyncio.create_task(self._serve(door, robots, ready)), asyncio.create_task(ready.wait())
        self._serving = serving, robots
        await asyncio.wait((serving, started), return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if serving.done():
            await serving

    def _made(self) -> tuple[McpDoor, AskedRobots]:
        from ghostshell_ros.nodes.dashboard.asked_robot import AskedRobots
        from ghostshell_ros.nodes.dashboard.mcp_door import McpDoor

        robots = AskedRobots(self._node)
        return McpDoor(robots, self._record, Visitor(None)), robots

    async def _serve(self, door: McpDoor, robots: AskedRobots, ready: asyncio.Event) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        try:
            self._manager = StreamableHTTPSessionManager(
                door.server, session_idle_timeout=IDLE_S, max_sessions=MOST_SESSIONS, max_request_body_size=MOST_BYTES
            )
            async with self._manager.run():
                ready.set()
                await door.watch()
        finally:
            robots.close()
