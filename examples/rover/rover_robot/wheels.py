# SPDX-License-Identifier: Apache-2.0
"""The robot's own node: velocities from `cmd_vel_gated` go to the motors; odometry and the lidar's scan come back."""

from __future__ import annotations

import math
import time

import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Bool

RATE_HZ = 50.0
SCAN_HZ = 10.0
SILENCE_S = 0.25
"""The gate sends 50 velocities a second; when it falls silent, the motors must stop by themselves."""


class Base:
    """HARDWARE: replace the methods by your motor controller's calls and your lidar. This one drives in memory, in a
    room of 6 by 6 metres."""

    def __init__(self) -> None:
        self._pose = (0.0, 0.0, 0.0)
        self._wish = (0.0, 0.0)

    def drive(self, forward_mps: float, turn_radps: float) -> None:
        """HARDWARE: set the speeds of the wheels, as in `bus.set_speeds(forward - turn * TRACK / 2, forward + …)`."""
        self._wish = forward_mps, turn_radps

    def move(self, seconds: float) -> tuple[float, float, float]:
        """HARDWARE: where the wheels have brought it [m, m, rad], from their encoders."""
        (x, y, yaw), (forward, turn) = self._pose, self._wish
        middle = yaw + turn * seconds / 2
        self._pose = x + forward * math.cos(middle) * seconds, y + forward * math.sin(middle) * seconds, yaw + turn * seconds
        return self._pose

    def scan(self) -> list[float]:
        """HARDWARE: leave it out when your lidar has a node of its own. Distances in m, from -pi on by degrees."""
        x, y, yaw = self._pose
        x, y = x + 0.1 * math.cos(yaw), y + 0.1 * math.sin(yaw)
        ranges = []
        for degree in range(-180, 180):
            c, s = math.cos(yaw + math.radians(degree)), math.sin(yaw + math.radians(degree))
            to_x, to_y = (3.0 - x * math.copysign(1, c), 3.0 - y * math.copysign(1, s))
            ranges.append(min(to_x / max(abs(c), 1e-9), to_y / max(abs(s), 1e-9)))
        return ranges


class Wheels(Node):
    """Subscribes `cmd_vel_gated` (geometry_msgs/Twist), which comes from the safety gate within the limits of the robot's
    file, and `halted` (std_msgs/Bool): while that is true, it obeys nobody, whoever else may publish velocities.
    Publishes `odom` (nav_msgs/Odometry) and `scan` (sensor_msgs/LaserScan); silence of either for 1 s halts the robot.
    """

    def __init__(self) -> None:
        super().__init__("wheels")
        self._base = Base()
        self._heard_s = self._moved_s = time.monotonic()
        self._odom = self.create_publisher(Odometry, "odom", 10)
        self._scan = self.create_publisher(LaserScan, "scan", qos_profile_sensor_data)
        self.create_subscription(Twist, "cmd_vel_gated", self._on_velocity, 20)
        self._halted = False
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self.create_subscription(Bool, "halted", lambda message: setattr(self, "_halted", message.data), latched)
        self.create_timer(1.0 / RATE_HZ, self._publish_odometry)
        self.create_timer(1.0 / SCAN_HZ, self._publish_scan)

    def _on_velocity(self, message: Twist) -> None:
        self._heard_s = time.monotonic()
        self._base.drive(message.linear.x, message.angular.z)

    def _publish_odometry(self) -> None:
        now_s = time.monotonic()
        if self._halted or now_s - self._heard_s > SILENCE_S:
            self._base.drive(0.0, 0.0)
        x, y, yaw = self._base.move(now_s - self._moved_s)
        self._moved_s = now_s
        message = Odometry(child_frame_id="base_link")
        message.header.stamp, message.header.frame_id = self.get_clock().now().to_msg(), "odom"
        message.pose.pose.position.x, message.pose.pose.position.y = x, y
        message.pose.pose.orientation.z, message.pose.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
        self._odom.publish(message)

    def _publish_scan(self) -> None:
        step = math.radians(1.0)
        message = LaserScan(angle_min=-math.pi, angle_max=math.pi - step, angle_increment=step, range_min=0.05, range_max=8.0)
        message.header.stamp, message.header.frame_id = self.get_clock().now().to_msg(), "laser"
        message.ranges = self._base.scan()
        self._scan.publish(message)


def main() -> None:
    rclpy.init()
    try:
        rclpy.spin(Wheels())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
