# SPDX-License-Identifier: Apache-2.0
"""Halt robots for the page: those of this machine by their gates' sockets, others by ROS in a context of its own."""

from __future__ import annotations

import queue
import threading
from typing import Any

import rclpy
from ghostshell.srv import ControlHalt
from rclpy.context import Context

from ghostshell_ros import halt_door
from ghostshell_ros.runtime.node import OF_A_COMMAND, RuntimeNode
from ghostshell_ros.runtime.node_runtime import NodeHost
from ghostshell_ros.runtime.service_client import ServiceClient

ANSWER_S = 3.0
"""Time in which the gate of another machine's robot answers."""


class Halts:
    """Halt whatever else this program does. From any thread."""

    def __init__(self, domain: int) -> None:
        self._domain = domain
        self._lock = threading.Lock()
        self._host: NodeHost | None = None
        self._context: Context | None = None
        self._clients: dict[str, ServiceClient] = {}

    def prepare(self, robot: str) -> None:
        """Find the gate of another machine's robot before it is to halt. On a thread that may wait."""
        if robot not in halt_door.robots_here(str(self._domain)):
            self._client(robot)

    def _client(self, robot: str) -> ServiceClient:
        """Return the client of a robot's gate by ROS. Raises queue.Empty."""
        if robot in self._clients:  # without waiting for another robot's
            return self._clients[robot]
        with self._lock:
            if robot in self._clients:
                return self._clients[robot]
            if self._host is None:
                self._context = Context()
                rclpy.init(context=self._context, domain_id=self._domain)
                node = RuntimeNode("dashboard_halts", context=self._context, **OF_A_COMMAND)
                self._host = NodeHost([node], context=self._context)
                self._host.start()
            node = self._host.nodes[0]
            made: queue.Queue[Any] = queue.Queue()
            node.call_soon(lambda: made.put(ServiceClient(node, ControlHalt, f"/{robot}/request_halt")))
            client = self._clients[robot] = made.get(timeout=ANSWER_S)
            node.call_soon(client.prove, lambda: ControlHalt.Request(command=ControlHalt.Request.LOOK))
            return client

    def halt(self, robot: str, cause: str, *, known: bool) -> tuple[bool, str]:
        """Halt a robot by its gate's socket, or else through ROS one that is `known`. Return whether its gate confirms it, and
        what it says."""
        told = halt_door.halt(str(self._domain), robot, cause) if halt_door.is_namespace(robot) else None
        if told is not None:
            return True, told
        if not known:
            return False, f"there is no robot {robot}"
        try:
            client = self._client(robot)
            answers: queue.Queue[Any] = queue.Queue()
            request = ControlHalt.Request(command=ControlHalt.Request.HALT, cause=cause)
            client.node.call_soon(lambda: client.ask(request, answers.put, deadline_s=ANSWER_S, wait_s=ANSWER_S))
            answer = answers.get(timeout=2 * ANSWER_S)
        except queue.Empty:
            answer = None
        if answer is None:
            return False, f"no gate of {robot} answers; use its own emergency stop"
        return bool(answer.success), str(answer.message)

    def close(self) -> None:
        """Release what was made for other machines' robots."""
        if self._host is not None and self._context is not None:
            self._host.close()
            rclpy.try_shutdown(context=self._context)
