# SPDX-License-Identifier: Apache-2.0
"""Asks the skill kernel to pause, resume and end processes (`skill_kernel/process_lease`), one request after the other."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable

from ghostshell.srv import ProcessLease

from ghostshell_ros.nodes.process_scheduler.interrupter import Interrupter
from ghostshell_ros.runtime.node_runtime import RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient

Answered = Callable[[ProcessLease.Response | None], None]
"""Is told the kernel's answer, None when there was none within the deadline."""


class LeaseClient:
    """Requests leave in the order they were made, each once the one before was answered or its deadline has passed: a
    resume must not overtake the end of the process that made room for it. On the executor's thread only."""

    def __init__(self, node: RuntimeNode, interrupter: Interrupter, on_problem: Callable[[str], None]) -> None:
        self._interrupter = interrupter
        self._on_problem = on_problem
        self._client = ServiceClient(node, ProcessLease, "skill_kernel/process_lease")
        self._jobs: deque[Callable[[Callable[[], None]], None]] = deque()
        self._busy = False

    def meet(self, then: Callable[[], None]) -> None:
        """Prove the way there and back; `then` is called once the kernel has answered."""
        self._client.prove(
            lambda: ProcessLease.Request(
                command=ProcessLease.Request.END, process_id=f"none-{uuid.uuid4().hex}", cause="making contact"
            ),
            lambda _: then(),
        )

    def pause(self, process_id: str, cause: str, then: Answered) -> None:
        """Add a pause cause."""
        self._ask(ProcessLease.Request.PAUSE, process_id, cause, then)

    def resume(self, process_id: str, cause: str, then: Answered) -> None:
        """Take a pause cause back."""
        self._ask(ProcessLease.Request.RESUME, process_id, cause, then)

    def release(self, process_id: str, cause: str) -> None:
        """Free what a process holds."""
        self._ask(ProcessLease.Request.END, process_id, cause, lambda _: None)

    def end(self, process_id: str, cause: str, then: Callable[[int], None]) -> None:
        """Interrupt a process along the whole way and free what it holds; `then` is told the new epoch."""
        # Freed only behind the interrupt: a late goal of the old epoch would take the subsystems anew.
        end = ProcessLease.Request(command=ProcessLease.Request.END, process_id=process_id, cause=cause)

        def job(done: Callable[[], None]) -> None:
            self._interrupter.interrupt(process_id, cause, then=then, at_kernel=lambda: self._send(end, lambda _: done()))

        self._put(job)

    def _ask(self, command: int, process_id: str, cause: str, then: Answered) -> None:
        request = ProcessLease.Request(command=command, process_id=process_id, cause=cause, rank=ProcessLease.Request.SCHEDULER)

        def job(done: Callable[[], None]) -> None:
            def answered(response: ProcessLease.Response | None) -> None:
                if response is None:
                    self._on_problem(f"the skill kernel did not answer a {_NAMES[command]} of process {process_id}")
                done()
                then(response)

            self._send(request, answered)

        self._put(job)

    def _send(self, request: ProcessLease.Request, answered: Answered) -> None:
        self._client.ask(request, answered, deadline_s=self._interrupter.deadline_s)

    def _put(self, job: Callable[[Callable[[], None]], None]) -> None:
        self._jobs.append(job)
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._jobs)
        if self._jobs:
            self._jobs.popleft()(self._next)


_NAMES = {ProcessLease.Request.PAUSE: "pause", ProcessLease.Request.RESUME: "resume", ProcessLease.Request.END: "release"}
