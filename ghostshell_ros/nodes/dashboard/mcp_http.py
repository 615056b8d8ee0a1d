# SPDX-License-Identifier: Apache-2.0
"""Serve the MCP door by Streamable HTTP: an ASGI application behind the guard of the page, for clients that bear its token.

The SDK takes a second to import, and many pages need it never: it is imported when a program first asks.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio
from rclpy.node import Node
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
        """Answer one request. When it is over, or its client gone, what it began is over."""
        async with self._opening:
            if self._serving is None:
                door, robots = await anyio.to_thread.run_sync(self._made)
                ready = anyio.Event()
                self._serving = asyncio.create_task(self._serve(door, ready)), robots
                await ready.wait()
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
        if self._serving is not None:
            serving, robots = self._serving
            await robots.end_all("the page was ended")
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
            robots.close()

    def _made(self) -> tuple[McpDoor, AskedRobots]:
        from ghostshell_ros.nodes.dashboard.asked_robot import AskedRobots
        from ghostshell_ros.nodes.dashboard.mcp_door import McpDoor

        robots = AskedRobots(self._node)
        return McpDoor(robots, self._record, Visitor(None)), robots

    async def _serve(self, door: McpDoor, ready: anyio.Event) -> None:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        self._manager = StreamableHTTPSessionManager(
            door.server, session_idle_timeout=IDLE_S, max_sessions=MOST_SESSIONS, max_request_body_size=MOST_BYTES
        )
        async with self._manager.run():
            ready.set()
            await door.watch()
