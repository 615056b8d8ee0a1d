# SPDX-License-Identifier: Apache-2.0
"""The scheduler's executor in a node: calls become goals of `ExecuteSkill`, content and control go by topic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from ghostshell.action import ExecuteSkill
from ghostshell.msg import CallContent, CallControl, SkillCall

from function_tokens.scheduling.calls import Call, Role
from function_tokens.scheduling.scheduler import Scheduler
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.matched_publisher import MatchedPublisher
from ghostshell_ros.runtime.node_runtime import STREAM, RuntimeNode
from ghostshell_ros.wire.values import OUTCOMES
from skill_kernel.calls import CallResult
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.skills.arguments import to_json
from skill_kernel.skills.registry import SkillRegistry

_STALL_GRACE_S = 0.2


class CallListener(Protocol):
    """Hear what becomes of the calls that were handed to the kernel. A `Scheduler` is one."""

    def started(self, call_id: str) -> None:
        """Note that a call has begun."""

    def held(self, call_id: str, reason: str) -> None:
        """Note that a call waits for a subsystem that another process holds."""

    def freed(self) -> None:
        """Note that the kernel's holds have changed, so that a held call may be tried again."""

    def ended(self, call_id: str, result: CallResult) -> None:
        """Take the one result of a call."""


@dataclass
class _Flight:
    """A call handed to the kernel. Content and control wait until the goal is accepted, as topics may overtake it."""

    call: Call
    listener: CallListener
    sent: SentGoal | None = None
    accepted: bool = False
    waiting: list[Any] = field(default_factory=list)
    content_seq: int = 0
    heard_s: float = 0.0
    kernel_states: int = 0


