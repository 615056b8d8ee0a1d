# SPDX-License-Identifier: Apache-2.0
"""Clear a robot's halt from a program: a client that proves the role for it."""

from __future__ import annotations

from typing import Any

from ghostshell.srv import ControlHalt
from rclpy.node import Node
from rclpy.task import Future

from ghostshell_ros.runtime.signing import signed
from skill_kernel.roles import Act, key_role


class Clearing:
    """Ask the safety gate of the node's namespace, or of another robot, to clear the halt that stands; used as a client of
    `clear_halt` would be."""

    def __init__(self, node: Node, robot: str = "") -> None:
        self._node, self._name = node, f"/{robot}/control_halt" if robot else "control_halt"
        self._client = node.create_client(ControlHalt, self._name)
        self.srv_name = self._client.srv_name

    def service_is_ready(self) -> bool:
        """Return whether the gate is discovered."""
        return bool(self._client.service_is_ready())

    def call_async(self, _: Any = None) -> Future:
        """Ask once, whatever the request; each time with a new proof."""
        clear = ControlHalt.Request(command=ControlHalt.Request.CLEAR)
        return self._client.call_async(signed(self._node, self._name, clear, key_role(Act.CLEAR)))
