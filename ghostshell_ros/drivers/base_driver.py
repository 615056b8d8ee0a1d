# SPDX-License-Identifier: Apache-2.0
"""Drive a mobile base: moves relative to where it stands, and ways to a waypoint or pose, one goal at a time."""

import math
from functools import partial
from typing import Any

from ghostshell.action import Drive, NavigateTo

from ghostshell_ros.drivers.driver import DriverRefusal
from ghostshell_ros.drivers.moving import Move, MovingDriver
from ghostshell_ros.drivers.navigators import GridNavigator, Nav2Navigator, Navigator
from ghostshell_ros.navigation.motion import DriveMotion, StallWatch, in_the_way
from ghostshell_ros.navigation.trip import Destination
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.node import Health, Level
from ghostshell_ros.wire.values import yaw_of
from skill_kernel.config.sections import nearest
from skill_kernel.safety.base_gate import Velocity
from skill_kernel.safety.plausibility import JUMP_M, JUMP_RAD

PROGRESS_M = 0.02
"""Progress that a move has to make within `stall_s`."""


class BaseDriver(MovingDriver):
    """Serve the actions `drive` (Drive.action) and `navigate_to` (NavigateTo.action).

    Topics are those of MovingDriver and of the navigator: GridNavigator for `navigation` embedded, Nav2Navigator for nav2.
    There is no automatic choice, because each has a map frame of its own: where the robot started, or where Nav2's
    localisation puts it.

    A base with `max_lateral` above 0 goes straight to the place while it turns; one without drives first and then turns,
    and refuses a lateral way. A pose whose quaternion is all zeros leaves the heading at the goal open.
    """

    def __init__(self, name: str = "base_driver", **options: Any) -> None:
        super().__init__(name, **options)
        self.stall_s = self.declare("stall_s", 2.5, "time without progress that ends a move [s]", 0.5, 30.0)
        self.max_distance = self.declare("max_distance_m", 20.0, "longest way of a move [m]", 0.1, 1000.0)
        self.max_turn = self.declare("max_turn_rad", 13.0, "largest turn of a move [rad]", 0.1, 100.0)
        kind = self.declare(
            "navigation", "embedded", "who finds the way: embedded, or nav2 where it runs", choices=("embedded", "nav2")
        )
        self.tolerance = self.declare("tolerance_m", 0.15, "tolerance where a goal names none [m]", 0.03, 2.0)
        # Both are declared whoever navigates, because one file has the parameters of both.
        grid = partial(
            GridNavigator,
            resolution_m=self.declare("resolution_m", 0.05, "edge of a map cell [m]", 0.02, 0.2),
            map_size_m=self.declare("map_size_m", 24.0, "edge of the map that goes with the robot [m]", 4.0, 60.0),
            no_path_s=self.declare("no_path_s", 4.0, "how long to look for a path [s]", 0.5, 60.0),
            blocked_s=self.declare("blocked_s", 6.0, "time without progress that ends a way [s]", 1.0, 60.0),
        )
        nav2 = partial(
            Nav2Navigator,
            action=self.declare("nav2_action", "navigate_to_pose", "Nav2's action; a relative name is the robot's"),
            wait_s=self.declare("nav2_wait_s", 3.0, "how long a goal waits for Nav2 to appear [s]", 0.0, 30.0),
            silence_s=self.declare("nav2_silence_s", 3.0, "silence of Nav2 that ends a goal [s]", 0.5, 30.0),
            patience_s=self.declare(
                "nav2_patience_s", 60.0, "time without progress that ends a goal, recoveries included [s]", 1.0, 600.0
            ),
        )
        self.navigator: Navigator = nav2(self) if kind == "nav2" else grid(self)
        self.serve(Drive, "drive", lambda goal: _Drive(self, goal))
        self.serve(NavigateTo, "navigate_to", lambda goal: _Navigate(self, goal))

    def health(self) -> Health:
        health, complaint = super().health(), self.navigator.complaint()
        return Health(f"{health.message}; {complaint}", Level.WARN, health.values) if complaint else health

    def close(self) -> None:
        self.navigator.close()
        super().close()


