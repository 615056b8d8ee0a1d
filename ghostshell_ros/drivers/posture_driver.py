# SPDX-License-Identifier: Apache-2.0
"""The action server for postures and attitudes of a legged base."""

from __future__ import annotations

import difflib
import math
import sys

from geometry_msgs.msg import Vector3
from ghostshell.action import SetPosture
from std_msgs.msg import Bool, String

from ghostshell_ros.drivers.base_driver import TELEOP
from ghostshell_ros.runtime.base_ports import HOLD, POSTURES
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.lifecycle import ManagedNode
from ghostshell_ros.runtime.node_runtime import LATCHED, SET_POINTS, run

FEEDBACK_S = 0.1
STATE_S = 0.2
"""A body that was held says by then whether it had left its posture."""
FREE_S = 0.35
"""The kernel may hear sooner that a halt was cleared or the base given back; a goal waits so long for the same news."""
HALTED = "the safety gate is halted: call clear_halt when it is safe"
Attitude = tuple[float, float, float]


class PostureDriver(ManagedNode):
    """Action `set_posture` (SetPosture.action). A posture first, then the attitude, led there in a straight line.

    Publishes `posture_in` (std_msgs/String, at every tick until it is reached: a base that does not hear it any more stays
    half way, as it does when `hold` is said) and `attitude_in` (geometry_msgs/Vector3: roll, pitch, yaw [rad]) to the gate.
    Subscribes `posture_state` (std_msgs/String, latched: stand, sit, lie, moving), `halted` and `teleop_active`
    (std_msgs/Bool, latched): either ends a goal. An attitude is not measured: it counts as reached when its time is over.
    A cancel holds the body where it is.

    Parameters: `rate_hz` (20), `posture_s` (8.0), `attitude_speed` (0.8), `settle_s` (0.2).
    """

    def __init__(self) -> None:
        super().__init__("posture_driver")
        rate = self.declare("rate_hz", 20.0, "attitudes a second [Hz]", minimum=10.0, maximum=100.0)
        self._posture_s = self.declare("posture_s", 8.0, "a posture must be reached within [s]", minimum=0.5, maximum=60.0)
        self._speed = self.declare(
            "attitude_speed", 0.8, "of an attitude where no duration is given [rad/s]", minimum=0.05, maximum=5.0
        )
        self._settle_s = self.declare(
            "settle_s", 0.2, "until the body has followed the last attitude [s]", minimum=0.0, maximum=2.0
        )
        self._state = ""
        self._halted = self._operator = False
        self._goal: Goal | None = None
        self._deadline = 0.0
        self._told_at = self._held_at = self._free_by = 0.0
        self._at: Attitude = (0.0, 0.0, 0.0)
        self._lead: tuple[float, float, Attitude, Attitude] | None = None
        self._posture = self.create_publisher(String, "posture_in", SET_POINTS)
        self._attitude = self.create_publisher(Vector3, "attitude_in", SET_POINTS)
        self.create_subscription(String, "posture_state", self._on_state, LATCHED)
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        self.create_subscription(Bool, "teleop_active", self._on_teleop, LATCHED)
        self._timer = self.steady_timer(1.0 / rate, self._tick)
        self._timer.cancel()
        self._server = GoalServer(self, SetPosture, "set_posture", on_goal=self._on_goal, on_cancel=self._on_cancel)

    def _on_goal(self, goal: Goal) -> None:
        wished = goal.request
        numbers = (wished.roll, wished.pitch, wished.yaw, wished.duration)
        if self._goal is not None:
            self._refuse(goal, SetPosture.Goal.POSTURE_BUSY, "another goal changes the posture: wait for its end")
        elif wished.posture and wished.posture not in POSTURES:
            near = difflib.get_close_matches(wished.posture, POSTURES, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            text = f"there is no posture '{wished.posture[:40]}'{hint} (known: {', '.join(POSTURES)})"
            self._refuse(goal, SetPosture.Goal.UNKNOWN_POSTURE, text)
        elif not all(map(math.isfinite, numbers)) or wished.duration < 0:
            text = f"roll, pitch, yaw and duration must be finite and the duration 0 or more, not {numbers}"
            self._refuse(goal, SetPosture.Goal.NOT_REACHED, text)
        elif not wished.posture and self._state not in ("stand", ""):
            text = f"an attitude is for a standing body, this one is in '{self._state}': stand first"
            self._refuse(goal, SetPosture.Goal.NOT_REACHED, text)
        else:
            now = self.steady_now()
            self._goal, self._lead = goal, None
            self._deadline, self._told_at, self._free_by = now + self._posture_s, now, now + FREE_S
            self._timer.reset()
            self._tick()

    def _tick(self) -> None:
        goal = self._goal
        if goal is None:
            self._timer.cancel()
            return
        now = self.steady_now()
        if now - self._told_at >= FEEDBACK_S - 1e-3:
            self._told_at = now
            goal.feedback(SetPosture.Feedback(posture=self._state))
        if self._halted or self._operator:
            if now > self._free_by:
                self._end(*self._why_not())
        elif self._lead is None:
            if not goal.request.posture or self._in_posture(now, goal):
                self._begin_attitude(now, goal)
        else:
            self._go_on(now, goal)

    def _in_posture(self, now: float, goal: Goal) -> bool:
        wished = goal.request.posture
        if self._state == wished and now - self._held_at > STATE_S:
            return True
        if now > self._deadline:
            state = f"it is in '{self._state}'" if self._state else "no posture_state was heard: has this robot legs?"
            text = f"'{wished}' was not reached in {self._posture_s:g} s; {state}"
            self._end(SetPosture.Goal.NOT_REACHED, text)
        else:
            self._posture.publish(String(data=wished))
        return False

    def _begin_attitude(self, now: float, goal: Goal) -> None:
        wished = goal.request
        if wished.posture in ("sit", "lie"):
            self._at = (0.0, 0.0, 0.0)
            self._finish()
            goal.succeed(SetPosture.Result())
            return
        aim = (wished.roll, wished.pitch, wished.yaw)
        far = max(abs(a - b) for a, b in zip(aim, self._at, strict=True))
        duration = wished.duration or far / self._speed
        self._lead = (now, duration, self._at, aim)
        self._go_on(now, goal)

    def _go_on(self, now: float, goal: Goal) -> None:
        assert self._lead is not None
        began, duration, start, aim = self._lead
        share = min((now - began) / duration, 1.0) if duration > 0 else 1.0
        at = tuple(a + share * (b - a) for a, b in zip(start, aim, strict=True))
        if at != self._at or share < 1.0:
            self._at = (at[0], at[1], at[2])
            self._attitude.publish(Vector3(x=at[0], y=at[1], z=at[2]))
        if now - began >= duration + (self._settle_s if aim != start else 0.0):
            self._finish()
            goal.succeed(SetPosture.Result())

    def _finish(self) -> None:
        self._goal = None
        self._timer.cancel()

    def _on_cancel(self, goal: Goal) -> None:
        if goal is self._goal:
            self._hold()
            self._finish()
            goal.canceled(SetPosture.Result())

    def _on_state(self, message: String) -> None:
        self._state = message.data
        if message.data in ("sit", "lie"):
            self._at = (0.0, 0.0, 0.0)

    def _on_halted(self, message: Bool) -> None:
        self._halted = message.data
        if message.data:
            self._end(*self._why_not())

    def _on_teleop(self, message: Bool) -> None:
        self._operator = message.data
        if message.data:
            self._end(*self._why_not())

    def _why_not(self) -> tuple[int, str]:
        if self._halted:
            return SetPosture.Goal.BASE_HALTED, HALTED
        return SetPosture.Goal.POSTURE_BUSY, TELEOP

    def _end(self, code: int, text: str) -> None:
        goal = self._goal
        if goal is not None:
            self._hold()
            self._finish()
            self._refuse(goal, code, text)

    def _hold(self) -> None:
        self._held_at = self.steady_now()
        self._posture.publish(String(data=HOLD))

    @staticmethod
    def _refuse(goal: Goal, code: int, text: str) -> None:
        goal.abort(SetPosture.Result(error_code=code, error_msg=text))


def main() -> int:
    return run(PostureDriver)


if __name__ == "__main__":
    sys.exit(main())
