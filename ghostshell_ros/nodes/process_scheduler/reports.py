# SPDX-License-Identifier: Apache-2.0
"""The part of the process scheduler's node that listens: what planner, channel scheduler, kernel and gate report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ghostshell.msg import KernelState, ProcessHeartbeat
from std_msgs.msg import Bool

from function_tokens.builtins import STEP_NAMES
from ghostshell_ros.nodes.process_scheduler.robot_link import RobotLink
from ghostshell_ros.runtime.node_runtime import LATCHED, SENSORS, RuntimeNode
from ghostshell_ros.wire.events import EventWriter, read_events
from skill_kernel.calls import ProcessHoldState
from skill_kernel.codes import TaskCode
from skill_kernel.events import CallEvent, CallKind, ModelKind, Notice, NoticeKind, ProcessKind, RunEvent, StreamKind
from skill_kernel.processes.process import CallRecord
from skill_kernel.processes.scheduler import ProcessScheduler

REQUIRED = {"action_planner": "llm_chunks", "token_parser": "function_tokens", "channel_scheduler": "call_control"}
"""Nodes a running process depends on, each with a topic it publishes."""

NODES_WAIT_S = 5.0
"""How old a process is before it is ended because a node it depends on is not there."""

EVENT_CHARS = 300
"""Characters that are kept of a global event that came true."""

SILENT_CHECKS = 5
"""After so many looks, 0.2 s apart, without its heartbeat the channel scheduler is gone."""

_REPORTS: dict[Any, Callable[[ProcessScheduler, Any], object]] = {
    StreamKind.STARTED: lambda core, e: core.stream_started(e.process_id, e.stream_id),
    ProcessKind.DRAINED: lambda core, e: core.drained(e.process_id),
    CallKind.CONTENTION: lambda core, e: core.contention(e.process_id, e.holder_id),
    ProcessKind.PLAN_ENDED: lambda core, e: core.plan_ended(e.process_id, e.epoch, e.error_code, e.error_msg),
    CallKind.STARTED: lambda core, e: core.call_started(e.process_id, _record(e)),
    CallKind.ENDED: lambda core, e: core.call_ended(e.process_id, e.stream_id, _record(e)),
    StreamKind.ENDED: lambda core, e: core.turn_ended(e.process_id) if e.node == "action_planner" else None,
    ProcessKind.PLAN_EVENT: lambda core, e: core.event_fired(e.process_id, f"{e.plan_item_id}: {e.plan_item}"[:EVENT_CHARS]),
    ModelKind.ANSWERED: lambda core, e: core.model_answered(e.process_id, e),
    ModelKind.SKIPPED: lambda core, e: core.model_skipped(e.process_id, e.layer),
    ModelKind.DEGRADED: lambda core, e: core.degraded(e.process_id, e.layer, e.fallback),
}


class ProcessReports:
    """Subscribe `events`, `kernel_state`, `halted` and `scheduler_heartbeat`, and look whether the nodes that processes
    depend on are there; tell the core. `on_event` hears every event first."""

    def __init__(
        self,
        node: RuntimeNode,
        core: ProcessScheduler,
        events: EventWriter,
        link: RobotLink,
        on_event: Callable[[RunEvent], None],
    ) -> None:
        self._node, self._core, self._events, self._link, self._on_event = node, core, events, link, on_event
        self.halted = False
        """Whether the safety gate is."""
        self._unheard: int | None = None
        read_events(node, self._event)
        node.create_subscription(KernelState, "kernel_state", self._kernel_state, LATCHED)
        node.create_subscription(Bool, "halted", self._gate, LATCHED)
        node.create_subscription(ProcessHeartbeat, "scheduler_heartbeat", self._scheduler_beat, SENSORS)
        node.steady_timer(1.0, self._check_nodes)
        node.steady_timer(0.2, self._watch_scheduler)

    def _event(self, event: RunEvent) -> None:
        self._on_event(event)
        if isinstance(event, CallEvent) and event.function in STEP_NAMES and event.kind is not CallKind.CONTENTION:
            return  # steps and branches are calls of the scheduler alone: what is done in them is told by itself
        if event.kind is ProcessKind.PLAN_ENDED and event.error_code == TaskCode.CANCELLED:
            self._link.learn_epoch()
        if report := _REPORTS.get(event.kind):
            report(self._core, event)

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
                self._core.calls_lost(why)


def _record(event: CallEvent) -> CallRecord:
    """Return a call that has started or ended, for the history of its process."""
    outcome = event.outcome_name or "RUNNING"
    args, code, told = event.args_json, event.error_code, event.told
    return CallRecord(event.call_id, event.function, args, outcome, code, told, event.start_s, event.end_s)
