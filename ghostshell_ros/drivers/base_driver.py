# SPDX-License-Identifier: Apache-2.0
"""The common part of drivers that move a base: one goal at a time, odometry, scan, halt, operator, commands to the gate."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.qos import qos_profile_action_status_default
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Bool

from ghostshell_ros.drivers.timed_driver import DriverRefusal
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.lifecycle import ManagedNode
from ghostshell_ros.runtime.node_runtime import LATCHED, SENSORS, SET_POINTS, NodeStartError
from ghostshell_ros.wire.values import yaw_of
from skill_kernel.robot import BaseConfig, RobotConfig
from skill_kernel.safety.base_gate import STILL, Velocity
from skill_kernel.safety.obstacles import Points, scan_points
from skill_kernel.skills.drivers import Pose2D

FEEDBACK_S = 0.1
ODOMETRY_S = 0.7
"""Less than the silence that halts at the gate (1 s), so that the reason told is the odometry's."""
SCAN_S = 1.0
OTHER_S = 0.35
"""A driver that sends feedback every 0.1 s and has not for so long has no goal any more."""
CLAIM_S = 0.1
"""So long the driver that yields waits to hear of a goal that the other one took at the same time."""
LIVE = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_CANCELING)
HALTED = "the safety gate is halted: call clear_halt when it is safe"
OTHER = "a goal of another driver moves the base: cancel it or wait for its end"
TELEOP = "an operator drives the base (teleop): ask again when he has given it back (release_teleop)"


