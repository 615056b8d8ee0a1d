# SPDX-License-Identifier: Apache-2.0
"""Hears the topics of one robot for the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ghostshell.msg import Observation, ProcessArray

from ghostshell_ros.runtime.node_runtime import LATCHED, OBSERVATION, RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.memory_messages import task_of
from ghostshell_ros.wire.observation_messages import from_message
from ghostshell_ros.wire.values import seconds
from planners.memory.experience import LEAST_S, Recorder
from planners.memory.records import Record
from skill_kernel.events import CallEvent, CallKind, Notice, NoticeKind, ProcessEvent, ProcessKind

TOLD = {
    NoticeKind.MESSAGE: "notice",
    NoticeKind.HALTED: "halted",
    NoticeKind.HALT_CLEARED: "halt_cleared",
    NoticeKind.ROUTINE_SAVED: "routine_saved",
    ProcessKind.INTERRUPTED: "interrupted",
}
"""Events that are remembered beside the calls; what becomes of processes is read from `processes`."""
MANY_TASKS = 1000


class RobotListener:
    """Subscribes `events`, `processes` and `observation` below the robot's namespace and hands on the records. On the
    executor's thread."""

    def __init__(self, node: RuntimeNode, robot: str, put: Callable[[list[Record]], object], *, period_s: float) -> None:
        self._node, self._put = node, put
        self._recorder = Recorder(robot, period_s=period_s)
        self._told: dict[str, bool] = {}
        """Processes that were told, and whether also of their end."""
        self._observed_s = 0.0
        for kind, topic, callback, qos in (
            (ProcessArray, "processes", self._processes, LATCHED),
            (Observation, "observation", self._observation, OBSERVATION),
        ):
            node.create_subscription(kind, f"/{robot}/{topic}", self._guarded(callback), qos)
        read_events(node, self._guarded(self._event), CallEvent, ProcessEvent, Notice, robot=robot)

    def _guarded(self, callback: Callable[[Any], list[Record]]) -> Callable[[Any], None]:
        def take(message: Any) -> None:
            try:
                found = callback(message)
            except ValueError as error:
                self._node.get_logger().warning(f"a message is not remembered: {error}", throttle_duration_sec=10.0)
                return
            if found:
                self._put(found)

        return take

    def _event(self, event: CallEvent | ProcessEvent | Notice) -> list[Record]:
        if isinstance(event, CallEvent):
            return self._recorder.call(event) if event.kind is CallKind.ENDED else []
        if event.kind not in TOLD:
            return []
        text = event.cause if isinstance(event, ProcessEvent) else event.routine or event.told
        return self._recorder.event(TOLD[event.kind], event.stamp_s, text, event.process_id)

    def _processes(self, message: ProcessArray) -> list[Record]:
        found: list[Record] = []
        for process in message.processes:
            task = task_of(process)
            known = self._told.get(task.process_id)
            if known is None or (task.ended_s and not known):
                self._told[task.process_id] = bool(task.ended_s)
                found += self._recorder.task(task)
        while len(self._told) > MANY_TASKS:
            del self._told[next(iter(self._told))]
        return found

    def _observation(self, message: Observation) -> list[Record]:
        time_s = seconds(message.stamp)
        if 0.0 <= time_s - self._observed_s < LEAST_S:
            return []
        self._observed_s = time_s
        now = self._node.steady_now()
        return self._recorder.observation(from_message(message, now), now)
