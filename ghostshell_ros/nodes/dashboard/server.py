# SPDX-License-Identifier: Apache-2.0
"""Serve the page: its files, the state over a WebSocket to each client, pictures, acts and halts. Without ROS: docs/page.md."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from ghostshell_ros.nodes.dashboard.access import Access, Visitor
from ghostshell_ros.nodes.dashboard.state import State, json_object, patch
from skill_kernel.config.sections import CAUSE_CHARS, shown
from skill_kernel.processes.questions import PRIVATE, in_private

if TYPE_CHECKING:
    from ghostshell_ros.nodes.dashboard.serving import Serving

STATIC = Path(__file__).parent / "static"
MAX_MESSAGE = 65_536
"""Bytes of a message of a client."""
MAX_CLIENTS = 32
"""Clients that watch the state, and cameras that are watched, at a time each."""
MAX_CONNECTIONS = 200
"""Connections at a time; more are told to come back later."""
MAX_ACTS = 8
"""Acts of one client that wait for their outcome at a time."""
HALTS = 64
"""Halts of one client that wait for their gates at a time: two of each robot that the page can show. Of all, as many are asked
for at once: a gate that does not answer keeps its place for seconds."""
MAX_WORDS = 8_000
"""Characters of an argument of an act, as of an instruction."""
KEPT = 8
"""Changes that a client may be behind before it gets the whole state instead."""
DID_S = 5.0
"""Time in which each act has its outcome."""
FRESH_S = 0.5
"""Time in which the first client gets a state that is current."""
STUCK_S = 10.0
"""A client that takes nothing for so long is cut off."""
ENDED_S = 1.0
"""Time in which what is cancelled at the end has ended."""
TOKEN, VISITOR = "ghostshell.token", "ghostshell.visitor"
"""Keys in the scope of an admitted request: its token, and whose it is."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob:; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
REFUSED = "This page needs the address that ghostshell launch prints, with its token; ghostshell page prints it again.\n"
BAD_REQUEST, TRY_LATER = 1008, 1013
"""Codes with which a WebSocket is closed: what it said is not understood; there are too many."""

GONE = (WebSocketDisconnect, asyncio.TimeoutError, RuntimeError)
"""Errors of a client that has left, or takes nothing any more."""

Outcome = tuple[bool, str]


class Page:
    """Hold the state that all clients share, and its last changes. On the event loop."""

    def __init__(self) -> None:
        self.state: State = {"now": 0, "recordings": [], "replaying": "", "robots": {}}
        self.rev = 0
        self._changes: deque[tuple[str, State]] = deque(maxlen=KEPT)
        """The last changes as text, each with the state to which it leads."""
        self._news = asyncio.Event()
        self._snapshots: dict[str, str] = {}

    def publish(self, state: State) -> None:
        """Show a state from now on."""
        sets, deletes = patch(self.state, state)
        if not sets and not deletes:
            return
        self.state, self.rev = state, self.rev + 1
        self._changes.append((_text({"t": "patch", "rev": self.rev, "set": sets, "del": deletes}), state))
        self._snapshots.clear()
        self._news.set()
        self._news = asyncio.Event()

    def after(self, rev: int, visitor: Visitor) -> tuple[int, str, State]:
        """Return what a visitor with that revision (-1: none) is sent next: its revision, its text and its state."""
        behind = self.rev - rev
        if rev >= 0 and behind <= len(self._changes):
            text, state = self._changes[-behind]
            return rev + 1, text, state
        return self.rev, self._snapshot(visitor), self.state

    def _snapshot(self, visitor: Visitor) -> str:
        """Return the whole state for a visitor as text; those of one role share it."""
        if visitor.name not in self._snapshots:
            you = {"acts": visitor.acts, "name": visitor.name}
            self._snapshots[visitor.name] = _text({"t": "snapshot", "rev": self.rev, "state": {**self.state, "you": you}})
        return self._snapshots[visitor.name]

    async def later_than(self, rev: int) -> None:
        """Wait for another revision than `rev`."""
        while self.rev == rev:
            await self._news.wait()


def create_app(page: Page, access: Access, robots: Serving, *, doors: Mapping[str, ASGIApp] | None = None) -> Starlette:
    """Return the application. `doors` are applications at a path each, such as `/mcp`, behind the same guard."""
    service = Service(page, access, robots)
    routes = [
        WebSocketRoute("/ws", service.watch),
        WebSocketRoute("/halt", service.halt),
        WebSocketRoute("/camera/{robot}/{camera:path}", service.camera),
        *(Route(path, app) for path, app in (doors or {}).items()),
        Mount("/", StaticFiles(directory=STATIC, html=True, follow_symlink=True)),  # colcon links what it installs
    ]
    app = Starlette(routes=routes)
    app.add_middleware(Guard, access=access)
    return app


