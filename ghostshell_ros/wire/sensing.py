# SPDX-License-Identifier: Apache-2.0
"""Convert what a base measures and how it moves: lidar turns, obstacles, poses, velocities."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from geometry_msgs.msg import Twist
from sensor_msgs.msg import LaserScan
from vision_msgs.msg import Detection3DArray

from ghostshell_ros.wire.values import yaw_of
from skill_kernel.safety.base_gate import Velocity
from skill_kernel.safety.obstacles import Points, scan_points
from skill_kernel.skills.drivers import Pose2D, Scan


def scan_of(message: LaserScan) -> Scan:
    """Return a lidar turn in its own frame; ranges outside its limits are inf."""
    ranges = [r if message.range_min <= r <= message.range_max else math.inf for r in message.ranges]
    return Scan(message.angle_min, message.angle_increment, ranges)


def points_of(message: LaserScan, laser: tuple[float, float, float]) -> Points:
    """Return the points a lidar turn has hit, in the base frame by the laser's pose there."""
    limits = message.range_min, message.range_max
    return scan_points(Scan(message.angle_min, message.angle_increment, message.ranges, *limits), laser)


def measured(names: Sequence[str], values: Sequence[float]) -> dict[str, float]:
    """Return what a JointState tells of each joint, by name; what is not a number was not measured."""
    return {name: value for name, value in zip(names, values, strict=False) if math.isfinite(value)}


def pose_of(pose: Any) -> Pose2D:
    """Return a geometry_msgs/Pose as a planar one."""
    return Pose2D(pose.position.x, pose.position.y, yaw_of(pose.orientation))


def twist_of(velocity: Velocity) -> Twist:
    message = Twist()
    message.linear.x, message.linear.y, message.angular.z = velocity.forward, velocity.lateral, velocity.turn
    return message


def velocity_of(message: Twist) -> Velocity:
    return Velocity(message.linear.x, message.linear.y, message.angular.z)


def things_of(message: Detection3DArray) -> Iterator[tuple[str, tuple[list[float], list[float]]]]:
    """Yield the name of each thing that is seen, position in m and orientation (w, x, y, z) of its middle.

    The name is the detection's id, or where it has none the surest class. A pose that is not all numbers is no sight.
    """
    for thing in message.detections:
        surest = max((result.hypothesis for result in thing.results), key=lambda h: float(h.score), default=None)
        at, turned = thing.bbox.center.position, thing.bbox.center.orientation
        name = thing.id or (surest.class_id if surest is not None else "")
        position, orientation = [at.x, at.y, at.z], [turned.w, turned.x, turned.y, turned.z]
        if name and all(map(math.isfinite, (*position, *orientation))):
            yield name, (position, orientation)
