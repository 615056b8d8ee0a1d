# SPDX-License-Identifier: Apache-2.0
"""The action server that goes to a waypoint or pose, on a map it builds from the lidar as it goes."""

from __future__ import annotations

import difflib
import math
import sys
import traceback
from array import array
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from geometry_msgs.msg import Pose2D as Pose2DMessage
from geometry_msgs.msg import PoseStamped, TransformStamped
from ghostshell.action import Drive, NavigateTo
from nav_msgs.msg import OccupancyGrid as OccupancyGridMessage
from nav_msgs.msg import Odometry, Path
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import LaserScan
from tf2_msgs.msg import TFMessage

from ghostshell_ros.drivers.base_driver import BaseDriver
from ghostshell_ros.drivers.timed_driver import DriverRefusal
from ghostshell_ros.navigation.grid import OccupancyGrid
from ghostshell_ros.navigation.planner import Plan, PlannerCosts, plan
from ghostshell_ros.navigation.poses import composed, wrapped
from ghostshell_ros.navigation.trip import Trip, TripEnd, TripLimits
from ghostshell_ros.nodes.node_runtime import LATCHED, run
from skill_kernel.base_gate import STILL, Velocity
from skill_kernel.drivers import Pose2D

TF_STATIC = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
CODES = {TripEnd.NO_PATH: NavigateTo.Goal.NO_PATH, TripEnd.BLOCKED: NavigateTo.Goal.BLOCKED}


