# SPDX-License-Identifier: Apache-2.0
"""What the simulation node tells of time and of the robot's own state: clock, odometry, joints and IMU."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable

from builtin_interfaces.msg import Time
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Header

from ghostshell_ros.runtime.node_runtime import RuntimeNode
from ghostshell_ros.sim.world import BaseState, SimWorld
from ghostshell_ros.wire.qos import MEASUREMENTS


class SimSensors:
    """Works for the node `sim`, on its executor's thread; `lock` is that of the world.

    What nobody subscribes to is not even made, and messages are made once: their making, with covariances that nothing sets,
    took longer than filling and sending them.
    """

    def __init__(
        self, node: RuntimeNode, world: SimWorld, lock: threading.Lock, stamp: Callable[[], Time], *, clock: bool
    ) -> None:
        self._world, self._lock, self._stamp = world, lock, stamp
        self._clock = node.create_publisher(Clock, "/clock", MEASUREMENTS) if clock else None
        self._joint_states = node.create_publisher(JointState, "joint_states", MEASUREMENTS)
        self._imu = node.create_publisher(Imu, "imu", MEASUREMENTS)
        self._odom = node.create_publisher(Odometry, "odom", MEASUREMENTS)
        self._joints_message = JointState(name=list(world.joint_positions()))
        self._odom_message = Odometry(header=Header(frame_id="odom"), child_frame_id="base_link")
        self._imu_message = Imu(header=Header(frame_id="imu_link"))

    def publish(self, base: Callable[[Odometry, BaseState], None] | None) -> None:
        """Publish everything; `base` gets the odometry before and may disturb it."""
        with self._lock:
            state, now = self._world.base(), self._stamp()
            quaternion = self._world.base_quaternion()
        if self._clock is not None:
            self._clock.publish(Clock(clock=now))
        odom = self._odom_message
        odom.header.stamp = now
        at, turned = odom.pose.pose.position, odom.pose.pose.orientation
        at.x, at.y, at.z = state.pose.x, state.pose.y, state.height
        turned.w, turned.x, turned.y, turned.z = quaternion
        linear, angular = odom.twist.twist.linear, odom.twist.twist.angular
        linear.x, linear.y, linear.z = state.linear_velocity
        angular.x, angular.y, angular.z = state.angular_velocity
        if base is not None:
            base(odom, state)
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
        with self._lock:
            reading = self._world.imu()
        imu = self._imu_message
        imu.header.stamp = stamp
        q, gyro, force = imu.orientation, imu.angular_velocity, imu.linear_acceleration
        q.w, q.x, q.y, q.z = reading.orientation
        gyro.x, gyro.y, gyro.z = reading.angular_velocity
        force.x, force.y, force.z = reading.linear_acceleration
        self._imu.publish(imu)
