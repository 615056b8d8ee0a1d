# SPDX-License-Identifier: Apache-2.0
"""Interrupts a process along the whole way back: kernel, scheduler, parser, action planner, in this order."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from ghostshell.srv import Interrupt
from std_srvs.srv import Trigger

from ghostshell_ros.runtime.node_runtime import RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient

ORDER = ("skill_kernel", "channel_scheduler", "token_parser", "action_planner")


class Interrupter:
    """Calls the interrupt services one after the other, each with a deadline.

    The kernel comes first and issues the epoch; when it does not answer, the safety gate is halted instead, because
    nobody else can promise that motion stops. The others are called whatever happens before them.
    """

    def __init__(self, node: RuntimeNode, *, deadline_s: float, on_problem: Callable[[str], None]) -> None:
        self.deadline_s = deadline_s
        self._on_problem = on_problem
        self._clients = {name: ServiceClient(node, Interrupt, f"{name}/interrupt") for name in ORDER}
        self._halt = ServiceClient(node, Trigger, "halt")

    def interrupt(
        self,
        process_id: str,
        cause: str,
        *,
        channels: Sequence[str] = (),
        then: Callable[[int], None] | None = None,
        at_kernel: Callable[[], None] | None = None,
    ) -> None:
        """Interrupt a process ("" = all) on some channels or all; `then` is told the new epoch when all were called,
        `at_kernel` is called as soon as the kernel has answered or cannot."""
        request = Interrupt.Request(process_id=process_id, cause=cause, channels=list(channels))
        self._next(0, request, then, at_kernel)

    def meet(self, then: Callable[[int], None]) -> None:
        """Prove the way to every node and back, before an interrupt depends on it; `then` is told the kernel's epoch.

        A service that does not know its client yet loses its answer. So each is asked to interrupt a process that does
        not exist, again and again until it has answered once.
        """
        for name in ORDER:
            self._meet(name, then if name == ORDER[0] else lambda _: None)

    def learn_epoch(self, then: Callable[[int], None]) -> None:
        """Tell `then` the kernel's newest epoch, when it answers."""
        self._meet(ORDER[0], then)

    def _meet(self, name: str, then: Callable[[int], None]) -> None:
        self._clients[name].prove(
            lambda: Interrupt.Request(process_id=f"none-{uuid.uuid4().hex}", cause="making contact"),
            lambda response: then(response.epoch),
        )

    def halt(self, then: Callable[[bool], None] | None = None) -> None:
        """Latch the safety gate; `then` is told whether it answered."""

        def answered(response: Any) -> None:
            if response is None:
                self._on_problem("the safety gate does not answer its halt service; use the robot's own emergency stop")
            if then is not None:
                then(response is not None)

        self._halt.ask(Trigger.Request(), answered, deadline_s=self.deadline_s)

    def _next(
        self,
        index: int,
        request: Interrupt.Request,
        then: Callable[[int], None] | None,
        at_kernel: Callable[[], None] | None = None,
    ) -> None:
        if index == len(ORDER):
            if then is not None:
                then(request.epoch)
            return
        name = ORDER[index]

        def answered(response: Any) -> None:
            if response is not None:
                request.epoch = max(request.epoch, response.epoch)
                if response.error_code:
                    self._on_problem(f"{name}: {response.error_msg}")
            else:
                self._on_problem(f"node {name} did not answer an interrupt within {self.deadline_s} s")
                if name == "skill_kernel":
                    self.halt()
            if name == "skill_kernel" and at_kernel is not None:
                at_kernel()
            self._next(index + 1, request, then)

        self._clients[name].ask(request, answered, deadline_s=self.deadline_s)