class BaseDriver(ManagedNode):
    """Subclasses plan a goal, step it at `rate_hz` and fill its messages.

    Publishes `cmd_vel_in` (geometry_msgs/Twist) only while a goal runs, and once zero at its end. Subscribes `odom`
    (nav_msgs/Odometry), `scan` (sensor_msgs/LaserScan), `halted` and `teleop_active` (std_msgs/Bool, latched), and the
    goals of the other driver of the same base, so that two never steer it at once, in one process or in two: who comes
    second is refused, and of two that come at the same time the one with `YIELDS`.
    """

    BUSY = HALTED_CODE = ODOMETRY_LOST = 0
    YIELDS = False

    def __init__(self, name: str, action_type: Any, action_name: str, *, other: tuple[Any, str]) -> None:
        super().__init__(name)
        file = self.declare("robot", "kalos", "robot's name in config/robots, or a YAML file's path")
        self.robot = RobotConfig.load(file)
        if self.robot.base is None:
            raise NodeStartError(f"robot '{self.robot.name}' has no base; add base: to its file, or do not start {name}")
        self.base: BaseConfig = self.robot.base
        rate = self.declare("rate_hz", 20.0, "velocities a second [Hz]", minimum=10.0, maximum=100.0)
        self._gate_wait_s = self.declare(
            "gate_wait_s", 5.0, "how long a goal waits for gate and odometry to appear [s]", minimum=0.0, maximum=10.0
        )
        self._odometry_limit = math.ceil(ODOMETRY_S * rate)
        self._claim_ticks = math.ceil(CLAIM_S * rate) if self.YIELDS else 0
        # The one that yields has ended its goal before the other gives up.
        self._other_wait_s = OTHER_S + (0.1 if self.YIELDS else 0.25)
        self.pose: Pose2D | None = None
        self.points: Points | None = None
        self._scanned_at = -math.inf
        self._since_odometry = 0
        self._halted: bool | None = None
        self._operator = False
        self._goal: Goal | None = None
        self._begun = False
        self._deadline = 0.0
        self._told_at = 0.0
        self._ticks = 0
        self._claimed_ns = 0
        self._other_at = -math.inf

        self._velocity = self.create_publisher(Twist, "cmd_vel_in", SET_POINTS)
        self.create_subscription(Odometry, "odom", self._on_odometry, SENSORS)
        self.create_subscription(LaserScan, "scan", self._on_scan, SENSORS)
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        self.create_subscription(Bool, "teleop_active", self._on_teleop, LATCHED)
        other_type, other_name = other
        feedback = other_type.Impl.FeedbackMessage
        self.create_subscription(feedback, f"{other_name}/_action/feedback", self._on_other_feedback, SENSORS)
        status = f"{other_name}/_action/status"
        self.create_subscription(GoalStatusArray, status, self._on_other_status, qos_profile_action_status_default)
        self._timer = self.steady_timer(1.0 / rate, self._tick)
        self._timer.cancel()
        self._server = GoalServer(self, action_type, action_name, on_goal=self._on_goal, on_cancel=self._on_cancel)

    @abstractmethod
    def check(self, request: Any) -> None:
        """Refuse what can be seen to be wrong before anything is known. Raises DriverRefusal."""

    @abstractmethod
    def begin(self, request: Any) -> None:
        """Start a goal; `self.pose` is known. Raises DriverRefusal."""

    @abstractmethod
    def step(self, now: float) -> Velocity | None:
        """The velocity to wish for, or None at the goal. Raises DriverRefusal when it cannot be reached."""

    @abstractmethod
    def result(self) -> Any:
        """The result message: what was really done, also when nothing was begun."""

    @abstractmethod
    def feedback(self) -> Any:
        """The feedback message."""

    def ended(self) -> None:
        """Called after each goal that was begun."""

    def scanned(self, message: LaserScan) -> None:
        """Called with each scan, after `points` were set."""

    def _on_goal(self, goal: Goal) -> None:
        try:
            if self._goal is not None:
                raise DriverRefusal(self.BUSY, "another goal of this driver moves the base: cancel it or wait for its end")
            self.check(goal.request)
        except DriverRefusal as refusal:
            goal.abort(self._refused(type(self.result())(), refusal))
            return
        now = self.steady_now()
        self._goal, self._begun, self._told_at = goal, False, now
        self._deadline = now + self._gate_wait_s
        self._since_odometry = self._ticks = 0
        self._claimed_ns = self.get_clock().now().nanoseconds + int(CLAIM_S * 1e9)
        self._timer.reset()
        self._tick()

    def _tick(self) -> None:
        goal = self._goal
        if goal is None:
            self._timer.cancel()
            return
        now = self.steady_now()
        self._since_odometry += 1
        if now - self._scanned_at > SCAN_S:
            self.points = None
        try:
            if self._begun or self._may_begin(now, goal):
                self._go_on(now, goal)
        except DriverRefusal as refusal:
            result = self._refused(self.result(), refusal)
            self._finish()
            goal.abort(result)
            return
        if self._goal is not None and now - self._told_at >= FEEDBACK_S - 1e-3:
            self._told_at = now
            goal.feedback(self.feedback())

    def _may_begin(self, now: float, goal: Goal) -> bool:
        """Whether gate and odometry are there and nobody else has the base. Waits a while, then raises DriverRefusal."""
        started = self._deadline - self._gate_wait_s
        if self._halted or self._operator or now - self._other_at < OTHER_S:
            # The kernel may hear sooner that a halt was cleared or the base given back, and the other's last feedback may
            # come after its end.
            if now - started <= self._other_wait_s:
                return False
            if self._halted:
                raise DriverRefusal(self.HALTED_CODE, HALTED)
            raise DriverRefusal(self.BUSY, TELEOP if self._operator else OTHER)
        self._ticks += 1
        if self._ticks <= self._claim_ticks:
            return False
        if self._halted is None or self.pose is None:
            if now < self._deadline:
                return False
            if self._halted is None:
                topic = self.resolve_topic_name("halted")
                raise DriverRefusal(self.HALTED_CODE, f"no safety gate was heard on {topic}: is it running?")
            raise DriverRefusal(self.ODOMETRY_LOST, self._no_odometry())
        self._since_odometry = 0
        self.begin(goal.request)
        self._begun = True
        return True

    def _go_on(self, now: float, goal: Goal) -> None:
        if self._since_odometry > self._odometry_limit:
            raise DriverRefusal(self.ODOMETRY_LOST, self._no_odometry())
        wish = self.step(now)
        if wish is not None:
            self._send(wish)
            return
        result = self.result()
        self._finish()
        goal.succeed(result)

    def _finish(self, *, still: bool = True) -> None:
        """Stop the base, unless no command was sent, the gate heeds none, or (`still` false) the other driver has it."""
        if self._begun:
            if still and not self._halted and not self._operator:
                self._send(STILL)
            self.ended()
        self._goal = None
        self._timer.cancel()

    def _send(self, wish: Velocity) -> None:
        message = Twist()
        message.linear.x, message.linear.y, message.angular.z = wish.forward, wish.lateral, wish.turn
        self._velocity.publish(message)

    def _on_cancel(self, goal: Goal) -> None:
        if goal is self._goal:
            result = self.result()
            self._finish()
            goal.canceled(result)

    def _no_odometry(self) -> str:
        topic = self.resolve_topic_name("odom")
        return f"no odometry on {topic} for {ODOMETRY_S} s: is the robot or simulator running?"

    @staticmethod
    def _refused(result: Any, refusal: DriverRefusal) -> Any:
        result.error_code, result.error_msg = refusal.code, str(refusal)
        return result

    def _on_odometry(self, message: Odometry) -> None:
        p, q = message.pose.pose.position, message.pose.pose.orientation
        pose = Pose2D(p.x, p.y, yaw_of(q))
        if math.isfinite(pose.x) and math.isfinite(pose.y) and math.isfinite(pose.yaw):
            self.pose = pose
            self._since_odometry = 0
            self.located(message)

    def located(self, message: Odometry) -> None:
        """Called with each odometry, after `pose` was set."""

    def _on_scan(self, message: LaserScan) -> None:
        if not (math.isfinite(message.angle_min) and math.isfinite(message.angle_increment)):
            return
        self.points = scan_points(
            message.angle_min,
            message.angle_increment,
            message.ranges,
            range_min=message.range_min,
            range_max=message.range_max,
            laser=self.base.laser,
        )
        self._scanned_at = self.steady_now()
        self.scanned(message)

    def _on_halted(self, message: Bool) -> None:
        self._halted = message.data
        if message.data:
            self._end_goal(DriverRefusal(self.HALTED_CODE, HALTED))

    def _on_teleop(self, message: Bool) -> None:
        self._operator = message.data
        if message.data:
            self._end_goal(DriverRefusal(self.BUSY, TELEOP))

    def _end_goal(self, refusal: DriverRefusal, *, still: bool = True) -> None:
        goal = self._goal
        if goal is not None:
            result = self._refused(self.result(), refusal)
            self._finish(still=still)
            goal.abort(result)

    def _on_other_feedback(self, _: Any) -> None:
        self._other_at = self.steady_now()

    def _on_other_status(self, message: GoalStatusArray) -> None:
        live = [status.goal_info.stamp for status in message.status_list if status.status in LIVE]
        self._other_at = self.steady_now() if live else -math.inf
        if self.YIELDS and self._begun and any(at.sec * 10**9 + at.nanosec < self._claimed_ns for at in live):
            # Taken before the other could hear of this goal, and heard of too late to wait for.
            self._end_goal(DriverRefusal(self.BUSY, OTHER), still=False)
