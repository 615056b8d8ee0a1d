# SPDX-License-Identifier: Apache-2.0
"""Spin the node of a command, and call one service of a running robot."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ghostshell_ros.cli.output import fail
from skill_kernel.roles import Role

if TYPE_CHECKING:
    from typing_extensions import Self

    from ghostshell_ros.runtime.node import RuntimeNode

N = TypeVar("N", bound="RuntimeNode")

AGAIN_S = 0.5
"""Time between two requests while none is answered."""


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


def command_node(robot: str) -> RuntimeNode:
    """Return the node of a command, in the robot's namespace."""
    from ghostshell_ros.runtime.node import RuntimeNode

    return RuntimeNode("ghostshell_cli", namespace=robot, use_global_arguments=False)


class RobotClient:
    """Ask one service of a robot and hear one latched topic; end the command with status 2 when nobody answers.

    ROS is imported when the client is entered, so that a command's help needs none.
    """

    def __init__(self, robot: str, wait_s: float, *, service: str, topic: str = "", nobody: str) -> None:
        """Take `service` and `topic` as `package/Type name`; `nobody` is the sentence for a command without an answer."""
        self._robot, self._wait_s, self._nobody = robot, wait_s, nobody
        self._service, self._topic = service.split(), topic.split()
        self._heard: queue.Queue[Any] = queue.Queue()
        self._ends = ExitStack()
        self._proven = False

    def __enter__(self) -> Self:
        self.node = self._ends.enter_context(spun(self._make_node))
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def _make_node(self) -> RuntimeNode:
        from ghostshell_ros.runtime.service_client import ServiceClient
        from ghostshell_ros.wire.codec import interface
        from ghostshell_ros.wire.qos import LATCHED

        node = command_node(self._robot)
        self.type = interface(self._service[0].replace("/", "/srv/"))
        self._client = ServiceClient(node, self.type, self._service[1])
        if self._topic:
            kind = interface(self._topic[0].replace("/", "/msg/"))
            node.create_subscription(kind, self._topic[1], self._heard.put, LATCHED)
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
        end_s = time.monotonic() + self._wait_s
        while (left_s := end_s - time.monotonic()) > 0:
            sent = self._signed(request, role)
            self.node.call_soon(lambda r=sent, s=left_s: self._client.ask(r, answers.put, deadline_s=s, wait_s=s))
            if (answer := self._next(answers, min(AGAIN_S, left_s))) is not None:
                return answer
        return fail(self._nobody)

    def ask(self, request: Any, answer_s: float = 0.0, role: Role = Role.ANONYMOUS) -> Any:
        """Return the answer to one request with a proof of the role, within `answer_s` or as long as the command waits."""
        answers: queue.Queue[Any] = queue.Queue()
        sent, deadline_s = self._signed(request, role), answer_s or self._wait_s
        self.node.call_soon(lambda: self._client.ask(sent, answers.put, deadline_s=deadline_s, wait_s=self._wait_s))
        return self._next(answers, self._wait_s + deadline_s) or fail(self._nobody)

    def _signed(self, request: Any, role: Role) -> Any:
        from ghostshell_ros.runtime.signing import signed

        return request if role is Role.ANONYMOUS else signed(self.node, self._service[1], request, role)

    def latched(self, within_s: float | None = None) -> Any:
        """Return the message of the topic; None where none comes within `within_s`, if that is given."""
        message = self._next(self._heard, self._wait_s if within_s is None else within_s)
        return message if message is not None or within_s is not None else fail(self._nobody)

    @staticmethod
    def _next(inbox: queue.Queue[Any], within_s: float) -> Any:
        try:
            return inbox.get(timeout=within_s)
        except queue.Empty:
            return None
