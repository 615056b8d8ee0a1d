# SPDX-License-Identifier: Apache-2.0
"""Publish what a robot measures of itself and sees, and the true poses of the things around it; serve its base."""

import math
import threading
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, Twist, Vector3
from nav_msgs.msg import Odometry
from rclpy.publisher import Publisher
from sensor_msgs.msg import BatteryState, Imu, JointState, LaserScan
from std_msgs.msg import Header, String
from std_srvs.srv import SetBool, Trigger
from vision_msgs.msg import Detection3D, Detection3DArray, ObjectHypothesisWithPose

from ghostshell_ros.runtime.node import Beat, RuntimeNode
from ghostshell_ros.sim.gait import Gait, times, turned
from ghostshell_ros.sim.parts import Battery, Legged, Lidar, Wheeled
from ghostshell_ros.sim.robot import BaseState, SimRobot, SimWorldError
from ghostshell_ros.sim.sight import Seen, Sight
from ghostshell_ros.sim.stage import Stage, read_arrangement
from ghostshell_ros.sim.world import SimWorld
from ghostshell_ros.wire.qos import LATCHED, MEASUREMENTS, SENSORS, SET_POINTS
from ghostshell_ros.wire.sensing import velocity_of
from skill_kernel.safety.base_gate import HOLD, STILL

ARRANGEMENT = "arrangement"
_SERVICES = {
    "person": ("world/person", "the person walks into the hallway", "the person walks back"),
    "office_door": ("world/block_door", "the office's door slides shut", "the office's door opens"),
}


@dataclass
class Simulated:
    """Share the world, and one robot of it, among the parts of the node `sim`, on its executor's thread; world and robots
    belong to who holds `lock`."""

    node: RuntimeNode
    world: SimWorld
    robot: SimRobot
    lock: threading.Lock
    stamp: Callable[[], Time]
    frame_prefix: str
    namespace: str
    """Before the names of the robot's topics: "" for a node in the robot's namespace, or that of one robot of several."""
    stir: Callable[[], None]
    """Wakes physics and sensors of robots that stood still, because this one was told to move."""
    halted: bool = False
    """True while the safety gate has halted the robot: a body then obeys nobody, whoever publishes what the gate does."""


class SimSensors:
    """Publish what a robot measures of itself.

    A message without subscribers is not filled, and each is made only once: making it, with covariances that nothing sets,
    took longer than filling and sending it.
    """

    def __init__(self, sim: Simulated) -> None:
        self._robot, self._lock, self._stamp = sim.robot, sim.lock, sim.stamp
        node, prefix, at = sim.node, sim.frame_prefix, sim.namespace
        self._joint_states = node.create_publisher(JointState, f"{at}joint_states", MEASUREMENTS)
        self._imu = node.create_publisher(Imu, f"{at}imu", MEASUREMENTS) if sim.robot.has_sensor("orientation") else None
        self._odom = node.create_publisher(Odometry, f"{at}odom", MEASUREMENTS)
        self._joints_message = JointState(name=list(sim.robot.joint_names))
        self._odom_message = Odometry(header=Header(frame_id=f"{prefix}odom"), child_frame_id=f"{prefix}base_link")
        self._imu_message = Imu(header=Header(frame_id=f"{prefix}imu_link"))

    def publish(self, before: Callable[[Odometry, BaseState], None]) -> None:
        """Publish everything; `before` gets the odometry first and may disturb it."""
        with self._lock:
            state, now = self._robot.base(), self._stamp()
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
        if self._imu is not None and self._imu.get_subscription_count():
            self._publish_imu(self._imu, now)

    def _publish_joints(self, stamp: Time) -> None:
        joints = self._joints_message
        with self._lock:
            joints.position = array("d", self._robot.joint_positions().values())
            joints.velocity = array("d", self._robot.joint_velocities().values())
            joints.effort = array("d", self._robot.joint_efforts().values())
        joints.header.stamp = stamp
        self._joint_states.publish(joints)

    def _publish_imu(self, publisher: Publisher, stamp: Time) -> None:
        imu = self._imu_message
        imu.header.stamp = stamp
        turned, gyro, force = imu.orientation, imu.angular_velocity, imu.linear_acceleration
        with self._lock:
            turned.w, turned.x, turned.y, turned.z = self._robot.sensor("orientation")
            gyro.x, gyro.y, gyro.z = self._robot.sensor("gyro")
            force.x, force.y, force.z = self._robot.sensor("accelerometer")
        publisher.publish(imu)


