# SPDX-License-Identifier: Apache-2.0
"""Ask a service once, with a deadline, and prove before that its answers arrive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ghostshell.srv import ControlHalt
from rclpy.task import Future

from ghostshell_ros.runtime.node import Later, RuntimeNode
from ghostshell_ros.wire.qos import REQUESTS

LOOK_S = 0.02
"""Time between two looks for a service that was not discovered yet."""
PROOF_S = 0.5
"""Time for a service to answer the harmless request by which `prove` tests it."""
REPROVE_S = 0.3
"""Pause before the next such request."""
HALT_ANSWER_S = 0.5
"""Time for a gate to answer that it has halted, where nothing else is said."""
HALT_RETRY_S = 0.2
"""Time between two requests to halt, until the safety gate publishes that it has."""


class Request:
    """Follow one request. `on_end` gets the response, or None at the deadline, once. On the executor's thread only."""

    def __init__(self, client: ServiceClient, request: Any, on_end: Callable[[Any], object]) -> None:
        self._client, self._request = client, request
        self._on_end: Callable[[Any], object] | None = client.node.guarded(on_end)
        self._future: Future | None = None
        self._timer: Later | None = None

    def send(self, wait_until_s: float, deadline_s: float) -> None:
        """Send as soon as the service is discovered; end with None when it is not by `wait_until_s` (steady time)."""
        node = self._client.node
        if self._on_end is None:
            return
        if self._client.discovered():
            self._timer = node.call_later(deadline_s, lambda: self._end(None))
            self._future = self._client.client.call_async(self._request)
            self._future.add_done_callback(self._answered)
        elif node.steady_now() < wait_until_s:
            self._timer = node.call_later(LOOK_S, lambda: self.send(wait_until_s, deadline_s))
        else:
            self._end(None)

    def cancel(self) -> None:
        """Drop the request; `on_end` is not called any more."""
        self._on_end = None
        self._end(None)

    def _answered(self, future: Future) -> None:
        self._end(future.result() if not future.cancelled() and future.exception() is None else None)

    def _end(self, response: Any) -> None:
        on_end, self._on_end = self._on_end, None
        if self._timer is not None:
            self._timer.cancel()
        if self._future is not None and not self._future.done():
            self._client.client.remove_pending_request(self._future)
        if on_end is not None:
            on_end(response)


class ServiceClient:
    """Ask one service. On the executor's thread only."""

    def __init__(self, node: RuntimeNode, service: Any, name: str) -> None:
        self.node = node
        self.proven = False
        """True once `prove` had an answer."""
        self.client = node.create_client(service, name, qos_profile=REQUESTS)

    def discovered(self) -> bool:
        return bool(self.client.service_is_ready())

    def ask(
        self, request: Any, on_end: Callable[[Any], object] = lambda _: None, *, deadline_s: float, wait_s: float = 0.0
    ) -> Request:
        """Ask once. `on_end` gets the response, or None at the deadline or when the service was not found in `wait_s`."""
        asked = Request(self, request, on_end)
        asked.send(self.node.steady_now() + wait_s, deadline_s)
        return asked

    def prove(self, harmless: Callable[[], Any], then: Callable[[Any], object] = lambda _: None) -> None:
        """Ask something harmless until it is answered, then call `then` with the response.

        A service that has not discovered its client yet loses its answer, so a first request that counts could be lost.
        """

        def answered(response: Any) -> None:
            if response is None:
                self.node.call_later(REPROVE_S, lambda: self.prove(harmless, then))
            else:
                self.proven = True
                then(response)

        self.ask(harmless(), answered, deadline_s=PROOF_S)


class GateClient:
    """Halt a robot once at its safety gate: that of `namespace`, or of the node's own. It has `answer_s` to confirm."""

    def __init__(
        self, node: RuntimeNode, on_problem: Callable[[str], None], namespace: str = "", *, answer_s: float = HALT_ANSWER_S
    ) -> None:
        self._on_problem, self._whose = on_problem, f"the safety gate of {namespace}" if namespace else "the safety gate"
        self._answer_s = answer_s
        self._client = ServiceClient(node, ControlHalt, f"/{namespace}/request_halt" if namespace else "request_halt")

    def prove(self) -> None:
        """Prove the way to the gate and back."""
        self._client.prove(lambda: ControlHalt.Request(command=ControlHalt.Request.LOOK))

    def halt(self, cause: str, then: Callable[[bool], None] = lambda _: None) -> None:
        """Latch the gate; `then` hears whether it obeys, when it has answered or cannot."""

        def answered(response: Any) -> None:
            obeys = response is not None and response.success
            if not obeys:
                self._on_problem(f"{self._whose} does not obey its halt service; use the robot's own emergency stop")
            then(obeys)

        asked = ControlHalt.Request(command=ControlHalt.Request.HALT, cause=cause)
        self._client.ask(asked, answered, deadline_s=self._answer_s)


class HaltClient:
    """Ask the safety gate to halt until it publishes that it has, also when the gate restarts meanwhile.

    A gate that was halted before only answers; it is asked no more once it has answered and `halted()`, its last published
    state, is still true. Another request would undo the clearing of the halt.
    """

    def __init__(self, node: RuntimeNode, halted: Callable[[], object]) -> None:
        self._node, self._halted = node, halted
        self._client = ServiceClient(node, ControlHalt, "request_halt")
        self._cause = ""
        self.asking = self._answered = False

    def halt(self, cause: str) -> None:
        """Ask now, and again until `confirmed`."""
        if not self.asking:
            self.asking, self._answered, self._cause = True, False, cause
            self._ask()

    def confirmed(self) -> None:
        """Stop asking, because the gate is halted."""
        self.asking = False

    def _ask(self) -> None:
        if self._answered and self._halted():
            self.confirmed()
        if self.asking:
            asked = ControlHalt.Request(command=ControlHalt.Request.HALT, cause=self._cause)
            self._client.ask(asked, self._on_answer, deadline_s=HALT_RETRY_S)
            self._node.call_later(HALT_RETRY_S, self._ask)

    def _on_answer(self, response: Any) -> None:
        self._answered = response is not None
