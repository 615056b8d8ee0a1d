# SPDX-License-Identifier: Apache-2.0
"""A running robot as tools of MCP clients, by the SDK's own client: over HTTP at the page and through a pipe."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs requirements/page.txt")

import anyio
import httpx2
import numpy as np
import PIL.Image
import uvicorn
from builtin_interfaces.msg import Time
from ghostshell.srv import CompileReflex, ControlProcess
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult
from process_robot import ROBOT_YAML
from sensor_msgs.msg import Image

from ghostshell_ros.cli.robot_client import robots_of
from ghostshell_ros.nodes.dashboard.access import Access, Record
from ghostshell_ros.nodes.dashboard.listening import listening
from ghostshell_ros.nodes.dashboard.mcp_http import McpHttp
from ghostshell_ros.nodes.dashboard.server import Page, config, create_app, end_tasks
from ghostshell_ros.runtime.data import keys_folder
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.images import to_message
from ghostshell_ros.wire.qos import IMAGES
from pipeline_support import Observer
from ros_support import ROOT, Processes, ask, wait_until
from skill_kernel.codes import Outcome
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.roles import Keys, Role

REFLEX = "def condition():\n    return loud()\n\n\ndef action():\n    hop(seconds=0.2)\n"
LOUD = """
observation:
  loud:
    role: Whether it is loud.
    kind: boolean
    source: {topic: loud, type: std_msgs/msg/Bool}
    process: {function: take, path: data}
    max_age_s: 0.5
"""
LONG = {"seconds": 30.0}


class Rig:
    """A robot without hardware, whose nodes are processes, and a page that serves it to programs."""

    def __init__(self, folder: Path) -> None:
        self.name = f"mcp{os.getpid()}"
        self.watch = Observer(f"/{self.name}")
        self.nodes = Processes(f"/{self.name}")
        self.host = NodeHost([self.watch])
        self._folder, self._robot = folder, folder / "several.yaml"
        self._robot.write_text(ROBOT_YAML + LOUD)
        path = os.pathsep.join([str(ROOT / "test" / "support"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        self.env = {"PYTHONPATH": path, "GHOSTSHELL_DATA": str(folder / "data")}
        self.access = Access(Keys(keys_folder()), folder / "page")
        self.acts = folder / "page" / "acts.jsonl"
        self.door = McpHttp(self.watch, Record(folder / "page").write)
        self.socket = listening("127.0.0.1", 8900)
        self.server = uvicorn.Server(config(create_app(Page(), self.access, Any, doors={"/mcp": self.door})))  # type: ignore[arg-type]
        self.served = threading.Thread(target=self._serve, daemon=True)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/mcp"

    def start(self) -> None:
        self.host.start()
        for node in ("safety_gate", "skill_kernel", "reflexes"):
            self.nodes.start(node, f"robot:={self._robot}", env=self.env)
        self.mind = self.start_mind()
        self.served.start()
        wait_until(lambda: self.watch.servers_ready and self.watch.kernel is not None, 60.0, "the robot is there")
        # Where there are several, each call must say which: one that was killed in another file is there for a while.
        wait_until(lambda: robots_of(self.watch) == [self.name], 60.0, "no other robot is there")

    def _serve(self) -> None:
        loop = asyncio.new_event_loop()
        loop.run_until_complete(self.server.serve([self.socket]))
        loop.run_until_complete(self.door.close())
        loop.run_until_complete(end_tasks())
        loop.close()

    def start_mind(self) -> Any:
        return self.nodes.start("mind", f"robot:={self._robot}", "model:=offline", "idle_after_s:=3600.0", env=self.env)

    def close(self) -> None:
        self.server.should_exit = True
        self.served.join(10.0)
        assert not self.served.is_alive(), "the door closes with the page"
        self.nodes.end()
        self.host.close()

    @asynccontextmanager
    async def http(self, role: Role | None = None, era: str = "auto", **more: Any) -> AsyncIterator[Client]:
        """Yield a client over HTTP with a token of the role."""
        headers = {"Authorization": f"Bearer {self.access.token(role)}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60.0) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=era, **more) as client:  # type: ignore[arg-type]
                yield client

    def pipe(self, era: str = "auto", **more: Any) -> Client:
        """Return a client that starts the command and speaks with it through a pipe."""
        command = ["-m", "ghostshell_ros.cli.main", "mcp", "--robot", self.name]
        environment = {**os.environ, **self.env}
        started = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=str(ROOT))
        return Client(stdio_client(started), mode=era, **more)  # type: ignore[arg-type]

    def tool(self, skill: str) -> str:
        return f"{self.name}-{skill}"

    def calls(self, function: str, kind: CallKind) -> list[CallEvent]:
        return [e for e in self.watch.events if isinstance(e, CallEvent) and e.function == function and e.kind is kind]

    async def until(self, condition: Callable[[], object], within_s: float = 10.0) -> None:
        """Wait on the event loop."""
        with anyio.fail_after(within_s):
            while not condition():
                await anyio.sleep(0.02)

    def ended(self, function: str) -> CallEvent:
        """Return the newest end of a call, which must be the robot's own word."""
        return self.calls(function, CallKind.ENDED)[-1]


