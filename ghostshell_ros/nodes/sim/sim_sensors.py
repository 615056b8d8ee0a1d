# SPDX-License-Identifier: Apache-2.0
"""Publish simulated time, the robot's own state (odometry, joints and IMU) and the true poses of the things around it."""

import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Imu, JointState
from std_msgs.msg import Header
from std_srvs.srv import SetBool, Trigger

from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.sim.stage import Actors, Stage, read_arrangement
from ghostshell_ros.sim.world import BaseState, SimWorld, SimWorldError
from ghostshell_ros.wire.qos import MEASUREMENTS

ARRANGEMENT = "arrangement"
_SERVICES = {
    "person": ("world/person", "the person walks into the hallway", "the person walks back"),
    "office_door": ("world/block_door", "the office's door slides shut", "the office's door opens"),
}


@dataclass(frozen=True)
class Simulated:
    """Share the world among the parts of the node `sim`, on its executor's thread; the world belongs to who holds `lock`."""

    node: RuntimeNode
    world: SimWorld
    lock: threading.Lock
    stamp: Callable[[], Time]
    frame_prefix: str
    halted: Callable[[], bool]
    """True while the safety gate has halted the robot: a body then obeys nobody, whoever publishes what the gate does."""


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


class SimObjects:
    """Publish `ground_truth/<object>` (geometry_msgs/PoseStamped, frame map), for tests and pictures only: no robot has this.

    Services `~/reset` and `~/arrange` (std_srvs/Trigger): the world as the parameter `arrangement` says, after it was put
    back to its start, or as it is.
    """

    def __init__(self, sim: Simulated, rate: float, start: str) -> None:
        self._map = f"{sim.frame_prefix}map"
        node, world = sim.node, sim.world
        self._node, self._world, self._lock, self._stamp = node, world, sim.lock, sim.stamp
        self._actors = Actors(world)
        self._stage = Stage(world, self._actors, start)
        self._poses = {n: node.create_publisher(PoseStamped, f"ground_truth/{n}", MEASUREMENTS) for n in world.objects()}
        for name in self._actors.names:
            node.create_service(SetBool, _SERVICES[name][0], partial(self._move, name))
        node.declare(
            ARRANGEMENT,
            "",
            'where what stands for ~/reset and ~/arrange: JSON such as {"robot": [1, 2, 0.5], "ball": [3, 0], '
            '"office_door": "shut"} [m, rad]',
            read_only=False,
        )
        node.create_service(Trigger, "~/reset", lambda _, response: self._arrange(response, from_start=True))
        node.create_service(Trigger, "~/arrange", lambda _, response: self._arrange(response, from_start=False))
        node.steady_timer(1.0 / rate, self._publish)

    def _arrange(self, response: Trigger.Response, *, from_start: bool) -> Trigger.Response:
        text = str(self._node.get_parameter(ARRANGEMENT).value)
        try:
            wishes = read_arrangement(text)
            with self._lock:
                self._stage.arrange(wishes, from_start=from_start)
        except SimWorldError as error:
            response.success, response.message = False, str(error)
            return response
        response.success, response.message = True, f"arranged: {', '.join(wishes) or 'as at the start'}"
        return response

    def _move(self, name: str, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        with self._lock:
            self._actors.move(name, bool(request.data))
        response.success, response.message = True, _SERVICES[name][1 if request.data else 2]
        return response

    def _publish(self) -> None:
        wanted = {name: publisher for name, publisher in self._poses.items() if publisher.get_subscription_count()}
        if not wanted:
            return
        with self._lock:
            found, stamp = self._world.objects(), self._stamp()
        for name, publisher in wanted.items():
            (x, y, z), (qw, qx, qy, qz) = found[name]
            message = PoseStamped()
            message.header.stamp, message.header.frame_id = stamp, self._map
            at, turned = message.pose.position, message.pose.orientation
            at.x, at.y, at.z = x, y, z
            turned.w, turned.x, turned.y, turned.z = qw, qx, qy, qz
            publisher.publish(message)
