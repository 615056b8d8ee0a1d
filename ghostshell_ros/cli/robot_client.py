# SPDX-License-Identifier: Apache-2.0
"""The client of a command that asks a running robot something and prints the answer."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

if TYPE_CHECKING:
    from ghostshell_ros.runtime.node import RuntimeNode

ASK_AGAIN_S = 0.5

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


class RobotClient:
    """Asks one service of a robot and hears one latched topic; ends the command with status 2 when nobody answers.

    `names` are the service's and, if there is one, the topic's; `nobody` is the sentence for when there is no answer.
    ROS is imported when the client is entered, so that a command's help needs none.
    """

    def __init__(self, robot: str, wait_s: float, *, service: str, topic: str = "", nobody: str) -> None:
        """`service` and `topic` are written as `package/Type name`."""
        self._robot, self._wait_s, self._nobody = robot, wait_s, nobody
        self._service, self._topic = service.split(), topic.split()
        self._met = False
        self.heard: list[Any] = []

    def __enter__(self) -> RobotClient:
        import rclpy

        from ghostshell_ros.wire.codec import interface
        from ghostshell_ros.wire.qos import LATCHED

        rclpy.init()
        self.node = rclpy.create_node("ghostshell_cli", namespace=self._robot, use_global_arguments=False)
        self.type = interface(self._service[0].replace("/", "/srv/"))
        self._client = self.node.create_client(self.type, self._service[1])
        if self._topic:
            self.node.create_subscription(
                interface(self._topic[0].replace("/", "/msg/")), self._topic[1], self.heard.append, LATCHED
            )
        return self

    def __exit__(self, *_: object) -> None:
        import rclpy

        self.node.destroy_node()
        rclpy.try_shutdown()

    def prove(self, harmless: Any) -> None:
        """Ask something harmless until it is answered: a service that has not discovered its client loses its answer."""
        end_s = time.monotonic() + self._wait_s
        while not self._met:
            left_s = end_s - time.monotonic()
            if left_s <= 0 or not self._client.wait_for_service(timeout_sec=left_s):
                self.nobody()
            self._met = self._answer(harmless, min(ASK_AGAIN_S, left_s)) is not None

    def ask(self, request: Any, answer_s: float = 0.0) -> Any:
        """Return the answer to one request, within `answer_s` or as long as the command waits."""
        if not self._client.wait_for_service(timeout_sec=self._wait_s):
            self.nobody()
        return self._answer(request, answer_s or self._wait_s) or self.nobody()

    def newest(self, within_s: float | None = None) -> Any:
        """Return the newest message of the topic; None where none comes within `within_s`, if that is given."""
        import rclpy

        end_s = time.monotonic() + (self._wait_s if within_s is None else within_s)
        while not self.heard:
            if time.monotonic() > end_s:
                return None if within_s is not None else self.nobody()
            rclpy.spin_once(self.node, timeout_sec=0.05)
        return self.heard[-1]

    def nobody(self) -> NoReturn:
        """End the command: nobody answers."""
        print(f"ghostshell: {self._nobody}", file=sys.stderr)
        raise typer.Exit(2)

    def _answer(self, request: Any, answer_s: float) -> Any:
        import rclpy

        future = self._client.call_async(request)
        rclpy.spin_until_future_complete(self.node, future, timeout_sec=answer_s)
        return future.result() if future.done() else None
