# SPDX-License-Identifier: Apache-2.0
"""Ask robots from an event loop, for programs: one node a robot, made when it is first asked for something."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import anyio
from ghostshell.action import RunTask
from ghostshell.msg import KernelState, ProcessArray, ReflexState, ReflexStateArray
from ghostshell.msg import Observation as ObservationMsg
from ghostshell.srv import CompileReflex, ControlHalt, ListSkills, QueryMemory
from rclpy.node import Node
from sensor_msgs.msg import Image

from function_tokens.run_model import runs
from ghostshell_ros import halt_door
from ghostshell_ros.cli.follow import NotThereError, RobotClient, Sent, wait_ready
from ghostshell_ros.cli.robot_client import robots_of
from ghostshell_ros.nodes.dashboard.cameras import camera_topics, jpeg
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.runtime.recollection import MEMORY
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.codec import plain
from ghostshell_ros.wire.qos import IMAGES, LATCHED, OBSERVATION
from skill_kernel.events import CallEvent
from skill_kernel.roles import Role

SERVICES = {"list_skills": ListSkills, "compile_reflex": CompileReflex, "request_halt": ControlHalt, MEMORY: QueryMemory}
LOOK_S = 0.05
"""Time between two looks at a task that runs."""
READY_S = 10.0
"""A robot that is asked for a task may be coming up for so long."""
ANSWER_S, AGAIN_S = 5.0, 1.0
"""Time for an answer, and for one to be lost before a harmless question is asked again."""
LATEST_S = 2.0
"""Time for the newest message of a topic."""
SETTLE_S = 0.3
"""After the end of a task the last events of its calls are waited for."""


class AskedRobot(RobotClient):
    """Carry out tasks of one robot and ask its services. Methods that wait belong to an event loop."""

    def __init__(self, robot: str) -> None:
        super().__init__(robot, everything=True)
        self._service_clients: dict[str, ServiceClient] = {}
        self._news: dict[Sent, Callable[[str], object]] = {}

    def heard(self, kind: str, message: Any) -> None:
        """Tell whoever waits for a task what is new of it."""
        if kind == "end":
            return
        lines = self.view.hear(kind, message, self.now_s())
        process_id = getattr(message, "process_id", "")
        for sent, tell in [*self._news.items()] if process_id and lines else ():
            if sent.process_id == process_id:
                for line in lines:
                    tell(line.strip())

    async def on_executor(self, work: Callable[[Callable[[Any], object]], object]) -> Any:
        """Do work on the executor's thread, and return what it gives to the function that it gets."""
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()  # whoever waits may go; the work is not taken back
        self.call_soon(work, done.set_result)
        return await asyncio.wrap_future(done)

    async def ask(self, service: str, *, role: Role = Role.ANONYMOUS, deadline_s: float = ANSWER_S, **fields: Any) -> Any:
        """Return the answer to a request that does nothing more when it is repeated. Raises NotThereError."""
        end_s = time.monotonic() + deadline_s
        while (left_s := end_s - time.monotonic()) > 0:
            answer = await self.ask_once(service, role=role, deadline_s=min(AGAIN_S, left_s), **fields)
            if answer is not None:
                return answer
        raise NotThereError(f"{service} of robot '{self.robot}' does not answer within {deadline_s:g} s; is it launched?")

    async def ask_once(self, service: str, *, role: Role, deadline_s: float, **fields: Any) -> Any:
        """Return the answer to one request with a proof of the role, None at the deadline."""

        def send(take: Callable[[Any], object]) -> None:
            kind = SERVICES[service]
            if service not in self._service_clients:
                self._service_clients[service] = ServiceClient(self, kind, service)
            request = kind.Request(**fields)
            self._service_clients[service].ask(
                request if role is Role.ANONYMOUS else signed(self, service, request, role),
                take,
                deadline_s=deadline_s,
                wait_s=deadline_s,
            )

        return await self.on_executor(send)

    async def newest(self, kind: Any, topic: str, qos: Any, *, raw: bool = False) -> Any:
        """Return one message of a topic, `raw` as it is serialised, None where none comes in time."""
        done: Future[Any] = Future()
        done.set_running_or_notify_cancel()

        def take(message: Any) -> None:
            if not done.done():
                done.set_result(message)

        subscription = await self.on_executor(lambda tell: tell(self.create_subscription(kind, topic, take, qos, raw=raw)))
        try:
            with anyio.move_on_after(LATEST_S):
                return await asyncio.wrap_future(done)
        finally:
            self.call_soon(self.destroy_subscription, subscription)
        return None

    # -- tasks --------------------------------------------------------------------------------------------------------

    async def run(
        self, instruction: str, *, role: Role, sender: str, strategy: str = "", tell: Callable[[str], object] = lambda _: None
    ) -> RunTask.Result:
        """Carry out an instruction and return its end; `tell` hears each line of news, on another thread. Whoever waits and is
        cancelled ends the task, and leaves when the robot confirms it. Raises NotThereError."""
        await anyio.to_thread.run_sync(wait_ready, self, READY_S)
        sent = self.send(instruction, role=role, sender=sender, door="mcp", strategy=strategy)
        self._news[sent] = tell
        try:
            return await self._followed(sent)
        except anyio.get_cancelled_exc_class():
            sent.cancel("its MCP client ended it")
            with anyio.CancelScope(shield=True):
                await self._followed(sent)
            raise
        finally:
            del self._news[sent]
            sent.told = True

    async def _followed(self, sent: Sent) -> RunTask.Result:
        while sent.end is None:
            await anyio.sleep(LOOK_S)
            self.look()
        return sent.end

    def look(self) -> None:
        """End the tasks of a robot that is silent, or does not confirm their end."""
        now_s = time.monotonic()
        for sent in self.running:
            sent.look(now_s, now_s - self.heard_s)

    async def calls(self, process_id: str) -> list[CallEvent]:
        """Return the calls of a task that has ended, but for those that others made, in order."""

        def known(tell: Callable[[Any], object]) -> None:
            process = self.view.model.processes.get(process_id)
            tell([call for call in process.calls.values() if not call.parent_id] if process is not None else [])

        end_s = time.monotonic() + SETTLE_S
        while any(map(runs, found := await self.on_executor(known))) or (not found and time.monotonic() < end_s):
            if time.monotonic() >= end_s:
                break
            await anyio.sleep(LOOK_S)
        return found

    # -- what it tells ------------------------------------------------------------------------------------------------

    async def skills(self) -> tuple[list[Any], dict[str, Any]]:
        """Return its skills (SkillInfo), and the parts of its body (Subsystem) by name. Raises NotThereError."""
        answer = await self.ask("list_skills")
        return [*answer.skills], {part.name: part for part in answer.subsystems}

    async def state(self) -> dict[str, Any]:
        """Return what it tells of itself now, as JSON can hold it: nothing for what it does not tell."""
        kernel, processes, reflexes, observation = await asyncio.gather(
            self.newest(KernelState, "kernel_state", LATCHED),
            self.newest(ProcessArray, "processes", LATCHED),
            self.newest(ReflexStateArray, "reflex_states", LATCHED),
            self.newest(ObservationMsg, "observation", OBSERVATION),
        )
        told: dict[str, Any] = {"robot": self.robot, "domain": halt_door.ros_domain()}
        if kernel is not None:
            told.update(halted=kernel.halted, halt_cause=kernel.halt_cause, body=plain(kernel)["subsystems"])
        if processes is not None:
            told["processes"] = [plain(process) for process in processes.processes if not process.ended.sec]
        if reflexes is not None:
            told["reflexes"] = [_reflex(state) for state in reflexes.reflexes]
        if observation is not None:
            told["observation"] = plain(observation)
        return told

    def cameras(self) -> list[str]:
        """Return the names of its topics with pictures, relative to its namespace."""
        return camera_topics(self, self.robot)

    async def picture(self, topic: str) -> bytes:
        """Return the newest picture of a camera as JPEG. Raises NotThereError where none comes."""
        message = await self.newest(Image, topic, IMAGES, raw=True) if topic in self.cameras() else None
        if message is None:
            cameras = ", ".join(self.cameras()) or "none"
            raise NotThereError(
                f"robot '{self.robot}' sends no picture on '{topic}' within {LATEST_S:g} s; its cameras: {cameras}"
            )
        return await anyio.to_thread.run_sync(jpeg, bytes(message))


