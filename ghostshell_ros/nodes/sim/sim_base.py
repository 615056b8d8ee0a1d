# SPDX-License-Identifier: Apache-2.0
"""Serve a simulated base: velocity, posture and attitude in; scan, odometry's noise, posture and battery out."""

import math
from array import array

import numpy as np
from geometry_msgs.msg import Twist, Vector3
from nav_msgs.msg import Odometry
from sensor_msgs.msg import BatteryState, LaserScan
from std_msgs.msg import String

from ghostshell_ros.nodes.sim.sim_sensors import Simulated
from ghostshell_ros.sim.parts import Battery, Legged, Lidar
from ghostshell_ros.wire.qos import LATCHED, MEASUREMENTS, SENSORS, SET_POINTS
from ghostshell_ros.wire.sensing import velocity_of
from skill_kernel.safety.base_gate import HOLD, STILL

POSITION_NOISE_M = 0.002
YAW_NOISE_RAD = 0.002
BATTERY_S = 1.0


class SimBase:
    """Move a base and publish what only a robot with one has."""

    def __init__(self, sim: Simulated, scan_rate: float, charge: float) -> None:
        """Attach gait and lidar. Raises SimWorldError when the gait cannot walk the model, or it has no lidar."""
        node = self._node = sim.node
        self._lock, self._stamp, self._prefix, self._halted = sim.lock, sim.stamp, sim.frame_prefix, sim.halted
        self._gait = Legged(sim.world).gait
        self._lidar = Lidar(sim.world)
        self._scan_period_s = 1.0 / scan_rate
        self._random = np.random.default_rng(2)
        self._posture = ""
        self._battery = Battery(charge)
        self._scan = node.create_publisher(LaserScan, "scan", SENSORS)
        self._posture_state = node.create_publisher(String, "posture_state", LATCHED)
        self._battery_state = node.create_publisher(BatteryState, "battery_state", MEASUREMENTS)
        node.create_subscription(Twist, "cmd_vel_gated", self._on_velocity, SET_POINTS)
        node.create_subscription(String, "posture", self._on_posture, SET_POINTS)
        node.create_subscription(Vector3, "attitude", self._on_attitude, SET_POINTS)
        node.steady_timer(self._scan_period_s, self._publish_scan)
        node.steady_timer(BATTERY_S, self._publish_battery)

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

    def publish(self, odom: Odometry) -> None:
        """Disturb an odometry message before it is sent, and tell the posture when it has changed."""
        self._disturb(odom)
        state = self._gait.state
        if state != self._posture:
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
            speed, stamp = math.hypot(*self._gait.velocity[:2]), self._stamp()
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
        wish = STILL if self._halted() else velocity_of(message)
        with self._lock:
            self._gait.command(wish.forward, wish.lateral, wish.turn)

    def _on_attitude(self, message: Vector3) -> None:
        if not self._halted():
            with self._lock:
                self._gait.set_attitude(message.x, message.y, message.z)

    def _on_posture(self, message: String) -> None:
        try:
            with self._lock:
                if message.data == HOLD or self._halted():
                    self._gait.hold()
                else:
                    self._gait.set_posture(message.data)
        except ValueError as error:
            self._node.get_logger().error(f"refused: {error}", throttle_duration_sec=5.0)