class KernelLink:
    """The way to the skill kernel, shared by the schedulers of all processes. On the executor's thread only.

    A kernel that is not there within `ready_s`, or says nothing of a running call for `silence_s`, ends it as FAILED.
    """

    def __init__(self, node: RuntimeNode, registry: SkillRegistry, *, ready_s: float, silence_s: float) -> None:
        self._node = node
        self._registry = registry
        self._ready_s = ready_s
        self._silence_s = silence_s
        self._flights: dict[str, _Flight] = {}
        self._tried: set[str] = set()
        self._kernel_states = 0
        self._client = GoalClient(node, ExecuteSkill, "execute_skill")
        self._content = MatchedPublisher(
            node, CallContent, "call_content", STREAM, reader="skill_kernel", on_unmatched=self._warn
        )
        self._control = MatchedPublisher(
            node, CallControl, "call_control", STREAM, reader="skill_kernel", on_unmatched=self._warn
        )
        node.steady_timer(silence_s / 2, self._watch)

    def kernel_changed(self) -> None:
        """The kernel has published a new state."""
        self._kernel_states += 1

    def ready(self) -> bool:
        """Whether the kernel answers. Asking proves the way there and back before the first call needs it."""
        return self._client.server_is_ready()

    def start(self, process_id: str, listener: CallListener, call: Call) -> None:
        """Send a call; the scheduler hears `started`, `held` and `ended`."""
        flight = _Flight(call, listener, heard_s=self._node.steady_now())
        self._flights[call.call_id] = flight
        self._send(process_id, flight, self._node.steady_now() + self._ready_s)

    def content(self, call: Call, text: str, last: bool) -> None:
        """Pass on character data of a call that was started."""
        flight = self._flights.get(call.call_id)
        if flight is not None and (text or last):
            message = CallContent(call_id=call.call_id, seq=flight.content_seq, text=text, last=last)
            flight.content_seq += 1
            self._pass_on(flight, message)

    def control(self, call: Call, command: int, cause: str = "") -> None:
        """Reset or interrupt a call that was started."""
        flight = self._flights.get(call.call_id)
        if flight is not None:
            self._pass_on(flight, CallControl(call_id=call.call_id, command=command, cause=cause))

    def _pass_on(self, flight: _Flight, message: Any) -> None:
        if flight.accepted:
            (self._content if isinstance(message, CallContent) else self._control).publish(message)
        else:
            flight.waiting.append(message)

    def _send(self, process_id: str, flight: _Flight, give_up_s: float) -> None:
        call = flight.call
        function = call.function
        if call.role is Role.TEXT:
            speaking = self._registry.text_skill
            function = speaking.name if speaking is not None else ""
        if call.call_id not in self._flights:
            return
        if not function:
            why = "the robot has no skill that speaks; set text_skill in its YAML file"
            self._ended(flight, CallResult(Outcome.FAILED, CallCode.UNKNOWN_FUNCTION, why))
            return
        if not self._client.server_is_ready():
            if self._node.steady_now() < give_up_s:
                self._node.call_later(0.02, lambda: self._send(process_id, flight, give_up_s))
                return
            why = f"the skill kernel did not answer within {self._ready_s} s; is the node skill_kernel running?"
            self._ended(flight, CallResult(Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE, why))
            return
        message = SkillCall(
            process_id=process_id,
            stream_id=call.stream_id,
            call_id=call.call_id,
            parent_id=call.parent.call_id if call.parent is not None else "",
            epoch=call.epoch,
            function=function,
            args_json=to_json(call.arguments),
            channels=sorted(call.channels),
            open=call.open and not call.takes_content,
            streams_content=call.takes_content,
        )
        flight.heard_s, flight.kernel_states = self._node.steady_now(), self._kernel_states
        # A server still tracks the goal it refused, so that a second try needs an id of its own.
        flight.sent = self._client.send(
            ExecuteSkill.Goal(call=message),
            on_accepted=lambda: self._accepted(flight),
            on_feedback=lambda feedback: self._feedback(flight, feedback),
            on_end=lambda end, result: self._result(flight, end, result),
            goal_id=None if call.call_id in self._tried else bytes.fromhex(call.call_id),
        )

    def _accepted(self, flight: _Flight) -> None:
        flight.heard_s = self._node.steady_now()

    def _taken(self, flight: _Flight) -> None:
        """It runs. A goal is accepted also to be refused, and what was sent by then would meet the next try of the call."""
        flight.accepted = True
        for message in flight.waiting:
            self._pass_on(flight, message)
        flight.waiting.clear()

    def _feedback(self, flight: _Flight, feedback: ExecuteSkill.Feedback) -> None:
        flight.heard_s = self._node.steady_now()
        if feedback.phase:
            self._taken(flight)
            flight.listener.started(flight.call.call_id)

    def _result(self, flight: _Flight, end: GoalEnd, result: ExecuteSkill.Result | None) -> None:
        if result is None or result.outcome not in OUTCOMES:
            why = f"the kernel did not carry the call out (goal {end.value}); was it started anew?"
            self._ended(flight, CallResult(Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE, why))
            return
        code = CallCode(result.error_code) if result.error_code in set(CallCode) else CallCode.SKILL_FAILED
        if code in (CallCode.SUBSYSTEM_HELD, CallCode.PROCESS_PAUSED) and OUTCOMES[result.outcome] is Outcome.REFUSED:
            self._held(flight, result.error_msg)
            return
        if result.start_s >= 0:
            flight.listener.started(flight.call.call_id)
        self._ended(
            flight, CallResult(OUTCOMES[result.outcome], code, result.error_msg, result.message, value=result.value_json)
        )

    def _held(self, flight: _Flight, why: str) -> None:
        self._flights.pop(flight.call.call_id, None)
        self._tried.add(flight.call.call_id)
        flight.listener.held(flight.call.call_id, why)
        if flight.kernel_states != self._kernel_states:
            # The state that shows it free (or resumed) may have come before this answer, and no further one need follow.
            self._node.call_soon(flight.listener.freed)

    def _ended(self, flight: _Flight, result: CallResult) -> None:
        self._tried.discard(flight.call.call_id)
        if self._flights.pop(flight.call.call_id, None) is not None:
            flight.listener.ended(flight.call.call_id, result)

    def _watch(self) -> None:
        """Silence may be a stall of this very process: what has arrived in the meantime is heard before it counts."""
        deadline = self._node.steady_now() - self._silence_s
        if any(f.sent is not None and f.heard_s < deadline for f in self._flights.values()):
            self._node.call_later(_STALL_GRACE_S, lambda: self._give_up(deadline))

    def _give_up(self, deadline: float) -> None:
        for flight in [f for f in self._flights.values() if f.sent is not None and f.heard_s < deadline]:
            if flight.sent is not None:
                flight.sent.abandon()
            why = f"the skill kernel has said nothing for {self._silence_s} s; motion it began is held by the safety gate"
            self._ended(flight, CallResult(Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE, why))

    def _warn(self, why: str) -> None:
        self._node.get_logger().error(why)


class ProcessExecutor:
    """Implement `scheduling.calls.Executor` for the calls of one process."""

    def __init__(self, link: KernelLink, process_id: str) -> None:
        self._link = link
        self._process_id = process_id
        self.scheduler: Scheduler | None = None

    def start(self, call: Call) -> None:
        """Hand the call to the kernel."""
        if self.scheduler is None:
            raise RuntimeError("ProcessExecutor.scheduler must be set before the first call")
        self._link.start(self._process_id, self.scheduler, call)

    def content(self, call: Call, text: str, last: bool) -> None:
        """Pass character data on."""
        self._link.content(call, text, last)

    def reset(self, call: Call) -> None:
        """End it as DONE."""
        self._link.control(call, CallControl.RESET)

    def stop(self, call: Call, cause: str) -> None:
        """End it as INTERRUPTED."""
        self._link.control(call, CallControl.INTERRUPT, cause)
