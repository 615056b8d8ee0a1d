# SPDX-License-Identifier: Apache-2.0
"""Serve robots to programs by the Model Context Protocol: skills and tasks as tools, and what they tell as resources.

The door adds no way around the robot: a skill is a task of strategy `tokens`, signed by the role of who asks, and ends with
whoever asked for it. Topics and services are not served.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import anyio
import jsonschema
import mcp_types as types
from ghostshell.srv import CompileReflex, ControlHalt
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourcesListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError
from pydantic_core import to_json

from function_tokens.markup import value_text
from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source
from ghostshell_ros import halt_door
from ghostshell_ros.cli.follow import NotThereError, told
from ghostshell_ros.nodes.dashboard.access import Visitor
from ghostshell_ros.nodes.dashboard.asked_robot import AskedRobot, AskedRobots
from ghostshell_ros.nodes.dashboard.server import VISITOR
from ghostshell_ros.runtime.recollection import MEMORY
from ghostshell_ros.wire.codec import plain
from planners.language.stop_words import is_stop
from skill_kernel.codes import Achievement, Outcome
from skill_kernel.processes.process import ProcessStatus
from skill_kernel.roles import Act, Role

SCHEME = "ghostshell"
GONE = "ghostshell.gone"
"""Key of an ASGI scope: the anyio.Event that is set when its client has gone."""
NAMED = 200
"""Characters of an act and its outcome that are kept."""
MOST_NEWS = 200
"""Lines of progress that a slow client may leave waiting; further ones are dropped."""
PERSON_S = 600.0
"""Time for a person to confirm an approval."""
TRIED_S = 30.0
"""Time to try a reflex on what was observed, and to approve one."""
ANSWER_S = 15.0
"""Time for the memory to answer: a model may word it."""
LONGEST = 8000
"""Characters of an instruction, a question and a cause."""
WATCH_S = 1.0
"""Time between two looks for robots that have come or gone, and for a slow client to hear of it."""
MOST_TOLD = 32
"""Clients that are told of them, those that listed tools last; ones of the protocol since 2026 listen by a request."""

INSTRUCTIONS = """\
Real robots. A tool named ROBOT-SKILL calls one skill and returns when it has ended; run_task gives a robot a task in plain
words. Cancelling a call stops it. halt stops a robot at once, and only a person clears that. What is described moves a
machine among people: do what was asked for, nothing more."""

Record = Callable[..., object]
"""Keeps an act: `Record.write` of access.py."""


class RefusedError(RuntimeError):
    """Report why something is not done, and what to do."""


@dataclass(frozen=True)
class Call:
    """Hold one call of a tool."""

    context: Any
    params: types.CallToolRequestParams
    visitor: Visitor
    arguments: Mapping[str, Any]

    def signs(self, act: Act) -> Role:
        """Return the role by which an act is signed. Raises RefusedError where who asks may not do it."""
        if refusal := self.visitor.refusal(act):
            raise RefusedError(refusal)
        return self.visitor.signs(act)

    @property
    def sender(self) -> str:
        """Return who asks, for whoever looks at the robot."""
        return f"{self.visitor.name}, by MCP"


class _Server(Server[Any]):
    def create_initialization_options(self, *_: Any, **more: Any) -> Any:
        """Say that clients are told when tools and resources change."""
        changes = NotificationOptions(tools_changed=True, resources_changed=True)
        return super().create_initialization_options(changes, **more)


class McpDoor:
    """Answer clients. Over HTTP the scope of a request says who sent it (`VISITOR`); whoever uses a pipe is `visitor`."""

    def __init__(self, robots: AskedRobots, record: Record, visitor: Visitor) -> None:
        self._robots, self._record, self._visitor = robots, record, visitor
        self._own: dict[str, tuple[types.Tool, Callable[[Call, AskedRobot], Awaitable[Any]]]] = {
            tool.name: (tool, perform)
            for tool, perform in ((RUN_TASK, self._run_task), (HALT, self._halt), (APPROVE, self._approve))
        }
        self._changes = InMemorySubscriptionBus()
        self._listed: dict[int, Any] = {}
        """Sessions of clients that have listed tools, by what is one for each client."""
        self.server: Server[Any] = _Server(
            "ghostshell",
            title="GhostShell robots",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=lambda _: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=ListenHandler(self._changes, max_subscriptions=MOST_TOLD),
        )

    async def watch(self) -> None:
        """Tell clients of robots that have come or gone, for as long as this runs."""
        names = self._robots.names()
        while True:
            await anyio.sleep(WATCH_S)
            if (now := self._robots.names()) == names:
                continue
            names = now
            await self._changes.publish(ToolsListChanged())
            await self._changes.publish(ResourcesListChanged())
            for key, session in [*self._listed.items()]:
                try:
                    with anyio.fail_after(WATCH_S):
                        await session.send_tool_list_changed()
                        await session.send_resource_list_changed()
                except (TimeoutError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    self._listed.pop(key, None)

    # -- tools --------------------------------------------------------------------------------------------------------

    async def _list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        client = id(context.session.client_params)
        self._listed.pop(client, None)
        self._listed[client] = context.session
        while len(self._listed) > MOST_TOLD:
            del self._listed[next(iter(self._listed))]
        names = self._robots.names()
        found: dict[str, list[types.Tool]] = {}

        async def ask(name: str) -> None:
            try:
                skills, parts = await (await self._robots.get(name)).skills()
            except NotThereError:
                return  # a team has no skills of its own, and a robot may be on its way down
            found[name] = [skill_tool(name, skill, parts) for skill in skills]

        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(ask, name)
        own = [_of_robots(tool, names) for tool, _ in self._own.values()]
        return types.ListToolsResult(tools=[*own, *(tool for name in names for tool in found.get(name, ()))])

    async def _call_tool(self, context: Any, params: types.CallToolRequestParams) -> Any:
        visitor, address = self._who(context)
        call = Call(context, params, visitor, params.arguments or {})
        name = str(call.arguments.get("robot", "")) if params.name in self._own else ""
        ok, message = False, "not done"
        try:
            if params.name in self._own:
                tool, perform = self._own[params.name]
                _check(_of_robots(tool, self._robots.names()).input_schema, call.arguments)
                robot = await self._robots.get(name := name or self._only_robot())
                result = await perform(call, robot)
            else:
                name, skill = self._skill_of(params.name)
                result = await self._call_skill(call, await self._robots.get(name), skill)
            ok, message = _outcome(result)
            return result
        except (RefusedError, NotThereError) as error:
            message = f"refused: {error}"
            return _told(str(error), failed=True)
        except anyio.get_cancelled_exc_class():
            message = "ended by its client"
            raise
        finally:
            with suppress(OSError):  # a full disk does not stop a robot from being halted
                act = f"mcp {params.name}"
                self._record(visitor, address, act=act[:NAMED], robot=name, ok=ok, message=message[:NAMED])

    def _who(self, context: Any) -> tuple[Visitor, str]:
        """Return who sent a request, and whence."""
        if context.request is None:
            return self._visitor, "pipe"
        scope = context.request.scope
        return scope[VISITOR], (scope.get("client") or ("",))[0]

    def _only_robot(self) -> str:
        names = self._robots.names()
        if len(names) != 1:
            raise RefusedError(f"name the robot: {', '.join(names) or 'there is none; launch one'}")
        return names[0]

    def _skill_of(self, tool: str) -> tuple[str, str]:
        """Return the robot and the skill that a tool stands for. Raises MCPError where there is none."""
        prefix, _, skill = tool.partition("-")
        meant = [name for name in self._robots.names() if _prefix(name) == prefix]
        if len(meant) != 1 or not skill:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool '{tool[:80]}'; tools/list names those that there are")
        return meant[0], skill

    async def _call_skill(self, call: Call, robot: AskedRobot, name: str) -> types.CallToolResult:
        skills, _ = await robot.skills()
        info = next((skill for skill in skills if skill.name == name), None)
        if info is None:
            raise MCPError(types.INVALID_PARAMS, f"robot '{robot.robot}' has no skill '{name[:80]}'")
        _check(skill_schema(info), call.arguments)
        attributes = {key: value_text(value) for key, value in call.arguments.items()}
        try:
            instruction = to_source([FunctionToken(TokenKind.SCF, name, attributes)])
        except RoutineError as error:
            raise RefusedError(str(error)) from error
        end = await self._run(call, robot, instruction, strategy="tokens")
        made = [done for done in await robot.calls(end.process_id) if done.function == name]
        if not made:
            return _told(end.error_msg or told(end), failed=True)
        done = made[-1]
        structured = {"outcome": done.outcome_name, "message": done.told, "value": done.value, "process_id": end.process_id}
        if done.outcome is not Outcome.DONE:
            return _told(f"{done.outcome_name}: {done.told or end.error_msg}", structured, failed=True)
        return _told(done.told or done.outcome_name, structured)

    async def _run_task(self, call: Call, robot: AskedRobot) -> types.CallToolResult:
        end = await self._run(call, robot, call.arguments["instruction"])
        achieved = Achievement(end.achievement)
        structured = {
            "status": ProcessStatus(end.status).name,
            "achievement": achieved.name,
            "summary": end.summary,
            "error": end.error_msg,
            "process_id": end.process_id,
        }
        text = "; ".join(filter(None, (told(end), end.summary)))
        return _told(text, structured, failed=achieved is Achievement.NOT_DONE)

    async def _run(self, call: Call, robot: AskedRobot, instruction: str, strategy: str = "") -> Any:
        """Carry out a task, tell its progress, and end it with the client that asked for it. Everybody may say stop."""
        role = call.signs(Act.HALT if is_stop(instruction, robot.robot) else Act.INSTRUCT)
        news = _News(call.context.session)
        end, why = None, "its client has gone, so it was ended"
        gone: anyio.Event | None = call.context.request.scope.get(GONE) if call.context.request is not None else None
        async with anyio.create_task_group() as group:

            async def leave() -> None:
                if gone is not None:
                    await gone.wait()
                    group.cancel_scope.cancel()

            group.start_soon(leave)
            group.start_soon(news.tell_all)
            try:
                end = await robot.run(instruction, role=role, sender=call.sender, strategy=strategy, tell=news.put)
            except NotThereError as error:
                why = str(error)
            group.cancel_scope.cancel()
        if end is None:
            raise RefusedError(why)
        return end

    async def _halt(self, call: Call, robot: AskedRobot) -> types.CallToolResult:
        role = call.signs(Act.HALT)
        cause = call.arguments.get("cause") or "an MCP client halts it"
        by_door = functools.partial(halt_door.halt, halt_door.ros_domain(), robot.robot, f"{cause} ({call.sender})")
        message = await anyio.to_thread.run_sync(by_door)
        if message is None:
            answer = await robot.ask("request_halt", role=role, command=ControlHalt.Request.HALT, cause=cause)
            if not (answer.success and answer.halted):
                return _told(
                    f"{robot.robot} does not confirm a halt ({answer.message}); use its own emergency stop", failed=True
                )
            message = answer.message
        return _told(f"{robot.robot}: {message}", {"halted": True})

    async def _approve(self, call: Call, robot: AskedRobot) -> Any:
        role, name = call.signs(Act.APPROVE), call.arguments["name"]
        asked = {"role": Role.ANONYMOUS, "name": name}
        listed = await robot.ask("compile_reflex", command=CompileReflex.Request.LIST, **asked)
        if not (listed.success and listed.reflexes):
            raise RefusedError(listed.error_msg or f"there is no reflex '{name}'")
        state = listed.reflexes[0]
        seen = {"sentence": state.sentence, "source": state.source}
        digest = hashlib.sha256(json.dumps([robot.robot, name, seen]).encode()).hexdigest()
        confirmed = (call.params.input_responses or {}).get(_CONFIRM)
        if confirmed is None:
            test = CompileReflex.Request.TEST
            tried = await robot.ask("compile_reflex", command=test, deadline_s=TRIED_S, **asked)
            question = _question(robot.robot, state, tried.report or tried.error_msg)
            confirmed = await _elicited(call.context, question, digest, robot.robot, name)
            if isinstance(confirmed, types.InputRequiredResult):
                return confirmed
        elif call.params.request_state != digest:
            raise RefusedError(f"reflex '{name}' is another one now than the one that was shown; ask again")
        answered = confirmed.content if isinstance(confirmed, types.ElicitResult) and confirmed.action == "accept" else None
        if (answered or {}).get("approve") is not True:
            raise RefusedError(f"the person did not approve reflex '{name}'; it stays as it is")
        seen.update(name=name, person=call.sender)
        approve = CompileReflex.Request.APPROVE
        answer = await robot.ask_once("compile_reflex", role=role, deadline_s=TRIED_S, command=approve, **seen)
        if answer is None:
            raise RefusedError(f"{robot.robot} does not say whether it took the approval; look with: ghostshell reflex list")
        if not answer.success:
            raise RefusedError(answer.error_msg)
        return _told(answer.report or f"{name} is approved", {"approved": name})

    # -- resources ----------------------------------------------------------------------------------------------------

    async def _list_resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        found = []
        for name in self._robots.names():
            state = f"what {name} does, holds and observes, whether it is halted, and its reflexes"
            found.append(_resource(name, "state", state, "application/json"))
            with suppress(NotThereError):  # on its way down
                for camera in (await self._robots.get(name)).cameras():
                    found.append(_resource(name, f"camera/{camera}", f"what {name} sees now", "image/jpeg"))
        return types.ListResourcesResult(resources=found)

    async def _list_templates(self, context: Any, params: Any) -> types.ListResourceTemplatesResult:
        memory = types.ResourceTemplate(
            uri_template=f"{SCHEME}://{{robot}}/memory/{{question}}",
            name="memory",
            description="what the robots remember, by a question in words, percent-encoded; with the records it stands on",
            mime_type="application/json",
        )
        return types.ListResourceTemplatesResult(resource_templates=[memory])

    async def _read_resource(self, context: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        visitor, _ = self._who(context)
        uri = str(params.uri)
        parts = urlsplit(uri)
        what, _, rest = parts.path.strip("/").partition("/")
        try:
            if parts.scheme != SCHEME or what not in ("state", "camera", "memory") or bool(rest) == (what == "state"):
                raise NotThereError(f"there is no resource '{uri[:200]}'; resources/list names those that there are")
            robot = await self._robots.get(unquote(parts.netloc))
            if what == "camera":
                blob = base64.b64encode(await robot.picture(unquote(rest))).decode()
                picture = types.BlobResourceContents(uri=uri, mime_type="image/jpeg", blob=blob)
                return types.ReadResourceResult(contents=[picture])
            told = await (robot.state() if what == "state" else _remembered(robot, unquote(rest), visitor))
        except (NotThereError, RefusedError, ValueError) as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        text = to_json(told, inf_nan_mode="null", indent=1).decode()
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type="application/json", text=text)])


class _News:
    """Tell the lines of a task's run as its progress."""

    def __init__(self, session: Any) -> None:
        self._session, self._loop = session, asyncio.get_running_loop()
        self._lines: asyncio.Queue[str] = asyncio.Queue(MOST_NEWS)

    def put(self, line: str) -> None:
        """Take a line. From any thread; one too many is dropped."""
        self._loop.call_soon_threadsafe(self._offer, line)

    def _offer(self, line: str) -> None:
        with suppress(asyncio.QueueFull):
            self._lines.put_nowait(line)

    async def tell_all(self) -> None:
        """Tell each line, until the client has gone."""
        number = 0
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            while True:
                line = await self._lines.get()
                number += 1
                await self._session.report_progress(number, message=line)