class _Drive(Move):
    driver: BaseDriver
    BUSY = Drive.Goal.BASE_BUSY
    HALTED = Drive.Goal.BASE_HALTED
    ODOMETRY_LOST = Drive.Goal.ODOMETRY_LOST

    def __init__(self, driver: BaseDriver, goal: Goal) -> None:
        super().__init__(driver, goal)
        request = goal.request
        self._stall = StallWatch(driver.stall_s, PROGRESS_M)
        self._motion = DriveMotion(
            driver.base,
            distance=request.distance,
            lateral=request.lateral,
            turn=request.turn,
            max_linear=request.max_linear,
            max_angular=request.max_angular,
        )
        if max(abs(request.distance), abs(request.lateral)) > driver.max_distance:
            text = f"a way of {request.distance:.2f}, {request.lateral:.2f} m is longer than {driver.max_distance:g} m allow"
            raise DriverRefusal(Drive.Goal.BAD_GOAL, text)
        if abs(request.turn) > driver.max_turn:
            text = f"a turn of {request.turn:.2f} rad is larger than {driver.max_turn:g} rad allow"
            raise DriverRefusal(Drive.Goal.BAD_GOAL, text)

    def wish(self, now: float) -> Velocity | None:
        driver = self.driver
        assert driver.pose is not None
        wish = self._motion.step(driver.pose)
        way, turn = self._motion.off
        if wish is None and (way > JUMP_M or turn > JUMP_RAD):
            text = f"odometry tells of a place {way:.2f} m and {turn:.2f} rad from where the move was to end: it has jumped"
            raise DriverRefusal(Drive.Goal.ODOMETRY_LOST, text)
        if wish is not None and self._stall.stalled(now, self._motion.left):
            moved = self._motion.moved
            done = f"moved {moved.x:.2f} m ahead, {moved.y:.2f} m left, turned {moved.yaw:.2f} rad"
            obstacle = in_the_way(driver.base, driver.points, wish)
            if obstacle is not None:
                text = f"something {obstacle.described()} blocks the way; {done}"
                raise DriverRefusal(Drive.Goal.BLOCKED, text)
            text = f"the base has not followed for {driver.stall_s:g} s ({done}): does it stand, and is it free?"
            raise DriverRefusal(Drive.Goal.NOT_MOVING, text)
        return wish

    def report(self) -> dict[str, Any]:
        pose = self.driver.pose
        if not self._moving or pose is None:
            return {}
        self._motion.step(pose)
        moved = self._motion.moved
        return {"distance": moved.x, "lateral": moved.y, "turn": moved.yaw}


class _Navigate(Move):
    driver: BaseDriver
    BUSY = NavigateTo.Goal.NAVIGATION_BUSY
    HALTED = NavigateTo.Goal.BASE_HALTED
    ODOMETRY_LOST = NavigateTo.Goal.LOCALISATION_LOST

    def __init__(self, driver: BaseDriver, goal: Goal) -> None:
        super().__init__(driver, goal)
        to = self._destination()
        if not (math.isfinite(to.x) and math.isfinite(to.y) and math.isfinite(to.tolerance) and to.tolerance >= 0):
            text = f"goal ({to.x}, {to.y}) and tolerance {to.tolerance} must be finite numbers, the tolerance 0 or more"
            raise DriverRefusal(NavigateTo.Goal.BAD_GOAL, text)
        self._to = to

    def _destination(self) -> Destination:
        """Return where to go. Raises DriverRefusal for an unknown waypoint or a pose in another frame."""
        driver, request = self.driver, self.goal.request
        tolerance = request.tolerance or driver.tolerance
        if request.waypoint:
            waypoint = driver.robot.waypoints.get(request.waypoint)
            if waypoint is None:
                known = sorted(driver.robot.waypoints)
                hint = nearest(request.waypoint, known)
                text = f"there is no waypoint '{request.waypoint[:80]}'{hint} (known: {', '.join(known) or 'none'})"
                raise DriverRefusal(NavigateTo.Goal.UNKNOWN_WAYPOINT, text)
            return Destination(waypoint.x, waypoint.y, waypoint.yaw, tolerance)
        frame = request.pose.header.frame_id.lstrip("/")
        if frame not in ("", "map", driver.map_frame):
            text = f"the pose is in frame '{frame}'; give it in 'map'"
            raise DriverRefusal(NavigateTo.Goal.BAD_GOAL, text)
        p, q = request.pose.pose.position, request.pose.pose.orientation
        yaw = yaw_of(q)
        if not math.isfinite(yaw):
            raise DriverRefusal(NavigateTo.Goal.BAD_GOAL, "the pose's orientation is not a number")
        return Destination(p.x, p.y, yaw if any((q.w, q.x, q.y, q.z)) else None, tolerance)

    def begin(self) -> None:
        self.driver.navigator.begin(self._to)

    def wish(self, now: float) -> Velocity | None:
        return self.driver.navigator.step(now)

    def rest(self) -> None:
        self.driver.navigator.ended()

    def report(self) -> dict[str, Any]:
        pose, left = self.driver.navigator.where()
        if pose is None:
            return {}
        return {"pose": self.driver.stamped(pose, self.driver.map_frame), "distance_left": left}
