# SPDX-License-Identifier: Apache-2.0
"""Hears the topics of one robot for the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ghostshell.msg import Observation, ProcessArray, ProcessState

from ghostshell_ros.runtime.node_runtime import LATCHED, OBSERVATION, RuntimeNode
from ghostshell_ros.wire.events import read_events
from ghostshell_ros.wire.observation_messages import from_message
from ghostshell_ros.wire.values import seconds
from planners.memory.experience import Recorder
from planners.memory.records import Record
from skill_kernel.events import CallEvent, CallKind, Notice, NoticeKind, ProcessEvent, ProcessKind
from skill_kernel.processes.process import Process, ProcessSource, ProcessStatus

LEAST_S = 0.2
"""Observations are looked at no more often than that."""
MANY_TASKS = 1000
TOLD = frozenset({*NoticeKind, ProcessKind.INTERRUPTED})
"""Events that are remembered beside the calls; what becomes of processes is read from `processes`."""


class RobotListener:
    """Subscribes `events`, `processes` and `observation` below the robot's namespace and hands on the records. On the
    executor's thread."""

    def __init__(self, node: RuntimeNode, robot: str, put: Callable[..., object], *, period_s: float) -> None:
        self._node, self._put = node, put
        self._recorder = Recorder(robot, period_s=period_s)
        self._told: dict[str, bool] = {}
        """Processes that were told, and whether also of their end."""
        self._observed_s = 0.0
        node.create_subscription(ProcessArray, f"/{robot}/processes", self._guarded(self._processes), LATCHED)
        node.create_subscription(Observation, f"/{robot}/observation", self._guarded(self._observation), OBSERVATION)
        read_events(node, self._guarded(self._event), CallEvent, ProcessEvent, Notice, robot=robot)

    def _guarded(self, callback: Callable[[Any], list[Record]]) -> Callable[[Any], None]:
        def take(message: Any) -> None:
            try:
                if found := callback(message):
                    self._put(*found)
            except ValueError as error:
                self._node.get_logger().warning(f"a message is not remembered: {error}", throttle_duration_sec=10.0)

        return take

    def _event(self, event: CallEvent | ProcessEvent | Notice) -> list[Record]:
        if isinstance(event, CallEvent):
            return self._recorder.call(event) if event.kind is CallKind.ENDED else []
        if event.kind not in TOLD:
            return []
        text = event.cause if isinstance(event, ProcessEvent) else event.routine or event.told
        name = "notice" if event.kind is NoticeKind.MESSAGE else event.kind.name.lower()
        return self._recorder.event(name, event.stamp_s, text, event.process_id)

    def _processes(self, message: ProcessArray) -> list[Record]:
        found: list[Record] = []
        for state in message.processes:
            ended = bool(seconds(state.ended))
            known = self._told.get(state.process_id)
            if known is None or (ended and not known):
                self._told[state.process_id] = ended
                found += self._recorder.task(_process(state))
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


def _process(state: ProcessState) -> Process:
    return Process(
        state.process_id,
        state.instruction,
        state.door,
        state.sender,
        state.strategy,
        seconds(state.created),
        ProcessSource(state.source),
        ProcessStatus(state.status),
        ended_s=seconds(state.ended),
        message=state.message,
    )