# -- what the door offers -------------------------------------------------------------------------------------------------


def _tool(name: str, does: str, properties: Mapping[str, Any], hints: types.ToolAnnotations) -> types.Tool:
    required = [key for key, one in properties.items() if one.pop("required", False)]
    schema = {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}
    return types.Tool(name=name, description=does, input_schema=schema, annotations=hints)


RUN_TASK = _tool(
    "run_task",
    "Give a robot a task in plain words, and wait for its end: what was really done. The word stop alone halts the robot.",
    {"instruction": {"type": "string", "minLength": 1, "maxLength": LONGEST, "required": True}},
    types.ToolAnnotations(title="Run a task", read_only_hint=False, destructive_hint=True, idempotent_hint=False),
)
HALT = _tool(
    "halt",
    "Halt a robot at its safety gate, at once: every task of it ends, and nothing moves until a person clears the halt.",
    {"cause": {"type": "string", "maxLength": LONGEST, "description": "why, for whoever finds the robot halted"}},
    types.ToolAnnotations(title="Halt", read_only_hint=False, destructive_hint=False, idempotent_hint=True),
)
APPROVE = _tool(
    "approve_reflex",
    "Ask the person at this client to approve a proposed reflex, which then moves the robot by itself. He is shown the "
    "sentence and the code. The names of reflexes are in the robot's state.",
    {"name": {"type": "string", "minLength": 1, "maxLength": 200, "required": True}},
    types.ToolAnnotations(title="Approve a reflex", read_only_hint=False, destructive_hint=True, idempotent_hint=True),
)
_CONFIRM = "approve"
_CONFIRM_SCHEMA = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "May it move the robot by itself from now on?"}},
    "required": ["approve"],
}


