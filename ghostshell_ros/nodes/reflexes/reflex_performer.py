# SPDX-License-Identifier: Apache-2.0
"""Carry out reflexes: stop the base at once, take the subsystems from whoever has them, call the skills, give them back."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import Twist
from ghostshell.msg import CallControl, KernelState, ProcessHeartbeat
from ghostshell.srv import ProcessLease

from ghostshell_ros.runtime.kernel_executor import KernelLink
from ghostshell_ros.runtime.node import Beat, RuntimeNode
from ghostshell_ros.runtime.robot_setup import RobotSetup
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.events import EventWriter
from ghostshell_ros.wire.qos import HEARTBEATS, SET_POINTS
from reflexes.loop import Ended, Firing, ReflexLoop
from skill_kernel.calls import CallResult, CallSpec
from skill_kernel.codes import CallCode, LeaseCode, Outcome
from skill_kernel.events import CallEvent, CallKind, Notice
from skill_kernel.guard.code import STOP, WAIT, SkillRequest
from skill_kernel.skills.arguments import to_json

BEAT_S, REST_BEAT_S = 0.05, 0.5
"""Time between two wishes to stand, which the gate forgets after 0.2 s, and between two looks while nothing acts."""
LEASE_S = 0.5
"""Time for the kernel to answer; without its answer nothing is begun, and what it grants later is given back."""
FREE_S = 3.0
"""Time for a subsystem that was taken to come to rest: longer than the longest stop time of a skill."""
ASK_AGAIN_S = 0.05
"""Pause before a call asks again for a subsystem that was not free; a new state of the kernel makes it ask at once."""
NOT_NOW = (CallCode.HALTED, CallCode.PROCESS_PAUSED, CallCode.STALE_EPOCH, CallCode.KERNEL_UNAVAILABLE, CallCode.INTERRUPTED_BY)
"""Codes of calls that ended through no fault of the action: the reflex may fire again."""


class ReflexPerformer:
    """Implement `reflexes.loop.Performer`. Each firing is a process of its own to the kernel, of rank REFLEX. On the
    executor's thread only; `loop` must be set before the first firing.
    """

    loop: ReflexLoop

    def __init__(self, node: RuntimeNode, setup: RobotSetup, events: EventWriter) -> None:
        self.node, self.setup, self.events = node, setup, events
        self.link = KernelLink(node, ready_s=LEASE_S, silence_s=2.0)
        self._lease = ServiceClient(node, ProcessLease, "skill_kernel/process_lease")
        self._beats = node.create_publisher(ProcessHeartbeat, "process_heartbeat", HEARTBEATS)
        self._acting: dict[Firing, Performance] = {}
        self.on_change: Callable[[], None] = lambda: None
        base = setup.config.base
        self._stop = node.create_publisher(Twist, "cmd_vel_reflex", SET_POINTS) if base is not None else None
        self.base = frozenset(base.subsystems) if base is not None else frozenset()
        """The subsystems that motion of the base needs."""
        self.shared = frozenset(n for n, s in setup.config.subsystems.items() if not s.exclusive_per_process)
        self._beat = Beat(node, BEAT_S, REST_BEAT_S, lambda: self._acting or not self.link.ready(), self._tell)
        self._lease.prove(lambda: _end(f"none-{uuid.uuid4().hex}", "making contact"))

    def ready(self) -> bool:
        """Return whether the kernel answers. Asking proves the way before the first firing needs it."""
        return self.link.ready() and self._lease.proven and self._lease.discovered()

    def kernel_changed(self, state: KernelState) -> None:
        """End what the kernel has paused, and let what waits for a subsystem ask again."""
        self.link.kernel_changed()
        paused = {hold.process_id: ", ".join(hold.pause_causes) for hold in state.processes if hold.pause_causes}
        for firing, performance in list(self._acting.items()):
            causes = paused.get(performance.process_id)
            if causes is not None:
                self.loop.interrupt(firing, f"the kernel paused it ({causes})")
            else:
                self.node.guarded(performance.freed, performance.process_id)()

    def start(self, firing: Firing) -> None:
        """Stop the base at once if the action needs it, and take what it needs."""
        performance = self._acting[firing] = Performance(self, firing)
        self.node.guarded(self._begin, performance.process_id)(performance)

    def give_up(self, process_id: str, why: str) -> None:
        """End the firing that is this process to the kernel."""
        for performance in [p for p in self._acting.values() if p.process_id == process_id]:
            performance.end(Ended.FAILED, why)

    def _begin(self, performance: Performance) -> None:
        firing = performance.firing
        if performance.needs_base:
            self.stand_still()
        self._beat.now()
        taken = [s for s in firing.loaded.guarded.subsystems if s not in self.shared]
        if taken:
            self._preempt(performance, taken)
        else:
            self.node.call_soon(performance.go_on)
        what = f"reflex '{firing.name}' acts: {firing.loaded.rule.sentence}"
        self.events.write(Notice(process_id=performance.process_id, text=what))
        self.on_change()

    def cancel(self, firing: Firing, cause: str) -> None:
        """Stop its call, and give back what it holds when that has stopped."""
        performance = self._acting.get(firing)
        if performance is not None:
            self.node.call_soon(performance.cancel, cause)

    def stand_still(self) -> None:
        """Ask the gate for zero velocity, above the wishes of all skills."""
        if self._stop is not None:
            self._stop.publish(Twist())

    def finish(self, performance: Performance, how: Ended, message: str) -> None:
        """Give back what a firing has taken, so that displaced processes go on."""
        firing = performance.firing
        if self._acting.pop(firing, None) is None:
            return
        self._lease.ask(_end(performance.process_id, "the reflex is over"), deadline_s=LEASE_S)
        self.loop.ended(firing, how, self.node.steady_now(), message)
        text = f"reflex '{firing.name}': {how.value}{f', {message}' if message else ''}"
        self.events.write(Notice(process_id=performance.process_id, text=text))
        self.on_change()

    def _preempt(self, performance: Performance, subsystems: list[str]) -> None:
        if not self._lease.discovered():
            self.node.call_soon(performance.end, Ended.NOT_NOW, "the skill kernel is not there; is it running?")
            return
        request = ProcessLease.Request(
            command=ProcessLease.Request.PREEMPT,
            process_id=performance.process_id,
            rank=ProcessLease.Request.REFLEX,
            subsystems=subsystems,
            cause=f"reflex {performance.firing.name}",
        )
        self._lease.ask(request, performance.answered, deadline_s=LEASE_S)

    def _tell(self) -> None:
        if any(performance.stands for performance in self._acting.values()):
            self.stand_still()
        if self._acting:
            self._beats.publish(ProcessHeartbeat(process_ids=[p.process_id for p in self._acting.values()]))


class Performance:
    """Perform the action of one firing, call after call, until it is over or cancelled.

    It is a `CallListener`, in the place of a scheduler.
    """

    def __init__(self, performer: ReflexPerformer, firing: Firing) -> None:
        self._performer, self._node, self._link = performer, performer.node, performer.link
        self.firing = firing
        self.process_id = f"reflex-{firing.name}-{uuid.uuid4().hex[:8]}"
        self.needs_base = bool(performer.base & set(firing.loaded.guarded.subsystems))
        self._call: CallSpec | None = None
        self._request = SkillRequest("", {})
        self._content = ""
        self._start_s = -1.0
        self._waiting = False
        self._held_since_s: float | None = None
        self._stands = False
        self._failed = False
        self._over = False

    @property
    def stands(self) -> bool:
        """Return whether the base is to be kept still: the action has asked for it and moves nothing itself now."""
        return self._stands and not (self._call is not None and self._performer.base & set(self._call.channels))

    def answered(self, response: ProcessLease.Response | None) -> None:
        """Begin, if the kernel has granted the pre-emption."""
        if response is not None and response.success:
            self.go_on()
        elif response is not None:
            self.end(Ended.NOT_NOW, response.error_msg or LeaseCode(response.error_code).name)
        else:
            self.end(Ended.NOT_NOW, f"the skill kernel did not answer within {LEASE_S} s")

    def go_on(self, succeeded: bool = True, message: str = "") -> None:
        """Begin the next call, or end."""
        if self._over:
            return
        request = self._advance(succeeded)
        while request is not None and request.name == STOP:
            self._stands = True
            self._performer.stand_still()
            request = self._advance(True)
        if request is None:
            how = Ended.NOT_NOW if self.firing.cancelled else Ended.FAILED if self._failed else Ended.DONE
            self.end(how, self.firing.cancelled or message)
        elif request.name == WAIT:
            self._node.call_later(request.arguments["seconds"], self.go_on)
        else:
            self._held_since_s, self._request = None, request
            self._begin(request)

    def cancel(self, cause: str) -> None:
        """Stop the call that runs, and end with it."""
        if self._call is not None and not self._waiting:
            self._link.control(self._call.call_id, CallControl.INTERRUPT, cause)
            self._node.call_later(FREE_S, lambda: self.end(Ended.NOT_NOW, cause))
        else:
            self.end(Ended.NOT_NOW, cause)

    def started(self, _: str) -> None:
        """Report that the call runs, as the channel scheduler does of its own."""
        if self._call is not None and self._start_s < 0:
            self._start_s = self._node.now_s()
            self._report(CallKind.STARTED, self._call)

    def held(self, _: str, why: str) -> None:
        """Ask again soon: a subsystem is not at rest yet."""
        now = self._node.steady_now()
        self._held_since_s = self._held_since_s if self._held_since_s is not None else now
        if self.firing.cancelled:
            self.end(Ended.NOT_NOW, self.firing.cancelled)
        elif now - self._held_since_s > FREE_S:
            self.end(Ended.FAILED, f"{why}; it did not become free within {FREE_S:g} s")
        else:
            self._waiting = True
            if self.needs_base:
                self._performer.stand_still()
            self._node.call_later(ASK_AGAIN_S, self.freed)

    def freed(self) -> None:
        """Ask again if the call waits for a subsystem."""
        if self._waiting and self._call is not None and not self._over:
            self._waiting = False
            self._send(self._call)

    def ended(self, _: str, result: CallResult) -> None:
        """Take the result of the call, and go on or end."""
        call, self._call = self._call, None
        done, why = result.outcome is Outcome.DONE, result.error or result.message
        if call is not None:
            self._report(
                CallKind.ENDED,
                call,
                error_code=int(result.code),
                error_msg=result.error,
                outcome=result.outcome,
                message=result.message,
                value_json=result.value,
                start_s=self._start_s,
                end_s=self._node.now_s(),
            )
        if self.firing.cancelled:
            self.end(Ended.NOT_NOW, self.firing.cancelled)
        elif not done and result.code in NOT_NOW:
            self.end(Ended.NOT_NOW, why)
        elif not done and not self._request.bound and call is not None and set(call.channels) - self._performer.shared:
            # What follows was meant for where this one would have brought it (law C11).
            self.end(Ended.FAILED, why)
        else:
            self._failed = not done
            self.go_on(done, why)

    def _advance(self, succeeded: bool) -> SkillRequest | None:
        return self._performer.loop.advance(self.firing, succeeded, self._node.steady_now())

    def _begin(self, request: SkillRequest) -> None:
        """Hand a skill call to the kernel."""
        skill = self._performer.setup.registry.get(request.name)
        assert skill is not None
        arguments = dict(request.arguments)
        self._content = str(arguments.pop(skill.content, "")) if skill.content is not None else ""
        self._start_s = -1.0
        self._call = CallSpec(
            self.process_id,
            uuid.uuid4().hex,
            request.name,
            arguments,
            stream_id=self.process_id,
            channels=skill.subsystems_for(arguments),
            streams_content=skill.content is not None,
        )
        self._send(self._call)

    def _send(self, call: CallSpec) -> None:
        """Ask the kernel for a call, once more where a subsystem was not free yet."""
        self._link.start(call, self)
        if call.streams_content:
            self._link.content(call.call_id, self._content, True)

    def _report(self, kind: CallKind, call: CallSpec, **more: Any) -> None:
        self._performer.events.write(CallEvent(kind=kind, args_json=to_json(self._request.arguments), **call.about, **more))

    def end(self, how: Ended, message: str) -> None:
        """End it, once."""
        if not self._over:
            self._over = True
            self._performer.finish(self, how, message)


def _end(process_id: str, cause: str) -> ProcessLease.Request:
    return ProcessLease.Request(command=ProcessLease.Request.END, process_id=process_id, cause=cause)
