# SPDX-License-Identifier: Apache-2.0
"""Run the page's server on a thread of its own, and do what its clients ask."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import uvicorn

from ghostshell_ros.nodes.dashboard.access import Visitor
from ghostshell_ros.nodes.dashboard.acts import Acts
from ghostshell_ros.nodes.dashboard.cameras import Cameras
from ghostshell_ros.nodes.dashboard.mcp_http import McpHttp
from ghostshell_ros.nodes.dashboard.recordings import replayed_apart
from ghostshell_ros.nodes.dashboard.server import Page, config, create_app, end_tasks
from ghostshell_ros.nodes.dashboard.state import State
from skill_kernel.roles import Act

if TYPE_CHECKING:
    from ghostshell_ros.nodes.dashboard.node import Dashboard


class Serving:
    """Serve the page of a node, and do for its application what reaches robots."""

    def __init__(self, node: Dashboard) -> None:
        self._node, self._page, self._loop = node, Page(), asyncio.new_event_loop()
        self._acts = Acts(node, node.robots, node.work.submit)
        self._cameras = Cameras(node, self._loop)
        self._door = McpHttp(node, self.record)
        self._wanted = ""
        """Name of the recording that was chosen last; "" for none."""
        self._server = uvicorn.Server(config(create_app(self._page, node.access, self, doors={"/mcp": self._door})))

    def run(self, listener: socket.socket) -> None:
        """Serve on a socket until `end` is called."""
        self._loop.run_until_complete(self._server.serve([listener]))
        self._loop.run_until_complete(self._door.close())
        self._loop.run_until_complete(end_tasks())
        self._cameras.close()

    def end(self) -> None:
        """End all connections. From any thread."""
        self._server.should_exit = True

    def show(self, state: State) -> None:
        """Show a state. From any thread."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._page.publish, state)

    # -- on the event loop ----------------------------------------------------------------------------------------

    def look(self, clients: int) -> None:
        """Hear how many clients watch the state now."""
        self._node.call_soon(self._node.look, clients)

    async def do(self, visitor: Visitor, act: str, robot: str, about: Mapping[str, Any], seen: State) -> tuple[bool, str]:
        """Do an act for a visitor, who was shown the state `seen`. Return whether it was done, and a sentence."""
        outcome: Future[tuple[bool, str]] = Future()
        outcome.set_running_or_notify_cancel()  # whoever waits may go; the act is not taken back

        def then(ok: bool, message: str) -> None:
            outcome.set_result((ok, message))

        self._node.call_soon(self._act, visitor, act, robot, about, seen, then)
        return await asyncio.wrap_future(outcome)

    def halt(self, robot: str, cause: str) -> tuple[bool, str]:
        """Halt a robot, also one of this machine that is not shown yet; on a thread of its own."""
        link = self._node.robots.get(robot)
        outcome = self._node.halts.halt(robot, cause, known=link is not None)
        if link is not None and link.services is not None:  # a halt of a halted robot has a new number, and no other sign
            self._node.call_soon(link.services.look_at_halt)
        return outcome

    async def frame(self, robot: str, camera: str, after: int) -> tuple[int, bytes]:
        """Return a camera's newest picture as JPEG with its number, once there is one with another number than `after`."""
        return await self._cameras.frame(f"/{robot}/{camera}", after)

    def watch(self, robot: str, camera: str, *, begins: bool) -> bool:
        """Hear that somebody begins or ends to watch a camera. Return whether there is such a camera."""
        link = self._node.robots.get(robot)
        found = not begins or (link is not None and camera in link.page.cameras)
        if found:
            self._cameras.watch(f"/{robot}/{camera}", begins=begins)
        return found

    def record(self, visitor: Visitor, address: str, **about: Any) -> None:
        """Keep who did what from where. From any thread."""
        self._node.work.submit(self._write, visitor, address, about)

    def _write(self, visitor: Visitor, address: str, about: Mapping[str, Any]) -> None:
        done = "done" if about.get("ok") else "not done"
        logger = self._node.get_logger()
        logger.info(f"{visitor.name} at {address}: {about.get('act')} {about.get('robot')}: {done}")
        try:
            self._node.records.write(visitor, address, **about)
        except OSError as error:
            logger.error(f"an act cannot be recorded: {error}", throttle_duration_sec=10.0)

    # -- on the node's executor ---------------------------------------------------------------------------------------

    def _act(
        self, visitor: Visitor, act: str, robot: str, about: Mapping[str, Any], seen: State, then: Callable[[bool, str], None]
    ) -> None:
        """Do an act, and tell its outcome."""
        if act not in ("replay", "live"):
            self._acts.do(visitor, act, robot, about, seen, then)
            return
        if why := visitor.refusal(Act.LOOK):
            then(False, why)
            return
        for name in [name for name, page in self._node.state.robots.items() if page.recorded]:
            del self._node.state.robots[name]
        self._node.state.replaying = ""
        self._wanted = str(about.get("name", "")) if act == "replay" else ""
        if act == "live":
            then(True, "")
        else:
            self._node.work.submit(self._replay, self._wanted, then)

    def _replay(self, name: str, then: Callable[[bool, str], None]) -> None:
        try:
            pages = replayed_apart(self._node.data, name)
        except ValueError as error:
            then(False, str(error))
            return

        def show() -> None:
            if name != self._wanted:
                then(False, f"{name} is not shown: something else was chosen meanwhile")
                return
            self._node.state.robots.update(pages)
            self._node.state.replaying = name
            then(True, "")

        self._node.call_soon(show)
