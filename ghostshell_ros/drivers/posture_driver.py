# SPDX-License-Identifier: Apache-2.0
"""Bring a legged base into postures and attitudes."""

import math
from typing import Any

from geometry_msgs.msg import Vector3
from ghostshell.action import SetPosture
from std_msgs.msg import String

from ghostshell_ros.drivers.driver import Driver, DriverRefusal, Job
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.wire.qos import LATCHED, SET_POINTS
from skill_kernel.config.sections import nearest
from skill_kernel.safety.base_gate import HOLD, POSTURES

STATE_S = 0.2
"""Time within which a body that was held says whether it had left its posture."""
Attitude = tuple[float, float, float]
LEVEL: Attitude = (0.0, 0.0, 0.0)


class PostureDriver(Driver):
    """Serve the action `set_posture` (SetPosture.action): first a posture, then the attitude, led there in a straight line.

    A posture is published at every step until it is reached: a base that does not hear it any more stays half way, as it
    does when `hold` is said. Before the body sits or lies down it is led level, because a base keeps its attitude. A halt
    and an operator end a goal, a cancel holds the body where it is. An attitude is not measured: it counts as reached when
    its time is over.
    """

    def __init__(self, name: str = "posture_driver", **options: Any) -> None:
        super().__init__(name, **options)
        self.rate_hz = self.declare("rate_hz", 20.0, "attitudes a second [Hz]", 10.0, 100.0)
        self.posture_s = self.declare("posture_s", 8.0, "a posture must be reached within [s]", 0.5, 60.0)
        self.speed = self.declare("attitude_speed", 0.8, "of an attitude where no duration is given [rad/s]", 0.05, 5.0)
        self.settle_s = self.declare("settle_s", 0.2, "until the body has followed the last attitude [s]", 0.0, 2.0)
        self.state = ""
        """Posture that the base told last, "" before the first."""
        self.held_at = 0.0
        """Steady time at which a body was held last."""
        self.at = LEVEL
        """Attitude that was published last."""
        self.posture = self.create_publisher(String, "posture_in", SET_POINTS)
        self.attitude = self.create_publisher(Vector3, "attitude_in", SET_POINTS)
        self.create_subscription(String, "posture_state", self._on_state, LATCHED)
        self.watch_gate()
        self.serve(SetPosture, "set_posture", self._begin)

    def _begin(self, goal: Goal) -> Job:
        wished = goal.request
        numbers = (wished.roll, wished.pitch, wished.yaw, wished.duration)
        if self.jobs:
            raise DriverRefusal(SetPosture.Goal.POSTURE_BUSY, "another goal changes the posture: wait for its end")
        if wished.posture and wished.posture not in POSTURES:
            hint = nearest(wished.posture, POSTURES)
            text = f"there is no posture '{wished.posture[:40]}'{hint} (known: {', '.join(POSTURES)})"
            raise DriverRefusal(SetPosture.Goal.UNKNOWN_POSTURE, text)
        if not all(map(math.isfinite, numbers)) or wished.duration < 0:
            text = f"roll, pitch, yaw and duration must be finite and the duration 0 or more, not {numbers}"
            raise DriverRefusal(SetPosture.Goal.NOT_REACHED, text)
        if not wished.posture and self.state not in ("stand", ""):
            text = f"an attitude is for a standing body, this one is in '{self.state}': stand first"
            raise DriverRefusal(SetPosture.Goal.NOT_REACHED, text)
        return _Posture(self, goal)

    def _on_state(self, message: String) -> None:
        self.state = message.data


class _Posture(Job):
    driver: PostureDriver

    def __init__(self, driver: PostureDriver, goal: Goal) -> None:
        super().__init__(driver, goal)
        self._lead: tuple[float, float, Attitude] | None = None
        """Steady time at which the way of the attitude began, its duration in s, and where it began."""
        self._led = False
        """True once the attitude is where it is to be."""
        self._free = False
        """True once it has begun, with the base free; a halt or an operator then ends it at once."""

    def step(self, now: float) -> bool:
        wished = self.goal.request
        halted, busy = SetPosture.Goal.BASE_HALTED, SetPosture.Goal.POSTURE_BUSY
        if self.held_back(now, begun=self._free, halted=halted, busy=busy):
            return False
        self._free = True
        if wished.posture in ("sit", "lie"):
            return self._has_led(now, LEVEL) and self._in_posture(now, wished.posture)
        if self._lead is None and wished.posture and not self._in_posture(now, wished.posture):
            return False
        return self._has_led(now, (wished.roll, wished.pitch, wished.yaw), wished.duration)

    def _in_posture(self, now: float, wished: str) -> bool:
        driver = self.driver
        if not driver.count_publishers("posture_state"):
            driver.state = ""  # who told it has gone
        if driver.state == wished and now - driver.held_at > STATE_S:
            return True
        if now > self.begun_at + driver.posture_s:
            state = f"it is in '{driver.state}'" if driver.state else "no posture_state was heard: has this robot legs?"
            text = f"'{wished}' was not reached in {driver.posture_s:g} s; {state}"
            raise DriverRefusal(SetPosture.Goal.NOT_REACHED, text)
        driver.posture.publish(String(data=wished))
        return False

    def _has_led(self, now: float, aim: Attitude, duration: float = 0.0) -> bool:
        """Publish the next attitude on the way to `aim`, and return whether the body has followed to its end.

        A duration of 0 stands for the one that the driver's speed needs.
        """
        if self._led:
            return True
        driver = self.driver
        if self._lead is None:
            far = max(abs(a - b) for a, b in zip(aim, driver.at, strict=True))
            self._lead = (now, duration or far / driver.speed, driver.at)
        began, duration, start = self._lead
        share = min((now - began) / duration, 1.0) if duration > 0 else 1.0
        roll, pitch, yaw = (a + share * (b - a) for a, b in zip(start, aim, strict=True))
        driver.at = (roll, pitch, yaw)
        driver.attitude.publish(Vector3(x=roll, y=pitch, z=yaw))
        self._led = now - began >= duration + (driver.settle_s if aim != start else 0.0)
        return self._led

    def feedback(self) -> SetPosture.Feedback:
        return SetPosture.Feedback(posture=self.driver.state)

    def ended(self) -> None:
        if not self.done:
            self.driver.held_at = self.driver.steady_now()
            self.driver.posture.publish(String(data=HOLD))
