# SPDX-License-Identifier: Apache-2.0
"""Ask the robots' memory as this robot: whatever a skill asks, and what bears on a task, for the prompts of a planning node."""

from collections.abc import Callable, Sequence
from typing import Any

from ghostshell.srv import QueryMemory

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.runtime.signing import signed
from ghostshell_ros.wire.values import ros_text
from planners.prompts.prompt import MEMORY_TOKENS
from skill_kernel.roles import Act, key_role

MEMORY = "/query_memory"
"""Service of the whole fleet, and therefore outside of the robot's namespace."""
DEADLINE_S = 0.2
"""A question for a plan waits so long for the memory."""


def asked_by(node: RuntimeNode, **fields: Any) -> QueryMemory.Request:
    """Return a request of the node's robot, with the proof by which it is shown its private records."""
    request = QueryMemory.Request(robot=node.get_namespace().strip("/"), **fields)
    return signed(node, MEMORY, request, key_role(Act.PRIVATE))


class RecollectionClient:
    """Ask once a process, where a language model is there to be told. On the executor's thread only."""

    def __init__(self, node: RuntimeNode, *, thinks: bool) -> None:
        self._node = node
        about = "what the robots' memory holds of a task fills so much of a prompt at most, 0: nothing [tokens]"
        self._tokens = node.declare("memory_tokens", MEMORY_TOKENS, about, 0, 10_000)
        self._client = ServiceClient(node, QueryMemory, MEMORY) if self._tokens and thinks else None

    def ask(self, process_id: str, task: str, then: Callable[[Sequence[str]], object]) -> None:
        """Hand the lines of the block MEMORY to `then`, once: none at once where no memory is running, none at the deadline."""
        if self._client is None or not self._client.discovered():
            then(())
            return
        request = asked_by(self._node, task=ros_text(task), tokens=self._tokens, process_id=process_id)

        def answered(response: QueryMemory.Response | None) -> None:
            then(tuple(response.answer.splitlines()) if response is not None and response.success else ())

        self._client.ask(request, answered, deadline_s=DEADLINE_S)