class Guard:
    """Let in only requests that name this page as their host, come from it, and bear a token that counts."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request, or refuse it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        wrong = not self._access.reached_by(host) or (origin is not None and not self._access.same_origin(origin, host))
        if wrong or (scope["type"] == "websocket" and origin is None and "authorization" not in headers):
            await self._refuse(scope, receive, send, "This page is not served under that name, or to that site.\n")
            return
        if scope["type"] == "http" and scope["path"] == "/" and (asked := parse_qs(scope["query_string"].decode("latin-1"))):
            await self._enter(scope, receive, send, asked.get("token", [""])[-1])
            return
        token = _bearer(headers) or HTTPConnection(scope).cookies.get(_cookie_name(scope), "")
        visitor = self._access.visitor(token)
        if visitor is None:
            await self._refuse(scope, receive, send, REFUSED)
            return
        with suppress(asyncio.CancelledError):  # the server ends, and nothing else cancels a request
            await self._app({**scope, TOKEN: token, VISITOR: visitor}, receive, partial(_with_headers, send))

    async def _enter(self, scope: Scope, receive: Receive, send: Send, token: str) -> None:
        """Keep the token of an address in a cookie, and lead to the address without it."""
        if self._access.visitor(token) is None:
            await self._refuse(scope, receive, send, REFUSED)
            return
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(_cookie_name(scope), token, httponly=True, samesite="strict", max_age=400 * 86_400)
        await answer(scope, receive, partial(_with_headers, send))

    @staticmethod
    async def _refuse(scope: Scope, receive: Receive, send: Send, why: str) -> None:
        if scope["type"] == "websocket":
            await receive()  # the request to connect
            await send({"type": "websocket.close", "code": BAD_REQUEST, "reason": "refused"})
            return
        await PlainTextResponse(why, status_code=403)(scope, receive, partial(_with_headers, send))


async def _with_headers(send: Send, message: Message) -> None:
    if message["type"] == "http.response.start":
        headers = MutableHeaders(scope=message)
        for name, value in HEADERS.items():
            headers[name] = value
    await send(message)


def _cookie_name(scope: Scope) -> str:
    # Cookies are shared by all ports of a machine, and several pages may run on one.
    return f"ghostshell-{scope['server'][1] if scope.get('server') else 0}"


def _bearer(headers: Headers) -> str:
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


class Service:
    """Serve the WebSockets of the page."""

    def __init__(self, page: Page, access: Access, robots: Serving) -> None:
        self._page, self._access, self._robots = page, access, robots
        self._clients, self._eyes = 0, 0
        self._halts = ThreadPoolExecutor(HALTS, thread_name_prefix="page-halt")

    # -- state and acts -----------------------------------------------------------------------------------------------

    async def watch(self, socket: WebSocket) -> None:
        """Send the state to one client, and do what it asks."""
        if self._clients >= MAX_CLIENTS:
            await socket.close(TRY_LATER, "too many pages are open")
            return
        await socket.accept()
        self._clients, before = self._clients + 1, self._page.rev
        self._robots.look(self._clients)
        if self._clients == 1:  # while nobody watched, nobody kept the state current
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._page.later_than(before), FRESH_S)
        client = Client(socket, self._page, self._access, self._robots)
        try:
            await client.serve()
        finally:
            self._clients -= 1
            self._robots.look(self._clients)

    # -- halts --------------------------------------------------------------------------------------------------------

    async def halt(self, socket: WebSocket) -> None:
        """Halt robots: each request is answered by what the robot's gate says."""
        await socket.accept()
        visitor, loop = socket.scope[VISITOR], asyncio.get_running_loop()
        answering: set[asyncio.Task[None]] = set()

        async def answer(robot: str, cause: str) -> None:
            about = f"page, {visitor.name} at {_address(socket)}" + (f": {cause}" if cause not in ("", "page") else "")
            ok, message = await loop.run_in_executor(self._halts, self._robots.halt, robot, shown(about, CAUSE_CHARS))
            with suppress(RuntimeError, WebSocketDisconnect):
                await socket.send_text(_text({"robot": robot, "ok": ok, "message": message}))
            self._robots.record(visitor, _address(socket), act="halt", robot=robot, ok=ok, message=message)

        with suppress(WebSocketDisconnect):
            while True:
                asked = json_object(await _text_of(socket))
                if not isinstance(asked.get("robot"), str) or len(answering) >= HALTS:
                    await socket.close(BAD_REQUEST, "no robot is named, or too many halts wait for their gates")
                    return
                # A token that was ended meanwhile halts all the same: everybody may.
                task = asyncio.create_task(answer(asked["robot"], str(asked.get("cause", ""))))
                answering.add(task)
                task.add_done_callback(answering.discard)

    # -- pictures -----------------------------------------------------------------------------------------------------

    async def camera(self, socket: WebSocket) -> None:
        """Send pictures, each when the one before has been shown: what is not shown in time is never sent."""
        robot, camera = socket.path_params["robot"], socket.path_params["camera"]
        if self._eyes >= MAX_CLIENTS:
            await socket.close(TRY_LATER, "too many cameras are watched")
            return
        if not self._robots.watch(robot, camera, begins=True):
            await socket.close(BAD_REQUEST, "there is no such camera")
            return
        self._eyes += 1
        waited: list[asyncio.Future[Any]] = []
        try:
            await socket.accept()
            number = 0
            while True:
                showing = asyncio.ensure_future(_text_of(socket))
                made = asyncio.ensure_future(self._robots.frame(robot, camera, number))
                waited = [showing, made]
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if showing.done():  # it has left, or does not keep to the turns
                    return
                number, picture = made.result()
                await asyncio.wait_for(socket.send_bytes(picture), STUCK_S)
                await asyncio.wait_for(showing, STUCK_S)
        except GONE:
            pass
        finally:
            for one in waited:
                one.cancel()
            await asyncio.gather(*waited, return_exceptions=True)
            self._eyes -= 1
            self._robots.watch(robot, camera, begins=False)


