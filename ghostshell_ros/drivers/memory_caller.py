# SPDX-License-Identifier: Apache-2.0
"""A question to the fleet's memory from a skill's thread, with a deadline for everything that may never come."""

from __future__ import annotations

import threading
from typing import Any

from ghostshell.srv import QueryMemory

from ghostshell_ros.runtime.node_runtime import RuntimeNode
from ghostshell_ros.wire.values import ros_text
from skill_kernel.codes import MemoryCode
from skill_kernel.skills.drivers import MemoryAnswer, StopEvent

SERVICE = "/query_memory"
"""One a fleet, so outside of the robot's namespace."""
AVAILABLE_S = 0.5
"""How long a question waits for the memory to be discovered."""
LOOK_S = 0.02


class MemoryCaller:
    """Built on the executor's thread or before spinning; `ask` is for other threads."""

    def __init__(self, node: RuntimeNode) -> None:
        self._node = node
        self._client = node.create_client(QueryMemory, SERVICE)

    def ask(self, question: str, stop: StopEvent, timeout_s: float) -> MemoryAnswer:
        """Ask, and wait for the answer, the stop event or the deadline, whichever comes first."""
        arrived = threading.Event()
        found: list[QueryMemory.Response] = []
        pending: list[Any] = []
        robot = self._node.get_namespace().strip("/")
        request = QueryMemory.Request(question=ros_text(question), robot=robot)
        deadline = self._node.steady_now() + timeout_s
        discovered_by = self._node.steady_now() + AVAILABLE_S

        def send() -> None:
            """On the executor's thread."""
            if arrived.is_set():
                return
            if not self._client.service_is_ready():
                if self._node.steady_now() < discovered_by:
                    self._node.call_later(LOOK_S, send)
                else:
                    arrived.set()
                return
            future = self._client.call_async(request)
            pending.append(future)
            future.add_done_callback(answered)

        def answered(future: Any) -> None:
            if future.exception() is None and future.result() is not None:
                found.append(future.result())
            arrived.set()

        self._node.call_soon(send)
        while not arrived.is_set() and not stop.is_set() and (left := deadline - self._node.steady_now()) > 0:
            arrived.wait(min(left, LOOK_S))
        if found:
            response = found[0]
            return MemoryAnswer(
                bool(response.success),
                str(response.answer),
                str(response.note),
                tuple(r.text for r in response.records),
                int(response.error_code),
                str(response.error_msg),
            )
        late = not arrived.is_set()
        arrived.set()
        for future in pending:
            self._node.call_soon(self._client.remove_pending_request, future)
        if stop.is_set():
            return MemoryAnswer(False, cancelled=True)
        what = f"did not answer within {timeout_s:g} s" if late else "is not there"
        text = f"the memory ({SERVICE}) {what}; is the node memory running on this ROS domain?"
        return MemoryAnswer(False, error_code=int(MemoryCode.MEMORY_UNAVAILABLE), error_msg=text)
