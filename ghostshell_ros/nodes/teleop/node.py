# SPDX-License-Identifier: Apache-2.0
"""Node `teleop`: turn a gamepad's messages into an operator's commands for the safety gate."""

from geometry_msgs.msg import Twist
from ghostshell.srv import ControlHalt
from sensor_msgs.msg import Joy
from std_srvs.srv import Trigger

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.qos import SENSORS, SET_POINTS

SILENCE_S = 0.3
"""Silence after which the pad is gone; gamepad drivers repeat themselves when asked to (autorepeat_rate of joy_node)."""
ANSWER_S = 1.0
"""Time in which the safety gate has to be found, and then has to answer."""


class Teleop(RuntimeNode):
    """Publish `cmd_vel_teleop` (geometry_msgs/Twist, 20 Hz) from the moment the deadman button of a gamepad is pressed.

    Subscribes `joy` (sensor_msgs/Joy). Released without the release button, or the pad lost, it falls silent and the gate halts
    the robot. Clients of the services `release_teleop` and `request_halt`.
    """

    def __init__(self) -> None:
        super().__init__("teleop")
        self._speed = self.declare("speed_mps", 0.5, "at full deflection [m/s]", 0.01, 5.0)
        self._turn = self.declare("turn_radps", 1.0, "at full deflection [rad/s]", 0.01, 10.0)
        self._axes = [
            self.declare(f"axis_{name}", number, f"number of the {name} axis, -1 = none", -1, 31)
            for name, number in (("forward", 1), ("lateral", 0), ("turn", 3))
        ]
        self._deadman, self._release_button, self._halt_button = (
            self.declare(f"{name}_button", number, f"number of the {name} button, -1 = none", -1, 31)
            for name, number in (("deadman", 4), ("release", 0), ("halt", 1))
        )
        self._last: Joy | None = None
        self._heard_at = 0.0
        self._driving = False
        self._armed = False  # the deadman counts once it was seen up, also after a release or a halt
        self._command = self.create_publisher(Twist, "cmd_vel_teleop", SET_POINTS)
        self._release = ServiceClient(self, Trigger, "release_teleop")
        self._halt = ServiceClient(self, ControlHalt, "request_halt")
        self.create_subscription(Joy, "joy", self._on_joy, SENSORS)
        self.steady_timer(0.05, self._tick)

    def _on_joy(self, message: Joy) -> None:
        pressed_before = self._last
        self._last, self._heard_at = message, self.steady_now()
        if _pressed(message, self._halt_button) and not _pressed(pressed_before, self._halt_button):
            asked = ControlHalt.Request(command=ControlHalt.Request.HALT, cause="the halt button of the gamepad")
            self._halt.ask(asked, deadline_s=ANSWER_S, wait_s=ANSWER_S)
            self._driving = self._armed = False
        if _pressed(message, self._release_button) and not _pressed(pressed_before, self._release_button):
            self._driving = self._armed = False
            self._release.ask(Trigger.Request(), deadline_s=ANSWER_S, wait_s=ANSWER_S)
        elif not _pressed(message, self._deadman):
            self._armed = True
        elif self._armed:
            self._driving = True

    def _tick(self) -> None:
        if not self._driving or self._last is None:
            return
        if self.steady_now() - self._heard_at > SILENCE_S or not _pressed(self._last, self._deadman):
            self._driving = False
            self._command.publish(Twist())
            return
        forward, lateral, turn = (_axis(self._last, axis) for axis in self._axes)
        message = Twist()
        message.linear.x, message.linear.y, message.angular.z = (
            forward * self._speed,
            lateral * self._speed,
            turn * self._turn,
        )
        self._command.publish(message)


def _pressed(message: Joy | None, button: int) -> bool:
    return message is not None and 0 <= button < len(message.buttons) and bool(message.buttons[button])


def _axis(message: Joy, axis: int) -> float:
    return float(message.axes[axis]) if 0 <= axis < len(message.axes) else 0.0
