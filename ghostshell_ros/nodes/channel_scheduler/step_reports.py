# SPDX-License-Identifier: Apache-2.0
"""Publishes the queue of steps of each process as it changes."""

from __future__ import annotations

from ghostshell.msg import StepQueue as StepQueueMsg

from function_tokens.scheduling.step_queue import StepQueue
from ghostshell_ros.runtime.node_runtime import QUEUES, RuntimeNode
from ghostshell_ros.wire.values import ros_text


class StepReports:
    """Writes `step_queue` (ghostshell/StepQueue)."""

    def __init__(self, node: RuntimeNode) -> None:
        self._node = node
        self._publisher = node.create_publisher(StepQueueMsg, "step_queue", QUEUES)

    def write(self, process_id: str, steps: StepQueue) -> None:
        """Publish how the queue of a process stands."""
        running = steps.running
        self._publisher.publish(
            StepQueueMsg(
                stamp=self._node.get_clock().now().to_msg(),
                process_id=process_id,
                running=ros_text(running.source) if running is not None else "",
                running_stream=running.stream_id if running is not None else "",
                queued=[ros_text(step.source) for step in steps.queued],
                queued_streams=[step.stream_id for step in steps.queued],
                done=steps.done,
                reading=steps.reading,
            )
        )
