# SPDX-License-Identifier: Apache-2.0
"""The action server for moves of a base relative to where it stands, closed over odometry."""

from __future__ import annotations

import sys
from typing import Any

from ghostshell.action import Drive, NavigateTo

from ghostshell_ros.drivers.base_driver import BaseDriver
from ghostshell_ros.drivers.timed_driver import DriverRefusal
from ghostshell_ros.navigation.drive_motion import DriveError, DriveMotion, DriveTolerance
from ghostshell_ros.navigation.stall import StallWatch, in_the_way
from ghostshell_ros.runtime.node_runtime import run
from skill_kernel.safety.base_gate import Velocity
from skill_kernel.skills.drivers import Pose2D

PROGRESS_M = 0.02
"""What is left must shrink by so much within `stall_s`."""


class DriveDriver(BaseDriver):
    """Action `drive` (Drive.action); topics as in BaseDriver. A base with `max_lateral` above 0 goes straight to the place
    while it turns; one without drives first and then turns, and refuses a lateral way.

    Parameters: `robot` (kalos), `rate_hz` (20), `gate_wait_s` (5.0), `stall_s` (2.5), `tolerance_m` (0.03),
    `tolerance_rad` (0.03), `creep_mps` (0.08), `creep_radps` (0.15), `max_distance_m` (20), `max_turn_rad` (13).
    """

    BUSY = Drive.Goal.BASE_BUSY
    HALTED_CODE = Drive.Goal.BASE_HALTED
    ODOMETRY_LOST = Drive.Goal.ODOMETRY_LOST

    def __init__(self) -> None:
        super().__init__("drive_driver", Drive, "drive", other=(NavigateTo, "navigate_to"))
        self._stall_s = self.declare("stall_s", 2.5, "without progress for so long, a goal ends [s]", minimum=0.5, maximum=30.0)
        self._tolerance = DriveTolerance(
            linear=self.declare("tolerance_m", 0.03, "a way is done so near to its end [m]", minimum=0.005, maximum=0.5),
            angular=self.declare("tolerance_rad", 0.03, "a turn is done so near to its end [rad]", minimum=0.005, maximum=0.5),
            creep_linear=self.declare("creep_mps", 0.08, "least speed near the end [m/s]", minimum=0.01, maximum=0.5),
            creep_angular=self.declare("creep_radps", 0.15, "least turn near the end [rad/s]", minimum=0.01, maximum=1.0),
        )
        self._max_distance = self.declare("max_distance_m", 20.0, "longest way of a goal [m]", minimum=0.1, maximum=1000.0)
        self._max_turn = self.declare("max_turn_rad", 13.0, "largest turn of a goal [rad]", minimum=0.1, maximum=100.0)
        self._motion: DriveMotion | None = None
        self._stall = StallWatch(self._stall_s, PROGRESS_M)

    def check(self, request: Any) -> None:
        self._made(request, Pose2D(0.0, 0.0, 0.0))
        if max(abs(request.distance), abs(request.lateral)) > self._max_distance:
            text = f"a way of {request.distance:.2f}, {request.lateral:.2f} m is longer than {self._max_distance:g} m allow"
            raise DriverRefusal(Drive.Goal.BAD_GOAL, text)
        if abs(request.turn) > self._max_turn:
            text = f"a turn of {request.turn:.2f} rad is larger than {self._max_turn:g} rad allow"
            raise DriverRefusal(Drive.Goal.BAD_GOAL, text)

    def begin(self, request: Any) -> None:
        assert self.pose is not None
        self._motion = self._made(request, self.pose)
        self._stall = StallWatch(self._stall_s, PROGRESS_M)

    def _made(self, request: Any, start: Pose2D) -> DriveMotion:
        try:
            return DriveMotion(
                self.base,
                start,
                distance=request.distance,
                lateral=request.lateral,
                turn=request.turn,
                max_linear=request.max_linear,
                max_angular=request.max_angular,
                tolerance=self._tolerance,
            )
        except DriveError as error:
            raise DriverRefusal(Drive.Goal.BAD_GOAL, str(error)) from error

    def step(self, now: float) -> Velocity | None:
        assert self._motion is not None and self.pose is not None
        wish = self._motion.step(self.pose)
        if wish is not None and self._stall.stalled(now, self._motion.left):
            moved = self._motion.moved
            done = f"moved {moved.x:.2f} m ahead, {moved.y:.2f} m left, turned {moved.yaw:.2f} rad"
            obstacle = in_the_way(self.base, self.points, wish)
            if obstacle is not None:
                text = f"something {obstacle.described()} blocks the way; {done}"
                raise DriverRefusal(Drive.Goal.BLOCKED, text)
            text = f"the base has not followed for {self._stall_s:g} s ({done}): does it stand, and is it free?"
            raise DriverRefusal(Drive.Goal.NOT_MOVING, text)
        return wish

    def ended(self) -> None:
        self._motion = None

    def result(self) -> Any:
        return Drive.Result(**self._way_made())

    def feedback(self) -> Any:
        return Drive.Feedback(**self._way_made())

    def _way_made(self) -> dict[str, float]:
        if self._motion is None or self.pose is None:
            return {}
        self._motion.step(self.pose)
        moved = self._motion.moved
        return {"distance": moved.x, "lateral": moved.y, "turn": moved.yaw}


def main() -> int:
    return run(DriveDriver)


if __name__ == "__main__":
    sys.exit(main())