@pytest.fixture(scope="module")
def rig(ros: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("mcp"))
    made.start()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def at_rest(rig: Rig) -> None:
    wait_until(lambda: not [p for p in rig.watch.processes if not p.ended.sec], 10.0, "nothing runs")
    if rig.watch.halted:
        assert rig.watch.ask(rig.watch.clear_halt, None, again_s=2.0).success
        wait_until(lambda: rig.watch.halted is False and rig.watch.kernel.halted is False, 5.0, "the halt is cleared")
    rig.watch.events.clear()


def test_two_programs_use_one_robot_at_once_over_http_and_through_a_pipe(rig: Rig) -> None:
    async def run() -> None:
        async with rig.http(era="legacy") as page, rig.pipe() as pipe:
            tools = {tool.name: tool for tool in (await page.list_tools()).tools}
            assert {rig.tool(skill) for skill in ("walk", "hop", "wave", "say")} < tools.keys()
            assert tools.keys() == {tool.name for tool in (await pipe.list_tools()).tools}
            walk = tools[rig.tool("walk")]
            assert walk.input_schema["properties"]["seconds"]["type"] == "number"
            assert walk.annotations is not None and walk.annotations.destructive_hint
            answers = {}

            async def call(client: Client, skill: str, arguments: dict[str, Any]) -> None:
                answers[skill] = await client.call_tool(rig.tool(skill), arguments)

            async with anyio.create_task_group() as group:
                group.start_soon(call, page, "walk", {"seconds": 1.0})
                group.start_soon(call, pipe, "wave", {"seconds": 1.0})
            assert [answer.structured_content["outcome"] for answer in answers.values()] == ["DONE", "DONE"]
            said = await pipe.call_tool(rig.tool("say"), {"text": "hello & <goodbye>"})
            assert not said.is_error, said.content
            task = await page.call_tool("run_task", {"instruction": "walk"})
            assert task.structured_content["achievement"] == "DONE", task.content

    anyio.run(run)
    walked, waved = rig.calls("walk", CallKind.ENDED)[0], rig.ended("wave")
    assert walked.start_s < waved.end_s and waved.start_s < walked.end_s, "side by side"


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_a_call_that_is_cancelled_ends_on_the_robot(rig: Rig, era: str) -> None:
    told: list[str] = []

    async def run() -> None:
        async with rig.http(era=era) as client:
            with anyio.CancelScope() as scope:

                async def heard(progress: float, total: float | None, message: str | None) -> None:
                    told.append(message or "")
                    scope.cancel()

                await client.call_tool(rig.tool("walk"), LONG, progress_callback=heard)
            await rig.until(lambda: rig.calls("walk", CallKind.ENDED), 5.0)
            await rig.until(lambda: '"message": "ended by its client"' in rig.acts.read_text(), 5.0)

    anyio.run(run)
    assert rig.ended("walk").outcome is Outcome.INTERRUPTED and told[0].startswith("walk(30)")


