# SPDX-License-Identifier: Apache-2.0
"""The action server that goes to a waypoint or pose, by a planner of its own or by Nav2."""

from __future__ import annotations

import difflib
import math
import sys
from typing import Any

from geometry_msgs.msg import Pose2D as Pose2DMessage
from ghostshell.action import Drive, NavigateTo
from nav_msgs.msg import Odometry
from sensor_msgs.msg import LaserScan

from ghostshell_ros.drivers.base_driver import BaseDriver
from ghostshell_ros.drivers.grid_navigator import GridNavigator, GridSettings
from ghostshell_ros.drivers.nav2_navigator import Nav2Navigator, Nav2Settings
from ghostshell_ros.drivers.navigator import Destination, Navigator
from ghostshell_ros.drivers.timed_driver import DriverRefusal
from ghostshell_ros.runtime.node import Health, Level
from ghostshell_ros.runtime.node_runtime import run
from ghostshell_ros.wire.values import yaw_of
from skill_kernel.safety.base_gate import Velocity
from skill_kernel.safety.obstacles import Points
from skill_kernel.skills.drivers import Pose2D


class NavigateDriver(BaseDriver):
    """Action `navigate_to` (NavigateTo.action); topics as in BaseDriver, and those of the navigator: GridNavigator for
    `navigation` embedded, Nav2Navigator for nav2. There is no automatic choice, because each has a map frame of its own:
    where the robot started, or where Nav2's localisation puts it.

    A pose whose quaternion is all zeros leaves the heading at the goal open.

    Parameters: `robot` (kalos), `rate_hz` (20), `gate_wait_s` (5.0), `navigation` (embedded), `tolerance_m` (0.15);
    embedded: `resolution_m` (0.05), `map_size_m` (24.0), `map_s` (1.0), `scan_s` (0.2), `margin_m` (0.05),
    `goal_reach_m` (0.4), `no_path_s` (4.0), `blocked_s` (6.0), `replan_s` (2.0);
    nav2: `nav2_action` (navigate_to_pose), `nav2_wait_s` (3.0), `nav2_silence_s` (3.0), `nav2_patience_s` (60.0).
    """

    BUSY = NavigateTo.Goal.NAVIGATION_BUSY
    HALTED_CODE = NavigateTo.Goal.BASE_HALTED
    ODOMETRY_LOST = NavigateTo.Goal.LOCALISATION_LOST
    YIELDS = True

    def __init__(self) -> None:
        super().__init__("navigate_driver", NavigateTo, "navigate_to", other=(Drive, "drive"))
        kind = self.declare(
            "navigation", "embedded", "who finds the way: embedded, or nav2 where it runs", choices=("embedded", "nav2")
        )
        self._tolerance = self.declare(
            "tolerance_m", 0.15, "so near is there, where a goal names no tolerance [m]", minimum=0.03, maximum=2.0
        )
        grid, nav2 = GridSettings.declared(self), Nav2Settings.declared(self)
        self._odom_frame = "odom"
        self._navigator: Navigator = (
            Nav2Navigator(self, nav2, self._send) if kind == "nav2" else GridNavigator(self, self.base, grid, self._seen)
        )

    def _seen(self) -> tuple[Pose2D, Points | None]:
        assert self.pose is not None
        return self.pose, self.points

    @property
    def _map_frame(self) -> str:
        """`map`, with the prefix that the odometry's frame may have."""
        return self._odom_frame.removesuffix("odom") + "map"

    def check(self, request: Any) -> None:
        goal = self._destination(request)
        if not (math.isfinite(goal.x) and math.isfinite(goal.y) and math.isfinite(goal.tolerance) and goal.tolerance >= 0):
            text = f"goal ({goal.x}, {goal.y}) and tolerance {goal.tolerance} must be finite numbers, the tolerance 0 or more"
            raise DriverRefusal(NavigateTo.Goal.BAD_GOAL, text)

    def _destination(self, request: Any) -> Destination:
        """Raises DriverRefusal when there is none such."""
        tolerance = request.tolerance or self._tolerance
        if request.waypoint:
            waypoint = self.robot.waypoints.get(request.waypoint)
            if waypoint is None:
                known = sorted(self.robot.waypoints)
                near = difflib.get_close_matches(request.waypoint, known, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                text = f"there is no waypoint '{request.waypoint[:80]}'{hint} (known: {', '.join(known) or 'none'})"
                raise DriverRefusal(NavigateTo.Goal.UNKNOWN_WAYPOINT, text)
            return Destination(waypoint.x, waypoint.y, waypoint.yaw, tolerance)
        frame = request.pose.header.frame_id.lstrip("/")
        if frame not in ("", "map", self._map_frame):
            text = f"the pose is in frame '{frame}'; give it in 'map'"
            raise DriverRefusal(NavigateTo.Goal.BAD_GOAL, text)
        p, q = request.pose.pose.position, request.pose.pose.orientation
        yaw = yaw_of(q)
        if not math.isfinite(yaw):
            raise DriverRefusal(NavigateTo.Goal.BAD_GOAL, "the pose's orientation is not a number")
        return Destination(p.x, p.y, yaw if any((q.w, q.x, q.y, q.z)) else None, tolerance)

    def begin(self, request: Any) -> None:
        self._navigator.begin(self._destination(request), self._map_frame)

    def step(self, now: float) -> Velocity | None:
        return self._navigator.step(now)

    def ended(self) -> None:
        self._navigator.ended()

    def result(self) -> Any:
        return NavigateTo.Result(**self._where())

    def feedback(self) -> Any:
        return NavigateTo.Feedback(**self._where())

    def _where(self) -> dict[str, Any]:
        pose, left = self._navigator.where()
        if pose is None:
            return {}
        return {"pose": Pose2DMessage(x=pose.x, y=pose.y, theta=pose.yaw), "distance_left": left}

    def located(self, message: Odometry) -> None:
        assert self.pose is not None
        self._odom_frame = message.header.frame_id
        self._navigator.located(self.pose, message, self._map_frame)

    def scanned(self, message: LaserScan) -> None:
        self._navigator.scanned(self.pose, message)

    def health(self) -> Health:
        health, complaint = super().health(), self._navigator.complaint()
        return Health(f"{health.message}; {complaint}", Level.WARN, health.values) if complaint else health

    def close(self) -> None:
        self._navigator.close()
        super().close()


def main() -> int:
    return run(NavigateDriver)


if __name__ == "__main__":
    sys.exit(main())
