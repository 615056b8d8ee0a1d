# SPDX-License-Identifier: Apache-2.0
"""What a node says of its health on /diagnostics, once a second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy

if TYPE_CHECKING:
    from ghostshell_ros.runtime.node_runtime import RuntimeNode

PERIOD_S = 1.0
"""Aggregators take a node as stale after 5 s of silence (diagnostic_aggregator's default)."""

QOS = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=10, reliability=ReliabilityPolicy.RELIABLE)
BUSY_LOAD = 0.9
"""Share of the last second spent in callbacks from which on a node is said to be overloaded."""
BLOCKED_S = 0.25
"""A callback this long delays heartbeats and halts; it belongs on a thread of its own."""


class Level(Enum):
    """DiagnosticStatus's levels."""

    OK = DiagnosticStatus.OK
    WARN = DiagnosticStatus.WARN
    ERROR = DiagnosticStatus.ERROR


@dataclass(frozen=True)
class Health:
    """A node's own view: one sentence, and the few numbers an engineer asks for first (name with unit → value)."""

    message: str = "runs"
    level: Level = Level.OK
    values: Mapping[str, object] = field(default_factory=dict)


class Diagnostics:
    """Publishes what `node.health()` says on /diagnostics (diagnostic_msgs/DiagnosticArray), with the load of its
    process's executor and its goals. On the executor's thread."""

    def __init__(self, node: RuntimeNode) -> None:
        self._node = node
        # Before the robot was stood up nobody listens: a first report after one period is soon enough.
        self._publisher = node.create_publisher(DiagnosticArray, "/diagnostics", QOS)
        node.steady_timer(PERIOD_S, self._report)

    def _report(self) -> None:
        message = DiagnosticArray(status=[self.status()])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)

    def status(self) -> DiagnosticStatus:
        """The node's health and its executor's; the worse of the two is the level."""
        node = self._node
        health = node.health()
        values = dict(health.values)
        level, text = health.level, health.message
        if node.goal_servers:
            values["goals running"] = sum(len(server.goals) for server in node.goal_servers)
        # rclpy's own executor, the fallback, does not measure.
        load, longest_s = getattr(node.executor, "load", (None, 0.0))
        if load is not None:
            values["executor load [%]"] = round(100 * load)
            values["longest callback [ms]"] = f"{1e3 * longest_s:.1f}"
            if level is Level.OK and longest_s > BLOCKED_S:
                level, text = Level.WARN, f"{text}; a callback took {longest_s:.2f} s, and its whole process waited"
            elif level is Level.OK and load > BUSY_LOAD:
                level, text = Level.WARN, f"{text}; its executor is busy {load:.0%} of the time"
        robot = node.get_namespace().strip("/")
        return DiagnosticStatus(
            level=level.value,
            name=node.get_fully_qualified_name().lstrip("/"),
            message=text,
            hardware_id=robot,
            values=[KeyValue(key=key, value=str(value)) for key, value in values.items()],
        )
