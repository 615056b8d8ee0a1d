# SPDX-License-Identifier: Apache-2.0
"""Serve the page to programs, with robots that a test holds."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from websockets.sync.client import ClientConnection, connect

from ghostshell_ros.nodes.dashboard.access import Access, Visitor
from ghostshell_ros.nodes.dashboard.listening import listening
from ghostshell_ros.nodes.dashboard.server import Page, config, create_app, end_tasks
from ghostshell_ros.nodes.dashboard.state import PageState, RobotPage, State
from skill_kernel.roles import Keys


class HeldRobots:
    """Keep what the page asks of robots; a test sets the answers."""

    def __init__(self, publish: Callable[[], None]) -> None:
        self.clients = 0
        self._publish = publish
        self.done: list[tuple[str, str, str, dict[str, Any]]] = []
        self.recorded: list[dict[str, Any]] = []
        self.watched: list[bool] = []
        self.pictures = 0
        self.picture = b"\xff\xd8 a picture"
        self.answers = asyncio.Event()
        self.answers.set()

    def look(self, clients: int) -> None:
        if not self.clients:
            self._publish()
        self.clients = clients

    async def do(self, visitor: Visitor, act: str, robot: str, about: Mapping[str, Any], seen: State) -> tuple[bool, str]:
        self.done.append((visitor.name, act, robot, dict(about)))
        await self.answers.wait()
        return True, f"{act} is done"

    def halt(self, robot: str, cause: str) -> tuple[bool, str]:
        self.done.append(("", "halt", robot, {"cause": cause}))
        return True, "halted"

    async def frame(self, robot: str, camera: str, after: int) -> tuple[int, bytes]:
        self.pictures += 1
        await asyncio.sleep(0)
        return after + 1, self.picture

    def watch(self, robot: str, camera: str, *, begins: bool) -> bool:
        if camera == "camera/image_raw":
            self.watched.append(begins)
        return camera == "camera/image_raw"

    def record(self, visitor: Visitor, address: str, **about: Any) -> None:
        self.recorded.append({"role": visitor.name, "address": address, **about})


class QuickServer(uvicorn.Server):
    """Look for the end a hundred times a second; uvicorn looks ten times."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(0.01)


class Served:
    """Hold a page that is served on a thread, and speak to it."""

    def __init__(self, folder: Path, names: tuple[str, ...] = ()) -> None:
        self.access = Access(Keys(folder / "keys"), folder / "page", names)
        self.page, self.state, self._looks = Page(), PageState(), 0
        self.robots = HeldRobots(self._look)
        self.state.robots["kalos"] = RobotPage()
        self._socket = listening("127.0.0.1", 0)
        self.port = self._socket.getsockname()[1]
        self.loop = asyncio.new_event_loop()
        self._server = QuickServer(config(create_app(self.page, self.access, self.robots)))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self.loop.run_until_complete(self._server.serve([self._socket]))
        self.loop.run_until_complete(end_tasks())

    def _look(self) -> None:
        self._looks += 1
        self.page.publish(self.state.render(float(self._looks)))

    def start(self) -> None:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10.0)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def publish(self) -> None:
        """Show what the state is now."""
        done = threading.Event()
        self.loop.call_soon_threadsafe(lambda: (self.page.publish(self.state.render(float(self._looks))), done.set()))
        assert done.wait(5.0)

    def cookie(self, token: str = "") -> str:
        return f"ghostshell-{self.port}={token or self.access.token()}"

    def socket(self, path: str = "/ws", token: str = "", room: int = 16, **headers: str) -> ClientConnection:
        """Return a WebSocket, as a browser would open it from the page, that keeps so many messages; an Origin of None is left
        out."""
        given = {"Cookie": self.cookie(token), **{name.replace("_", "-"): value for name, value in headers.items()}}
        origin: Any = given.pop("Origin", f"http://{self.address}")
        options: dict[str, Any] = {"compression": None, "proxy": None, "max_queue": room}
        return connect(f"ws://{self.address}{path}", additional_headers=given, origin=origin, **options)


def heard(socket: ClientConnection, timeout_s: float = 5.0) -> dict[str, Any]:
    """Return the next message."""
    message: dict[str, Any] = json.loads(socket.recv(timeout_s))
    return message


@contextmanager
def served(folder: Path, names: tuple[str, ...] = ()) -> Iterator[Served]:
    """Serve a page while the block runs."""
    page = Served(folder, names)
    page.start()
    try:
        yield page
    finally:
        page.close()
