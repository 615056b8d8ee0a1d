# SPDX-License-Identifier: Apache-2.0
"""Carries out what reflexes do: stops the base at once, takes the subsystems from whoever has them, calls the skills, gives
them back."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import Twist
from ghostshell.msg import CallControl, ProcessHeartbeat, SkillEvent
from ghostshell.srv import ProcessLease

from ghostshell_ros.nodes.event_writer import EventWriter
from ghostshell_ros.nodes.kernel_executor import KernelLink
from ghostshell_ros.nodes.node_runtime import HEARTBEATS, SET_POINTS, RuntimeNode
from ghostshell_ros.nodes.robot_setup import RobotSetup
from ghostshell_ros.shell.calls import Call, CallResult, Role
from reflexes.guard import SkillRequest
from reflexes.guard.vocabulary import STOP, WAIT
from reflexes.loop import Ended, Firing, ReflexLoop
from skill_kernel.codes import CallCode, LeaseCode, Outcome

BEAT_S = 0.1
LEASE_S = 0.5
"""How long the kernel may take to answer; without it nothing is begun."""
FREE_S = 3.0
"""How long a subsystem that was taken may take to come to rest: the longest stop time of a skill, and some."""
ASK_AGAIN_S = 0.005
NOT_NOW = (CallCode.HALTED, CallCode.PROCESS_PAUSED, CallCode.STALE_EPOCH, CallCode.KERNEL_UNAVAILABLE, CallCode.INTERRUPTED_BY)
"""Outcomes of a call that are no fault of the action: the reflex may fire again."""


class ReflexPerformer:
    """Implements `reflexes.loop.Performer`. Each firing is a process of its own to the kernel, of rank REFLEX. On the
    executor's thread only.

    Publishes `cmd_vel_reflex` (geometry_msgs/Twist, zero at a firing that needs the base), `process_heartbeat` (10 Hz while
    something is performed), `events`; calls `skill_kernel/process_lease` and `execute_skill`.
    """

    def __init__(self, node: RuntimeNode, setup: RobotSetup, events: EventWriter) -> None:
        self._node, self._setup, self._events = node, setup, events
        self._link = KernelLink(node, setup.registry, ready_s=LEASE_S, silence_s=2.0)
        self._lease = node.create_client(ProcessLease, "skill_kernel/process_lease")
        self._stop = node.create_publisher(Twist, "cmd_vel_reflex", SET_POINTS)
        self._beats = node.create_publisher(ProcessHeartbeat, "process_heartbeat", HEARTBEATS)
        self._acting: dict[Firing, Performance] = {}
        self.loop: ReflexLoop | None = None
        self.on_change: Callable[[], None] = lambda: None
        base = setup.config.base
        self._base_subsystems = frozenset(base.subsystems) if base is not None else frozenset()
        self._shared = frozenset(n for n, s in setup.config.subsystems.items() if not s.exclusive_per_process)
        node.steady_timer(BEAT_S, self._beat)
        self._link.ready()

    def ready(self) -> bool:
        """Whether the kernel answers. Asking proves the way before the first firing needs it."""
        return self._link.ready() and self._lease.service_is_ready()

    def kernel_changed(self) -> None:
        """The kernel has published a new state: what waits for a subsystem asks again."""
        self._link.kernel_changed()
        for performance in list(self._acting.values()):
            performance.freed()

    def start(self, firing: Firing) -> None:
        """Stop the base at once if the action needs it, and take what it needs."""
        subsystems = firing.loaded.guarded.subsystems
        if self._base_subsystems & set(subsystems):
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
        self._events.write(SkillEvent.NOTICE, process_id=process_id, text=what)
        self.on_change()

    def cancel(self, firing: Firing, cause: str) -> None:
        """Stop its call; what it holds is given back when that has stopped."""
        performance = self._acting.get(firing)
        if performance is not None:
            self._node.call_soon(performance.cancel, cause)

    def stand_still(self) -> None:
        """Zero velocity at the gate, above whatever skills wish."""
        self._stop.publish(Twist())

    def finish(self, performance: Performance, how: Ended, message: str) -> None:
        """Give back what a firing has taken: whom it displaced goes on."""
        firing = performance.firing
        if self._acting.pop(firing, None) is None:
            return
        request = ProcessLease.Request(
            command=ProcessLease.Request.END, process_id=performance.process_id, cause="the reflex is over"
        )
        self._lease.call_async(request)
        if self.loop is not None:
            self.loop.ended(firing, how, self._node.steady_now(), message)
        text = f"reflex '{firing.name}': {how.value}{f', {message}' if message else ''}"
        self._events.write(SkillEvent.NOTICE, process_id=performance.process_id, text=text)
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
            call_id=uuid.uuid4().hex, seq=0, stream_id=performance.process_id, epoch=0, function=request.name, role=Role.SKILL,
            arguments=arguments, channels=frozenset(subsystems), subsystems=subsystems, parent=None, skill=skill,
            takes_content=skill.content is not None,
        )  # fmt: skip
        call.content.append(text)
        self.send(performance, call)
        return call

    def send(self, performance: Performance, call: Call) -> None:
        """Ask the kernel for a call, once more where a subsystem was not free yet."""
        self._link.start(performance.process_id, performance, call)  # type: ignore[arg-type]
        if call.takes_content:
            self._link.content(call, call.text, True)

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
        if not self._lease.service_is_ready():
            self._node.call_soon(performance.refused, "the skill kernel is not there; is it running?")
            return
        request = ProcessLease.Request(
            command=ProcessLease.Request.PREEMPT, process_id=performance.process_id, rank=ProcessLease.Request.REFLEX,
            subsystems=subsystems, cause=f"reflex {performance.firing.name}",
        )  # fmt: skip
        self._node.call_later(LEASE_S, performance.unanswered)
        self._lease.call_async(request).add_done_callback(lambda future: performance.answered(future.result()))

    def _beat(self) -> None:
        if self._acting:
            self._beats.publish(ProcessHeartbeat(process_ids=[p.process_id for p in self._acting.values()]))


class Performance:
    """One firing's way through its action. Takes the place of a scheduler for its calls (`KernelLink`)."""

    def __init__(self, performer: ReflexPerformer, firing: Firing, process_id: str) -> None:
        self._performer = performer
        self.firing = firing
        self.process_id = process_id
        self._asked = True
        self._call: Call | None = None
        self._waiting = False
        self._held_since_s: float | None = None
        self._waits = 0
        self._over = False

    def answered(self, response: Any) -> None:
        """The kernel has answered the pre-emption."""
        if self._over or not self._asked:
            return
        self._asked = False
        if response.success:
            self.go_on()
        else:
            self.refused(response.error_msg or LeaseCode(response.error_code).name)

    def unanswered(self) -> None:
        """The kernel may not have answered in time."""
        if self._asked and self._call is None and not self._waits:
            self.refused(f"the skill kernel did not answer within {LEASE_S} s")

    def refused(self, why: str) -> None:
        """It could not begin."""
        self._end(Ended.NOT_NOW, why)

    def go_on(self, succeeded: bool = True, message: str = "") -> None:
        """The next call, or the end."""
        self._asked = False
        if self._over:
            return
        request = self._performer.advance(self.firing, succeeded)
        while request is not None and request.name == STOP:
            self._performer.stand_still()
            request = self._performer.advance(self.firing, True)
        if request is None:
            self._end(Ended.NOT_NOW if self.firing.cancelled else Ended.DONE, self.firing.cancelled or message)
        elif request.name == WAIT:
            self._waits += 1
            turn = self._waits
            self._performer.later(float(request.arguments["seconds"]), lambda: self._waited(turn))
        else:
            self._held_since_s = None
            self._call = self._performer.call(self, request)

    def cancel(self, cause: str) -> None:
        """Stop what runs; it ends when that has."""
        if self._call is not None:
            self._performer.interrupt(self._call, cause)
            self._performer.later(FREE_S, lambda: self._end(Ended.NOT_NOW, cause))
        else:
            self._end(Ended.NOT_NOW, cause)

    def started(self, _: str) -> None:
        """The call runs."""

    def held(self, _: str, why: str) -> None:
        """A subsystem is not at rest yet."""
        now = self._performer.now()
        self._held_since_s = self._held_since_s if self._held_since_s is not None else now
        if self.firing.cancelled:
            self._end(Ended.NOT_NOW, self.firing.cancelled)
        elif now - self._held_since_s > FREE_S:
            self._end(Ended.FAILED, f"{why}; it did not become free within {FREE_S:g} s")
        else:
            self._waiting = True
            self._performer.later(ASK_AGAIN_S, self.freed)

    def freed(self) -> None:
        """Something became free, or some time has passed: ask again if the call waits for it."""
        if self._waiting and self._call is not None and not self._over:
            self._waiting = False
            self._performer.send(self, self._call)

    def ended(self, _: str, result: CallResult) -> None:
        """The call is over."""
        self._call = None
        if self.firing.cancelled:
            self._end(Ended.NOT_NOW, self.firing.cancelled)
        elif result.outcome is not Outcome.DONE and result.code in NOT_NOW:
            self._end(Ended.NOT_NOW, result.error or result.message)
        else:
            self.go_on(result.outcome is Outcome.DONE, result.error or result.message)

    def _waited(self, turn: int) -> None:
        if turn == self._waits:
            self.go_on()

    def _end(self, how: Ended, message: str) -> None:
        if not self._over:
            self._over = True
            self._performer.finish(self, how, message)
