# SPDX-License-Identifier: Apache-2.0
"""Share what drivers that move a base need: odometry, scan, halt, operator, and commands to the safety gate."""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from geometry_msgs.msg import PoseStamped, Twist
from nav_msgs.msg import Odometry
from sensor_msgs.msg import LaserScan

from ghostshell_ros.drivers.driver import Driver, DriverRefusal, Job
from ghostshell_ros.navigation.motion import RestWatch
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.lifecycle import gate_silence
from ghostshell_ros.runtime.node import NodeStartError
from ghostshell_ros.wire.codec import filled
from ghostshell_ros.wire.qos import SENSORS, SET_POINTS
from ghostshell_ros.wire.sensing import points_of, pose_of, twist_of
from skill_kernel.codes import CallCode
from skill_kernel.robot import BaseConfig, RobotConfig
from skill_kernel.safety.base_gate import STILL, Velocity
from skill_kernel.safety.obstacles import Points
from skill_kernel.skills.drivers import Pose2D, map_pose

ODOMETRY_S = 0.7
"""Silence of odometry that ends a goal; less than the gate's (1 s), so that the odometry is given as the reason."""
SCAN_S = 1.0
STAND_S = 2.0
"""Time in which a base that has arrived must come to rest."""


class MovingDriver(Driver):
    """Move a base, one goal at a time: the jobs are of the class `Move`.

    The kernel's lease on the base's subsystems keeps the goals of different processes apart; a second goal at this node is
    refused. Drivers of the same base in other nodes rely on that lease.
    `cmd_vel_in` is published only while a goal runs, and once zero at its end.
    """

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        file = self.declare("robot", "kalos", "robot's name in config/robots, or a YAML file's path")
        self.robot = RobotConfig.load(file)
        if self.robot.base is None:
            raise NodeStartError(f"robot '{self.robot.name}' has no base; add base: to its file, or do not start {name}")
        self.base: BaseConfig = self.robot.base
        self.rate_hz = self.declare("rate_hz", 20.0, "velocities a second [Hz]", 10.0, 100.0)
        self.gate_wait_s = self.declare(
            "gate_wait_s", 5.0, "how long a goal waits for gate and odometry to appear [s]", 0.0, 10.0
        )
        self.odometry_limit = math.ceil(ODOMETRY_S * self.rate_hz)
        self.pose: Pose2D | None = None
        self.points: Points | None = None
        self.on_odometry: Callable[[Odometry], object] = lambda message: None
        self.on_scan: Callable[[LaserScan], object] = lambda message: None
        """Hear an odometry once `pose` was set, and a scan once `points` were."""
        self.odom_frame = "odom"
        self.since_odometry = 0
        """Steps since the last odometry; counted, because a stall of this process is no silence of the base."""
        self._scanned_at = -math.inf
        self._velocity = self.create_publisher(Twist, "cmd_vel_in", SET_POINTS)
        self.create_subscription(Odometry, "odom", self._on_odometry, SENSORS)
        self.create_subscription(LaserScan, "scan", self._on_scan, SENSORS)
        self.watch_gate()

    @property
    def map_frame(self) -> str:
        """Return `map`, with the prefix that the odometry's frame may have."""
        return self.odom_frame.removesuffix("odom") + "map"

    def send(self, wish: Velocity) -> None:
        """Wish for a velocity at the safety gate."""
        self._velocity.publish(twist_of(wish))

    def stamped(self, pose: Pose2D, frame_id: str) -> PoseStamped:
        """Return a pose of now as a message."""
        message: PoseStamped = filled(PoseStamped(), map_pose(pose))
        message.header.frame_id, message.header.stamp = frame_id, self.get_clock().now().to_msg()
        return message

    def before_steps(self, now: float) -> None:
        if now - self._scanned_at > SCAN_S:
            self.points = None

    def _on_odometry(self, message: Odometry) -> None:
        pose = pose_of(message.pose.pose)
        if math.isfinite(pose.x) and math.isfinite(pose.y) and math.isfinite(pose.yaw):
            self.pose = pose
            self.since_odometry = 0
            self.odom_frame = message.header.frame_id
            self.on_odometry(message)

    def _on_scan(self, message: LaserScan) -> None:
        if not (math.isfinite(message.angle_min) and math.isfinite(message.angle_increment)):
            return
        self.points = points_of(message, self.base.laser)
        self._scanned_at = self.steady_now()
        self.on_scan(message)


class Move(Job):
    """Move the base to a goal. Subclasses say which velocity to wish for, and name the codes of their action.

    It begins once the gate and odometry were heard, nobody has halted the robot and no operator drives it; a halt, an
    operator or silent odometry ends it. It is done when the base is at rest at the goal.
    """

    driver: MovingDriver
    BUSY: int = CallCode.SUBSYSTEM_HELD
    HALTED: int = CallCode.HALTED
    ODOMETRY_LOST: int = CallCode.DRIVER_UNAVAILABLE

    def __init__(self, driver: MovingDriver, goal: Goal) -> None:
        if driver.jobs:
            raise DriverRefusal(self.BUSY, "another goal of this driver moves the base: cancel it or wait for its end")
        super().__init__(driver, goal)
        self._moving = False
        self._arrived_at: float | None = None
        self._rest = RestWatch()

    def begin(self) -> None:
        """Start; the driver's pose is known. May raise DriverRefusal."""

    @abstractmethod
    def wish(self, now: float) -> Velocity | None:
        """Return the velocity to wish for, or None at the goal. Raises DriverRefusal when it cannot be reached."""

    def rest(self) -> None:
        """Come to rest after a goal that was begun."""

    def step(self, now: float) -> bool:
        driver = self.driver
        if self.held_back(now, begun=self._moving, halted=self.HALTED, busy=self.BUSY):
            return False
        if not self._moving:
            if not self._may_begin(now):
                return False
            driver.since_odometry = 0
            self.begin()
            self._moving = True
        driver.since_odometry += 1
        if driver.since_odometry > driver.odometry_limit:
            raise DriverRefusal(self.ODOMETRY_LOST, self._no_odometry())
        wish = self.wish(now) if self._arrived_at is None else None
        driver.send(STILL if wish is None else wish)
        return wish is None and self._stands(now)

    def _stands(self, now: float) -> bool:
        """Return whether the base is at rest, by odometry heard since the last step. Raises DriverRefusal if it goes on."""
        driver = self.driver
        assert driver.pose is not None
        self._arrived_at = now if self._arrived_at is None else self._arrived_at
        if now - self._arrived_at > STAND_S:
            text = f"the base came to its goal, was told to stand and still moves {STAND_S:g} s later, by its odometry"
            raise DriverRefusal(CallCode.DEADLINE, text)
        return driver.since_odometry == 1 and self._rest.at_rest(now, driver.pose)

    def ended(self) -> None:
        """Stop the base, unless no command was sent or the gate heeds none."""
        if self._moving:
            if not self.driver.halted and not self.driver.operator:
                self.driver.send(STILL)
            self.rest()

    def _may_begin(self, now: float) -> bool:
        """Return whether gate and odometry were heard. Waits a while, then raises DriverRefusal."""
        driver = self.driver
        if driver.halted is not None and driver.pose is not None:
            return True
        if now < self.begun_at + driver.gate_wait_s:
            return False
        if driver.halted is None:
            raise DriverRefusal(self.HALTED, gate_silence(driver))
        raise DriverRefusal(self.ODOMETRY_LOST, self._no_odometry())

    def _no_odometry(self) -> str:
        topic = self.driver.resolve_topic_name("odom")
        return f"no odometry on {topic} for {ODOMETRY_S} s: is the robot or simulator running?"
