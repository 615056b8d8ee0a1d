# SPDX-License-Identifier: Apache-2.0
"""Hand a scheduler's calls to the skill kernel: calls as goals of `ExecuteSkill`, content and control by topic."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ghostshell.action import ExecuteSkill
from ghostshell.msg import CallContent, CallControl, SkillCall

from function_tokens.scheduling.calls import Call, Role
from function_tokens.scheduling.scheduler import Scheduler
from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.matched_publisher import MatchedPublisher
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import STREAM
from ghostshell_ros.wire.values import CALL_FIELDS, OUTCOMES
from skill_kernel.calls import CallResult, CallSpec
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.skills.arguments import to_json
from skill_kernel.skills.registry import SkillRegistry

_STALL_GRACE_S = 0.2


class CallListener(Protocol):
    """Hear how calls that were handed to the kernel go on. `Scheduler` implements it.

    A call that is `held` waits for a subsystem that another process holds; `freed` says that it may be tried again.
    """

    def started(self, call_id: str) -> None: ...
    def held(self, call_id: str, reason: str) -> None: ...
    def freed(self) -> None: ...
    def ended(self, call_id: str, result: CallResult) -> None: ...


@dataclass
class _Flight:
    """Hold a call that the kernel has. Content and control wait for the goal's acceptance, because topics may overtake it."""

    call: CallSpec
    listener: CallListener
    sent: SentGoal | None = None
    accepted: bool = False
    waiting: list[Any] = field(default_factory=list)
    content_seq: int = 0
    heard_s: float = 0.0
    kernel_states: int = 0


