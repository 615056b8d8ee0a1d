# SPDX-License-Identifier: Apache-2.0
"""Carries out what reflexes do: stops the base at once, takes the subsystems from whoever has them, calls the skills, gives
them back."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import Twist
from ghostshell.msg import CallControl, KernelState, ProcessHeartbeat
from ghostshell.srv import ProcessLease

from function_tokens.scheduling.calls import Call, EventType, Role, ShellEvent
from ghostshell_ros.nodes.reflexes.reflex_performance import LEASE_S, Performance
from ghostshell_ros.runtime.kernel_executor import KernelLink
from ghostshell_ros.runtime.node_runtime import HEARTBEATS, SET_POINTS, RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.events import EventWriter
from reflexes.loop import Ended, Firing, ReflexLoop
from skill_kernel.calls import CallResult
from skill_kernel.events import Notice
from skill_kernel.guard import SkillRequest

BEAT_S = 0.1
FORGOTTEN_S = 3.0
"""A request that was not answered by then is forgotten: the kernel that had it is gone."""


class ReflexPerformer:
    """Implements `reflexes.loop.Performer`. Each firing is a process of its own to the kernel, of rank REFLEX. On the
    executor's thread only.

    Publishes `cmd_vel_reflex` (geometry_msgs/Twist, zero at a firing that needs the base, and at 10 Hz while one keeps it
    still), `process_heartbeat` (10 Hz while something is performed), `events`; calls `skill_kernel/process_lease` and
    `execute_skill`.
    """

    def __init__(self, node: RuntimeNode, setup: RobotSetup, events: EventWriter) -> None:
        self._node, self._setup, self._events = node, setup, events
        self._link = KernelLink(node, setup.registry, ready_s=LEASE_S, silence_s=2.0)
        self._lease = ServiceClient(node, ProcessLease, "skill_kernel/process_lease")
        self._stop = node.create_publisher(Twist, "cmd_vel_reflex", SET_POINTS)
        self._beats = node.create_publisher(ProcessHeartbeat, "process_heartbeat", HEARTBEATS)
        self._acting: dict[Firing, Performance] = {}
        self.loop: ReflexLoop | None = None
        self.on_change: Callable[[], None] = lambda: None
        base = setup.config.base
        self._base_subsystems = frozenset(base.subsystems) if base is not None else frozenset()
        self._shared = frozenset(n for n, s in setup.config.subsystems.items() if not s.exclusive_per_process)
        self._met = False
        node.steady_timer(BEAT_S, self._beat)
        self._lease.prove(
            lambda: ProcessLease.Request(
                command=ProcessLease.Request.END, process_id=f"none-{uuid.uuid4().hex}", cause="making contact"
            ),
            self._have_met,
        )

    def ready(self) -> bool:
        """Whether the kernel answers. Asking proves the way before the first firing needs it."""
        return self._link.ready() and self._met and self._lease.discovered()

    def _have_met(self, _: Any) -> None:
        self._met = True

    def kernel_changed(self, state: KernelState) -> None:
        """The kernel has published a new state: what it has paused is over, what waits for a subsystem asks again."""
        self._link.kernel_changed()
        paused = {hold.process_id: ", ".join(hold.pause_causes) for hold in state.processes if hold.pause_causes}
        for firing, performance in list(self._acting.items()):
            causes = paused.get(performance.process_id)
            if causes is not None and self.loop is not None:
                self.loop.interrupt(firing, f"the kernel paused it ({causes})")
            else:
                performance.freed()

    def start(self, firing: Firing) -> None:
        """Stop the base at once if the action needs it, and take what it needs."""
        subsystems = firing.loaded.guarded.subsystems
        if self.needs_base(firing):
            self.stand_still()
        process_id = f"reflex-{firing.name}-{uuid.uuid4().hex[:8]}"
        performance = self._acting[firing] = Performance(self, firing, process_id)
        self._beat()
        taken = [s for s in subsystems if s not in self._shared]
        if taken:
            self._preempt(performance, taken)
        else:
            self._node.call_soon(performance.go_on)
        what = f"reflex '{firing.name}' acts: {firing.loaded.rule.sentence}"
        self._events.write(Notice(process_id=process_id, text=what))
        self.on_change()

    def cancel(self, firing: Firing, cause: str) -> None:
        """Stop its call; what it holds is given back when that has stopped."""
        performance = self._acting.get(firing)
        if performance is not None:
            self._node.call_soon(performance.cancel, cause)

    def needs_base(self, firing: Firing) -> bool:
        """Whether its action takes what motion of the base needs."""
        return bool(self._base_subsystems & set(firing.loaded.guarded.subsystems))

    def stand_still(self) -> None:
        """Zero velocity at the gate, above whatever skills wish."""
        self._stop.publish(Twist())

    def moves(self, call: Call) -> bool:
        """Whether a call takes what motion of the base needs."""
        return bool(self._base_subsystems & set(call.subsystems))

    def exclusive(self, call: Call) -> bool:
        """Whether a call takes a part of the body that only one process may use."""
        return bool(set(call.subsystems) - self._shared)

    def finish(self, performance: Performance, how: Ended, message: str) -> None:
        """Give back what a firing has taken: whom it displaced goes on."""
        firing = performance.firing
        if self._acting.pop(firing, None) is None:
            return
        end = ProcessLease.Request(
            command=ProcessLease.Request.END, process_id=performance.process_id, cause="the reflex is over"
        )
        self._lease.ask(end, deadline_s=FORGOTTEN_S)
        if self.loop is not None:
            self.loop.ended(firing, how, self._node.steady_now(), message)
        text = f"reflex '{firing.name}': {how.value}{f', {message}' if message else ''}"
        self._events.write(Notice(process_id=performance.process_id, text=text))
        self.on_change()

    def advance(self, firing: Firing, succeeded: bool) -> SkillRequest | None:
        """The next call of a firing's action."""
        return self.loop.advance(firing, succeeded, self._node.steady_now()) if self.loop is not None else None

    def call(self, performance: Performance, request: SkillRequest) -> Call:
        """Hand a skill call to the kernel."""
        skill = self._setup.registry.get(request.name)
        assert skill is not None
        arguments = dict(request.arguments)
        text = str(arguments.pop(skill.content, "")) if skill.content is not None else ""
        subsystems = skill.subsystems_for(arguments)
        call = Call(
            call_id=uuid.uuid4().hex,
            seq=0,
            stream_id=performance.process_id,
            epoch=0,
            function=request.name,
            role=Role.SKILL,
            arguments=arguments,
            channels=frozenset(subsystems),
            subsystems=subsystems,
            parent=None,
            skill=skill,
            takes_content=skill.content is not None,
        )
        call.content.append(text)
        self.send(performance, call)
        return call

    def send(self, performance: Performance, call: Call) -> None:
        """Ask the kernel for a call, once more where a subsystem was not free yet."""
        self._link.start(performance.process_id, performance, call)
        if call.takes_content:
            self._link.content(call, call.text, True)

    def tell_started(self, performance: Performance, call: Call) -> None:
        """Say on `events` that a call runs, as the channel scheduler does of its own."""
        call.start_s = self._node.now_s()
        self._events.write_shell(performance.process_id, ShellEvent(EventType.STARTED, call.start_s, call=call))

    def tell_ended(self, performance: Performance, call: Call, result: CallResult) -> None:
        """Say on `events` how a call ended."""
        call.end_s, call.result = self._node.now_s(), result
        event = ShellEvent(EventType.ENDED, call.end_s, call=call, code=int(result.code), error=result.error)
        self._events.write_shell(performance.process_id, event)

    def interrupt(self, call: Call, cause: str) -> None:
        """Stop a running call."""
        self._link.control(call, CallControl.INTERRUPT, cause)

    def later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Call back after a time."""
        self._node.call_later(delay_s, callback)

    def now(self) -> float:
        """Seconds of the steady clock."""
        return self._node.steady_now()

    def _preempt(self, performance: Performance, subsystems: list[str]) -> None:
        if not self._lease.discovered():
            self._node.call_soon(performance.refused, "the skill kernel is not there; is it running?")
            return
        request = ProcessLease.Request(
            command=ProcessLease.Request.PREEMPT,
            process_id=performance.process_id,
            rank=ProcessLease.Request.REFLEX,
            subsystems=subsystems,
            cause=f"reflex {performance.firing.name}",
        )
        self._node.call_later(LEASE_S, performance.unanswered)

        def answered(response: ProcessLease.Response | None) -> None:
            if response is not None:
                performance.answered(response)

        self._lease.ask(request, answered, deadline_s=FORGOTTEN_S)

    def _beat(self) -> None:
        self._link.ready()
        if any(performance.stands for performance in self._acting.values()):
            self.stand_still()
        if self._acting:
            self._beats.publish(ProcessHeartbeat(process_ids=[p.process_id for p in self._acting.values()]))
