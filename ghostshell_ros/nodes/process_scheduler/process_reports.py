# SPDX-License-Identifier: Apache-2.0
"""The part of the process scheduler's node that listens: what planner, channel scheduler, kernel and gate report."""

from __future__ import annotations

from collections.abc import Callable

from ghostshell.msg import KernelState, ProcessHeartbeat
from std_msgs.msg import Bool

from function_tokens.builtins import STEP_NAMES
from ghostshell_ros.nodes.process_scheduler.interrupter import Interrupter
from ghostshell_ros.runtime.node_runtime import LATCHED, SENSORS, RuntimeNode
from ghostshell_ros.wire.events import EventWriter, read_events
from ghostshell_ros.wire.process_messages import call_record
from skill_kernel.calls import ProcessHoldState
from skill_kernel.codes import TaskCode
from skill_kernel.events import CallEvent, CallKind, ModelKind, Notice, NoticeKind, ProcessKind, RunEvent, StreamKind
from skill_kernel.processes.scheduler import ProcessScheduler

REQUIRED = {"action_planner": "llm_chunks", "token_parser": "function_tokens", "channel_scheduler": "call_control"}
"""Nodes a running process depends on, each with a topic it publishes."""

NODES_WAIT_S = 5.0
"""How old a process is before it is ended because a node it depends on is not there."""

EVENT_CHARS = 300
"""Of a global event that came true so much is kept."""

SILENT_CHECKS = 5
"""After so many looks, 0.2 s apart, without its heartbeat the channel scheduler is gone."""


class ProcessReports:
    """Subscribes `events`, `kernel_state`, `halted` and `scheduler_heartbeat`, and looks whether the nodes that processes
    depend on are there; tells the core."""

    def __init__(self, node: RuntimeNode, core: ProcessScheduler, events: EventWriter, interrupter: Interrupter) -> None:
        self._node, self._core, self._events, self._interrupter = node, core, events, interrupter
        self.halted = False
        """Whether the safety gate is."""
        self.on_event: Callable[[RunEvent], None] = lambda event: None
        """Hears every event first."""
        self._unheard: int | None = None
        read_events(node, self._event)
        node.create_subscription(KernelState, "kernel_state", self._kernel_state, LATCHED)
        node.create_subscription(Bool, "halted", self._gate, LATCHED)
        node.create_subscription(ProcessHeartbeat, "scheduler_heartbeat", self._scheduler_beat, SENSORS)
        node.steady_timer(1.0, self._check_nodes)
        node.steady_timer(0.2, self._watch_scheduler)

    def _event(self, event: RunEvent) -> None:
        self.on_event(event)
        process_id, plans = event.process_id, self._core.plans
        if event.kind is StreamKind.STARTED:
            plans.stream_started(process_id, event.stream_id)
        elif event.kind is ProcessKind.DRAINED:
            plans.drained(process_id)
        elif event.kind is CallKind.CONTENTION:
            self._core.contention(process_id, event.holder_id)
        elif event.kind is ProcessKind.PLAN_ENDED:
            if event.error_code == TaskCode.CANCELLED:
                self._interrupter.learn_epoch(plans.learn_epoch)
            plans.ended(process_id, event.epoch, event.error_code, event.error_msg)
        elif event.kind in (CallKind.STARTED, CallKind.ENDED):
            self._call(event)
        elif event.kind is StreamKind.ENDED and event.node == "action_planner":
            plans.turn_ended(process_id)
        elif event.kind is ProcessKind.PLAN_EVENT:
            plans.event_fired(process_id, f"{event.plan_item_id}: {event.plan_item}"[:EVENT_CHARS])
        elif event.kind is ModelKind.ANSWERED:
            plans.model_answered(process_id, event)
        elif event.kind is ModelKind.SKIPPED:
            plans.model_skipped(process_id, event.layer)
        elif event.kind is ModelKind.DEGRADED:
            plans.degraded(process_id, event.layer, event.fallback)

    def _call(self, event: CallEvent) -> None:
        """Steps and branches are calls of the scheduler alone: what is done in them is told by itself."""
        if event.function in STEP_NAMES:
            return
        if event.kind is CallKind.STARTED:
            self._core.plans.call_started(event.process_id, call_record(event))
        else:
            self._core.plans.call_ended(event.process_id, event.stream_id, call_record(event))

    def _kernel_state(self, state: KernelState) -> None:
        holds = [ProcessHoldState(p.process_id, tuple(p.subsystems), tuple(p.pause_causes)) for p in state.processes]
        self._core.kernel_state(holds)

    def _gate(self, message: Bool) -> None:
        was, self.halted = self.halted, message.data
        self._core.halted(message.data)
        if was and not self.halted:
            self._events.write(Notice(kind=NoticeKind.HALT_CLEARED, text="the robot takes instructions again"))

    def _check_nodes(self) -> None:
        now_s = self._node.now_s()
        old = [p for p in self._core.living if not p.pause_causes and now_s - p.created_s >= NODES_WAIT_S]
        gone = [name for name, topic in REQUIRED.items() if self._node.count_publishers(topic) == 0] if old else []
        for process in old if gone else ():
            why = f"node {' and '.join(gone)} is gone; start it again and repeat the instruction"
            self._core.fail(process.process_id, TaskCode.NODE_UNAVAILABLE, why)

    def _scheduler_beat(self, _: ProcessHeartbeat) -> None:
        self._unheard = 0

    def _watch_scheduler(self) -> None:
        """Checks are counted, not seconds: a node that was stalled itself finds old beats before it has missed enough."""
        if self._unheard is None:
            return
        self._unheard += 1
        if self._unheard > SILENT_CHECKS:
            self._unheard = None
            if self._core.living:
                why = "node channel_scheduler is silent, and with it the calls that waited; repeat the instruction"
                self._core.plans.calls_lost(why)
