# SPDX-License-Identifier: Apache-2.0
"""What is known of the robot's drivers: which is active, which not and why, as lifecycle_manager tells it (`driver_states`)."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from ghostshell_ros.runtime.node_runtime import LATCHED, RuntimeNode

TOPIC = "driver_states"
ACTION = "action"
"""Key of a value of a driver's DiagnosticStatus: the full name of an action that it serves."""
LOST = "lost"
_WHY, _COMING = "why", "coming up"


@dataclass(frozen=True)
class DriverState:
    """One driver: its lifecycle state, or `lost`; the actions it serves; while it is not active, why, and whether it may
    become so at any moment without a person's doing: a call waits for it, within its deadline."""

    name: str
    state: str
    actions: tuple[str, ...] = ()
    why: str = ""
    coming_up: bool = False

    def status(self) -> DiagnosticStatus:
        """As a message."""
        bad = DiagnosticStatus.ERROR if self.state == LOST else DiagnosticStatus.WARN
        level = DiagnosticStatus.OK if self.state == "active" else bad
        values = [KeyValue(key=ACTION, value=action) for action in self.actions]
        values += [KeyValue(key=_WHY, value=self.why)] if self.why else []
        values += [KeyValue(key=_COMING, value="true")] if self.coming_up else []
        return DiagnosticStatus(level=level, name=self.name, message=self.state, values=values)

    @classmethod
    def of(cls, status: DiagnosticStatus) -> DriverState:
        """From a message."""
        more = {pair.key: pair.value for pair in status.values}
        return cls(status.name, status.message, actions_of(status), more.get(_WHY, ""), _COMING in more)


def actions_of(status: DiagnosticStatus) -> tuple[str, ...]:
    """The actions a driver serves, from its heartbeat or its state."""
    return tuple(pair.value for pair in status.values if pair.key == ACTION)


class DriverStates:
    """Listens to `driver_states` (diagnostic_msgs/DiagnosticArray, latched)."""

    def __init__(self, node: RuntimeNode) -> None:
        self._node = node
        self._of_action: dict[str, DriverState] = {}
        node.create_subscription(DiagnosticArray, TOPIC, self._on_states, LATCHED)

    def inactive(self, action: str) -> DriverState | None:
        """The driver that serves this action (its full name) if it is known not to be active. Without a lifecycle_manager
        nothing is known, and what one has told counts no more when it is gone."""
        driver = self._of_action.get(action)
        if driver is None or driver.state in ("", "active") or not self._node.count_publishers(TOPIC):
            return None
        return driver

    def _on_states(self, message: DiagnosticArray) -> None:
        drivers = [DriverState.of(status) for status in message.status]
        self._of_action = {action: driver for driver in drivers for action in driver.actions}
