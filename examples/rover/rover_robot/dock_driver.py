# SPDX-License-Identifier: Apache-2.0
"""A driver of the rover's own: backs it into its dock, with an action of another package (nav2_msgs/NavigateToPose)."""

from __future__ import annotations

import math
from typing import Any

from nav2_msgs.action import NavigateToPose

from ghostshell_ros.drivers.driver import DriverRefusal
from ghostshell_ros.drivers.moving import Move, MovingDriver
from ghostshell_ros.navigation.motion import StallWatch
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.wire.values import yaw_of
from skill_kernel.safety.base_gate import Velocity

BAD_POSE, TOO_FAR, STUCK = 901, 902, 903
"""Error codes of this driver, which the skill and the model read."""
AIMED_RAD = 0.15
"""The rover turns on the spot until its back points to the dock as well as this."""


class DockDriver(MovingDriver):
    """Action `dock` (nav2_msgs/NavigateToPose): drives backward, straight into a pose of the map frame, without planning.

    Parameters: those of MovingDriver, `speed_mps` (0.15), `reach_m` (0.05), `farthest_m` (3.0), `stall_s` (3.0).
    """

    def __init__(self, name: str = "dock_driver", **options: Any) -> None:
        super().__init__(name, **options)
        self.speed = self.declare("speed_mps", 0.15, "of backing up [m/s]", 0.02, 0.5)
        self.reach = self.declare("reach_m", 0.05, "in the dock so near to its pose [m]", 0.01, 0.5)
        self.farthest = self.declare("farthest_m", 3.0, "it backs up no farther than this [m]", 0.1, 20.0)
        self.stall_s = self.declare("stall_s", 3.0, "without progress for so long, it ends [s]", 0.5, 30.0)
        self.serve(NavigateToPose, "dock", lambda goal: Docking(self, goal))


class Docking(Move):
    """One goal: first turn the back to the dock, then drive, then turn as the pose says."""

    driver: DockDriver

    def __init__(self, driver: DockDriver, goal: Goal) -> None:
        super().__init__(driver, goal)
        pose = goal.request.pose.pose
        self._to = (pose.position.x, pose.position.y, yaw_of(pose.orientation))
        if not all(map(math.isfinite, self._to)):
            raise DriverRefusal(BAD_POSE, f"the dock's pose {self._to} must be finite numbers")
        self._stall = StallWatch(driver.stall_s, 0.02)
        self._there = False

    def begin(self) -> None:
        if self._left() > self.driver.farthest:
            text = f"the dock is {self._left():.1f} m away, more than {self.driver.farthest:g} m: go nearer first"
            raise DriverRefusal(TOO_FAR, text)

    def wish(self, now: float) -> Velocity | None:
        pose, driver = self.driver.pose, self.driver
        assert pose is not None
        x, y, yaw = self._to
        if not self._there and self._left() <= driver.reach:
            self._there, self._stall = True, StallWatch(driver.stall_s, 0.02)
        aim = yaw if self._there else math.atan2(pose.y - y, pose.x - x)
        turn = math.remainder(aim - pose.yaw, math.tau)
        if self._there and abs(turn) < AIMED_RAD / 3:
            return None
        if self._stall.stalled(now, self._left() + abs(turn)):
            text = f"no progress for {driver.stall_s:g} s, {self._left():.2f} m from the dock: is it blocked?"
            raise DriverRefusal(STUCK, text)
        most = driver.base.cruise_turn
        drives = not self._there and abs(turn) < AIMED_RAD
        return Velocity(-driver.speed if drives else 0.0, 0.0, max(-most, min(most, 2.0 * turn)))

    def _left(self) -> float:
        pose = self.driver.pose
        return math.dist(self._to[:2], (pose.x, pose.y)) if pose is not None else 0.0

    def feedback(self) -> NavigateToPose.Feedback:
        return NavigateToPose.Feedback(distance_remaining=self._left())