def _reflex(state: ReflexState) -> dict[str, Any]:
    """Return what a person must know of a reflex; its code is shown when he is to approve it."""
    names = ("PROPOSED", "APPROVED", "DISABLED")
    return {"name": state.name, "sentence": state.sentence, "state": names[state.state], "reason": state.reason}


class AskedRobots:
    """Know the robots that `node` discovers, or those of them that are named, and ask each by a node of its own."""

    def __init__(self, node: Node, only: Sequence[str] = ()) -> None:
        self._node, self._only = node, frozenset(only)
        self._asked: dict[str, tuple[AskedRobot, NodeHost]] = {}
        self._making = anyio.Lock()

    def names(self) -> list[str]:
        """Return the names of the robots and teams that are there."""
        return [name for name in robots_of(self._node) if not self._only or name in self._only]

    async def get(self, name: str) -> AskedRobot:
        """Return the robot of that name. Raises NotThereError."""
        there = self.names()
        if name not in there:
            raise NotThereError(f"there is no robot '{name}'; there is: {', '.join(there) or 'none'}")
        async with self._making:
            if name not in self._asked:
                self._asked[name] = await anyio.to_thread.run_sync(_spun, name)
        return self._asked[name][0]

    async def end_all(self, why: str) -> None:
        """End every task that was begun here, and wait until the robots confirm it, or can be waited for no longer."""
        robots = [robot for robot, _ in self._asked.values()]
        for robot in robots:
            for sent in robot.running:
                sent.cancel(why)
        while any(robot.running for robot in robots):
            await anyio.sleep(LOOK_S)
            for robot in robots:
                robot.look()

    def close(self) -> None:
        """Ask no more."""
        for _, host in self._asked.values():
            host.close()


def _spun(name: str) -> tuple[AskedRobot, NodeHost]:
    robot = AskedRobot(name)
    host = NodeHost([robot])
    host.start()
    return robot, host
