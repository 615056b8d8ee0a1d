# SPDX-License-Identifier: Apache-2.0
"""Node `joint_forwarder`: hand the gate's set-points on to a controller of ros2_control, where that moves the joints."""

import math

from rcl_interfaces.srv import GetParameters
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray

from ghostshell_ros.runtime.node import Health, Level, RuntimeNode
from ghostshell_ros.runtime.service_client import ServiceClient
from ghostshell_ros.wire.qos import SENSORS, SET_POINTS
from ghostshell_ros.wire.sensing import measured

ASK_S, ANSWER_S = 1.0, 0.8
"""Time between two questions for the controller's joints, and for the answer."""
REST_S = 0.5
"""Silence of set-points after which a joint that has none of its own is taken anew from where it was measured."""


class JointForwarder(RuntimeNode):
    """Publish `<controller>/commands` (std_msgs/Float64MultiArray) at each `joint_command` (sensor_msgs/JointState).

    The controller, a forward_command_controller, takes all of its joints at once, in the order of its parameter `joints`: it
    is asked for them. A joint without a set-point stays where `joint_states` had it when the others began to move. Nothing is
    handed on before the controller has answered and all of its joints were measured; while the gate is silent, this node is,
    too, and the controller holds.
    """

    def __init__(self) -> None:
        super().__init__("joint_forwarder")
        name = self.declare("controller", "joint_position_controller", "the controller of ros2_control that takes set-points")
        self.controller = self.resolve_topic_name(name)
        self._joints: list[str] = []
        self._measured: dict[str, float] = {}
        self._resting: dict[str, float] = {}
        """Positions at which joints without a set-point stay while the others move."""
        self._handed_on_at = -math.inf
        self._commands = self.create_publisher(Float64MultiArray, f"{name}/commands", SET_POINTS)
        self._teller = ServiceClient(self, GetParameters, f"{name}/get_parameters")
        self.create_subscription(JointState, "joint_states", self._on_states, SENSORS)
        self.create_subscription(JointState, "joint_command", self._on_command, SET_POINTS)
        self._asking = self.steady_timer(ASK_S, self._ask)

    def health(self) -> Health:
        complaint = self._complaint()
        return Health(complaint, Level.ERROR) if complaint else Health()

    def _ask(self) -> None:
        self._teller.ask(GetParameters.Request(names=["joints"]), self._answered, deadline_s=ANSWER_S)

    def _answered(self, response: GetParameters.Response | None) -> None:
        joints = [] if response is None or not response.values else list(response.values[0].string_array_value)
        if joints and not self._joints:
            self._joints = joints
            self._asking.cancel()
            self.get_logger().info(f"set-points go to {self.controller}: {', '.join(joints)}")

    def _complaint(self) -> str:
        if not self._joints:
            return f"{self.controller} does not tell its joints: see whether it is loaded (ros2 control list_controllers)"
        missing = [joint for joint in self._joints if joint not in self._measured]
        return f"joint '{missing[0]}' of {self.controller} was not measured: is it in joint_states?" if missing else ""

    def _on_states(self, message: JointState) -> None:
        self._measured.update(measured(message.name, message.position))

    def _on_command(self, message: JointState) -> None:
        if complaint := self._complaint():
            self.get_logger().error(f"a set-point is dropped: {complaint}", throttle_duration_sec=1.0)
            return
        now, points = self.steady_now(), dict(zip(message.name, message.position, strict=True))
        if unknown := [joint for joint in points if joint not in self._joints]:
            text = f"{self.controller} does not move {', '.join(unknown)}: add what it drives to its joints"
            self.get_logger().warning(text, once=True)
        if now - self._handed_on_at > REST_S:
            self._resting = dict(self._measured)
        self._handed_on_at = now
        self._commands.publish(Float64MultiArray(data=[points.get(joint, self._resting[joint]) for joint in self._joints]))
