# SPDX-License-Identifier: Apache-2.0
"""The robot's own node: set-points from `joint_command` go to the servos, their positions to `joint_states`."""

from __future__ import annotations

import time

import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from sensor_msgs.msg import JointState

RATE_HZ = 50.0
SERVO_SPEED_RAD_S = 4.0


class ServoBus:
    """HARDWARE: replace the two methods by your servo library's calls. These servos move by themselves, in memory."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._position = dict.fromkeys(names, 0.0)
        self._target = dict(self._position)
        self._at_s = time.monotonic()

    def write(self, name: str, position_rad: float) -> None:
        """HARDWARE: send the servo to a position, as in `bus.set_position(SERVO_IDS[name], position_rad)`."""
        self._target[name] = position_rad

    def read(self) -> dict[str, float]:
        """HARDWARE: ask the servos where they are [rad], as in `bus.position(SERVO_IDS[name])` for each name."""
        now_s = time.monotonic()
        reach, self._at_s = SERVO_SPEED_RAD_S * (now_s - self._at_s), now_s
        for name, position in self._position.items():
            self._position[name] = position + max(-reach, min(reach, self._target[name] - position))
        return dict(self._position)


class Servos(Node):
    """Subscribes `joint_command` and publishes `joint_states` (both sensor_msgs/JointState, positions in rad).

    `joint_command` comes from the safety gate, within the limits of the robot's file, and only while something moves:
    between two commands the servos hold. `joint_states` must go on always; a silence of 1 s halts the robot.
    """

    def __init__(self) -> None:
        super().__init__("servos")
        self._bus = ServoBus(("pan", "tilt"))
        self._states = self.create_publisher(JointState, "joint_states", 10)
        self.create_subscription(JointState, "joint_command", self._on_command, 20)
        self.create_timer(1.0 / RATE_HZ, self._publish)

    def _on_command(self, message: JointState) -> None:
        for name, position in zip(message.name, message.position, strict=True):
            self._bus.write(name, position)

    def _publish(self) -> None:
        positions = self._bus.read()
        message = JointState(name=list(positions), position=list(positions.values()))
        message.header.stamp = self.get_clock().now().to_msg()
        self._states.publish(message)


def main() -> None:
    rclpy.init()
    try:
        rclpy.spin(Servos())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
