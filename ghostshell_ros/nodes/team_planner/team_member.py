# SPDX-License-Identifier: Apache-2.0
"""Reach one robot of a team: what it observes, its kernel, which carries calls out under its own laws, and its safety gate."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from ghostshell.msg import KernelState, ProcessHeartbeat
from ghostshell.srv import ProcessLease
from std_msgs.msg import Bool, String

from ghostshell_ros.runtime.kernel_executor import KernelLink
from ghostshell_ros.runtime.lifecycle import TOPIC as DRIVER_STATES
from ghostshell_ros.runtime.node import Beat, Later, RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.runtime.scene import Scene
from ghostshell_ros.runtime.service_client import GateClient, ServiceClient
from ghostshell_ros.wire.qos import HEARTBEATS, LATCHED
from skill_kernel.calls import CallResult, CallSpec
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind, Notice, NoticeKind, RunEvent
from skill_kernel.skills.arguments import to_json

BEAT_S, REST_BEAT_S = 0.1, 0.5
"""Time between two heartbeats while calls live, and while none does."""
ANSWER_SHARE, ANSWER_BOUNDS_S = 0.5, (0.5, 2.0)
"""Share of `silence_s` in which kernel and gate answer a request, because what a link takes, it takes of both; and its bounds
[s], since a halt is never waited for longer."""


@dataclass(frozen=True)
class MemberSettings:
    """Set how a robot of a team is waited for, in seconds: for its kernel at the start, for a kernel that is silent about a
    running call, and for a subsystem that another process holds."""

    ready_s: float
    silence_s: float
    held_s: float
    send_images: bool


@dataclass(eq=False)
class TeamCall:
    """Hold one call of a team's process on one robot until its one outcome.

    `spec` is the call as the robot's kernel knows it: a process of its own, so that it frees what it holds with its end. A
    call that `waits` is not at the kernel.
    """

    process_id: str
    spec: CallSpec
    waits: bool = True
    begun_s: float = -1.0
    paused: bool = False
    """True once the kernel was asked to pause it."""
    stopping: bool = False
    overdue: bool = False
    """True once it has waited for a subsystem for too long."""
    timer: Later | None = field(default=None, repr=False)


class TeamMember:
    """Carry out calls on one robot by its `execute_skill`, a goal a call. A `CallListener`; on the executor's thread only.

    While a call lives, the robot's kernel is told so on `process_heartbeat`; without that it stops the call and frees what it
    holds. A kernel that does not confirm the stop of a call has its robot halted, because nobody else can promise that motion
    stops. `paused` tells whether a process is paused, `on_ended` hears of each call that has ended, `on_state` of a new state
    of the robot, `on_observed` of a new observation.
    """

    def __init__(
        self,
        node: RuntimeNode,
        name: str,
        robot: RobotSetup,
        settings: MemberSettings,
        *,
        write: Callable[[RunEvent], None],
        paused: Callable[[str], bool],
        on_ended: Callable[[TeamCall], None],
        on_state: Callable[[], None],
        on_problem: Callable[[str], None],
        on_observed: Callable[[], None],
    ) -> None:
        self._node, self.name, self.robot, self._settings = node, name, robot, settings
        self._write, self._paused, self._on_ended, self._on_state = write, paused, on_ended, on_state
        self.view = Scene(node, robot, send_images=settings.send_images, heard=on_observed, namespace=name)
        self.calls: dict[str, TeamCall] = {}
        self.kernel = KernelState()
        """The newest state of the kernel."""
        self.drivers: Sequence[DiagnosticStatus] = ()
        self.halted, self.halt_cause = False, ""
        self._halts = 0
        """Halts that the gate has not answered yet."""
        self._owed: dict[str, str] = {}
        """What the kernel has not been told to end, because nothing reaches it: functions by their process there."""
        self._telling = False
        self._link = KernelLink(node, ready_s=settings.ready_s, silence_s=settings.silence_s, namespace=name)
        least_s, most_s = ANSWER_BOUNDS_S
        self._answer_s = min(most_s, max(least_s, ANSWER_SHARE * settings.silence_s))
        self._gate = GateClient(node, on_problem, namespace=name, answer_s=self._answer_s)
        self._leases = ServiceClient(node, ProcessLease, f"/{name}/skill_kernel/process_lease")
        self._heartbeat = node.create_publisher(ProcessHeartbeat, f"/{name}/process_heartbeat", HEARTBEATS)
        node.create_subscription(KernelState, f"/{name}/kernel_state", self._kernel_state, LATCHED)
        node.create_subscription(String, f"/{name}/halt_cause", lambda m: setattr(self, "halt_cause", m.data), LATCHED)
        node.create_subscription(Bool, f"/{name}/halted", self._on_halted, LATCHED)
        node.create_subscription(DiagnosticArray, f"/{name}/{DRIVER_STATES}", self._on_drivers, LATCHED)
        self._beat = Beat(node, BEAT_S, REST_BEAT_S, lambda: self.calls, self._answer_for_calls)
        self._gate.prove()
        nobody = ProcessLease.Request(command=ProcessLease.Request.END, process_id=f"none-{uuid.uuid4().hex}", cause="contact")
        self._leases.prove(lambda: nobody)

    # -- calls --------------------------------------------------------------------------------------------------------

    def call(self, process_id: str, skill: str, arguments: Mapping[str, Any]) -> TeamCall:
        """Begin a call, or let it wait while its process is paused."""
        call_id = uuid.uuid4().hex
        team = self._node.get_namespace().strip("/")
        alone = f"{team}-{process_id}-{call_id[:8]}"
        call = self.calls[call_id] = TeamCall(process_id, CallSpec(alone, call_id, skill, arguments, stream_id=call_id))
        self._try(call)
        return call

    def try_waiting(self) -> None:
        """Try the calls that wait: a process may go on, or a subsystem be free."""
        for call in list(self.calls.values()):
            self._try(call)

    def stop(self, call: TeamCall, cause: str, then: Callable[[], None]) -> None:
        """Stop a call; `then` is called when the kernel has been told, or cannot be. One that waits is dropped."""
        if call.waits or self._link.withdraw(call.spec.call_id):
            self._end(call, CallResult(Outcome.DROPPED, CallCode.INTERRUPTED_BY, cause))
            then()
        elif call.stopping:
            then()
        else:
            call.stopping = True
            self._end_at_kernel(call, cause, then)

    def pause(self, call: TeamCall, cause: str, then: Callable[[Sequence[str]], None]) -> None:
        """Pause a call that is at the kernel; `then` hears the calls that end because they cannot pause."""
        call.paused = True
        # Without an answer nobody knows whether it still moves: the interrupt that follows halts the gate if need be.
        self._ask("PAUSE", call, cause, lambda answer: then(["unknown"] if answer is None else list(answer.stopped)))

    def resume(self, call: TeamCall, cause: str, then: Callable[[Sequence[str]], None]) -> None:
        """Take a pause cause back; `then` hears who holds what the call needs, nobody where it goes on."""

        def answered(answer: Any) -> None:
            call.paused = call.paused and (answer is None or not answer.success)
            failed = ["nobody known"] if answer is None else list(answer.holders)
            then([] if answer is not None and answer.success else failed)

        self._ask("RESUME", call, cause, answered)

    def ready(self) -> bool:
        """Return whether the kernel answers. Asking proves the way there and back before the first call needs it. A robot that
        is back is told first what has been given up without it."""
        found = self._link.ready() and self._leases.proven
        if found and self._owed:
            self._tell_owed()
        return found and not self._owed

    def _tell_owed(self) -> None:
        """Tell the kernel to end what was given up while nothing reached it: nobody waits for it any more."""
        if self._telling:
            return
        process_id, function = next(iter(self._owed.items()))
        self._telling = True

        def answered(answer: Any) -> None:
            self._telling = False
            if answer is not None:
                del self._owed[process_id]
                self._write(Notice(function=function, text=f"{self.name} is back, and was told that {function} is over"))

        self._lease("END", process_id, "it was given up while the robot was out of reach", answered)

    def _try(self, call: TeamCall) -> None:
        if call.waits and not self._paused(call.process_id):
            call.waits = False
            self._beat.now()
            self._link.start(call.spec, self)

    def _give_up(self, call: TeamCall, reason: str) -> None:
        """Refuse a call that has waited too long; time in which its process is paused does not count."""
        if self._paused(call.process_id):
            self._count(call, reason)
            return
        call.overdue = True
        if call.waits:
            self._refuse_held(call, reason)

    def _refuse_held(self, call: TeamCall, reason: str) -> None:
        why = f"{reason}; it has waited for {self._settings.held_s:g} s"
        self._end(call, CallResult(Outcome.REFUSED, CallCode.SUBSYSTEM_HELD, why))

    def _count(self, call: TeamCall, reason: str) -> None:
        call.timer = self._node.call_later(self._settings.held_s, lambda: self._give_up(call, reason))

    def _end(self, call: TeamCall, result: CallResult) -> None:
        """Tell the one outcome of a call."""
        if self.calls.pop(call.spec.call_id, None) is None:
            return
        if call.timer is not None:
            call.timer.cancel()
        error = f"{self.name}: {result.error}" if result.error else ""
        self._write(
            CallEvent(
                kind=CallKind.ENDED,
                **self._about(call),
                outcome=result.outcome,
                error_code=int(result.code),
                error_msg=error,
                message=result.message,
                value_json=result.value,
                start_s=call.begun_s,
                end_s=self._node.now_s(),
            )
        )
        self._on_ended(call)

    def _about(self, call: TeamCall) -> dict[str, Any]:
        """Return the fields of a call's events; the robot stands for the channel."""
        spec = call.spec
        same = {name: getattr(spec, name) for name in ("call_id", "stream_id", "function")}
        return {**same, "process_id": call.process_id, "args_json": to_json(spec.arguments), "channels": (self.name,)}

    # -- what the kernel answers --------------------------------------------------------------------------------------

    def started(self, call_id: str) -> None:
        """Hear that a call runs."""
        call = self.calls.get(call_id)
        if call is None or call.begun_s >= 0:
            return
        call.begun_s = self._node.now_s()
        if call.timer is not None:
            call.timer.cancel()
        self._write(CallEvent(kind=CallKind.STARTED, **self._about(call)))

    def held(self, call_id: str, reason: str) -> None:
        """Hear that a call cannot run now. It waits, holds nothing, and says so."""
        call = self.calls.get(call_id)
        if call is None:
            return
        call.waits = True
        if call.stopping:
            self._end(call, CallResult(Outcome.DROPPED, CallCode.INTERRUPTED_BY, reason))
        elif call.overdue:
            self._refuse_held(call, reason)
        elif call.timer is None:
            self._count(call, reason)
            text = f"{call.spec.function} waits on {self.name}: {reason}"
            self._write(Notice(process_id=call.process_id, call_id=call_id, function=call.spec.function, text=text))

    def freed(self) -> None:
        """Hear that a subsystem may be free."""
        self.try_waiting()

    def ended(self, call_id: str, result: CallResult) -> None:
        """Hear how a call ended. What it held is free before anybody else is told."""
        call = self.calls.get(call_id)
        if call is None:
            return
        lost = result.code == CallCode.KERNEL_UNAVAILABLE
        if lost and not call.stopping and call.begun_s < 0:
            self._owed[call.spec.process_id] = call.spec.function  # it may still get there
        if call.stopping or result.outcome is Outcome.REFUSED or (lost and call.begun_s < 0):
            self._end(call, result)
        elif lost:
            call.stopping = True
            self._end_at_kernel(call, result.error, lambda: self._end(call, result))
        else:
            self._ask("END", call, "it has ended", lambda _: self._end(call, result))

    def _end_at_kernel(self, call: TeamCall, cause: str, then: Callable[[], None]) -> None:
        """End a call's process at the kernel, or halt the robot."""

        def answered(answer: Any) -> None:
            if answer is None:
                self._owed[call.spec.process_id] = call.spec.function
                self.halt(f"the skill kernel did not confirm the end of {call.spec.function}: {cause}")
            then()

        self._ask("END", call, cause, answered)

    def _ask(self, command: str, call: TeamCall, cause: str, then: Callable[[Any], None]) -> None:
        self._lease(command, call.spec.process_id, cause, then)

    def _lease(self, command: str, process_id: str, cause: str, then: Callable[[Any], None]) -> None:
        Request = ProcessLease.Request
        request = Request(command=getattr(Request, command), process_id=process_id, cause=cause)
        request.rank = Request.SCHEDULER
        self._leases.ask(request, then, deadline_s=self._answer_s)

    def _answer_for_calls(self) -> None:
        if at_kernel := [call.spec.process_id for call in self.calls.values() if not call.waits]:
            self._heartbeat.publish(ProcessHeartbeat(process_ids=at_kernel))

    def _kernel_state(self, state: KernelState) -> None:
        self.kernel = state
        self._link.kernel_changed()
        self.try_waiting()
        self._on_state()

    # -- halt and drivers ---------------------------------------------------------------------------------------------

    def halt(self, cause: str, then: Callable[[bool], None] = lambda _: None) -> None:
        """Halt the robot at its gate; `then` hears whether that obeys, when it has answered or cannot."""

        def answered(obeys: bool) -> None:
            self._halts -= 1
            then(obeys)

        self._halts += 1
        self._gate.halt(cause, answered)

    @property
    def stands(self) -> bool:
        """Return whether the robot is halted, or is being halted."""
        return self.halted or bool(self._halts)

    def _on_halted(self, message: Bool) -> None:
        if message.data == self.halted:
            return
        self.halted, how = message.data, f"ghostshell clear --robot {self.name}"
        if self.halted:
            why = f"{self.name} is halted{f': {self.halt_cause}' if self.halt_cause else ''}; clear it: {how}"
            self._write(Notice(kind=NoticeKind.HALTED, error_code=CallCode.HALTED, error_msg=why))
        else:
            self._write(Notice(kind=NoticeKind.HALT_CLEARED, text=f"{self.name} takes calls again"))
        self._on_state()

    def _on_drivers(self, message: DiagnosticArray) -> None:
        self.drivers = message.status
        self._on_state()
