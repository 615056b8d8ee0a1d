# SPDX-License-Identifier: Apache-2.0
"""The part of the skill kernel's node that concerns processes: the service of leases, and heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from ghostshell.msg import ProcessHeartbeat
from ghostshell.srv import ProcessLease
from std_msgs.msg import Bool

from ghostshell_ros.runtime.node_runtime import LATCHED, SENSORS, RuntimeNode
from ghostshell_ros.wire.codec import filled
from ghostshell_ros.wire.events import EventWriter
from skill_kernel.calls import LeaseAnswer
from skill_kernel.codes import CallCode, LeaseCode
from skill_kernel.events import Notice
from skill_kernel.kernel.heartbeats import Heartbeats, Source
from skill_kernel.kernel.kernel import Kernel, Rank

OPERATOR = "teleop"
"""Stands for the operator among the processes; the gate answers for it."""

CHECKS = 5
"""How often within the timeout heartbeats are looked for."""


class KernelProcesses:
    """Serves `~/process_lease` and listens to `process_heartbeat` and `scheduler_heartbeat` (ProcessHeartbeat)."""

    def __init__(
        self, node: RuntimeNode, kernel: Kernel, events: EventWriter, *, timeout_s: float, base_subsystems: Sequence[str] = ()
    ) -> None:
        self._kernel, self._events, self._timeout_s = kernel, events, timeout_s
        self._beats = Heartbeats(CHECKS)
        node.create_service(ProcessLease, "~/process_lease", self._on_lease)
        for source in Source:
            hear = partial(self._hear, source)
            node.create_subscription(ProcessHeartbeat, source.value, hear, SENSORS)
        node.steady_timer(timeout_s / CHECKS, self._check)
        self._base_subsystems = base_subsystems
        if base_subsystems:
            node.create_subscription(Bool, "teleop_active", self._on_teleop, LATCHED)

    def _on_teleop(self, message: Bool) -> None:
        """Pause who uses the base while an operator has it."""
        if message.data:
            self._kernel.preempt(Rank.TELEOP, self._base_subsystems, "an operator has the base", OPERATOR)
        else:
            self._kernel.end_process(OPERATOR, "the operator gave the base back")

    def _hear(self, source: Source, message: ProcessHeartbeat) -> None:
        self._beats.hear(source, message.process_ids)

    def _on_lease(self, request: ProcessLease.Request, response: ProcessLease.Response) -> ProcessLease.Response:
        answer = asdict(self._answer(request))
        code, message = answer.pop("code"), answer.pop("message")
        filled(response, {**answer, "success": not code, "error_code": code, "error_msg": message})
        return response

    def _answer(self, request: ProcessLease.Request) -> LeaseAnswer:
        process_id, cause = request.process_id, request.cause
        if request.command == request.PAUSE and cause:
            return self._kernel.pause_process(process_id, cause)
        if request.command == request.RESUME and cause:
            return self._kernel.resume_process(process_id, cause, request.subsystems)
        if request.command == request.END:
            return self._kernel.end_process(process_id, cause or "its process has ended")
        if request.command == request.PREEMPT and request.rank in set(Rank) and request.subsystems:
            return self._kernel.preempt(Rank(request.rank), request.subsystems, cause or "preempted", process_id)
        why = (
            f"command {request.command} with cause '{cause}', rank {request.rank} and subsystems {list(request.subsystems)} "
            "means nothing; PAUSE and RESUME need a cause, PREEMPT a rank of 0 to 3 and subsystems, all but RESUME a process"
        )
        return LeaseAnswer(LeaseCode.INVALID_REQUEST, why)

    def _check(self) -> None:
        state = self._kernel.state()
        kept = {p.process_id for p in state.processes} - {OPERATOR}
        silence = self._beats.check([*state.calling, *(p for p in kept if p not in state.calling)], state.calling)
        for process_id in silence.ended:
            if process_id in kept or process_id in state.calling:
                why = f"nobody has answered for process {process_id} for {self._timeout_s} s"
                self._tell(process_id, f"{why}; it was ended")
                self._kernel.end_process(process_id, why)
        for process_id in silence.orphaned:
            if process_id in state.calling:
                why = f"the channel scheduler has been silent about process {process_id} for {self._timeout_s} s"
                self._tell(process_id, f"{why}; its calls were stopped")
                self._kernel.interrupt_process(process_id, (), why)
        for process_id in silence.unclaimed:
            self._kernel.release_idle(process_id)

    def _tell(self, process_id: str, why: str) -> None:
        self._events.write(Notice(process_id=process_id, error_code=CallCode.INTERRUPTED_BY, error_msg=why))
