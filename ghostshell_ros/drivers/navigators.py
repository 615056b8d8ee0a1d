# SPDX-License-Identifier: Apache-2.0
"""Find the way of a base: by the embedded navigation, a map from the lidar and paths through it, or by Nav2."""

import math
from abc import abstractmethod
from array import array
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path as FilePath
from typing import Any

import numpy as np
from geometry_msgs.msg import TransformStamped, Twist
from ghostshell.action import NavigateTo
from nav_msgs.msg import OccupancyGrid as OccupancyGridMessage
from nav_msgs.msg import Odometry, Path
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

from ghostshell_ros.drivers.driver import DriverRefusal
from ghostshell_ros.drivers.moving import MovingDriver
from ghostshell_ros.navigation.motion import StallWatch, composed
from ghostshell_ros.navigation.planner import OccupancyGrid, Place, Plan, plan
from ghostshell_ros.navigation.trip import DETOUR_M, DETOURS, Destination, Trip
from ghostshell_ros.runtime.goal_client import ANSWER_S, GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.node import NodeStartError
from ghostshell_ros.wire.qos import LATCHED, SENSORS
from ghostshell_ros.wire.sensing import pose_of, velocity_of
from ghostshell_ros.wire.values import seconds
from skill_kernel.codes import CallCode
from skill_kernel.config.yaml_text import read_yaml
from skill_kernel.safety.base_gate import STILL, Velocity
from skill_kernel.skills.drivers import Pose2D


class Navigator:
    """Carry out one destination at a time. All calls come on the executor's thread; times are steady."""

    @abstractmethod
    def begin(self, destination: Destination) -> None:
        """Start. Raises DriverRefusal."""

    @abstractmethod
    def step(self, now: float) -> Velocity | None:
        """Return the velocity to wish for, or None at the destination. Raises DriverRefusal when it cannot be reached."""

    @abstractmethod
    def where(self) -> tuple[Pose2D | None, float]:
        """Return the pose in the map frame, None while unknown, and the rest of the way in m."""

    @abstractmethod
    def ended(self) -> None:
        """Come to rest and let nothing go on: the destination is reached or given up."""

    def complaint(self) -> str:
        """Return why it cannot work now; empty when it can."""
        return ""

    def close(self) -> None:
        """Release threads."""


MAP_S = 1.0
"""Time between two published maps."""
SCAN_S, IDLE_SCAN_S = 0.2, 1.0
"""Time between two scans taken into the map, on the way to a destination and otherwise."""
GOAL_REACH_M = 0.4
"""Distance by which a goal too near to an obstacle is moved at most."""
FARTHEST_M, UNSTATED_RANGE_M = 30.0, 10.0
"""Ranges up to which a lidar's turn goes into the map: of one that claims to see further, and of one that does not tell."""