def _of_robots(tool: types.Tool, names: Sequence[str]) -> types.Tool:
    """Return one of the door's own tools with an argument that names the robot, which only one of several needs."""
    schema = dict(tool.input_schema)
    schema["properties"] = {**schema["properties"], "robot": {"type": "string", "enum": [*names]}}
    schema["required"] = [*schema["required"], *(["robot"] if len(names) > 1 else [])]
    return tool.model_copy(update={"input_schema": schema})


def _prefix(robot: str) -> str:
    """Return how the names of a robot's tools begin; no skill's name and no part of a robot's holds a hyphen."""
    return robot.strip("/").replace("/", "_")


def skill_schema(info: Any) -> dict[str, Any]:
    """Return the JSON Schema of a skill's arguments (SkillInfo): types, ranges and choices. What is said is one of them."""
    schema: dict[str, Any] = json.loads(info.parameters_json)
    if info.takes_content:
        named = [n for n, one in schema["properties"].items() if n not in schema["required"] and "default" not in one]
        schema["required"] = [*schema["required"], *named]
    return schema


def skill_tool(robot: str, info: Any, parts: Mapping[str, Any]) -> types.Tool:
    """Return the tool of a skill. Its hints follow from the parts of the body that it declares: one that only one process may
    hold moves, and those that any number of calls share are only looked with, unless it calls others."""
    used = [part for name, part in parts.items() if any(_names(claimed, name) for claimed in info.subsystems)]
    moves = any(part.exclusive_per_process for part in used)
    shared = bool(used) and not info.composite and all(part.parallel and not part.exclusive_per_process for part in used)
    return types.Tool(
        name=f"{_prefix(robot)}-{info.name}",
        description=f"{robot}: {info.description}",
        input_schema=skill_schema(info),
        annotations=types.ToolAnnotations(
            title=f"{robot}: {info.name.replace('_', ' ')}",
            read_only_hint=shared,
            destructive_hint=moves,
            idempotent_hint=info.idempotent,
            open_world_hint=True,
        ),
    )


