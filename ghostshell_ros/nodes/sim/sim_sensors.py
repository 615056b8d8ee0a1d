# SPDX-License-Identifier: Apache-2.0
"""Publish simulated time and the robot's own state: clock, odometry, joints and IMU."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass

from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Header

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.sim.world import BaseState, SimWorld
from ghostshell_ros.wire.qos import MEASUREMENTS


@dataclass(frozen=True)
class Simulated:
    """Share the world among the parts of the node `sim`, on its executor's thread; the world belongs to who holds `lock`."""

    node: RuntimeNode
    world: SimWorld
    lock: threading.Lock
    stamp: Callable[[], Time]
    frame_prefix: str


class SimSensors:
    """Publish what a robot measures of itself.

    A message without subscribers is not filled, and each is made only once: making it, with covariances that nothing sets,
    took longer than filling and sending it.
    """

    def __init__(self, sim: Simulated, *, clock: bool) -> None:
        self._world, self._lock, self._stamp = sim.world, sim.lock, sim.stamp
        node, prefix = sim.node, sim.frame_prefix
        self._clock = node.create_publisher(Clock, "/clock", MEASUREMENTS) if clock else None
        self._joint_states = node.create_publisher(JointState, "joint_states", MEASUREMENTS)
        self._imu = node.create_publisher(Imu, "imu", MEASUREMENTS)
        self._odom = node.create_publisher(Odometry, "odom", MEASUREMENTS)
        self._joints_message = JointState(name=list(sim.world.joint_positions()))
        self._odom_message = Odometry(header=Header(frame_id=f"{prefix}odom"), child_frame_id=f"{prefix}base_link")
        self._imu_message = Imu(header=Header(frame_id=f"{prefix}imu_link"))

    def publish(self, before: Callable[[Odometry, BaseState], None]) -> None:
        """Publish everything; `before` gets the odometry first and may disturb it."""
        with self._lock:
            state, now = self._world.base(), self._stamp()
        if self._clock is not None:
            self._clock.publish(Clock(clock=now))
        odom = self._odom_message
        odom.header.stamp = now
        at, turned = odom.pose.pose.position, odom.pose.pose.orientation
        at.x, at.y, at.z = state.pose.x, state.pose.y, state.height
        turned.w, turned.x, turned.y, turned.z = state.orientation
        linear, angular = odom.twist.twist.linear, odom.twist.twist.angular
        linear.x, linear.y, linear.z = state.linear_velocity
        angular.x, angular.y, angular.z = state.angular_velocity
        before(odom, state)
        self._odom.publish(odom)
        if self._joint_states.get_subscription_count():
            self._publish_joints(now)
        if self._imu.get_subscription_count():
            self._publish_imu(now)

    def _publish_joints(self, stamp: Time) -> None:
        joints = self._joints_message
        with self._lock:
            joints.position = array("d", self._world.joint_positions().values())
            joints.velocity = array("d", self._world.joint_velocities().values())
            joints.effort = array("d", self._world.joint_efforts().values())
        joints.header.stamp = stamp
        self._joint_states.publish(joints)

    def _publish_imu(self, stamp: Time) -> None:
        imu = self._imu_message
        imu.header.stamp = stamp
        turned, gyro, force = imu.orientation, imu.angular_velocity, imu.linear_acceleration
        with self._lock:
            turned.w, turned.x, turned.y, turned.z = self._world.sensor("orientation")
            gyro.x, gyro.y, gyro.z = self._world.sensor("gyro")
            force.x, force.y, force.z = self._world.sensor("accelerometer")
        self._imu.publish(imu)
