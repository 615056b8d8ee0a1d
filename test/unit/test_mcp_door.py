# SPDX-License-Identifier: Apache-2.0
"""The MCP door against the SDK's own client: tools and their hints, arguments, roles, progress, cancellation, approvals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs requirements/page.txt")
pytest.importorskip("rclpy", reason="the robots' side is of ROS")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces")

import anyio
import mcp_types as types
from ghostshell.action import RunTask
from mcp import Client
from mcp.shared.exceptions import MCPError

from ghostshell_ros.cli.follow import NotThereError
from ghostshell_ros.nodes.dashboard import asked_robot, mcp_door
from ghostshell_ros.nodes.dashboard.access import Visitor
from ghostshell_ros.nodes.dashboard.mcp_door import McpDoor, skill_schema, skill_tool
from ghostshell_ros.nodes.dashboard.mcp_http import McpHttp
from ghostshell_ros.nodes.dashboard.server import TOKEN, VISITOR
from skill_kernel.codes import Achievement, Outcome
from skill_kernel.events import CallEvent, CallKind
from skill_kernel.processes.process import ProcessStatus
from skill_kernel.roles import Act, Role

ERAS = ("legacy", "auto")
"""A session that is begun by a handshake, and the protocol of requests that stand alone (2026-07-28)."""
PARTS = {
    "legs": SimpleNamespace(exclusive_per_process=True, parallel=False),
    "ear_left": SimpleNamespace(exclusive_per_process=True, parallel=False),
    "voice": SimpleNamespace(exclusive_per_process=False, parallel=False),
    "default": SimpleNamespace(exclusive_per_process=False, parallel=True),
}


def skill(name: str, subsystem: str, properties: Mapping[str, Any], **more: Any) -> Any:
    """Return what a kernel tells of a skill."""
    required = [key for key, one in properties.items() if "default" not in one and not more.get("takes_content")]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    told = {"takes_content": False, "composite": False, "idempotent": False, "description": f"Do {name}.", **more}
    return SimpleNamespace(name=name, subsystems=[subsystem], parameters_json=json.dumps(schema), **told)


WALK = skill(
    "walk",
    "legs",
    {"distance": {"type": "number", "minimum": 0, "maximum": 3}, "side": {"enum": ["left", "right"], "default": "left"}},
)
SPEAK = skill("speak", "voice", {"text": {"type": "string"}}, takes_content=True)
LOOK = skill("look", "default", {}, idempotent=True)
ASK = skill("query_memory", "default", {}, idempotent=True, composite=True)


class Robot:
    """A robot that notes what it is asked, and does it when `may_end` is set."""

    def __init__(self, name: str) -> None:
        self.robot, self.sent, self.ended = name, list[tuple[str, Role, str]](), list[str]()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.outcome, self.why, self.away = Outcome.DONE, "", False
        self.asked: list[tuple[str, Role, dict[str, Any]]] = []
        self.reflex = SimpleNamespace(name="back", sentence="when near, step back", source="def act(): ...")

    async def skills(self) -> Any:
        return [WALK, SPEAK, LOOK], PARTS

    async def run(
        self, instruction: str, *, role: Role, sender: str, strategy: str = "", tell: Callable[[str], object]
    ) -> RunTask.Result:
        if self.away:
            raise NotThereError("it is not there; launch it")
        self.sent.append((instruction, role, strategy))
        tell("walk begins")
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.ended.append(instruction)
            raise
        failed = self.outcome is not Outcome.DONE
        achieved = Achievement.NOT_DONE if failed else Achievement.DONE
        status = ProcessStatus.FAILED if failed else ProcessStatus.SUCCESS
        told = {"status": int(status), "achievement": int(achieved), "error_msg": self.why, "process_id": "p1"}
        return RunTask.Result(**told)

    async def calls(self, process_id: str) -> list[CallEvent]:
        value = json.dumps({"distance": 0.98})
        same = {"function": "walk", "message": "walked 0.98 m", "error_msg": self.why, "value_json": value}
        return [CallEvent(kind=CallKind.ENDED, outcome=self.outcome, **same)]

    async def ask(self, service: str, *, role: Role = Role.ANONYMOUS, deadline_s: float = 1.0, **fields: Any) -> Any:
        return await self.ask_once(service, role=role, deadline_s=deadline_s, **fields)

    async def ask_once(self, service: str, *, role: Role, deadline_s: float, **fields: Any) -> Any:
        self.asked.append((service, role, fields))
        found = {"answer": "in the kitchen", "note": "", "records": []}
        return SimpleNamespace(success=True, error_msg="", reflexes=[self.reflex], report="would have fired once", **found)

    async def state(self) -> dict[str, Any]:
        return {"halted": False, "battery": float("nan")}

    def cameras(self) -> list[str]:
        return ["camera/image_raw"]

    async def picture(self, topic: str) -> bytes:
        if topic not in self.cameras():
            raise NotThereError(f"no camera '{topic}'")
        return b"\xff\xd8picture"


class Robots:
    """Robots that are there."""

    def __init__(self, *names: str) -> None:
        self.there = {name: Robot(name) for name in names}

    def names(self) -> list[str]:
        return list(self.there)

    async def get(self, name: str) -> Robot:
        if name not in self.there:
            raise NotThereError(f"there is no robot '{name}'")
        return self.there[name]


@asynccontextmanager
async def client(robots: Robots, era: str = "legacy", role: Role | None = None, **more: Any) -> AsyncIterator[Client]:
    done: list[tuple[Any, ...]] = more.pop("done", [])
    door = McpDoor(robots, lambda *_, **about: done.append(tuple(about.values())), Visitor(role))  # type: ignore[arg-type]
    async with Client(door.server, mode=era, **more) as made:  # type: ignore[arg-type]
        yield made


def test_the_schema_of_a_skill_holds_its_types_ranges_and_choices() -> None:
    assert skill_schema(WALK)["properties"]["distance"] == {"type": "number", "minimum": 0, "maximum": 3}
    assert skill_schema(WALK)["required"] == ["distance"]
    assert skill_schema(SPEAK)["required"] == ["text"], "what is said is an argument like any other"


@pytest.mark.parametrize(
    ("told", "read_only", "destructive", "idempotent"),
    [(WALK, False, True, False), (SPEAK, False, False, False), (LOOK, True, False, True), (ASK, False, False, True)],
)
def test_hints_follow_from_the_parts_of_the_body_that_a_skill_declares(
    told: Any, read_only: bool, destructive: bool, idempotent: bool
) -> None:
    hints = skill_tool("kalos", told, PARTS).annotations
    assert hints is not None
    assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (read_only, destructive, idempotent)
    ear = skill_tool("coco", skill("ear", "ear_{side}", {"side": {"enum": ["left", "right"]}}), PARTS).annotations
    assert ear is not None and ear.destructive_hint


def test_clients_are_told_of_a_robot_that_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_door, "WATCH_S", 0.02)

    async def run(era: str) -> list[str]:
        robots, told = Robots("kalos"), list[str]()
        door = McpDoor(robots, lambda *_, **__: None, Visitor(None))  # type: ignore[arg-type]

        async def heard(message: Any) -> None:
            told.append(getattr(getattr(message, "root", message), "method", ""))

        async with Client(door.server, mode=era, message_handler=heard) as one, anyio.create_task_group() as group:  # type: ignore[arg-type]
            await one.list_tools()
            group.start_soon(door.watch)
            with anyio.fail_after(5.0):
                if era == "legacy":
                    assert one.server_capabilities.tools.list_changed  # type: ignore[union-attr]
                    await anyio.sleep(0)
                    robots.there["coco"] = Robot("coco")
                    while len(told) < 2:
                        await anyio.sleep(0.01)
                else:
                    async with one.listen(tools_list_changed=True) as changes:
                        robots.there["coco"] = Robot("coco")
                        told.append(type(await anext(aiter(changes))).__name__)
            assert "coco-walk" in {tool.name for tool in (await one.list_tools()).tools}
            group.cancel_scope.cancel()
        return told

    assert anyio.run(run, "legacy") == ["notifications/tools/list_changed", "notifications/resources/list_changed"]
    assert "ToolsListChanged" in anyio.run(run, ERAS[1])


@pytest.mark.parametrize("era", ERAS)
def test_two_clients_call_skills_of_two_robots_at_once(era: str) -> None:
    async def run() -> None:
        robots = Robots("kalos", "lab/coco")
        async with client(robots, era) as one, client(robots, era) as other:
            names = {tool.name for tool in (await one.list_tools()).tools}
            assert {"kalos-walk", "lab_coco-walk", "run_task", "halt", "approve_reflex"} <= names
            answers: dict[str, Any] = {}

            async def call(who: Client, tool: str) -> None:
                answers[tool] = await who.call_tool(tool, {"distance": 1.0})

            async with anyio.create_task_group() as group:
                group.start_soon(call, one, "kalos-walk")
                group.start_soon(call, other, "lab_coco-walk")
        for robot in robots.there.values():
            assert robot.sent == [('<walk distance="1.0"/>', Role.OPERATOR, "tokens")]
        for answer in answers.values():
            assert not answer.is_error and answer.content[0].text == "walked 0.98 m"
            assert answer.structured_content["value"] == {"distance": 0.98}

    anyio.run(run)


def test_a_skill_that_was_not_done_is_an_error_with_its_reason() -> None:
    async def run() -> None:
        robots = Robots("kalos")
        robots.there["kalos"].outcome, robots.there["kalos"].why = Outcome.INTERRUPTED, "halted: a child on the stairs"
        async with client(robots) as one:
            answer = await one.call_tool("kalos-walk", {"distance": 1.0})
        assert answer.is_error and answer.content[0].text == "INTERRUPTED: halted: a child on the stairs"

    anyio.run(run)


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("kalos-walk", {"distance": 9.0}, "distance: 9.0 is greater than the maximum of 3"),
        ("kalos-walk", {"distance": "1"}, "distance: '1' is not of type 'number'"),
        ("kalos-walk", {"distance": 1.0, "side": "up"}, "side: 'up' is not one of"),
        ("kalos-walk", {}, "'distance' is a required property"),
        ("kalos-walk", {"distance": 1.0, "speed": 3}, "'speed' was unexpected"),
        ("kalos-speak", {"text": "\x00"}, "U+0000 cannot stand"),
        ("run_task", {"instruction": ""}, "instruction: '' should be non-empty"),
        ("run_task", {"instruction": "sit", "robot": "nobody"}, "robot: 'nobody' is not one of ['kalos']"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_the_robot_hears_of_them(tool: str, arguments: Any, why: str) -> None:
    async def run() -> None:
        robots = Robots("kalos")
        async with client(robots) as one:
            answer = await one.call_tool(tool, arguments)
        assert answer.is_error and why in answer.content[0].text and not robots.there["kalos"].sent

    anyio.run(run)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", ["kalos-fly", "nobody-walk", "walk", "/kalos/cmd_vel", ""])
def test_an_unknown_tool_is_an_error_of_the_protocol(tool: str, era: str) -> None:
    async def run() -> None:
        robots = Robots("kalos")
        async with client(robots, era) as one:
            with pytest.raises(MCPError, match="there is no tool|has no skill"):
                await one.call_tool(tool, {"distance": 1.0})
        assert not robots.there["kalos"].sent

    anyio.run(run)


def test_which_robot_is_meant_must_be_said_where_there_are_several() -> None:
    async def run() -> None:
        robots = Robots("kalos", "coco")
        async with client(robots) as one:
            answer = await one.call_tool("run_task", {"instruction": "sit"})
            assert answer.is_error and "'robot' is a required property" in answer.content[0].text
            answer = await one.call_tool("run_task", {"instruction": "sit", "robot": "coco"})
        assert not answer.is_error and robots.there["coco"].sent == [("sit", Role.OPERATOR, "")]

    anyio.run(run)


@pytest.mark.parametrize("era", ERAS)
def test_the_run_of_a_task_is_told_as_progress_and_a_call_that_is_cancelled_ends_it(era: str) -> None:
    async def run() -> None:
        robots, told, done = Robots("kalos"), list[str](), list[tuple[Any, ...]]()
        robot = robots.there["kalos"]
        robot.may_end.clear()

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            told.append(f"{progress:g} {message}")
            scope.cancel()

        async with client(robots, era, done=done) as one:
            with anyio.CancelScope() as scope:
                await one.call_tool("kalos-walk", {"distance": 1.0}, progress_callback=heard)
            with anyio.fail_after(2.0):
                while not (robot.ended and done):
                    await anyio.sleep(0.01)
        assert told == ["1 walk begins"] and robot.ended == ['<walk distance="1.0"/>']
        assert done == [("mcp kalos-walk", "kalos", False, "ended by its client")]

    anyio.run(run)


def test_a_client_that_goes_away_ends_what_it_began() -> None:
    async def run() -> None:
        robots = Robots("kalos")
        robots.there["kalos"].may_end.clear()
        async with anyio.create_task_group() as group, client(robots) as one:
            group.start_soon(one.call_tool, "run_task", {"instruction": "patrol"})
            while not robots.there["kalos"].sent:
                await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        assert robots.there["kalos"].ended == ["patrol"]

    anyio.run(run)


@pytest.mark.parametrize(
    ("role", "refused"),
    [(Role.VIEWER, True), (Role.APPROVER, True), (Role.SAFETY, True), (Role.OPERATOR, False), (None, False)],
)
def test_who_may_not_instruct_is_told_who_may(role: Role | None, refused: bool) -> None:
    async def run() -> None:
        robots = Robots("kalos")
        async with client(robots, role=role) as one:
            for tool, arguments in (("kalos-walk", {"distance": 1.0}), ("run_task", {"instruction": "sit"})):
                answer = await one.call_tool(tool, arguments)
                assert answer.is_error == refused
                assert not refused or f"may not {Act.INSTRUCT.value}" in answer.content[0].text
        assert len(robots.there["kalos"].sent) == (0 if refused else 2)

    anyio.run(run)


def test_everybody_may_say_stop() -> None:
    async def run() -> None:
        robots = Robots("kalos")
        async with client(robots, role=Role.VIEWER) as one:
            assert not (await one.call_tool("run_task", {"instruction": "Stop, kalos!"})).is_error
        assert robots.there["kalos"].sent == [("Stop, kalos!", Role.VIEWER, "")]

    anyio.run(run)


def test_a_robot_that_is_not_there_is_an_error_that_says_what_to_do() -> None:
    async def run() -> None:
        robots = Robots("kalos")
        robots.there["kalos"].away = True
        async with client(robots) as one:
            answer = await one.call_tool("kalos-walk", {"distance": 1.0})
        assert answer.is_error and answer.content[0].text == "it is not there; launch it"

    anyio.run(run)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("says", [True, False, None])
def test_a_reflex_is_approved_by_the_person_at_the_client_who_is_shown_sentence_and_code(era: str, says: bool | None) -> None:
    async def run() -> None:
        robots, asked = Robots("kalos"), list[str]()

        async def person(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            asked.append(params.message)
            action = "cancel" if says is None else "accept"
            return types.ElicitResult(action=action, content=None if says is None else {"approve": says})

        async with client(robots, era, elicitation_callback=person) as one:
            answer = await one.call_tool("approve_reflex", {"name": "back"})
        assert len(asked) == 1 and "when near, step back" in asked[0] and "def act(): ..." in asked[0]
        approvals = [(role, fields) for _, role, fields in robots.there["kalos"].asked if fields["command"] == 3]
        assert answer.is_error == (says is not True)
        if says:
            ((role, fields),) = approvals
            assert role is Role.APPROVER and (fields["sentence"], fields["source"]) == (
                "when near, step back",
                "def act(): ...",
            )
        else:
            assert not approvals and "stays as it is" in answer.content[0].text

    anyio.run(run)


def test_a_client_that_cannot_ask_its_person_approves_nothing() -> None:
    async def run() -> None:
        robots = Robots("kalos")
        async with client(robots) as one:
            answer = await one.call_tool("approve_reflex", {"name": "back"})
            assert answer.is_error and "ghostshell reflex approve back --robot kalos" in answer.content[0].text
        async with client(robots, role=Role.OPERATOR) as one:
            answer = await one.call_tool("approve_reflex", {"name": "back"})
            assert answer.is_error and "approver may" in answer.content[0].text
        assert all(fields["command"] != 3 for _, _, fields in robots.there["kalos"].asked)

    anyio.run(run)


def test_a_reflex_that_was_exchanged_while_its_person_read_is_not_approved() -> None:
    async def run() -> None:
        robots = Robots("kalos")
        robot = robots.there["kalos"]

        async def person(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
            robot.reflex = SimpleNamespace(name="back", sentence="when near, step back", source="def act(): run()")
            return types.ElicitResult(action="accept", content={"approve": True})

        async with client(robots, "auto", elicitation_callback=person) as one:
            answer = await one.call_tool("approve_reflex", {"name": "back"})
        assert answer.is_error and "is another one now" in answer.content[0].text
        assert all(fields["command"] != 3 for _, _, fields in robot.asked)

    anyio.run(run)


@pytest.mark.parametrize("era", ERAS)
def test_state_pictures_and_memory_are_resources(era: str) -> None:
    async def run() -> None:
        robots = Robots("lab/kalos")
        async with client(robots, era, role=Role.VIEWER) as one:
            uris = [resource.uri for resource in (await one.list_resources()).resources]
            assert uris == ["ghostshell://lab%2Fkalos/state", "ghostshell://lab%2Fkalos/camera/camera/image_raw"]
            (state,) = (await one.read_resource(uris[0])).contents
            assert json.loads(state.text) == {"halted": False, "battery": None}
            (picture,) = (await one.read_resource(uris[1])).contents
            assert picture.mime_type == "image/jpeg" and picture.blob == "/9hwaWN0dXJl"
            (memory,) = (await one.read_resource("ghostshell://lab%2Fkalos/memory/where%20is%20the%20ball%3F")).contents
            assert json.loads(memory.text)["answer"] == "in the kitchen"
            ((_, role, fields),) = robots.there["lab/kalos"].asked
            assert role is Role.VIEWER and fields["question"] == "where is the ball?"
            for wrong in ("ghostshell://lab%2Fkalos/cmd_vel", "ghostshell://nobody/state", "file:///etc/passwd", uris[1] + "2"):
                with pytest.raises(MCPError):
                    await one.read_resource(wrong)

    anyio.run(run)


def test_a_door_that_does_not_start_says_why_and_is_started_by_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp.server import streamable_http_manager

    logged: list[str] = []
    robots: Any = Robots("kalos")
    robots.end_all, robots.close = (lambda why: asyncio.sleep(0)), (lambda: logged.append("closed"))
    node: Any = SimpleNamespace(get_logger=lambda: SimpleNamespace(error=logged.append))
    monkeypatch.setattr(asked_robot, "AskedRobots", lambda node: robots)
    made = streamable_http_manager.StreamableHTTPSessionManager

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("no room")

    async def asked(door: McpHttp) -> tuple[int, str]:
        scope = {"type": "http", "method": "GET", "path": "/mcp", "headers": [], "query_string": b"", "server": None}
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await asyncio.wait_for(door({**scope, TOKEN: "t", VISITOR: Visitor(None)}, receive, send), 5.0)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent).decode()

    async def main() -> None:
        door = McpHttp(node, lambda *_, **__: None)
        monkeypatch.setattr(streamable_http_manager, "StreamableHTTPSessionManager", broken)
        for status, told in await asyncio.gather(asked(door), asked(door)):
            assert status == 503 and "OSError: no room" in told and "next request" in told
        monkeypatch.setattr(streamable_http_manager, "StreamableHTTPSessionManager", made)
        assert (await asked(door))[0] not in (500, 503)
        await door.close()

    asyncio.run(main())
    assert len(logged) == 5 and logged[-1] == "closed"
