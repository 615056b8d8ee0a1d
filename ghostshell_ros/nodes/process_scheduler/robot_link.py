# SPDX-License-Identifier: Apache-2.0
"""Command other nodes for the process scheduler: interrupts, leases and the halt."""

import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ghostshell.srv import Interrupt, ProcessLease

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.service_client import GateClient, ServiceClient
from skill_kernel.processes.process import Process
from skill_kernel.processes.scheduler import ProcessScheduler

KERNEL = "skill_kernel"
ORDER = (KERNEL, "channel_scheduler", "token_parser", "action_planner")
"""The nodes on the way back, in the order in which an interrupt reaches them."""

ANSWER_S = 0.5
"""Time for a node to answer; one that does not is skipped."""

Job = Callable[[Callable[[], None]], None]
"""A piece of work that calls back when it is done."""


class RobotLink:
    """Interrupt processes, and ask the kernel to pause, resume and end them; the answers go to `core`.

    Of an interrupt the kernel comes first and issues the epoch; when it does not answer, the safety gate is halted instead,
    because nobody else can promise that motion stops. The others are called whatever happens before them. Requests for
    leases leave in the order they were made, each once the one before was answered or its deadline has passed: a resume
    must not overtake the end of the process that made room for it. On the executor's thread only.
    """

    core: ProcessScheduler

    def __init__(
        self,
        node: RuntimeNode,
        *,
        on_problem: Callable[[str], None],
        on_change: Callable[[Process], None],
        on_amend: Callable[[Process], None],
    ) -> None:
        self._on_problem, self.changed, self.amended = on_problem, on_change, on_amend
        self._clients = {name: ServiceClient(node, Interrupt, f"{name}/interrupt") for name in ORDER}
        self.halt = GateClient(node, on_problem).halt
        self._leases = ServiceClient(node, ProcessLease, f"{KERNEL}/process_lease")
        self._jobs: deque[Job] = deque()

    # -- contact ------------------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """Prove the way to every node and back, before an interrupt depends on it.

        A service that does not know its client yet loses its answer. So each is asked to interrupt a process that does
        not exist, again and again until it has answered once.
        """
        for name in ORDER[1:]:
            self._prove(name, lambda _: None)
        self._prove(KERNEL, self._met_kernel)

    def learn_epoch(self) -> None:
        """Tell the core the kernel's newest epoch, when it answers."""
        self._prove(KERNEL, self.core.learn_epoch)

    def _met_kernel(self, epoch: int) -> None:
        self.core.learn_epoch(epoch)
        nobody = ProcessLease.Request(command=ProcessLease.Request.END, process_id=_nobody(), cause="making contact")
        self._leases.prove(lambda: nobody, lambda _: self.core.reach())

    def _prove(self, name: str, then: Callable[[int], None]) -> None:
        self._clients[name].prove(
            lambda: Interrupt.Request(process_id=_nobody(), cause="making contact"), lambda answer: then(answer.epoch)
        )

    # -- interrupts ---------------------------------------------------------------------------------------------------

    def interrupt(
        self, process_id: str, cause: str, then: Callable[[int], None], at_kernel: Callable[[], None] = lambda: None
    ) -> None:
        """Interrupt a process ("" = all).

        `then` gets the new epoch when all were called. `at_kernel` is called once the kernel has answered or cannot.
        """
        request = Interrupt.Request(process_id=process_id, cause=cause)

        def ask(names: Sequence[str]) -> None:
            if not names:
                then(request.epoch)
                return
            name = names[0]

            def answered(response: Any) -> None:
                if response is None:
                    self._on_problem(f"node {name} did not answer an interrupt within {ANSWER_S} s")
                else:
                    request.epoch = max(request.epoch, response.epoch)
                if response is not None and response.error_code:
                    self._on_problem(f"{name}: {response.error_msg}")
                if name == KERNEL and (response is None or response.error_code):
                    self.halt(f"the skill kernel did not confirm an interrupt: {cause}")
                if name == KERNEL:
                    at_kernel()
                ask(names[1:])

            self._clients[name].ask(request, answered, deadline_s=ANSWER_S)

        ask(ORDER)

    # -- what the core asks for ---------------------------------------------------------------------------------------

    def void_plan(self, process_id: str, cause: str) -> None:
        """Void everything planned so far."""
        self.interrupt(process_id, cause, lambda epoch: self.core.interrupted(process_id, epoch))

    def pause(self, process_id: str, cause: str) -> None:
        """Add a pause cause."""
        # Without an answer nobody knows whether it still moves: the interrupt that follows halts the gate if need be.
        self._lease(
            "PAUSE", process_id, cause, lambda a: self.core.paused(process_id, ["unknown"] if a is None else list(a.stopped))
        )

    def resume(self, process_id: str, cause: str) -> None:
        """Take a pause cause back."""

        def answered(answer: Any) -> None:
            holders = ["nobody known"] if answer is None else list(answer.holders)
            self.core.resumed(process_id, cause, answer is not None and answer.success, holders)

        self._lease("RESUME", process_id, cause, answered)

    def release(self, process_id: str) -> None:
        """Free what a process holds."""
        self._lease("END", process_id, "it has ended", lambda _: None)

    def end(self, process_id: str, cause: str) -> None:
        """Interrupt a process along the whole way and free what it holds."""
        # Freed only behind the interrupt: a late goal of the old epoch would take the subsystems anew.
        free = ProcessLease.Request(command=ProcessLease.Request.END, process_id=process_id, cause=cause)

        def job(done: Callable[[], None]) -> None:
            self.interrupt(process_id, cause, self.core.learn_epoch, at_kernel=lambda: self._ask_lease(free, lambda _: done()))

        self._put(job)

    def _lease(self, command: str, process_id: str, cause: str, then: Callable[[Any], None]) -> None:
        Request = ProcessLease.Request
        request = Request(command=getattr(Request, command), process_id=process_id, cause=cause, rank=Request.SCHEDULER)

        def job(done: Callable[[], None]) -> None:
            def answered(response: Any) -> None:
                if response is None:
                    self._on_problem(f"the skill kernel did not answer a request to {command.lower()} process {process_id}")
                done()
                then(response)

            self._ask_lease(request, answered)

        self._put(job)

    def _ask_lease(self, request: ProcessLease.Request, answered: Callable[[Any], None]) -> None:
        self._leases.ask(request, answered, deadline_s=ANSWER_S)

    def _put(self, job: Job) -> None:
        self._jobs.append(job)
        if len(self._jobs) == 1:
            job(self._next)

    def _next(self) -> None:
        self._jobs.popleft()
        if self._jobs:
            self._jobs[0](self._next)


def _nobody() -> str:
    return f"none-{uuid.uuid4().hex}"
