# SPDX-License-Identifier: Apache-2.0
"""Open the MCP door at the page when a program first uses it: its SDK takes a second to import, and many need it never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from rclpy.node import Node
from starlette.types import Receive, Scope, Send

from ghostshell_ros.nodes.dashboard.access import Visitor

if TYPE_CHECKING:
    from ghostshell_ros.nodes.dashboard.asked_robot import AskedRobots
    from ghostshell_ros.nodes.dashboard.mcp_http import McpHttp


class LazyDoor:
    """Serve the robots that `node` discovers; `record` keeps each act."""

    def __init__(self, node: Node, record: Any) -> None:
        self._node, self._record = node, record
        self._opening = anyio.Lock()
        self._open: tuple[McpHttp, AskedRobots] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with self._opening:
            if self._open is None:
                self._open = await anyio.to_thread.run_sync(self._made)
        await self._open[0](scope, receive, send)

    async def close(self) -> None:
        """End what was begun here."""
        if self._open is not None:
            http, robots = self._open
            await robots.end_all("the page was ended")
            await http.close()
            robots.close()

    def _made(self) -> tuple[McpHttp, AskedRobots]:
        from ghostshell_ros.nodes.dashboard.asked_robot import AskedRobots
        from ghostshell_ros.nodes.dashboard.mcp_door import McpDoor
        from ghostshell_ros.nodes.dashboard.mcp_http import McpHttp

        robots = AskedRobots(self._node)
        return McpHttp(McpDoor(robots, self._record, Visitor(None))), robots