POSITION_NOISE_M = 0.002
YAW_NOISE_RAD = 0.002
BATTERY_S = 1.0
JITTER_S = 0.01
"""Messages that are due within this time are sent now."""


class SimBase:
    """Move a base, on legs or wheels, and publish what only a robot with one has; only legs take postures."""

    def __init__(self, sim: Simulated, scan_rate: float, charge: float) -> None:
        """Attach what moves it, and the lidar. Raises SimWorldError when nothing can move the model, or it has no lidar."""
        node, at = sim.node, sim.namespace
        self._node = node
        self._lock, self._stamp, self._prefix = sim.lock, sim.stamp, sim.frame_prefix
        self._sim, self._stir = sim, sim.stir
        self._gait = None if sim.robot.rolls else Legged(sim.world, sim.robot).gait
        self._mover: Gait | Wheeled = self._gait or Wheeled(sim.world, sim.robot)
        self._lidar = Lidar(sim.world, sim.robot)
        self._scan_period_s = 1.0 / scan_rate
        self._random = np.random.default_rng(2)
        self._posture = ""
        self._battery = Battery(charge)
        self._scan = node.create_publisher(LaserScan, f"{at}scan", SENSORS)
        self._battery_state = node.create_publisher(BatteryState, f"{at}battery_state", MEASUREMENTS)
        node.create_subscription(Twist, f"{at}cmd_vel_gated", self._on_velocity, SET_POINTS)
        if self._gait is not None:
            self._posture_state = node.create_publisher(String, f"{at}posture_state", LATCHED)
            node.create_subscription(String, f"{at}posture", partial(self._on_posture, self._gait), SET_POINTS)
            node.create_subscription(Vector3, f"{at}attitude", partial(self._on_attitude, self._gait), SET_POINTS)
        self._scan_at = self._battery_at = 0.0

    def disturb(self, odom: Odometry) -> None:
        """Put noise that does not add up on an odometry message."""
        at, q = odom.pose.pose.position, odom.pose.pose.orientation
        dx, dy, dyaw = (float(part) for part in self._random.normal(0.0, (POSITION_NOISE_M, POSITION_NOISE_M, YAW_NOISE_RAD)))
        at.x, at.y = at.x + dx, at.y + dy
        q.w, q.x, q.y, q.z = times(turned(dyaw), (q.w, q.x, q.y, q.z))

    def publish_due(self) -> None:
        """Publish scan and battery when they are due, right behind the odometry: whoever reads both wakes once. Tell the
        posture when it has changed."""
        now = self._node.steady_now()
        if now >= self._scan_at - JITTER_S:
            self._scan_at = max(self._scan_at + self._scan_period_s, now)
            self._publish_scan()
        if now >= self._battery_at:
            self._battery_at = now + BATTERY_S
            self._publish_battery()
        if self._gait is not None and (state := self._gait.state) != self._posture:
            self._posture = state
            self._posture_state.publish(String(data=state))

    def _publish_scan(self) -> None:
        with self._lock:
            ranges, stamp = self._lidar.scan(), self._stamp()
        step = float(self._lidar.angles[1] - self._lidar.angles[0])
        scan = LaserScan(
            angle_min=float(self._lidar.angles[0]),
            angle_max=float(self._lidar.angles[-1]),
            angle_increment=step,
            scan_time=self._scan_period_s,
            range_min=0.05,
            range_max=self._lidar.max_range,
        )
        scan.header.stamp, scan.header.frame_id = stamp, self._prefix + "laser"
        scan.ranges = array("f", ranges.tobytes())
        self._scan.publish(scan)

    def _publish_battery(self) -> None:
        with self._lock:
            speed, stamp = math.hypot(*self._mover.velocity[:2]), self._stamp()
        self._battery.drain(BATTERY_S, speed)
        state = BatteryState(
            voltage=self._battery.voltage,
            percentage=self._battery.charge,
            present=True,
            power_supply_status=BatteryState.POWER_SUPPLY_STATUS_DISCHARGING,
            power_supply_technology=BatteryState.POWER_SUPPLY_TECHNOLOGY_LION,
        )
        state.header.stamp, state.header.frame_id = stamp, self._prefix + "base_link"
        state.temperature = state.current = state.charge = state.capacity = state.design_capacity = math.nan
        self._battery_state.publish(state)

    def _on_velocity(self, message: Twist) -> None:
        wish = STILL if self._sim.halted else velocity_of(message)
        if wish != STILL:
            self._stir()
        with self._lock:
            self._mover.command(wish.forward, wish.lateral, wish.turn)

    def _on_attitude(self, gait: Gait, message: Vector3) -> None:
        if not self._sim.halted:
            self._stir()
            with self._lock:
                gait.set_attitude(message.x, message.y, message.z)

    def _on_posture(self, gait: Gait, message: String) -> None:
        self._stir()
        try:
            with self._lock:
                if message.data == HOLD or self._sim.halted:
                    gait.hold()
                else:
                    gait.set_posture(message.data)
        except ValueError as error:
            self._node.get_logger().error(f"refused: {error}", throttle_duration_sec=5.0)