class NavigateDriver(BaseDriver):
    """Action `navigate_to` (NavigateTo.action); topics as in BaseDriver. The embedded planner: a rolling occupancy grid,
    A*, replanning when the way changes. A robot with Nav2 runs its NavigateToPose in the place of this node behind an
    adapter of its own; none is here, because nav2_msgs is not part of what this project installs.

    The map frame is the odometry's frame where the robot started (published as such on `/tf_static`): there is no
    localisation here that would correct a drift.

    Publishes `map` (nav_msgs/OccupancyGrid, latched, every `map_s` while somebody listens) and `plan` (nav_msgs/Path).
    A pose whose quaternion is all zeros leaves the heading at the goal open.

    Parameters: `robot` (kalos), `rate_hz` (20), `gate_wait_s` (5.0), `tolerance_m` (0.15), `resolution_m` (0.05),
    `map_size_m` (24.0), `map_s` (1.0), `scan_s` (0.2), `margin_m` (0.05), `goal_reach_m` (0.4), `no_path_s` (4.0),
    `blocked_s` (6.0), `replan_s` (2.0).
    """

    BUSY = NavigateTo.Goal.NAVIGATION_BUSY
    HALTED_CODE = NavigateTo.Goal.BASE_HALTED
    ODOMETRY_LOST = NavigateTo.Goal.LOCALISATION_LOST

    def __init__(self) -> None:
        super().__init__("navigate_driver", NavigateTo, "navigate_to", other=(Drive, "drive"))
        self._tolerance = self.declare(
            "tolerance_m", 0.15, "so near is there, where a goal names no tolerance [m]", minimum=0.03, maximum=2.0
        )
        resolution = self.declare("resolution_m", 0.05, "edge of a map cell [m]", minimum=0.02, maximum=0.2)
        size = self.declare("map_size_m", 24.0, "edge of the map that goes with the robot [m]", minimum=4.0, maximum=60.0)
        map_s = self.declare("map_s", 1.0, "between two published maps [s]", minimum=0.2, maximum=60.0)
        self._scan_s = self.declare("scan_s", 0.2, "between two scans taken into the map [s]", minimum=0.05, maximum=2.0)
        margin = self.declare("margin_m", 0.05, "kept free around the base besides [m]", minimum=0.0, maximum=0.5)
        self._goal_reach = self.declare(
            "goal_reach_m", 0.4, "a goal too near to an obstacle is moved by so much at most [m]", minimum=0.0, maximum=2.0
        )
        self._limits = TripLimits(
            no_path_s=self.declare("no_path_s", 4.0, "how long to look for a path [s]", minimum=0.5, maximum=60.0),
            blocked_s=self.declare("blocked_s", 6.0, "without progress for so long, it ends [s]", minimum=1.0, maximum=60.0),
            replan_s=self.declare("replan_s", 2.0, "between two plannings on the way [s]", minimum=0.2, maximum=30.0),
        )
        self._costs = PlannerCosts(self.base.radius, margin=margin)
        self._grid = OccupancyGrid(resolution=resolution, size=2 * round(size / resolution / 2))
        self._odom_frame = ""
        self._past: deque[tuple[float, Pose2D]] = deque(maxlen=60)
        self._mapped_at = -math.inf
        self._trip: Trip | None = None
        self._planning = False
        self._planner = ThreadPoolExecutor(1, thread_name_prefix="planner")
        self._published = -1
        self._map = self.create_publisher(OccupancyGridMessage, "map", LATCHED)
        self._plan = self.create_publisher(Path, "plan", LATCHED)
        self._tf_static = self.create_publisher(TFMessage, "/tf_static", TF_STATIC)
        self.steady_timer(map_s, self._publish_map)

    @property
    def _map_frame(self) -> str:
        """`map`, with the prefix that the odometry's frame may have."""
        return self._odom_frame.removesuffix("odom") + "map"

    def check(self, request: Any) -> None:
        place, _ = self._goal_of(request)
        tolerance = request.tolerance
        if not (all(map(math.isfinite, place)) and math.isfinite(tolerance) and tolerance >= 0):
            text = f"goal {place} and tolerance {tolerance} must be finite numbers, the tolerance 0 or more"
            raise DriverRefusal(NavigateTo.Goal.BAD_GOAL, text)

    def _goal_of(self, request: Any) -> tuple[tuple[float, float], float | None]:
        """Place and heading of a goal in the map frame."""
        if request.waypoint:
            waypoint = self.robot.waypoints.get(request.waypoint)
            if waypoint is None:
                known = sorted(self.robot.waypoints)
                near = difflib.get_close_matches(request.waypoint, known, n=1)
                hint = f"; did you mean '{near[0]}'?" if near else ""
                text = f"there is no waypoint '{request.waypoint[:80]}'{hint} (known: {', '.join(known) or 'none'})"
                raise DriverRefusal(NavigateTo.Goal.UNKNOWN_WAYPOINT, text)
            return (waypoint.x, waypoint.y), waypoint.yaw
        frame = request.pose.header.frame_id.lstrip("/")
        if frame not in ("", "map", self._map_frame):
            text = f"the pose is in frame '{frame}'; give it in 'map'"
            raise DriverRefusal(NavigateTo.Goal.BAD_GOAL, text)
        p, q = request.pose.pose.position, request.pose.pose.orientation
        yaw = math.atan2(2 * (q.w * q.z + q.x * q.y), 1 - 2 * (q.y * q.y + q.z * q.z))
        if not math.isfinite(yaw):
            raise DriverRefusal(NavigateTo.Goal.BAD_GOAL, "the pose's orientation is not a number")
        return (p.x, p.y), yaw if any((q.w, q.x, q.y, q.z)) else None

    def begin(self, request: Any) -> None:
        place, yaw = self._goal_of(request)
        tolerance = request.tolerance or self._tolerance
        self._trip = Trip(self.base, place, yaw=yaw, tolerance=tolerance, now=self.steady_now(), limits=self._limits)

    def step(self, now: float) -> Velocity | None:
        trip, pose = self._trip, self.pose
        assert trip is not None and pose is not None
        wish = trip.step(now, pose, self._grid, self.points)
        if trip.end is TripEnd.ARRIVED:
            return None
        if trip.end is not None:
            raise DriverRefusal(CODES[trip.end], trip.reason)
        if not self._planning and trip.wants_plan(now):
            self._planning = True
            work = (self._grid.copy(), self._costs, (pose.x, pose.y), trip.goal, max(self._goal_reach, trip.tolerance))
            self._planner.submit(self._plan_apart, trip, work)
        return wish if wish is not None else STILL

    def _plan_apart(self, trip: Trip, work: Any) -> None:
        """On the planner's thread: what it costs must not delay commands or feedback."""
        grid, costs, start, goal, reach = work
        try:
            found = plan(grid, costs, start, goal, goal_reach=reach)
        except Exception:  # noqa: BLE001 - logged; the trip ends for want of a path
            self.get_logger().error(f"planning failed:\n{traceback.format_exc()}")
            found = None
        self.call_soon(self._planned, trip, found)

    def _planned(self, trip: Trip, found: Plan | None) -> None:
        self._planning = False
        if trip is not self._trip:
            return
        trip.planned(self.steady_now(), found)
        path = Path()
        path.header.frame_id = self._map_frame
        path.header.stamp = self.get_clock().now().to_msg()
        for x, y in found.places if found is not None else ():
            place = PoseStamped(header=path.header)
            place.pose.position.x, place.pose.position.y, place.pose.orientation.w = x, y, 1.0
            path.poses.append(place)
        self._plan.publish(path)

    def ended(self) -> None:
        self._trip = None

    def result(self) -> Any:
        return NavigateTo.Result(**self._where())

    def feedback(self) -> Any:
        return NavigateTo.Feedback(**self._where())

    def _where(self) -> dict[str, Any]:
        if self.pose is None:
            return {}
        left = self._trip.left(self.pose) if self._trip is not None else 0.0
        return {"pose": Pose2DMessage(x=self.pose.x, y=self.pose.y, theta=self.pose.yaw), "distance_left": left}

    def located(self, message: Odometry) -> None:
        assert self.pose is not None
        self._past.append((_seconds(message.header.stamp), self.pose))
        if message.header.frame_id != self._odom_frame:
            self._odom_frame = message.header.frame_id
            same = TransformStamped(child_frame_id=self._odom_frame)
            same.header.stamp = message.header.stamp
            same.header.frame_id = self._map_frame
            same.transform.rotation.w = 1.0
            self._tf_static.publish(TFMessage(transforms=[same]))

    def scanned(self, message: LaserScan) -> None:
        """Take the scan into the map from where the robot was at its time."""
        now = self.steady_now()
        if self.pose is None or now - self._mapped_at < self._scan_s * 0.9:
            return
        self._mapped_at = now
        self._grid.follow(self.pose.x, self.pose.y)
        laser = composed(self._pose_at(_seconds(message.header.stamp)), Pose2D(*self.base.laser))
        self._grid.add_scan(
            laser,
            message.angle_min,
            message.angle_increment,
            message.ranges,
            range_min=max(message.range_min, 0.0),
            range_max=min(message.range_max, 30.0) if message.range_max > 0 else 10.0,
        )

    def _pose_at(self, stamp: float) -> Pose2D:
        """The pose between the two odometries around a time, or the last one."""
        later = self._past[-1]
        for earlier in reversed(self._past):
            if earlier[0] <= stamp <= later[0] and later[0] > earlier[0]:
                share = (stamp - earlier[0]) / (later[0] - earlier[0])
                a, b = earlier[1], later[1]
                turned = wrapped(b.yaw - a.yaw)
                return Pose2D(a.x + share * (b.x - a.x), a.y + share * (b.y - a.y), a.yaw + share * turned)
            later = earlier
        return self._past[-1][1]

    def _publish_map(self) -> None:
        grid = self._grid
        if grid.updates == self._published or not self._map.get_subscription_count():
            return
        self._published = grid.updates
        message = OccupancyGridMessage(data=array("b", grid.occupancy().tobytes()))
        message.header.frame_id = self._map_frame
        message.header.stamp = self.get_clock().now().to_msg()
        message.info.resolution = grid.resolution
        message.info.width = message.info.height = grid.size
        message.info.origin.position.x = grid.origin[0] * grid.resolution
        message.info.origin.position.y = grid.origin[1] * grid.resolution
        self._map.publish(message)

    def close(self) -> None:
        self._planner.shutdown(wait=False, cancel_futures=True)
        super().close()


def _seconds(stamp: Any) -> float:
    return float(stamp.sec) + stamp.nanosec * 1e-9


def main() -> int:
    return run(NavigateDriver)


if __name__ == "__main__":
    sys.exit(main())