class Client:
    """Serve one page: the newest state, never a queue of old ones, and exactly one outcome for each act."""

    def __init__(self, socket: WebSocket, page: Page, access: Access, robots: Serving) -> None:
        self._socket, self._page, self._access, self._robots = socket, page, access, robots
        self._visitor: Visitor = socket.scope[VISITOR]
        self._seen: State = page.state
        """The state that the client was sent last."""
        self._acts: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve until the client leaves, takes nothing any more, or its token was ended."""
        tasks = [asyncio.create_task(self._send()), asyncio.create_task(self._receive())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*tasks, *self._acts):
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(*GONE):
                await asyncio.wait_for(self._socket.close(), 1.0)
        for error in ended:
            if isinstance(error, Exception) and not isinstance(error, GONE):
                raise error

    async def _send(self) -> None:
        rev = -1
        while self._access.visitor(self._socket.scope[TOKEN]) is not None:
            rev, text, self._seen = self._page.after(rev, self._visitor)
            await asyncio.wait_for(self._socket.send_text(text), STUCK_S)
            await self._page.later_than(rev)

    async def _receive(self) -> None:
        while True:
            asked = json_object(await _text_of(self._socket))
            if asked.get("t") != "do" or not isinstance(asked.get("id"), int):
                return
            task = asyncio.create_task(self._do(asked, full=len(self._acts) >= MAX_ACTS))
            self._acts.add(task)
            task.add_done_callback(self._acts.discard)

    async def _do(self, asked: dict[str, Any], *, full: bool) -> None:
        number, act, robot = asked.pop("id"), asked.pop("act", ""), asked.pop("robot", "")
        try:
            ok, message = await asyncio.wait_for(self._outcome(act, robot, asked, full=full), DID_S)
        except asyncio.TimeoutError:
            ok, message = False, f"no answer within {DID_S:g} s; whether it was done is not known: look at the state"
        with suppress(RuntimeError, WebSocketDisconnect):
            await self._socket.send_text(_text({"t": "did", "id": number, "ok": ok, "message": message}))
        about = {name: _recorded(value) for name, value in asked.items() if name != "t"}
        self._robots.record(self._visitor, _address(self._socket), act=shown(act), robot=shown(robot), about=about, ok=ok)

    async def _outcome(self, act: Any, robot: Any, asked: dict[str, Any], *, full: bool) -> Outcome:
        texts = [act, robot, *(value for value in asked.values() if not isinstance(value, (bool, int, float)))]
        if not all(isinstance(text, str) and len(text) <= MAX_WORDS for text in texts):
            return False, f"what an act says is text of at most {MAX_WORDS} characters, a number, or true or false"
        if full:
            return False, f"{MAX_ACTS} acts of this page wait already; try again"
        if self._access.visitor(self._socket.scope[TOKEN]) is None:
            return False, "this page's token was ended: open the address that ghostshell page prints"
        return await self._robots.do(self._visitor, act, robot, asked, self._seen)


def _recorded(value: Any) -> str:
    """Return what is kept of a part of an act: of a private answer only that it was one."""
    return PRIVATE if isinstance(value, str) and in_private(value)[1] else shown(value, 200)


def _text(message: dict[str, Any]) -> str:
    """Return a message as JSON; what UTF-8 cannot carry, as in some names of files, is escaped as JSON does."""
    return json.dumps(message, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace").decode()


async def _text_of(socket: WebSocket) -> str:
    """Return the next message, "" for one that is no text. Raises WebSocketDisconnect."""
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code") or 1006)
    return message.get("text") or ""


def _address(socket: WebSocket) -> str:
    return socket.client.host if socket.client is not None else ""


async def end_tasks() -> None:
    """End what still runs on the event loop once the server has ended, which waits for no client that takes nothing."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=ENDED_S)


def config(app: ASGIApp) -> uvicorn.Config:
    """Return how the application is served."""
    return uvicorn.Config(
        app,
        ws="websockets-sansio",
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=STUCK_S,
        ws_ping_timeout=STUCK_S,
        ws_per_message_deflate=False,
        limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=16_384,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
        server_header=False,
        access_log=False,
        log_config=None,
        lifespan="off",
    )
