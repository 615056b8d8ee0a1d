# SPDX-License-Identifier: Apache-2.0
"""Node `lifecycle_manager`: configure and activate a robot's drivers, and halt the robot when one of them vanishes."""

from dataclasses import dataclass
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from std_msgs.msg import Bool

from ghostshell_ros.runtime.lifecycle import HEARTBEAT_TOPIC, LOST, TOPIC, DriverState, actions_of, gate_silence
from ghostshell_ros.runtime.node import Health, Level, RuntimeNode
from ghostshell_ros.runtime.service_client import HaltClient, ServiceClient
from ghostshell_ros.wire.events import CLEAR_HINT, EventWriter
from ghostshell_ros.wire.qos import HEARTBEATS, LATCHED
from skill_kernel.codes import CallCode
from skill_kernel.events import Notice
from skill_kernel.robot import RobotConfig

CHECKS = 10
"""Number of checks for each driver's heartbeat within `heartbeat_timeout_s`."""
RETRY_S = 0.5
"""Retry period for a transition not yet shown by the heartbeat, since a message may be lost."""
REFUSED_S = 2.0
"""Time after which a driver that refused a transition is asked again."""
REPORT_DELAY_S = 0.1
"""Time in which lost drivers are collected into one report."""

_NEXT = {"unconfigured": Transition.TRANSITION_CONFIGURE, "inactive": Transition.TRANSITION_ACTIVATE}


@dataclass
class _Driver:
    name: str
    client: ServiceClient
    state: str = ""
    missed_checks: int = 0
    wanted: bool = True
    """False after a person deactivates the driver, until it is activated or a halt is cleared."""
    actions: tuple[str, ...] = ()
    requested_transition: int | None = None
    retry_at_s: float = 0.0