class GridNavigator(Navigator):
    """Plan by A* over a rolling occupancy grid, and plan again when the way changes.

    The map frame is the odometry's frame where the robot started (published as such on `/tf_static`): there is no
    localisation here that would correct a drift.
    """

    def __init__(self, driver: MovingDriver, *, resolution_m: float, map_size_m: float, **limits: float) -> None:
        """Start the planner. `limits` are those of a Trip."""
        self._driver, self._base, self._limits = driver, driver.base, limits
        self._grid = OccupancyGrid(resolution=resolution_m, size=2 * round(map_size_m / resolution_m / 2))
        self._odom_frame = ""
        self._past: deque[tuple[float, Pose2D]] = deque(maxlen=60)
        """Stamps [s] of the last odometries, and the poses that they told."""
        self._mapped_at = -math.inf
        self._trip: Trip | None = None
        self._planning = False
        self._planner = ThreadPoolExecutor(1, thread_name_prefix="planner")
        self._published = -1
        self._map = driver.create_publisher(OccupancyGridMessage, "map", LATCHED)
        self._plan = driver.create_publisher(Path, "plan", LATCHED)
        self._tf_static = driver.create_publisher(TFMessage, "/tf_static", LATCHED)
        driver.on_odometry, driver.on_scan = self._located, self._scanned
        driver.steady_timer(MAP_S, self._publish_map)

    def begin(self, destination: Destination) -> None:
        self._trip = Trip(self._base, destination, self._driver.steady_now(), **self._limits)

    def step(self, now: float) -> Velocity | None:
        trip = self._trip
        pose = self._driver.pose
        assert trip is not None and pose is not None
        wish = trip.step(now, pose, self._grid, self._driver.points)
        if wish is not None and not self._planning and trip.wants_plan(now):
            self._planning = True
            reach = max(GOAL_REACH_M, trip.tolerance)
            self._planner.submit(self._plan_apart, trip, self._grid.copy(), (pose.x, pose.y), reach)
        return wish

    def _plan_apart(self, trip: Trip, grid: OccupancyGrid, start: Place, reach: float) -> None:
        """Plan on the planner's thread, because commands and feedback must not wait for it."""
        # What raises is logged, and the trip ends for want of a path.
        found = self._driver.guarded(partial(plan, grid, self._base.radius, start, trip.goal, goal_reach=reach))()
        self._driver.call_soon(self._planned, trip, found)

    def _planned(self, trip: Trip, found: Plan | None) -> None:
        self._planning = False
        if trip is not self._trip:
            return
        trip.planned(self._driver.steady_now(), found)
        places = found.places if found is not None else ()
        poses = [self._driver.stamped(Pose2D(x, y, 0.0), self._driver.map_frame) for x, y in places]
        header = Header(frame_id=self._driver.map_frame, stamp=self._driver.get_clock().now().to_msg())
        self._plan.publish(Path(header=header, poses=poses))

    def where(self) -> tuple[Pose2D | None, float]:
        pose = self._driver.pose
        return pose, self._trip.left(pose) if self._trip is not None and pose is not None else 0.0

    def ended(self) -> None:
        self._trip = None

    def _located(self, message: Odometry) -> None:
        self._past.append((seconds(message.header.stamp), pose_of(message.pose.pose)))
        if message.header.frame_id != self._odom_frame:
            self._odom_frame = message.header.frame_id
            same = TransformStamped(child_frame_id=self._odom_frame)
            same.header.stamp = message.header.stamp
            same.header.frame_id = self._driver.map_frame
            same.transform.rotation.w = 1.0
            self._tf_static.publish(TFMessage(transforms=[same]))

    def _scanned(self, message: LaserScan) -> None:
        """Take the scan into the map from where the robot was at its time."""
        now, pose = self._driver.steady_now(), self._driver.pose
        period_s = SCAN_S if self._trip is not None else IDLE_SCAN_S
        if pose is None or now - self._mapped_at < period_s * 0.9:
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
            range_max=min(message.range_max, FARTHEST_M) if message.range_max > 0 else UNSTATED_RANGE_M,
        )

    def _pose_at(self, stamp: float) -> Pose2D:
        """Return the pose between the two odometries around a time, or the last one."""
        if not self._past[0][0] <= stamp <= self._past[-1][0]:
            return self._past[-1][1]
        stamps, x, y, yaw = zip(*((at, pose.x, pose.y, pose.yaw) for at, pose in self._past), strict=True)
        return Pose2D(*(float(np.interp(stamp, stamps, values)) for values in (x, y, np.unwrap(yaw))))

    def _publish_map(self) -> None:
        grid = self._grid
        if grid.updates == self._published or not self._map.get_subscription_count():
            return
        self._published = grid.updates
        message = OccupancyGridMessage(data=array("b", grid.occupancy().tobytes()))
        message.header.frame_id = self._driver.map_frame
        message.header.stamp = self._driver.get_clock().now().to_msg()
        message.info.resolution = grid.resolution
        message.info.width = message.info.height = grid.size
        message.info.origin.position.x = grid.origin[0] * grid.resolution
        message.info.origin.position.y = grid.origin[1] * grid.resolution
        self._map.publish(message)

    def close(self) -> None:
        self._planner.shutdown(wait=False, cancel_futures=True)


