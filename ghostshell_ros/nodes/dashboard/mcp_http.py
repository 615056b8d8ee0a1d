# SPDX-License-Identifier: Apache-2.0
"""Serve the MCP door by Streamable HTTP: an ASGI application behind the guard of the page, for clients that bear its token."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from ghostshell_ros.nodes.dashboard.mcp_door import GONE, McpDoor
from ghostshell_ros.nodes.dashboard.server import TOKEN, VISITOR

MOST_SESSIONS = 32
IDLE_S = 600.0
"""A session of which nothing is heard for so long is forgotten; its client begins another one."""
MOST_BYTES = 65_536
"""Longest request."""


class McpHttp:
    """Answer the requests of MCP clients. A session is for the token that began it."""

    def __init__(self, door: McpDoor) -> None:
        self._door = door
        self._manager: StreamableHTTPSessionManager | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ready = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. When it is over, or its client gone, what it began is over."""
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
        await self._ready.wait()
        assert self._manager is not None
        gone = anyio.Event()
        user = AuthenticatedUser(AccessToken(token=scope[TOKEN], client_id=scope[VISITOR].name, scopes=[]))
        try:
            await self._manager.handle_request({**scope, GONE: gone, "user": user}, receive, send)
        finally:
            gone.set()

    async def close(self) -> None:
        """End all sessions, and with them what they began."""
        if self._serving is not None:
            self._serving.cancel()
            with suppress(asyncio.CancelledError):
                await self._serving

    async def _serve(self) -> None:
        self._manager = StreamableHTTPSessionManager(
            self._door.server, session_idle_timeout=IDLE_S, max_sessions=MOST_SESSIONS, max_request_body_size=MOST_BYTES
        )
        async with self._manager.run():
            self._ready.set()
            await self._door.watch()
