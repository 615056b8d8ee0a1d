# SPDX-License-Identifier: Apache-2.0
"""The embedded navigation: a map built from the lidar as the base goes, and paths through it; needs no localisation."""

from __future__ import annotations

import math
import traceback
from array import array
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from geometry_msgs.msg import PoseStamped, TransformStamped
from ghostshell.action import NavigateTo
from nav_msgs.msg import OccupancyGrid as OccupancyGridMessage
from nav_msgs.msg import Odometry, Path
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import LaserScan
from tf2_msgs.msg import TFMessage

from ghostshell_ros.drivers.driver import DriverRefusal
from ghostshell_ros.drivers.navigator import Destination, Navigator
from ghostshell_ros.navigation.motion import composed, wrapped
from ghostshell_ros.navigation.planner import OccupancyGrid, Place, Plan, PlannerCosts, plan
from ghostshell_ros.navigation.trip import Trip, TripEnd, TripLimits
from ghostshell_ros.runtime.node_runtime import LATCHED, RuntimeNode
from ghostshell_ros.wire.values import seconds
from skill_kernel.robot import BaseConfig
from skill_kernel.safety.base_gate import STILL, Velocity
from skill_kernel.safety.obstacles import Points
from skill_kernel.skills.drivers import Pose2D

TF_STATIC = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
CODES = {TripEnd.NO_PATH: NavigateTo.Goal.NO_PATH, TripEnd.BLOCKED: NavigateTo.Goal.BLOCKED}


@dataclass(frozen=True)
class GridSettings:
    """Lengths in m, times in s."""

    resolution: float
    size: float
    map_s: float
    scan_s: float
    margin: float
    goal_reach: float
    limits: TripLimits

    @classmethod
    def declared(cls, node: RuntimeNode) -> GridSettings:
        """Return the node's parameters. Raises NodeStartError."""
        say = node.declare
        return cls(
            resolution=say("resolution_m", 0.05, "edge of a map cell [m]", minimum=0.02, maximum=0.2),
            size=say("map_size_m", 24.0, "edge of the map that goes with the robot [m]", minimum=4.0, maximum=60.0),
            map_s=say("map_s", 1.0, "between two published maps [s]", minimum=0.2, maximum=60.0),
            scan_s=say("scan_s", 0.2, "between two scans taken into the map [s]", minimum=0.05, maximum=2.0),
            margin=say("margin_m", 0.05, "kept free around the base besides [m]", minimum=0.0, maximum=0.5),
            goal_reach=say(
                "goal_reach_m", 0.4, "a goal too near to an obstacle is moved by so much at most [m]", minimum=0.0, maximum=2.0
            ),
            limits=TripLimits(
                no_path_s=say("no_path_s", 4.0, "how long to look for a path [s]", minimum=0.5, maximum=60.0),
                blocked_s=say("blocked_s", 6.0, "without progress for so long, it ends [s]", minimum=1.0, maximum=60.0),
                replan_s=say("replan_s", 2.0, "between two plannings on the way [s]", minimum=0.2, maximum=30.0),
            ),
        )