FRESH_S = 0.15
"""Age from which on a velocity of Nav2 no longer counts; its controller sends 20 a second by default."""
PROGRESS_M = 0.1
NAV2_CODES: dict[int, dict[str, str]] = read_yaml(FilePath(__file__).with_name("nav2_codes.yaml").read_text(encoding="utf-8"))
NAV2_ENDS = {
    GoalEnd.REJECTED: (
        CallCode.DRIVER_INACTIVE,
        "Nav2 rejected the goal: activate bt_navigator (`ros2 lifecycle get bt_navigator` shows its state)",
    ),
    GoalEnd.UNKNOWN: (CallCode.DRIVER_LOST, "Nav2 does not know the goal any more: it was restarted"),
    GoalEnd.CANCELED: (NavigateTo.Goal.NAVIGATION_BUSY, "somebody else cancelled the goal at Nav2: ask again"),
}
"""Code and reason of goals that Nav2 neither reached nor gave up."""


class Nav2Navigator(Navigator):
    """Have Nav2 find the way (nav2_msgs/NavigateToPose, parameter `nav2_action`): map, localisation and path are its own.

    Subscribes `cmd_vel_nav2` (geometry_msgs/Twist), the velocities Nav2 would send to the base. They go to `cmd_vel_in` while
    a goal of this driver runs and nobody has stopped it; at any other time, as for a goal set in RViz, they go nowhere.
    """

    def __init__(self, driver: MovingDriver, *, action: str, wait_s: float, silence_s: float, patience_s: float) -> None:
        """Make the client. Raises NodeStartError without nav2_msgs."""
        try:
            from nav2_msgs.action import NavigateToPose
        except ImportError as error:
            raise NodeStartError(
                f"navigation 'nav2' needs nav2_msgs ({error}): install it (`sudo apt install ros-jazzy-navigation2`) and "
                "source ROS again, or set navigation to 'embedded'"
            ) from error
        self._driver, self._action = driver, action
        self._wait_s, self._silence_s, self._patience_s = wait_s, silence_s, patience_s
        self._type = NavigateToPose
        self._client = GoalClient(driver, NavigateToPose, action)
        self._destination: Destination | None = None
        self._sent: SentGoal | None = None
        self._at: Pose2D | None = None
        driver.create_subscription(Twist, "cmd_vel_nav2", self._on_velocity, SENSORS)

    def complaint(self) -> str:
        # Asking is what probes the server, so that the first goal need not wait for it.
        return "" if self._client.server_is_ready() else self._absent()

    def begin(self, destination: Destination) -> None:
        self._destination, self._sent, self._at = destination, None, None
        self._end: tuple[GoalEnd, Any] | None = None
        self._begun_at = self._driver.steady_now()
        self._left, self._detours = math.inf, 0
        self._stall = StallWatch(self._patience_s, PROGRESS_M)
        self._wish: tuple[float, Velocity] = (-math.inf, STILL)

    def step(self, now: float) -> Velocity | None:
        goal = self._destination
        assert goal is not None
        if self._end is not None:
            self._refuse_unless_succeeded(*self._end)
            return None
        if self._sent is None:
            self._send_when_ready(now, goal)
            return STILL
        if not self._sent.accepted:
            if self._client.unanswered(self._sent, self._sent_at):
                text = f"Nav2 did not answer within {2 * ANSWER_S:g} s: is bt_navigator alive?"
                raise DriverRefusal(CallCode.DRIVER_UNAVAILABLE, text)
            return STILL
        if now - self._heard_at > self._silence_s:
            text = f"Nav2 sent no feedback for {self._silence_s:g} s: it died, hangs or has lost where the robot is"
            raise DriverRefusal(CallCode.DRIVER_LOST, text)
        if goal.yaw is None and self._at is not None and self._away(self._at) <= goal.tolerance:
            self.ended()  # Nav2 would drive on to the middle of the goal
            return None
        if self._stall.stalled(now, self._left):
            text = f"Nav2 made no progress in {self._patience_s:g} s; {self._left:.1f} m are left"
            raise DriverRefusal(NavigateTo.Goal.BLOCKED, text)
        heard_at, wish = self._wish
        return wish if now - heard_at <= FRESH_S else STILL

    def where(self) -> tuple[Pose2D | None, float]:
        return self._at, 0.0 if self._at is None else self._left

    def ended(self) -> None:
        if self._sent is not None:
            self._sent.abandon()
        self._destination = self._sent = None

    def _send_when_ready(self, now: float, goal: Destination) -> None:
        if not self._client.server_is_ready():
            if now - self._begun_at > self._wait_s:
                raise DriverRefusal(CallCode.DRIVER_UNAVAILABLE, self._absent())
            return
        pose = self._driver.stamped(Pose2D(goal.x, goal.y, goal.yaw or 0.0), self._driver.map_frame)
        self._sent_at = self._heard_at = now
        # The callbacks know their goal: one that was given up must not end its successor.
        sent = self._client.send(
            self._type.Goal(pose=pose),
            on_end=lambda end, result: self._on_end(sent, end, result),
            on_accepted=self._on_accepted,
            on_feedback=self._on_feedback,
        )
        self._sent = sent

    def _absent(self) -> str:
        action = self._driver.resolve_topic_name(self._action)
        return f"no action server {action} answers: start Nav2 (bt_navigator, activated), or set navigation to 'embedded'"

    def _refuse_unless_succeeded(self, end: GoalEnd, result: Any) -> None:
        """Raise DriverRefusal, with the reason, for a goal that Nav2 did not reach."""
        if end in NAV2_ENDS:
            raise DriverRefusal(*NAV2_ENDS[end])
        if end is GoalEnd.ABORTED:
            raise DriverRefusal(*_why(int(result.error_code), str(result.error_msg)))

    def _away(self, at: Pose2D) -> float:
        assert self._destination is not None
        return math.dist((self._destination.x, self._destination.y), (at.x, at.y))

    def _on_accepted(self) -> None:
        self._heard_at = self._driver.steady_now()

    def _on_feedback(self, feedback: Any) -> None:
        if self._destination is None:
            return
        self._heard_at = self._driver.steady_now()
        self._at = pose_of(feedback.current_pose.pose)
        # It is 0 while there is no path.
        left = max(float(feedback.distance_remaining), self._away(self._at))
        if left > self._left + DETOUR_M and self._detours < DETOURS:
            self._detours += 1
            self._stall.restart(self._heard_at)
        self._left = left

    def _on_end(self, sent: SentGoal, end: GoalEnd, result: Any) -> None:
        if sent is self._sent:
            self._end = (end, result)

    def _on_velocity(self, message: Twist) -> None:
        if self._sent is None or not self._sent.accepted or self._sent.ended:
            return
        wish = velocity_of(message)
        self._wish = (self._driver.steady_now(), wish)
        self._driver.send(wish)


def _why(code: int, text: str) -> tuple[int, str]:
    """Return the code of NavigateTo for a code of Nav2's, and a sentence for it."""
    if code == 0:
        text = text or "another goal took its place, it does not know where the robot is, or its behaviour tree failed"
        return NavigateTo.Goal.BLOCKED, f"Nav2 gave up without a code ({text}): see the log of bt_navigator"
    known = NAV2_CODES.get(code, {"means": "see nav2_msgs", "code": "BLOCKED"})
    reason = f"Nav2 gave up with code {code} ({text or known['means']}): see its log and its map"
    return getattr(NavigateTo.Goal, known["code"]), reason
