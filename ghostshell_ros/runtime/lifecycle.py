# SPDX-License-Identifier: Apache-2.0
"""Manage drivers as ROS 2 lifecycle nodes that take goals only while active, and tell others their states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from lifecycle_msgs.msg import State
from lifecycle_msgs.srv import ChangeState
from rclpy._rclpy_pybind11 import RCLError
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState, TransitionCallbackReturn

from ghostshell_ros.runtime.node import Beat, Health, Level, RuntimeNode
from ghostshell_ros.wire.qos import HEARTBEATS, LATCHED
from skill_kernel.codes import CallCode

TOPIC = "driver_states"
ACTION = "action"
"""Key in a driver's DiagnosticStatus whose value is the full name of an action that the driver serves."""
LOST = "lost"
_WHY, _COMING = "why", "coming up"
HOW_TO_ACTIVATE = "after a halt: ghostshell clear; otherwise see whether lifecycle_manager runs, or `ros2 lifecycle set` it"


def gate_silence(node: RuntimeNode) -> str:
    """Return why `halted` was not heard: a gate is silent until it has heard the robot's sensors."""
    if node.count_publishers("halted"):
        return "the safety gate hears no sensors (joint_states, odom, scan): start the simulator or the robot's own nodes"
    return f"no safety gate was heard on {node.resolve_topic_name('halted')}: see whether it runs"


@dataclass(frozen=True)
class DriverState:
    """Hold a driver's lifecycle state, or `lost`, and the actions it serves.

    While it is not active, `why` gives the reason, and `coming_up` says whether it may become active without a person: then
    a call waits for it, within its deadline.
    """

    name: str
    state: str
    actions: tuple[str, ...] = ()
    why: str = ""
    coming_up: bool = False

    def refusal(self, action: str) -> str:
        """Return the sentence that refuses a goal of `action` while the driver is not active."""
        return f"{self.name} takes no goal of {action}: it is {self.state}, because {self.why}"

    def status(self) -> DiagnosticStatus:
        bad = DiagnosticStatus.ERROR if self.state == LOST else DiagnosticStatus.WARN
        level = DiagnosticStatus.OK if self.state == "active" else bad
        values = [KeyValue(key=ACTION, value=action) for action in self.actions]
        values += [KeyValue(key=_WHY, value=self.why)] if self.why else []
        values += [KeyValue(key=_COMING, value="true")] if self.coming_up else []
        return DiagnosticStatus(level=level, name=self.name, message=self.state, values=values)

    @classmethod
    def of(cls, status: DiagnosticStatus) -> DriverState:
        more = {pair.key: pair.value for pair in status.values}
        return cls(status.name, status.message, actions_of(status), more.get(_WHY, ""), _COMING in more)


def actions_of(status: DiagnosticStatus) -> tuple[str, ...]:
    """Return the actions a driver serves, from its heartbeat or its state."""
    return tuple(pair.value for pair in status.values if pair.key == ACTION)


class DriverStates:
    """Listen to `driver_states` (diagnostic_msgs/DiagnosticArray, latched)."""

    def __init__(self, node: RuntimeNode) -> None:
        self._node = node
        self._of_action: dict[str, DriverState] = {}
        node.create_subscription(DiagnosticArray, TOPIC, self._on_states, LATCHED)

    def inactive(self, action: str) -> DriverState | None:
        """Return the driver that serves this action (its full name) if it is known not to be active.

        Without a running lifecycle_manager nothing is known.
        """
        driver = self._of_action.get(action)
        if driver is None or driver.state in ("", "active") or not self._node.count_publishers(TOPIC):
            return None
        return driver

    def active(self, action: str) -> bool:
        """Return whether a driver is known to serve this action (its full name) and to be active."""
        driver = self._of_action.get(action)
        return driver is not None and driver.state == "active"

    def _on_states(self, message: DiagnosticArray) -> None:
        drivers = [DriverState.of(status) for status in message.status]
        self._of_action = {action: driver for driver in drivers for action in driver.actions}


HEARTBEAT_S, REST_S = 0.1, 0.3
"""Time between two heartbeats of a driver with a goal, and of one without."""
HEARTBEAT_TOPIC = "driver_heartbeat"


class ManagedNode(LifecycleNodeMixin, RuntimeNode):
    """Be the base of every driver, in the place of RuntimeNode; `GoalServer` asks it whether goals are taken.

    States as in ROS: unconfigured → inactive → active. While the driver is not active, goals are rejected and the log says
    why. A goal that runs at deactivation is cancelled and ends as aborted with DRIVER_INACTIVE. A driver that has more to
    do at a transition extends `on_configure`, `on_activate` … and calls `super()`.
    `driver_heartbeat` tells its state and actions every 0.1 s, without a goal every 0.3 s, and at each transition.
    """

    def __init__(self, name: str, **options: Any) -> None:
        RuntimeNode.__init__(self, name, **options)
        LifecycleNodeMixin.__init__(self)
        self._change_state = self._service_change_state.callback
        self._service_change_state.callback = self._on_change_state
        self._heartbeats = self.create_publisher(DiagnosticStatus, HEARTBEAT_TOPIC, HEARTBEATS)
        Beat(self, HEARTBEAT_S, REST_S, lambda: any(server.goals for server in self.goal_servers), self._send_heartbeat)
        autostart = self.declare("autostart", True, "activate without being told; false where a lifecycle_manager tells it")
        if autostart:
            self.call_soon(self._activate_alone)  # when the derived class has been built

    @property
    def lifecycle_state(self) -> str:
        """Return unconfigured, inactive, active or finalized, or in between configuring, activating …."""
        return str(self._state_machine.current_state[1])

    @property
    def is_active(self) -> bool:
        return bool(self._state_machine.current_state[0] == State.PRIMARY_STATE_ACTIVE)

    def refuses_goals(self) -> str:
        if self.is_active:
            return ""
        return f"{self.get_fully_qualified_name()} is {self.lifecycle_state}: {HOW_TO_ACTIVATE}"

    def health(self) -> Health:
        return Health(self.lifecycle_state, Level.OK if self.is_active else Level.WARN)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._end_goals("deactivated")
        return super().on_deactivate(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._end_goals("shut down")
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._end_goals("stopped by an error in a transition")
        return super().on_error(state)

    def _on_change_state(self, request: ChangeState.Request, response: ChangeState.Response) -> ChangeState.Response:
        """Answer without success a transition that the state does not have; rclpy raises there, and its caller would wait."""
        try:
            self._change_state(request, response)
        except RCLError as error:
            self.get_logger().warning(f"no transition {request.transition.id} from {self.lifecycle_state}: {error}")
            response.success = False
        self._send_heartbeat()
        return response

    def _activate_alone(self) -> None:
        if self.lifecycle_state == "unconfigured" and self.trigger_configure() is TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()
        self._send_heartbeat()

    def _end_goals(self, what: str) -> None:
        for server in self.goal_servers:
            server.end_all(int(CallCode.DRIVER_INACTIVE), f"the driver {self.get_fully_qualified_name()} was {what}")

    def _send_heartbeat(self) -> None:
        level = DiagnosticStatus.OK if self.is_active else DiagnosticStatus.WARN
        actions = [KeyValue(key=ACTION, value=server.action) for server in self.goal_servers]
        self._heartbeats.publish(
            DiagnosticStatus(level=level, name=self.get_name(), message=self.lifecycle_state, values=actions)
        )
