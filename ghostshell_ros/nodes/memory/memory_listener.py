# SPDX-License-Identifier: Apache-2.0
"""Hears the topics of one robot for the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ghostshell.msg import Observation, ProcessArray, SkillEvent

from ghostshell_ros.runtime.node_runtime import EVENTS, LATCHED, OBSERVATION, RuntimeNode
from ghostshell_ros.wire.memory_messages import call_of, seconds, task_of
from ghostshell_ros.wire.observation_messages import from_message
from planners.memory.experience import LEAST_S, Recorder
from planners.memory.records import Record

TOLD = {
    SkillEvent.NOTICE: "notice",
    SkillEvent.HALTED: "halted",
    SkillEvent.HALT_CLEARED: "halt_cleared",
    SkillEvent.INTERRUPTED: "interrupted",
    SkillEvent.ROUTINE_SAVED: "routine_saved",
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
            (SkillEvent, "events", self._event, EVENTS),
            (ProcessArray, "processes", self._processes, LATCHED),
            (Observation, "observation", self._observation, OBSERVATION),
        ):
            node.create_subscription(kind, f"/{robot}/{topic}", self._guarded(callback), qos)

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

    def _event(self, event: SkillEvent) -> list[Record]:
        if event.type == SkillEvent.CALL_ENDED:
            return self._recorder.call(call_of(event))
        if event.type in TOLD:
            text = event.error_msg or event.text
            return self._recorder.event(TOLD[event.type], seconds(event.stamp), text, event.process_id)
        return []

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