def test_a_halt_ends_a_call_of_another_client_with_the_reason(rig: Rig) -> None:
    async def run() -> None:
        async with rig.http() as walker, rig.http(Role.VIEWER, "legacy") as watcher, anyio.create_task_group() as group:

            async def halt() -> None:
                await rig.until(lambda: rig.calls("walk", CallKind.STARTED))
                halted = await watcher.call_tool("halt", {"cause": "a child on the stairs"})
                assert not halted.is_error, halted.content

            group.start_soon(halt)
            answer = await walker.call_tool(rig.tool("walk"), LONG)
            assert answer.is_error and "a child on the stairs" in answer.content[0].text, answer.content
            refused = await walker.call_tool(rig.tool("walk"), {"seconds": 0.1})
            assert refused.is_error and "halt" in refused.content[0].text
            state = (await walker.read_resource(f"ghostshell://{rig.name}/state")).contents[0].text
            assert '"halted": true' in state and "a child on the stairs" in state

    anyio.run(run)
    assert rig.watch.halted and rig.ended("walk").outcome is Outcome.INTERRUPTED


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_a_client_that_loses_its_connection_ends_what_it_began(rig: Rig, era: str) -> None:
    async def lost(http: httpx2.AsyncClient) -> None:
        transport = streamable_http_client(rig.url, http_client=http, terminate_on_close=False)
        async with Client(transport, mode=era) as client:  # type: ignore[arg-type]
            await client.call_tool(rig.tool("walk"), LONG)

    async def run() -> None:
        headers = {"Authorization": f"Bearer {rig.access.token(Role.OPERATOR)}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60.0) as http, anyio.create_task_group() as group:

            async def until_lost() -> None:
                with suppress(Exception):  # what the client makes of a lost connection
                    await lost(http)

            group.start_soon(until_lost)
            await rig.until(lambda: rig.calls("walk", CallKind.STARTED))
            await http.aclose()  # no word of goodbye reaches the door
            await rig.until(lambda: rig.calls("walk", CallKind.ENDED), 5.0)
            group.cancel_scope.cancel()

    anyio.run(run)
    assert rig.ended("walk").outcome is Outcome.INTERRUPTED


@pytest.mark.slow
def test_a_pipe_that_closes_and_a_door_that_is_killed_end_what_was_begun(rig: Rig) -> None:
    async def begun(end: Callable[[], None]) -> None:
        async with rig.pipe("legacy") as client, anyio.create_task_group() as group:
            group.start_soon(client.call_tool, rig.tool("walk"), LONG)
            await rig.until(lambda: rig.calls("walk", CallKind.STARTED), 20.0)
            end()
            group.cancel_scope.cancel()

    async def run(end: Callable[[], None]) -> None:
        with suppress(Exception):  # what the client makes of a server that was killed
            await begun(end)
        await rig.until(lambda: rig.calls("walk", CallKind.ENDED), 8.0)

    anyio.run(run, lambda: None)
    assert rig.ended("walk").outcome is Outcome.INTERRUPTED
    rig.watch.events.clear()
    anyio.run(run, lambda: kill_command(rig.name))
    assert rig.ended("walk").outcome is Outcome.INTERRUPTED


def kill_command(robot: str) -> None:
    """Kill the command that serves this robot through a pipe, which its command line names."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[-2:-1] == [robot.encode()] and b"mcp" in words:
            os.kill(int(process.name), signal.SIGKILL)


@pytest.mark.faults
def test_a_robot_that_is_killed_ends_the_call_with_what_to_do(rig: Rig) -> None:
    async def run() -> None:
        async with rig.http() as client, anyio.create_task_group() as group:

            async def kill() -> None:
                await rig.until(lambda: rig.calls("walk", CallKind.STARTED))
                rig.mind.kill()

            group.start_soon(kill)
            began_s = time.monotonic()
            answer = await client.call_tool(rig.tool("walk"), LONG)
            assert answer.is_error and "silent" in answer.content[0].text and time.monotonic() - began_s < 15.0

    anyio.run(run)
    rig.watch.processes = []
    rig.mind = rig.start_mind()
    wait_until(lambda: rig.watch.processes, 30.0, "the mind is there again")
    for process in [p for p in rig.watch.processes if not p.ended.sec]:
        request = ControlProcess.Request(process_id=process.process_id, command=ControlProcess.Request.STOP, cause="test")
        assert rig.watch.ask(rig.watch.control, request, again_s=2.0).success


def test_only_who_bears_a_token_of_this_page_and_comes_from_it_is_let_in(rig: Rig) -> None:
    begin = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    }
    accept = {"Accept": "application/json, text/event-stream"}
    token = rig.access.token(Role.OPERATOR)
    host = rig.url.split("/")[2]

    def status(**headers: str) -> int:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx2.post(rig.url, json=begin, headers={**accept, **given}, timeout=30.0).status_code

    bearer = f"Bearer {token}"
    assert status() in (401, 403)
    assert status(Authorization="Bearer operator.00") in (401, 403)
    assert status(Authorization=bearer, Origin="http://evil.example") == 403
    assert status(Authorization=bearer, Host="evil.example") == 403
    assert status(Authorization=bearer, Origin=f"http://{host}") == 200
    assert status(Authorization=bearer) == 200
    too_long = {**begin, "params": {**begin["params"], "more": "x" * 70_000}}  # type: ignore[dict-item]
    sent = httpx2.post(rig.url, json=too_long, headers={**accept, "Authorization": bearer}, timeout=30.0)
    assert sent.status_code == 413
    rig.access.renew()
    assert status(Authorization=bearer) in (401, 403)


def test_a_session_is_for_the_token_that_began_it_and_each_request_has_its_own_role(rig: Rig) -> None:
    async def run() -> None:
        async with rig.http(Role.VIEWER, "legacy") as client:
            answer = await client.call_tool(rig.tool("walk"), {"seconds": 0.1})
            assert answer.is_error and "operator may" in answer.content[0].text
            assert not (await client.call_tool("halt", {"cause": "anybody may"})).is_error

    anyio.run(run)
    assert not rig.calls("walk", CallKind.STARTED)


def test_a_picture_is_a_resource(rig: Rig) -> None:
    out = rig.watch.create_publisher(Image, "camera/image_raw", IMAGES)
    pixels = np.full((48, 64, 3), (250, 10, 10), np.uint8)
    timer = rig.watch.steady_timer(0.05, lambda: out.publish(to_message(pixels, Time(), "camera")))

    async def run() -> None:
        async with rig.http(Role.VIEWER) as client:
            uri = f"ghostshell://{rig.name}/camera/camera/image_raw"
            wait_s = time.monotonic() + 5.0
            while uri not in [one.uri for one in (await client.list_resources()).resources] and time.monotonic() < wait_s:
                await anyio.sleep(0.1)
            (content,) = (await client.read_resource(uri)).contents
            with PIL.Image.open(io.BytesIO(base64.b64decode(content.blob))) as picture:
                assert (picture.format, picture.size) == ("JPEG", (64, 48))
                red, green, blue = picture.convert("RGB").getpixel((30, 20))
                assert red > 200 and green < 60 and blue < 60

    try:
        anyio.run(run)
    finally:
        timer.cancel()


def test_a_person_at_the_client_approves_the_code_that_he_was_shown(rig: Rig) -> None:
    reflexes = rig.watch.create_client(CompileReflex, "compile_reflex")
    request = CompileReflex.Request(
        command=CompileReflex.Request.ADD, name="hopping", sentence="when it is loud, hop", source=REFLEX, person="Ada"
    )
    added = ask(rig.watch, reflexes, signed(rig.watch, "compile_reflex", request, Role.OPERATOR), again_s=60.0, timeout_s=20.0)
    assert added.success, added.error_msg
    shown: list[str] = []

    async def person(context: Any, params: ElicitRequestParams) -> ElicitResult:
        shown.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    async def run() -> None:
        async with rig.http(Role.APPROVER, elicitation_callback=person) as client:
            answer = await client.call_tool("approve_reflex", {"name": "hopping"})
            assert not answer.is_error, answer.content

    anyio.run(run)
    assert len(shown) == 1 and "hop(seconds=0.2)" in shown[0] and "when it is loud, hop" in shown[0]
    listed = ask(rig.watch, reflexes, CompileReflex.Request(command=CompileReflex.Request.LIST, name="hopping"))
    assert listed.reflexes[0].state == 1 and listed.reflexes[0].approver.startswith("approver")