class GridNavigator(Navigator):
    """A rolling occupancy grid, A*, replanning when the way changes.

    The map frame is the odometry's frame where the robot started (published as such on `/tf_static`): there is no
    localisation here that would correct a drift.

    Publishes `map` (nav_msgs/OccupancyGrid, latched, every `map_s` while somebody listens) and `plan` (nav_msgs/Path).
    """

    def __init__(
        self, node: RuntimeNode, base: BaseConfig, settings: GridSettings, seen: Callable[[], tuple[Pose2D, Points | None]]
    ) -> None:
        """`seen` gives the last odometry and the obstacles around it, None without a scan."""
        self._node, self._base, self._set, self._seen = node, base, settings, seen
        self._costs = PlannerCosts(base.radius, margin=settings.margin)
        cells = 2 * round(settings.size / settings.resolution / 2)
        self._grid = OccupancyGrid(resolution=settings.resolution, size=cells)
        self._odom_frame = self._map_frame = ""
        self._past: deque[tuple[float, Pose2D]] = deque(maxlen=60)
        self._mapped_at = -math.inf
        self._trip: Trip | None = None
        self._planning = False
        self._planner = ThreadPoolExecutor(1, thread_name_prefix="planner")
        self._published = -1
        self._map = node.create_publisher(OccupancyGridMessage, "map", LATCHED)
        self._plan = node.create_publisher(Path, "plan", LATCHED)
        self._tf_static = node.create_publisher(TFMessage, "/tf_static", TF_STATIC)
        node.steady_timer(settings.map_s, self._publish_map)

    def begin(self, destination: Destination, map_frame: str) -> None:
        self._trip = Trip(
            self._base,
            (destination.x, destination.y),
            yaw=destination.yaw,
            tolerance=destination.tolerance,
            now=self._node.steady_now(),
            limits=self._set.limits,
        )

    def step(self, now: float) -> Velocity | None:
        trip = self._trip
        assert trip is not None
        pose, points = self._seen()
        wish = trip.step(now, pose, self._grid, points)
        if trip.end is TripEnd.ARRIVED:
            return None
        if trip.end is not None:
            raise DriverRefusal(CODES[trip.end], trip.reason)
        if not self._planning and trip.wants_plan(now):
            self._planning = True
            reach = max(self._set.goal_reach, trip.tolerance)
            self._planner.submit(self._plan_apart, trip, self._grid.copy(), (pose.x, pose.y), reach)
        return wish if wish is not None else STILL

    def _plan_apart(self, trip: Trip, grid: OccupancyGrid, start: Place, reach: float) -> None:
        """On the planner's thread: what it costs must not delay commands or feedback."""
        try:
            found = plan(grid, self._costs, start, trip.goal, goal_reach=reach)
        except Exception:  # noqa: BLE001 - logged; the trip ends for want of a path
            self._node.get_logger().error(f"planning failed:\n{traceback.format_exc()}")
            found = None
        self._node.call_soon(self._planned, trip, found)

    def _planned(self, trip: Trip, found: Plan | None) -> None:
        self._planning = False
        if trip is not self._trip:
            return
        trip.planned(self._node.steady_now(), found)
        path = Path()
        path.header.frame_id = self._map_frame
        path.header.stamp = self._node.get_clock().now().to_msg()
        for x, y in found.places if found is not None else ():
            place = PoseStamped(header=path.header)
            place.pose.position.x, place.pose.position.y, place.pose.orientation.w = x, y, 1.0
            path.poses.append(place)
        self._plan.publish(path)

    def where(self) -> tuple[Pose2D | None, float]:
        pose = self._past[-1][1] if self._past else None
        return pose, self._trip.left(pose) if self._trip is not None and pose is not None else 0.0

    def ended(self) -> None:
        self._trip = None

    def located(self, pose: Pose2D, message: Odometry, map_frame: str) -> None:
        self._past.append((seconds(message.header.stamp), pose))
        if message.header.frame_id != self._odom_frame:
            self._odom_frame, self._map_frame = message.header.frame_id, map_frame
            same = TransformStamped(child_frame_id=self._odom_frame)
            same.header.stamp = message.header.stamp
            same.header.frame_id = map_frame
            same.transform.rotation.w = 1.0
            self._tf_static.publish(TFMessage(transforms=[same]))

    def scanned(self, pose: Pose2D | None, message: LaserScan) -> None:
        """Take the scan into the map from where the robot was at its time."""
        now = self._node.steady_now()
        if pose is None or now - self._mapped_at < self._set.scan_s * 0.9:
            return
        self._mapped_at = now
        self._grid.follow(pose.x, pose.y)
        laser = composed(self._pose_at(seconds(message.header.stamp)), Pose2D(*self._base.laser))
        self._grid.add_scan(
            laser,
            message.angle_min,
            message.angle_increment,
            message.ranges,
            range_min=max(message.range_min, 0.0),
            range_max=min(message.range_max, 30.0) if message.range_max > 0 else 10.0,
        )

    def _pose_at(self, stamp: float) -> Pose2D:
        """Return the pose between the two odometries around a time, or the last one."""
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
        message.header.stamp = self._node.get_clock().now().to_msg()
        message.info.resolution = grid.resolution
        message.info.width = message.info.height = grid.size
        message.info.origin.position.x = grid.origin[0] * grid.resolution
        message.info.origin.position.y = grid.origin[1] * grid.resolution
        self._map.publish(message)

    def close(self) -> None:
        self._planner.shutdown(wait=False, cancel_futures=True)
