# SPDX-License-Identifier: Apache-2.0
"""The side of the simulation node that a mobile base has: velocity, posture and attitude in; scan, odometry's noise,
transforms, posture and battery out."""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion, TransformStamped, Twist, Vector3
from nav_msgs.msg import Odometry
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import BatteryState, LaserScan
from std_msgs.msg import Header, String
from tf2_msgs.msg import TFMessage

from ghostshell_ros.runtime.node_runtime import LATCHED, SENSORS, SET_POINTS, RuntimeNode
from ghostshell_ros.sim.parts import Battery, Legged, Lidar
from ghostshell_ros.sim.world import BaseState, SimWorld
from ghostshell_ros.wire.qos import MEASUREMENTS
from skill_kernel.safety.base_gate import HOLD

POSITION_NOISE_M = 0.002
YAW_NOISE_RAD = 0.002
BATTERY_S = 1.0
OPTICAL = Quaternion(w=0.5, x=-0.5, y=0.5, z=-0.5)
"""From a camera's frame (x forwards) to its optical frame (z forwards, x to the right), REP 103."""


class SimBase:
    """Works for the node `sim`, on its executor's thread; `lock` is that of the world."""

    def __init__(
        self,
        node: RuntimeNode,
        world: SimWorld,
        lock: threading.Lock,
        camera: str,
        scan_rate: float,
        charge: float,
        stamp: Callable[[], Time],
    ) -> None:
        """Raises SimWorldError when the model is no robot that the gait controller walks, or has no lidar."""
        self._node, self._world, self._lock, self._stamp = node, world, lock, stamp
        self._gait = Legged(world).gait
        self._lidar = Lidar(world)
        self._scan_period_s = 1.0 / scan_rate
        self._random = np.random.default_rng(2)
        self._posture = ""
        self._battery = Battery(charge)
        self._frames = self._moving_frames()
        self._scan = node.create_publisher(LaserScan, "scan", SENSORS)
        self._tf = node.create_publisher(TFMessage, "/tf", QoSProfile(depth=100))
        self._tf_static = node.create_publisher(
            TFMessage, "/tf_static", QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        )
        self._posture_state = node.create_publisher(String, "posture_state", LATCHED)
        self._battery_state = node.create_publisher(BatteryState, "battery_state", MEASUREMENTS)
        node.create_subscription(Twist, "cmd_vel", self._on_velocity, SET_POINTS)
        node.create_subscription(String, "posture", self._on_posture, SET_POINTS)
        node.create_subscription(Vector3, "attitude", self._on_attitude, SET_POINTS)
        node.steady_timer(self._scan_period_s, self._publish_scan)
        node.steady_timer(BATTERY_S, self._publish_battery)
        self._tf_static.publish(TFMessage(transforms=self._fixed_frames(camera)))

    def _disturb(self, odom: Odometry) -> None:
        """Put noise that does not add up on an odometry message."""
        at, turned = odom.pose.pose.position, odom.pose.pose.orientation
        dx, dy, dyaw = (float(part) for part in self._random.normal(0.0, (POSITION_NOISE_M, POSITION_NOISE_M, YAW_NOISE_RAD)))
        at.x, at.y = at.x + dx, at.y + dy
        c, s = math.cos(dyaw / 2), math.sin(dyaw / 2)
        turned.w, turned.x, turned.y, turned.z = (
            c * turned.w - s * turned.z,
            c * turned.x - s * turned.y,
            c * turned.y + s * turned.x,
            c * turned.z + s * turned.w,
        )

    def publish(self, odom: Odometry, measured: BaseState) -> None:
        """Disturb an odometry message, and publish what goes with it: its transform, that of the level laser, and the posture
        when it changed."""
        self._disturb(odom)
        if self._tf.get_subscription_count():
            base, laser = self._frames.transforms
            base.header, laser.header.stamp = odom.header, odom.header.stamp
            at, moved = odom.pose.pose.position, base.transform.translation
            moved.x, moved.y, moved.z = at.x, at.y, at.z
            base.transform.rotation = odom.pose.pose.orientation
            _undo(measured.roll, measured.pitch, laser.transform.rotation)
            self._tf.publish(self._frames)
        state = self._gait.state
        if state != self._posture:
            self._posture = state
            self._posture_state.publish(String(data=state))

    def _moving_frames(self) -> TFMessage:
        base = TransformStamped(child_frame_id="base_link")
        laser = TransformStamped(header=Header(frame_id="base_link"), child_frame_id="laser")
        moved = laser.transform.translation
        moved.x, moved.y, moved.z = (float(part) for part in self._world.model.site("laser").pos)
        return TFMessage(transforms=[base, laser])

    def _fixed_frames(self, camera: str) -> list[TransformStamped]:
        frames = []
        places = {
            ("base_link", "camera_link"): self._world.model.camera(camera).pos,
            ("base_link", "imu_link"): self._world.model.site("imu_link").pos,
            ("camera_link", "camera_optical_frame"): (0.0, 0.0, 0.0),
        }
        for (parent, child), place in places.items():
            frame = TransformStamped(child_frame_id=child)
            frame.header.stamp, frame.header.frame_id = self._stamp(), parent
            moved = frame.transform.translation
            moved.x, moved.y, moved.z = (float(part) for part in place)
            if parent == "camera_link":
                frame.transform.rotation = OPTICAL
            frames.append(frame)
        return frames

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
        scan.header.stamp, scan.header.frame_id = stamp, "laser"
        scan.ranges = array("f", ranges.tobytes())
        self._scan.publish(scan)

    def _publish_battery(self) -> None:
        with self._lock:
            speed, stamp = math.hypot(*self._gait.velocity[:2]), self._stamp()
        self._battery.drain(BATTERY_S, speed)
        state = BatteryState(
            voltage=self._battery.voltage,
            percentage=self._battery.charge,
            present=True,
            power_supply_status=BatteryState.POWER_SUPPLY_STATUS_DISCHARGING,
            power_supply_technology=BatteryState.POWER_SUPPLY_TECHNOLOGY_LION,
        )
        state.header.stamp, state.header.frame_id = stamp, "base_link"
        state.temperature = state.current = state.charge = state.capacity = state.design_capacity = math.nan
        self._battery_state.publish(state)

    def _on_velocity(self, message: Twist) -> None:
        with self._lock:
            self._gait.command(message.linear.x, message.linear.y, message.angular.z)

    def _on_attitude(self, message: Vector3) -> None:
        with self._lock:
            self._gait.set_attitude(message.x, message.y, message.z)

    def _on_posture(self, message: String) -> None:
        try:
            with self._lock:
                if message.data == HOLD:
                    self._gait.hold()
                else:
                    self._gait.set_posture(message.data)
        except ValueError as error:
            self._node.get_logger().error(f"refused: {error}", throttle_duration_sec=5.0)


def _undo(roll: float, pitch: float, turned: Quaternion) -> None:
    """The scan is level: its frame undoes the trunk's roll and pitch."""
    cr, sr, cp, sp = math.cos(roll / 2), math.sin(roll / 2), math.cos(pitch / 2), math.sin(pitch / 2)
    # The inverse of pitch after roll.
    turned.w, turned.x, turned.y, turned.z = cp * cr, -cp * sr, -sp * cr, sp * sr
