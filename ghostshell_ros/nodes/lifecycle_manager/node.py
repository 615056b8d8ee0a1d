# SPDX-License-Identifier: Apache-2.0
"""Node `lifecycle_manager`: configure and activate a robot's drivers, and halt the robot when one of them vanishes."""

from __future__ import annotations

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
"""Number of looks for each driver's heartbeat within `heartbeat_timeout_s`."""
ASK_AGAIN_S = 0.5
"""Time after which a transition that the driver's heartbeat does not show is asked for again: a message may be lost."""
REFUSED_S = 2.0
"""Time after which a driver that refused a transition is asked again."""
TOGETHER_S = 0.1

_NEXT = {"unconfigured": Transition.TRANSITION_CONFIGURE, "inactive": Transition.TRANSITION_ACTIVATE}


@dataclass
class _Driver:
    name: str
    client: ServiceClient
    state: str = ""
    unheard: int = 0
    wanted: bool = True
    """False once a person deactivated it; until they activate it, or a halt is cleared."""
    actions: tuple[str, ...] = ()
    asked: int = -1
    ask_at: float = 0.0


class LifecycleManager(RuntimeNode):
    """Configure and activate each driver in a robot's file as soon as the safety gate says that it is not halted.

    So nothing is active without a gate. There is one manager a robot.

    An active driver that dies, during a call or not, halts the robot: nobody knows why it died and what it left undone, it
    is started again within a second, and the next call would move a robot that somebody may be looking at from near. It
    comes back unconfigured and stays so until a person clears the halt. The gate holds the joints after 0.2 s of silence and
    the kernel fails the call after 0.6 s; the latched halt comes after `heartbeat_timeout_s`. A driver that a person
    deactivates stays as it is and halts nothing.

    Subscribes `driver_heartbeat` (diagnostic_msgs/DiagnosticStatus) and `halted` (std_msgs/Bool, latched); publishes
    `driver_states` (diagnostic_msgs/DiagnosticArray, latched, on every change: name, message = unconfigured, inactive,
    active, … or lost, values = its actions and why it is not active; see `DriverState`) and `events`. Client of
    `<driver>/change_state` and of `halt` (std_srvs/Trigger).
    """

    own_thread = True

    def __init__(self) -> None:
        super().__init__("lifecycle_manager")
        robot = self.declare("robot", "", "robot whose drivers: to manage, a name or file; empty: every driver that is heard")
        timeout_s = self.declare("heartbeat_timeout_s", 1.0, "silence of a driver that halts the robot [s]", 0.7, 10.0)
        self._timeout_s = timeout_s
        self._drivers: dict[str, _Driver] = {}
        self._named: frozenset[str] = frozenset()
        if robot:
            drivers = RobotConfig.load(robot).drivers
            self._named = frozenset(drivers)
            for name, driver in drivers.items():
                if driver.node:  # one without is managed once it is heard, if it is a managed node
                    self._add(name)
        self._halted: bool | None = None
        self._silence = gate_silence(self)
        self._vanished_drivers: dict[str, list[str]] = {}
        self._events = EventWriter(self, Notice)
        self._states = self.create_publisher(DiagnosticArray, TOPIC, LATCHED)
        self._halt = HaltClient(self)
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        self.create_subscription(DiagnosticStatus, HEARTBEAT_TOPIC, self._on_heartbeat, HEARTBEATS)
        self.steady_timer(timeout_s / CHECKS, self._check)

    def _add(self, name: str) -> _Driver:
        driver = _Driver(name, ServiceClient(self, ChangeState, f"{name}/change_state"))
        self._drivers[name] = driver
        return driver

    def _on_heartbeat(self, message: DiagnosticStatus) -> None:
        driver = self._drivers.get(message.name)
        if driver is None:
            if self._named:
                return
            driver = self._add(message.name)
        driver.unheard = 0
        driver.actions = actions_of(message)
        before, driver.state = driver.state, message.message
        if before != driver.state:
            if before == "active" and driver.state in ("unconfigured", "configuring"):
                # Deactivated by a person it would have been inactive first.
                self._vanished(driver, "was restarted")
            elif before == "active":
                driver.wanted = False
                self.get_logger().info(f"{driver.name} is {driver.state} now, by somebody else; it is left so")
            elif driver.state == "active":
                driver.wanted = True
            driver.asked = -1
            self._publish()
        self._advance(driver)

    def _check(self) -> None:
        """Count checks, not seconds: after a stall of this node old beats are found in its queue first."""
        if self._halted is None and (silence := gate_silence(self)) != self._silence:
            self._silence = silence
            self._publish()
        for driver in self._drivers.values():
            driver.unheard += 1
            if driver.unheard > CHECKS and driver.state not in ("", LOST):
                before, driver.state = driver.state, LOST
                if before == "active":
                    self._vanished(driver, f"silent for {self._timeout_s:g} s, died or hangs")
                self._publish()

    def _vanished(self, driver: _Driver, what: str) -> None:
        if not self._halted:
            self._halt.halt()
        if not self._vanished_drivers:
            self.call_later(TOGETHER_S, self._report_vanished)
        self._vanished_drivers.setdefault(what, []).append(driver.name)
        # Drivers of one process die together, but their last beats lie apart. Found one by one, each would halt the robot,
        # also after a person cleared the halt for the first.
        for other in self._drivers.values():
            if other.state == "active" and other.unheard > CHECKS // 2:
                other.state = LOST
                self._vanished_drivers.setdefault(f"silent for {self._timeout_s / 2:g} s or longer", []).append(other.name)

    def _report_vanished(self) -> None:
        gone, self._vanished_drivers = self._vanished_drivers, {}
        which = "; ".join(f"{', '.join(names)} {what}" for what, names in gone.items())
        text = f"an active driver vanished: {which}. Inactive until the halt is cleared; look at the robot, then {CLEAR_HINT}"
        self.get_logger().error(text)
        self._events.write(Notice(error_code=CallCode.DRIVER_LOST, error_msg=text))

    def _on_halted(self, message: Bool) -> None:
        if message.data:
            self._halt.confirmed()
        elif self._halted:
            for driver in self._drivers.values():
                driver.wanted = True
        self._halted = message.data
        self._publish()
        for driver in self._drivers.values():
            self._advance(driver)

    def _advance(self, driver: _Driver) -> None:
        """Ask for the next transition on the way to active, if there is one and now is the time."""
        transition = _NEXT.get(driver.state)
        if transition is None or not driver.wanted or self._halted is not False or self._halt.asking:
            return
        now = self.steady_now()
        if (driver.asked == transition and now < driver.ask_at) or not driver.client.discovered():
            return
        driver.asked, driver.ask_at = transition, now + ASK_AGAIN_S
        request = ChangeState.Request(transition=Transition(id=transition))
        driver.client.ask(request, lambda response: self._answered(driver, transition, response), deadline_s=2 * REFUSED_S)

    def _answered(self, driver: _Driver, transition: int, response: Any) -> None:
        if response is not None and not response.success and driver.asked == transition:
            driver.ask_at = self.steady_now() + REFUSED_S
            what = "be configured" if transition == Transition.TRANSITION_CONFIGURE else "be activated"
            self.get_logger().error(f"{driver.name} refused to {what}: see its log; asked again in {REFUSED_S:g} s")

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
        elif not driver.wanted:
            why = "a person deactivated it; activate it by hand (ros2 lifecycle set)"
        elif self._halted is None:
            why, coming = self._silence, True
        elif self._halted or self._halt.asking:
            why = f"the robot is halted; {CLEAR_HINT}"
        else:
            why, coming = "it is being activated; ask again", True
        return DriverState(driver.name, driver.state, driver.actions, why, coming)

    def health(self) -> Health:
        states = {driver.name: driver.state or "not heard yet" for driver in self._drivers.values()}
        if lost := [name for name, state in states.items() if state == LOST]:
            return Health(f"{', '.join(lost)} died or hangs", Level.ERROR, states)
        if off := [name for name, state in states.items() if state != "active"]:
            why = "; the robot is halted" if self._halted else f"; {self._silence}" if self._halted is None else ""
            return Health(f"not active: {', '.join(off)}{why}", Level.WARN, states)
        return Health(f"{len(states)} drivers active" if states else "no driver was heard", values=states)
