# SPDX-License-Identifier: Apache-2.0
"""Find the robots that are there, spin the node of a command, and call one service of a running robot."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ghostshell_ros.cli.output import fail
from ghostshell_ros.halt_door import robots_here, ros_domain
from skill_kernel.roles import Role

if TYPE_CHECKING:
    from typing_extensions import Self

    from ghostshell_ros.runtime.node import RuntimeNode

N = TypeVar("N", bound="RuntimeNode")

AGAIN_S = 0.5
"""Time between two requests while none is answered."""
WAIT_S = 10.0
"""Default wait for a robot."""
ABSENT_S = 3.0
"""A robot of which nothing is found for so long is not there, unless a launch has just begun or one waits longer for it."""
LAUNCH_S = 60.0
"""A launch that began less long ago may still bring up its robot."""
LOOK_S = 0.1
"""Time between two looks for a robot."""
COMMAND = "ghostshell_"
"""Beginning of the names of commands' nodes."""
SERVED = "/control_halt"
"""Service of every robot's safety gate, by which its namespace is known."""


def launch_begins() -> bool:
    """Return whether a launch on this machine began less than LAUNCH_S ago."""
    up_s, ticks = float(Path("/proc/uptime").read_text().split()[0]), os.sysconf("SC_CLK_TCK")
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            words = (process / "cmdline").read_bytes().split(b"\0")[:4]
            if b"launch" in words[1:] and any(word.endswith((b"/ghostshell", b"/ros2")) for word in words):
                began_s = int((process / "stat").read_text().rpartition(")")[2].split()[19]) / ticks
                if up_s - began_s < LAUNCH_S:
                    return True
    return False


def robots_of(node: Any) -> list[str]:
    """Return the namespaces of the robots that a node has discovered, and those of this machine."""
    served = (name for name, _ in node.get_service_names_and_types())
    return sorted(
        {name.removesuffix(SERVED).strip("/") for name in served if name.endswith(SERVED)} | {*robots_here(ros_domain())}
    )


def absent(node: Any, robot: str, waited_s: float, wait_s: float) -> str:
    """Return why a robot is given up after `waited_s` of `wait_s`, with the robots that are there; "" while it may come."""
    if waited_s < min(wait_s, ABSENT_S):
        return ""
    found = robots_of(node)
    spaces = (space.strip("/") for name, space in node.get_node_names_and_namespaces() if not name.startswith(COMMAND))
    if robot in found or (waited_s < wait_s and (wait_s > WAIT_S or robot in spaces or launch_begins())):
        return ""
    return f"no robot '{robot}' answers on ROS domain {ros_domain()}; {there_is(found, robot)}"


def there_is(found: list[str], robot: str = "") -> str:
    """Return which robots are there, or how to start one."""
    others = [name for name in found if name != robot]
    if others:
        return f"there is: {', '.join(others)}"
    from ghostshell_ros.runtime.data import config_folder

    files = config_folder().with_name("launch").glob("*.launch.xml")
    known = sorted({path.name.split(".")[0] for path in files} - {"robot", "arm_ros2_control"})  # these need arguments
    named = robot or "coco"
    return f"start one with: ghostshell launch {named if named in known else 'NAME, of ' + ', '.join(known)}"


def robots_there(wait_s: float = WAIT_S) -> list[str]:
    """Return the robots of this machine, or else of the ROS domain; end the command with status 2 when there is none."""
    found = robots_here(ros_domain())
    if not found:
        begun_s, waited_s = time.monotonic(), 0.0
        with spun(lambda: command_node("")) as node:
            while not found and (waited_s < ABSENT_S or (waited_s < wait_s and launch_begins())):
                time.sleep(LOOK_S)
                found, waited_s = robots_of(node), time.monotonic() - begun_s
    return found or fail(f"no robot answers on ROS domain {ros_domain()}; {there_is(found)}")


def only_robot() -> str:
    """Return the only robot that is there; end the command with status 2 when there is none, or more than one."""
    found = robots_there()
    if len(found) > 1:
        fail(f"there are several robots: {', '.join(found)}; name one with --robot or in GHOSTSHELL_ROBOT")
    return found[0]


@contextmanager
def spun(make: Callable[[], N]) -> Iterator[N]:
    """Spin a node on a thread of its own, in a ROS context that leaves signals to the command."""
    import rclpy

    from ghostshell_ros.runtime.node_runtime import NodeHost, bounded_end

    rclpy.init(signal_handler_options=rclpy.SignalHandlerOptions.NO)
    node = make()
    host = NodeHost([node])
    host.start()
    try:
        yield node
    finally:
        with bounded_end():
            host.close()
            rclpy.try_shutdown()


_shared: RuntimeNode | None = None
"""The node of a command that runs others."""


@contextmanager
def shared(node: RuntimeNode) -> Iterator[None]:
    """Let the commands that are run meanwhile use a node that is spun already."""
    global _shared
    _shared = node
    try:
        yield
    finally:
        _shared = None