class LifecycleManager(RuntimeNode):
    """Configure and activate each driver in a robot's file as soon as the safety gate says that it is not halted.

    No driver is activated before a gate was heard, or from 5 s after its death. Run one manager per robot.

    An active driver that falls silent, restarts, or leaves `active` in another way than by deactivation halts the robot: the
    cause and the unfinished motion are unknown, a dead driver restarts within a second, and the next call could move a robot
    that a person is inspecting. After a restart it stays unconfigured until a person clears the halt; a driver that only hung
    is still active. The gate holds the joints after 0.2 s of silence and the kernel fails the call after 0.7 s; the latched
    halt comes after `heartbeat_timeout_s`. A driver that a person deactivates halts nothing, and stays inactive until that
    person activates it, a halt is cleared, or the manager restarts.
    """

    own_thread = True

    def __init__(self) -> None:
        super().__init__("lifecycle_manager")
        robot = self.declare("robot", "", "robot whose `drivers:` are managed, by name or file; empty: all drivers heard")
        self._timeout_s = self.declare("heartbeat_timeout_s", 1.0, "silence of a driver that halts the robot [s]", 0.7, 10.0)
        self._drivers: dict[str, _Driver] = {}
        drivers = RobotConfig.load(robot).drivers if robot else {}
        self._named = bool(drivers)
        for name, driver in drivers.items():
            if driver.node:  # drivers without a node are not managed
                self._add(name)
        self._halted: bool | None = None
        self._silence = gate_silence(self)
        self._lost_by_cause: dict[str, list[str]] = {}
        self._events = EventWriter(self, Notice)
        self._states = self.create_publisher(DiagnosticArray, TOPIC, LATCHED)
        self._halt = HaltClient(self, lambda: self._halted)
        self._gate = self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        self.create_subscription(DiagnosticStatus, HEARTBEAT_TOPIC, self._on_heartbeat, HEARTBEATS)
        self.steady_timer(self._timeout_s / CHECKS, self._check)

    def _add(self, name: str) -> _Driver:
        driver = _Driver(name, ServiceClient(self, ChangeState, f"{name}/change_state"))
        self._drivers[name] = driver
        return driver

    def _on_heartbeat(self, message: DiagnosticStatus) -> None:
        if self._named and message.name not in self._drivers:
            return
        driver = self._drivers.get(message.name) or self._add(message.name)
        driver.missed_checks = 0
        driver.actions = actions_of(message)
        before, driver.state = driver.state, message.message
        if before != driver.state:
            if before == "active" and driver.state in ("deactivating", "inactive"):
                driver.wanted = False
                self.get_logger().info(f"{driver.name} was set to {driver.state} externally; leaving it")
            elif before == "active":
                # Deactivated by a person it would have been inactive first.
                self._handle_loss(driver, f"failed, restarted or was shut down (now {driver.state})")
            elif driver.state == "active":
                driver.wanted = True
            driver.requested_transition = None
            self._publish()
        self._advance(driver)

    def _check(self) -> None:
        """Count checks, not seconds: after a stall, queued heartbeats are read before the driver counts as lost."""
        if self._halted is not None and not self.count_publishers("halted"):
            self._halted = None
            # A gate that was only unreachable sends its latched state again to a new subscription, not to the old one.
            self.destroy_subscription(self._gate)
            self._gate = self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        silence = gate_silence(self) if self._halted is None else ""
        if silence != self._silence:
            self._silence = silence
            self._publish()
        for driver in self._drivers.values():
            driver.missed_checks += 1
            if driver.missed_checks > CHECKS and driver.state not in ("", LOST):
                before, driver.state = driver.state, LOST
                if before == "active":
                    self._handle_loss(driver, f"silent for {self._timeout_s:g} s, died or hangs")
                self._publish()

    def _handle_loss(self, driver: _Driver, cause: str) -> None:
        # Also when `halted` was heard: the gate may have been cleared just now.
        self._halt.halt(f"{self.get_name()}: {driver.name} {cause}")
        if not self._lost_by_cause:
            self.call_later(REPORT_DELAY_S, self._report_loss)
        self._lost_by_cause.setdefault(cause, []).append(driver.name)
        # Drivers of one process die together, but their last heartbeats differ in time. Found one by one, each would halt
        # the robot, also after a person cleared the halt for the first.
        for other in self._drivers.values():
            if other.state == "active" and other.missed_checks > CHECKS // 2:
                other.state = LOST
                self._lost_by_cause.setdefault(f"silent for {self._timeout_s / 2:g} s or longer", []).append(other.name)

    def _report_loss(self) -> None:
        lost, self._lost_by_cause = self._lost_by_cause, {}
        which = "; ".join(f"{', '.join(names)} {cause}" for cause, names in lost.items())
        text = f"an active driver was lost: {which}. The robot is halted; look at it, then {CLEAR_HINT}"
        self.get_logger().error(text)
        self._events.write(Notice(error_code=CallCode.DRIVER_LOST, error_msg=text))

    def _on_halted(self, message: Bool) -> None:
        if message.data:
            self._halt.confirmed()
        elif self._halted:
            for driver in self._drivers.values():
                driver.wanted = True
        self._halted, self._silence = message.data, ""
        self._publish()
        for driver in self._drivers.values():
            self._advance(driver)

    def _advance(self, driver: _Driver) -> None:
        """Ask for the next transition on the way to active, if there is one and now is the time."""
        transition = _NEXT.get(driver.state)
        if transition is None or not driver.wanted or self._halted is not False or self._halt.asking:
            return
        now = self.steady_now()
        if (driver.requested_transition == transition and now < driver.retry_at_s) or not driver.client.discovered():
            return
        driver.requested_transition, driver.retry_at_s = transition, now + RETRY_S
        request = ChangeState.Request(transition=Transition(id=transition))
        driver.client.ask(request, lambda response: self._answered(driver, transition, response), deadline_s=2 * REFUSED_S)

    def _answered(self, driver: _Driver, transition: int, response: Any) -> None:
        if response is not None and not response.success and driver.requested_transition == transition:
            driver.retry_at_s = self.steady_now() + REFUSED_S
            self.get_logger().error(f"{driver.name} stays {driver.state}: see its log; asked again in {REFUSED_S:g} s")

    def _publish(self) -> None:
        message = DiagnosticArray(status=[self._state(driver).status() for driver in self._drivers.values()])
        message.header.stamp = self.get_clock().now().to_msg()
        self._states.publish(message)

    def _state(self, driver: _Driver) -> DriverState:
        if driver.state in ("", "active"):
            return DriverState(driver.name, driver.state, driver.actions)
        coming = False
        if driver.state == LOST:
            why = "it died or hangs; see its log, start it again, then clear the halt"
        elif driver.state == "finalized":
            why = "it was shut down or has failed; see its log, start it again, then clear the halt if there is one"
        elif not driver.wanted:
            why = "a person deactivated it; activate it by hand (ros2 lifecycle set)"
        elif self._halted is None:
            why, coming = self._silence, True
        elif self._halted or self._halt.asking:
            why = f"the robot is halted; {CLEAR_HINT}"
        elif driver.state in ("unconfigured", "configuring", "inactive", "activating"):
            why, coming = "it is being activated; ask again", True
        else:
            why = "it fails or is being set to another state externally; see its log"
        return DriverState(driver.name, driver.state, driver.actions, why, coming)

    def health(self) -> Health:
        states = {driver.name: driver.state or "not heard yet" for driver in self._drivers.values()}
        if lost := [name for name, state in states.items() if state == LOST]:
            return Health(f"{', '.join(lost)} died or hangs", Level.ERROR, states)
        if off := [name for name, state in states.items() if state != "active"]:
            why = "; the robot is halted" if self._halted else f"; {self._silence}" if self._silence else ""
            return Health(f"not active: {', '.join(off)}{why}", Level.WARN, states)
        return Health(f"{len(states)} drivers active" if states else "no driver was heard", values=states)
