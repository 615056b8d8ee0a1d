# SPDX-License-Identifier: Apache-2.0
"""A base in a flat world as a ROS node: follows `cmd_vel_gated`, publishes odometry, scan, posture; it remembers commands."""

from __future__ import annotations

import math
import threading
import time
from array import array
from typing import Any

from flat_world import BEAMS, RANGE_MAX, FlatWorld
from geometry_msgs.msg import Twist, Vector3
from nav_msgs.msg import Odometry
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Bool, String

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import LATCHED, SENSORS, SET_POINTS

PERIOD_S = 0.02
POSTURE_S = 0.6
SILENCE_S = 0.2
"""As every back end it stops by itself when the gate falls silent."""


def base_robot(*, max_lateral: float = 0.3) -> str:
    """Return a robot's file with a base, and two waypoints of which one lies behind a wall's end."""
    return f"""
name: plant
skills: [nothing]
subsystems: {{main: {{exclusive_per_process: false, parallel: false}}}}
drivers:
  base_driver:
    node: ghostshell_ros.drivers.base_driver:BaseDriver
    actions: {{drive: ghostshell/action/Drive, navigate_to: ghostshell/action/NavigateTo}}
  posture_driver:
    node: ghostshell_ros.drivers.posture_driver:PostureDriver
    actions: {{set_posture: ghostshell/action/SetPosture}}
base:
  {{subsystems: [main], max_forward: 1.0, max_backward: 0.5, max_lateral: {max_lateral}, max_turn: 2.0, max_acceleration: 3.0,
   max_turn_acceleration: 8.0, cruise_linear: 0.8, cruise_turn: 1.6, radius: 0.25, stop_distance: 0.12, slow_distance: 0.4}}
waypoints:
  corner: {{x: 2.5, y: 1.5, yaw: 1.57}}
  outside: {{x: 9.0, y: 0.0}}
"""


class BasePlant(RuntimeNode):
    """Set `silent_scan` or `silent_odometry` to silence a sensor, `stuck` to let it ignore commands.

    It obeys nobody while the gate has halted it. Its clock is `ahead_s`; `carried` is a speed that is not its own.
    """

    def __init__(self, namespace: str, world: FlatWorld) -> None:
        super().__init__("base_plant", namespace=namespace)
        self.world = world
        self.silent_scan, self.silent_odometry, self.stuck = threading.Event(), threading.Event(), threading.Event()
        self.ahead_s = 0
        self.carried = 0.0
        self.commands: list[tuple[float, Any]] = []
        self.attitudes: list[Any] = []
        self.postures: list[str] = []
        self.posture = self.aim = "stand"
        self.way_s = 0.0
        self._renewed_at = -math.inf
        self.halted: bool | None = None
        self.teleop: bool | None = None
        self._ticks = 0
        self._odometry = self.create_publisher(Odometry, "odom", SENSORS)
        self._scan = self.create_publisher(LaserScan, "scan", SENSORS)
        self._state = self.create_publisher(String, "posture_state", LATCHED)
        self._state.publish(String(data=self.posture))
        self.create_subscription(Twist, "cmd_vel_gated", self._on_command, SET_POINTS)
        self.create_subscription(String, "posture", self._on_posture, SET_POINTS)
        self.create_subscription(Vector3, "attitude", self.attitudes.append, SET_POINTS)
        self.create_subscription(Bool, "halted", lambda message: setattr(self, "halted", message.data), LATCHED)
        self.create_subscription(Bool, "teleop_active", lambda message: setattr(self, "teleop", message.data), LATCHED)
        self.steady_timer(PERIOD_S, self._tick)

    def meets_gate(self) -> str:
        """Return whether it has met the gate by now, for a test that waits for one in vain."""
        readers = f"odom {self._odometry.get_subscription_count()}, scan {self._scan.get_subscription_count()}"
        return (
            f"the gate says that it is not halted; halted: {self.halted}, from {self.count_publishers('halted')} publishers; "
            f"read by: {readers}; {len(self.commands)} velocities came"
        )

    @property
    def speed(self) -> float:
        """Of the last command, m/s and rad/s together: 0 only at rest."""
        at, last = (self.commands or [(-math.inf, None)])[-1]
        if time.monotonic() - at > SILENCE_S:
            return 0.0
        return abs(last.linear.x) + abs(last.linear.y) + abs(last.angular.z)

    @property
    def turn(self) -> float:
        """rad/s of the last command."""
        return float(self.commands[-1][1].angular.z) if self.commands else 0.0

    def _on_command(self, message: Any) -> None:
        self.commands.append((time.monotonic(), message))

    def _on_posture(self, message: Any) -> None:
        """Goes on its way of `POSTURE_S` only while it is told to; `way_s` is how far it is."""
        if message.data == "hold":
            self._renewed_at = -math.inf
            return
        self._renewed_at = time.monotonic()
        if message.data != self.aim:
            self.postures.append(message.data)
            self.aim, self.way_s = message.data, 0.0
            self._tell("moving")

    def _go_to_posture(self) -> None:
        if self.posture == "moving" and time.monotonic() - self._renewed_at < SILENCE_S:
            self.way_s += PERIOD_S
            if self.way_s >= POSTURE_S:
                self._tell(self.aim)

    def _tell(self, posture: str) -> None:
        self.posture = posture
        self._state.publish(String(data=posture))

    def _tick(self) -> None:
        self._go_to_posture()
        self.world.x += self.carried * PERIOD_S
        if self.speed and not self.stuck.is_set() and not self.halted:
            last = self.commands[-1][1]
            self.world.step(last.linear.x, last.linear.y, last.angular.z, PERIOD_S)
        stamp = self.get_clock().now().to_msg()
        stamp.sec += self.ahead_s
        if not self.silent_odometry.is_set():
            odometry = Odometry(child_frame_id="base_link")
            odometry.header.stamp, odometry.header.frame_id = stamp, "odom"
            odometry.pose.pose.position.x, odometry.pose.pose.position.y = self.world.x, self.world.y
            odometry.pose.pose.orientation.z = math.sin(self.world.yaw / 2)
            odometry.pose.pose.orientation.w = math.cos(self.world.yaw / 2)
            self._odometry.publish(odometry)
        self._ticks += 1
        if self._ticks % 5 == 0 and not self.silent_scan.is_set():
            scan = LaserScan(angle_min=-math.pi, angle_max=math.pi, angle_increment=2 * math.pi / BEAMS)
            scan.header.stamp, scan.header.frame_id = stamp, "laser"
            scan.range_min, scan.range_max = 0.05, RANGE_MAX
            scan.ranges = array("f", self.world.scan())
            self._scan.publish(scan)