def _names(claimed: str, part: str) -> bool:
    """Return whether a skill's claim, which may hold a parameter in braces, can mean a part of the body."""
    return re.fullmatch(r"\w+".join(map(re.escape, re.split(r"\{\w+\}", claimed))), part) is not None


def _resource(robot: str, path: str, does: str, kind: str) -> types.Resource:
    uri = f"{SCHEME}://{quote(robot, safe='')}/{quote(path)}"
    return types.Resource(uri=uri, name=f"{robot} {path}", description=does, mime_type=kind)


# -- answers --------------------------------------------------------------------------------------------------------------


def _check(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Raise RefusedError where arguments do not fit their schema."""
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(arguments))
    if error is not None:
        where = ".".join(map(str, error.absolute_path))
        raise RefusedError(f"{where + ': ' if where else ''}{error.message[:400]}")


def _told(text: str, structured: Any = None, *, failed: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=structured, is_error=failed)


def _outcome(result: Any) -> tuple[bool, str]:
    """Return whether a call was done, and in a line what came of it."""
    if isinstance(result, types.InputRequiredResult):
        return False, "the person is asked"
    return not result.is_error, result.content[0].text


def _question(robot: str, state: Any, tried: str) -> str:
    """Return what a person must read before he approves a reflex."""
    told = f"Reflex '{state.name}' of {robot} is to move the robot by itself:\n“{state.sentence}”"
    return f"{told}\n\nThis code runs:\n{state.source}\n\nTried on what was observed lately: {tried}"


async def _elicited(context: Any, question: str, digest: str, robot: str, name: str) -> Any:
    """Return what the person at the client answers, or the result by which a client without a channel back is asked."""
    session = context.session
    able = session.client_capabilities.elicitation if session.client_capabilities is not None else None
    if able is None or (able.form is None and able.url is not None):
        how = f"ghostshell reflex approve {name} --robot {robot}"
        raise RefusedError(f"this client cannot ask its person (elicitation); he approves it with: {how}")
    if not session.can_send_request:
        params = types.ElicitRequestFormParams(message=question, requested_schema=_CONFIRM_SCHEMA)
        asked: dict[str, Any] = {_CONFIRM: types.ElicitRequest(params=params)}
        return types.InputRequiredResult(input_requests=asked, request_state=digest)
    with anyio.move_on_after(PERSON_S):
        return await session.elicit_form(question, _CONFIRM_SCHEMA, context.request_id)
    raise RefusedError(f"the person did not answer within {PERSON_S:g} s; reflex '{name}' stays as it is")


async def _remembered(robot: AskedRobot, question: str, visitor: Visitor) -> dict[str, Any]:
    """Return the memory's answer with its sources, the private ones too where the visitor may see them."""
    role = Role.ANONYMOUS if visitor.refusal(Act.PRIVATE) else visitor.signs(Act.PRIVATE)
    if len(question) > LONGEST:
        raise RefusedError(f"the question has {len(question)} characters, more than {LONGEST}; ask it shorter")
    fields = {"question": question, "robot": robot.robot}
    answer = await robot.ask(MEMORY, role=role, deadline_s=ANSWER_S, **fields)
    if not answer.success:
        raise RefusedError(answer.error_msg)
    return {"answer": answer.answer, "note": answer.note, "sources": [plain(record) for record in answer.records]}
