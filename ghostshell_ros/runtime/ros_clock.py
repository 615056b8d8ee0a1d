# SPDX-License-Identifier: Apache-2.0
"""Clocks of cores in a node: ROS time, so that `use_sim_time` holds for skills and pauses alike, and steady time for what
waits for a model."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.timer import Timer

from ghostshell_ros.runtime.node_runtime import Later, RuntimeNode


class OneShot:
    """A pending callback; cancelling it twice is allowed."""

    def __init__(self, node: RuntimeNode, delay_s: float, callback: Callable[[], None]) -> None:
        self._node = node
        self._callback = callback
        self._timer: Timer | None = node.create_timer(max(delay_s, 1e-6), self._fire)

    def _fire(self) -> None:
        self.cancel()
        self._callback()

    def cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self._node.destroy_timer(timer)


class RosClock:
    """Implements `shell.calls.Clock` on a node's clock."""

    def __init__(self, node: RuntimeNode) -> None:
        self._node = node

    def now(self) -> float:
        """ROS time in seconds."""
        return float(self._node.get_clock().now().nanoseconds) * 1e-9

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> OneShot:
        """Call back once after a delay in ROS time."""
        return OneShot(self._node, delay_s, callback)


class SteadyClock:
    """Implements `shell.calls.Clock` on steady time: how long a model takes has nothing to do with a simulation's time."""

    def __init__(self, node: RuntimeNode) -> None:
        self._node = node

    def now(self) -> float:
        """Seconds."""
        return self._node.steady_now()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Later:
        """Call back once after a delay on the steady clock."""
        return self._node.call_later(delay_s, callback)