class KernelLink:
    """Send the calls of all processes to the skill kernel. On the executor's thread only.

    A call fails when the kernel does not answer within `ready_s`, or is silent about a running call for `silence_s`.
    `namespace`: the robot's, where it is not the node's.
    """

    def __init__(self, node: RuntimeNode, *, ready_s: float, silence_s: float, namespace: str = "") -> None:
        self._node, self._ready_s, self._silence_s = node, ready_s, silence_s
        self._flights: dict[str, _Flight] = {}
        self._tried: set[str] = set()
        self._kernel_states = 0
        below = f"/{namespace}/" if namespace else ""
        self._client = GoalClient(node, ExecuteSkill, f"{below}execute_skill")
        self._content, self._control = (
            MatchedPublisher(node, kind, below + topic, STREAM, reader="skill_kernel", on_unmatched=node.get_logger().error)
            for kind, topic in ((CallContent, "call_content"), (CallControl, "call_control"))
        )
        node.steady_timer(silence_s / 2, self._watch)

    def kernel_changed(self) -> None:
        """Note that the kernel has published a new state."""
        self._kernel_states += 1

    def ready(self) -> bool:
        """Return whether the kernel answers. Asking proves the way there and back before the first call needs it."""
        return self._client.server_is_ready()

    def start(self, call: CallSpec, listener: CallListener) -> None:
        """Send a call, whose id is a UUID in hex; the listener hears `started`, `held` and `ended`."""
        flight = _Flight(call, listener, heard_s=self._node.steady_now())
        self._flights[call.call_id] = flight
        self._send(flight, self._node.steady_now() + self._ready_s)

    def withdraw(self, call_id: str) -> bool:
        """Take back a call that has not been sent yet, because the kernel is not there; return whether it was."""
        flight = self._flights.get(call_id)
        if flight is not None and flight.sent is None:
            del self._flights[call_id]
            return True
        return False

    def content(self, call_id: str, text: str, last: bool) -> None:
        """Pass on character data of a call that was started."""
        flight = self._flights.get(call_id)
        if flight is not None and (text or last):
            message = CallContent(call_id=call_id, seq=flight.content_seq, text=text, last=last)
            flight.content_seq += 1
            self._pass_on(flight, message)

    def control(self, call_id: str, command: int, cause: str = "") -> None:
        """Reset or interrupt a call that was started."""
        flight = self._flights.get(call_id)
        if flight is not None:
            self._pass_on(flight, CallControl(call_id=call_id, command=command, cause=cause))

    def _pass_on(self, flight: _Flight, message: Any) -> None:
        if flight.accepted:
            (self._content if isinstance(message, CallContent) else self._control).publish(message)
        else:
            flight.waiting.append(message)

    def _send(self, flight: _Flight, give_up_s: float) -> None:
        call = flight.call
        if call.call_id not in self._flights:
            return
        if not self._client.server_is_ready():
            if self._node.steady_now() < give_up_s:
                self._node.call_later(0.02, lambda: self._send(flight, give_up_s))
                return
            why = f"the skill kernel did not answer within {self._ready_s} s; is the node skill_kernel running?"
            self._ended(flight, CallResult(Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE, why))
            return
        same = {name: getattr(call, name) for name in CALL_FIELDS}
        message = SkillCall(args_json=to_json(call.arguments), channels=list(call.channels), **same)
        flight.heard_s, flight.kernel_states = self._node.steady_now(), self._kernel_states
        # A server still tracks the goal it refused, so that a second try needs an id of its own.
        flight.sent = self._client.send(
            ExecuteSkill.Goal(call=message),
            on_accepted=partial(self._hear, flight),
            on_feedback=partial(self._feedback, flight),
            on_end=partial(self._result, flight),
            goal_id=None if call.call_id in self._tried else bytes.fromhex(call.call_id),
        )

    def _taken(self, flight: _Flight) -> None:
        """Send the messages that waited for the call to run. Acceptance is no sign of that: a call may still be refused."""
        flight.accepted = True
        for message in flight.waiting:
            self._pass_on(flight, message)
        flight.waiting.clear()

    def _hear(self, flight: _Flight) -> None:
        flight.heard_s = self._node.steady_now()

    def _feedback(self, flight: _Flight, feedback: ExecuteSkill.Feedback) -> None:
        self._hear(flight)
        if feedback.phase:
            self._taken(flight)
            flight.listener.started(flight.call.call_id)

    def _result(self, flight: _Flight, end: GoalEnd, result: ExecuteSkill.Result | None) -> None:
        outcome = OUTCOMES.get(result.outcome) if result is not None else None
        if result is None or outcome is None:
            told = f": {result.error_msg}" if result is not None and result.error_msg else "; was it started anew?"
            why = f"the kernel did not carry the call out (goal {end.value}){told}"
            self._ended(flight, CallResult(Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE, why))
            return
        code = CallCode(result.error_code) if result.error_code in set(CallCode) else CallCode.SKILL_FAILED
        if code in (CallCode.SUBSYSTEM_HELD, CallCode.PROCESS_PAUSED) and outcome is Outcome.REFUSED:
            self._held(flight, result.error_msg)
            return
        if result.start_s >= 0:
            flight.listener.started(flight.call.call_id)
        self._ended(flight, CallResult(outcome, code, result.error_msg, result.message, value=result.value_json))

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
        """Give up calls of a silent kernel, but first hear what arrived while this process itself may have stalled."""
        deadline = self._node.steady_now() - self._silence_s
        if any(f.sent is not None and f.heard_s < deadline for f in self._flights.values()):
            self._node.call_later(_STALL_GRACE_S, lambda: self._give_up(deadline))

    def _give_up(self, deadline: float) -> None:
        for flight in [f for f in self._flights.values() if f.sent is not None and f.heard_s < deadline]:
            if flight.sent is not None:
                flight.sent.abandon()
            why = f"the skill kernel has said nothing for {self._silence_s} s; motion it began is held by the safety gate"
            self._ended(flight, CallResult(Outcome.FAILED, CallCode.KERNEL_UNAVAILABLE, why))


class ProcessExecutor:
    """Implement `scheduling.calls.Executor` for the calls of one process. `scheduler` must be set before the first call."""

    scheduler: Scheduler

    def __init__(self, link: KernelLink, registry: SkillRegistry, process_id: str) -> None:
        self._link, self._registry, self._process_id = link, registry, process_id

    def start(self, call: Call) -> None:
        function = call.function
        if call.role is Role.TEXT:
            if self._registry.text_skill is None:
                why = "the robot has no skill that speaks; set text_skill in its YAML file"
                self.scheduler.ended(call.call_id, CallResult(Outcome.DROPPED, CallCode.UNKNOWN_FUNCTION, why))
                return
            function = self._registry.text_skill.name
        spec = CallSpec(
            self._process_id,
            call.call_id,
            function,
            call.arguments,
            stream_id=call.stream_id,
            parent_id=call.parent.call_id if call.parent is not None else "",
            epoch=call.epoch,
            channels=tuple(sorted(call.channels)),
            open=call.open and not call.takes_content,
            streams_content=call.takes_content,
        )
        self._link.start(spec, self.scheduler)

    def content(self, call: Call, text: str, last: bool) -> None:
        self._link.content(call.call_id, text, last)

    def reset(self, call: Call) -> None:
        self._link.control(call.call_id, CallControl.RESET)

    def stop(self, call: Call, cause: str) -> None:
        self._link.control(call.call_id, CallControl.INTERRUPT, cause)
