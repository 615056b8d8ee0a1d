# SPDX-License-Identifier: Apache-2.0
"""Ask a running robot something: spin the node of a command, and call one service of the robot."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ghostshell_ros.cli.output import fail

if TYPE_CHECKING:
    from typing_extensions import Self

    from ghostshell_ros.runtime.node import RuntimeNode

N = TypeVar("N", bound="RuntimeNode")


@contextmanager
def spun(make: Callable[[], N]) -> Iterator[N]:
    """Spin a node on a thread of its own, in a ROS context that leaves signals to the command."""
    import rclpy

    from ghostshell_ros.runtime.node_runtime import NodeHost

    rclpy.init(signal_handler_options=rclpy.SignalHandlerOptions.NO)
    node = make()
    host = NodeHost([node])
    host.start()
    try:
        yield node
    finally:
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
        """Ask something harmless until it is answered: a service that has not discovered its client loses its answer."""
        if not self._proven:
            answers: queue.Queue[Any] = queue.Queue()
            self.node.call_soon(self._client.prove, lambda: harmless, answers.put)
            self._proven = self._next(answers, self._wait_s) is not None or self.nobody()

    def ask(self, request: Any, answer_s: float = 0.0) -> Any:
        """Return the answer to one request, within `answer_s` or as long as the command waits."""
        answers: queue.Queue[Any] = queue.Queue()
        deadline_s = answer_s or self._wait_s
        ask = self._client.ask
        self.node.call_soon(lambda: ask(request, answers.put, deadline_s=deadline_s, wait_s=self._wait_s))
        return self._next(answers, self._wait_s + deadline_s) or self.nobody()

    def latched(self, within_s: float | None = None) -> Any:
        """Return the message of the topic; None where none comes within `within_s`, if that is given."""
        message = self._next(self._heard, self._wait_s if within_s is None else within_s)
        return message if message is not None or within_s is not None else self.nobody()

    def nobody(self) -> NoReturn:
        """End the command because nobody answers."""
        fail(self._nobody)

    @staticmethod
    def _next(inbox: queue.Queue[Any], within_s: float) -> Any:
        try:
            return inbox.get(timeout=within_s)
        except queue.Empty:
            return None