LOOK_S = 0.5
"""Time between two looks whether somebody wants what is seen or the true poses."""


class SimThings:
    """Publish `things` (vision_msgs/Detection3DArray, frame map) while somebody subscribes.

    It tells of each thing that one of the robot's cameras sees now, and of the handle of each door: the name as the class, and
    where it is.
    """

    def __init__(self, sim: Simulated, sight: Sight, rate: float) -> None:
        self._sim, self._sight, self._frame = sim, sight, f"{sim.frame_prefix}map"
        self._things = sim.node.create_publisher(Detection3DArray, f"{sim.namespace}things", MEASUREMENTS)
        Beat(sim.node, 1.0 / rate, LOOK_S, self._things.get_subscription_count, self._publish)

    def _publish(self) -> None:
        if not self._things.get_subscription_count():
            return
        with self._sim.lock:
            seen, stamp = self._sight.seen(), self._sim.stamp()
        message = Detection3DArray()
        message.header.stamp, message.header.frame_id = stamp, self._frame
        message.detections = [self._detection(name, one, message) for name, one in seen.items()]
        self._things.publish(message)

    @staticmethod
    def _detection(name: str, seen: Seen, array: Detection3DArray) -> Detection3D:
        detection, result = Detection3D(header=array.header), ObjectHypothesisWithPose()
        result.hypothesis.class_id, result.hypothesis.score = name, 1.0
        center, size = detection.bbox.center, detection.bbox.size
        center.position.x, center.position.y, center.position.z = seen.position
        turned = center.orientation
        turned.w, turned.x, turned.y, turned.z = seen.orientation
        size.x, size.y, size.z = seen.size
        result.pose.pose = center
        detection.results = [result]
        return detection


class SimObjects:
    """Publish `ground_truth/<object>` (geometry_msgs/PoseStamped, frame map), for tests and pictures only: no robot has this.
    Doors with handles show where these are: `ground_truth/<door>_handle`.

    Services `~/reset` and `~/arrange` (std_srvs/Trigger): the world as the parameter `arrangement` says, after it was put
    back to its start, or as it is.
    """

    def __init__(
        self,
        node: RuntimeNode,
        world: SimWorld,
        lock: threading.Lock,
        stamp: Callable[[], Time],
        frame: str,
        rate: float,
        start: str,
    ) -> None:
        self._node, self._world, self._lock, self._stamp, self._map = node, world, lock, stamp, frame
        self._stage = Stage(world, start)
        self._poses = {n: node.create_publisher(PoseStamped, f"ground_truth/{n}", MEASUREMENTS) for n in world.objects()}
        for name in self._stage.movers:
            node.create_service(SetBool, _SERVICES[name][0], partial(self._move, name))
        node.declare(
            ARRANGEMENT,
            "",
            'where what stands for ~/reset and ~/arrange: JSON such as {"robot": [1, 2, 0.5], "ball": [3, 0, 0, 0.8], '
            '"office_door": "shut", "cup": "slip"}: x, y [m], yaw [rad], height [m]',
            read_only=False,
        )
        node.create_service(Trigger, "~/reset", lambda _, response: self._arrange(response, from_start=True))
        node.create_service(Trigger, "~/arrange", lambda _, response: self._arrange(response, from_start=False))
        Beat(node, 1.0 / rate, LOOK_S, self._wanted, self._publish)

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
            self._stage.move(name, bool(request.data))
        response.success, response.message = True, _SERVICES[name][1 if request.data else 2]
        return response

    def _wanted(self) -> dict[str, Publisher]:
        return {name: publisher for name, publisher in self._poses.items() if publisher.get_subscription_count()}

    def _publish(self) -> None:
        wanted = self._wanted()
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