def command_node(robot: str) -> RuntimeNode:
    """Return the node of a command, in the robot's namespace."""
    from ghostshell_ros.runtime.node import OF_A_COMMAND, RuntimeNode

    return RuntimeNode("ghostshell_cli", namespace=robot, **OF_A_COMMAND)


def received(inbox: queue.Queue[Any], node: Any, robot: str, wait_s: float) -> Any:
    """Return what arrives in an inbox, or None when nothing does in `wait_s`; end the command when the robot is not there."""
    begun_s = time.monotonic()
    while (waited_s := time.monotonic() - begun_s) < wait_s:
        with suppress(queue.Empty):
            return inbox.get(timeout=max(0.0, min(LOOK_S, wait_s - waited_s)))
        if why := absent(node, robot, waited_s, wait_s):
            fail(why)
    return None if wait_s < ABSENT_S or not (why := absent(node, robot, wait_s, wait_s)) else fail(why)


class RobotClient:
    """Ask one service of a robot and hear latched topics; end the command with status 2 when nobody answers.

    ROS is imported when the client is entered, so that a command's help needs none.
    """

    def __init__(self, robot: str, wait_s: float, *, service: str, topics: Sequence[str] = (), nobody: str) -> None:
        """Take `service` and `topics` as `package/Type name`; `nobody` is the sentence for a command without an answer."""
        self._robot, self._wait_s, self._nobody = robot, wait_s, nobody
        self._service, self._topics = service.split(), [topic.split() for topic in topics]
        self._heard: list[queue.Queue[Any]] = [queue.Queue() for _ in topics]
        self._ends = ExitStack()
        self._proven = False
        self._subscriptions: list[Any] = []

    def __enter__(self) -> Self:
        if _shared is None:
            self.node = self._ends.enter_context(spun(lambda: self._connect(command_node(self._robot))))
        else:
            self.node = self._connect(_shared)
        return self

    def __exit__(self, *_: object) -> None:
        if _shared is not None:
            self.node.call_soon(self.node.destroy_client, self._client.client)
            for subscription in self._subscriptions:
                self.node.call_soon(self.node.destroy_subscription, subscription)
        self._ends.close()

    def _connect(self, node: RuntimeNode) -> RuntimeNode:
        from ghostshell_ros.runtime.service_client import ServiceClient
        from ghostshell_ros.wire.codec import interface
        from ghostshell_ros.wire.qos import LATCHED

        self.type = interface(self._service[0].replace("/", "/srv/"))
        self._client = ServiceClient(node, self.type, self._service[1])
        for (kind, name), heard in zip(self._topics, self._heard, strict=True):
            message = interface(kind.replace("/", "/msg/"))
            self._subscriptions.append(node.create_subscription(message, name, heard.put, LATCHED))
        return node

    def prove(self, harmless: Any) -> None:
        """Ask something harmless once, so that no later answer is lost."""
        self._proven = self._proven or self.ask_again(harmless) is not None

    def ask_again(self, request: Any, role: Role = Role.ANONYMOUS) -> Any:
        """Return the answer to an idempotent request, sent every AGAIN_S until one arrives or the command has waited, each
        time with a new proof of the role.

        A service that has not discovered its client yet loses its answer.
        """
        answers: queue.Queue[Any] = queue.Queue()
        begun_s, waited_s = time.monotonic(), 0.0
        while (left_s := self._wait_s - waited_s) > 0:
            sent = self._signed(request, role)
            self.node.call_soon(lambda r=sent, s=left_s: self._client.ask(r, answers.put, deadline_s=s, wait_s=s))
            with suppress(queue.Empty):
                if (answer := answers.get(timeout=min(AGAIN_S, left_s))) is not None:
                    return answer
            waited_s = time.monotonic() - begun_s
            if left_s > AGAIN_S and (why := absent(self.node, self._robot, waited_s, self._wait_s)):
                fail(why)
        return fail(self._nobody)

    def ask(self, request: Any, answer_s: float = 0.0, role: Role = Role.ANONYMOUS) -> Any:
        """Return the answer to one request with a proof of the role, within `answer_s` or as long as the command waits."""
        answers: queue.Queue[Any] = queue.Queue()
        sent, deadline_s = self._signed(request, role), answer_s or self._wait_s
        self.node.call_soon(lambda: self._client.ask(sent, answers.put, deadline_s=deadline_s, wait_s=self._wait_s))
        return received(answers, self.node, self._robot, self._wait_s + deadline_s) or fail(self._nobody)

    def _signed(self, request: Any, role: Role) -> Any:
        from ghostshell_ros.runtime.signing import signed

        return request if role is Role.ANONYMOUS else signed(self.node, self._service[1], request, role)

    def latched(self, within_s: float | None = None, *, topic: int = 0) -> Any:
        """Return the message of a topic; None where none comes within `within_s`, if that is given."""
        message = received(self._heard[topic], self.node, self._robot, self._wait_s if within_s is None else within_s)
        return message if message is not None or within_s is not None else fail(self._nobody)
