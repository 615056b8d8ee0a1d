# SPDX-License-Identifier: Apache-2.0
"""The driver that plays joint trajectories through the safety gate, several at once on disjoint joints."""

from __future__ import annotations

import math
from typing import Any

from ghostshell.action import MoveJoints
from sensor_msgs.msg import JointState

from ghostshell_ros.drivers.driver import HALTED, Driver, DriverRefusal, Job
from ghostshell_ros.drivers.trajectory import MotionCode, MotionError, Motions, Trajectory
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.lifecycle import gate_silence
from ghostshell_ros.wire.qos import SENSORS, SET_POINTS
from ghostshell_ros.wire.values import seconds
from skill_kernel.robot import RobotConfig

GATE_SILENCE_S = 0.5
"""A running gate answers set-points; this long without an answer, it is gone. Counted in set-points sent, because a
stall of this process is no silence of the gate."""
GATE_SILENT = "the safety gate does not answer set-points: is safety_gate running, and are joint_states published?"
FOLLOWED_RAD = 0.3
"""A joint further than this from its last set-point was moved by somebody else: motion then starts where it is."""


class MoveJointsDriver(Driver):
    """Action `move_joints` (MoveJoints.action). Every goal is accepted; one that cannot be played ends at once as
    aborted with its error code, because a rejection would carry no reason.

    Publishes `joint_command_in` (sensor_msgs/JointState, rad) only while goals run, so that a cancel leaves the joints
    to the gate's hold. Subscribes `joint_states`, `joint_command` (is the gate alive?) and `halted` (latched). While
    the gate is halted or silent, goals end with DRIVER_HALTED.

    Parameters: `robot` (coco), `rate_hz` (50), `gate_wait_s` (5.0), `settle_s` (0.5), and those of ManagedNode.
    """

    def __init__(self, name: str = "move_joints_driver", **options: Any) -> None:
        super().__init__(name, **options)
        robot = RobotConfig.load(self.declare("robot", "coco", "robot's name in config/robots, or a YAML file's path"))
        self.rate_hz = self.declare("rate_hz", 50.0, "set-points a second [Hz]", minimum=10.0, maximum=500.0)
        self.gate_wait_s = self.declare(
            "gate_wait_s", 5.0, "how long a first goal waits for the gate to appear [s]", minimum=0.0, maximum=10.0
        )
        self.settle_s = self.declare(
            "settle_s", 0.5, "time to come within goal_tolerance after the last point [s]", minimum=0.0, maximum=10.0
        )
        self.known = frozenset(robot.joints)
        self.motions = Motions()
        self.measured: dict[str, float] = {}
        self._sent: dict[str, float] = {}
        self._unanswered = 0
        self._unanswered_limit = math.ceil(GATE_SILENCE_S * self.rate_hz)
        self._command = self.create_publisher(JointState, "joint_command_in", SET_POINTS)
        self.create_subscription(JointState, "joint_states", self._on_joint_states, SENSORS)
        self.create_subscription(JointState, "joint_command", self._on_gate, SET_POINTS)
        self.watch_gate(teleop=False)
        self.serve(MoveJoints, "move_joints", lambda goal: _Motion(self, goal))

    @property
    def gate_silent(self) -> bool:
        """Whether the gate has stopped answering set-points."""
        return self._unanswered > self._unanswered_limit

    def start_positions(self, trajectory: Trajectory) -> dict[str, float]:
        """Return the last set-point of each joint that followed it (its measured position sags under load), else the
        measured position."""
        start = {}
        for joint in trajectory.joints:
            measured, sent = self.measured.get(joint), self._sent.get(joint)
            if measured is not None:
                start[joint] = sent if sent is not None and abs(sent - measured) < FOLLOWED_RAD else measured
        return start

    def before_steps(self, now: float) -> None:
        """Send the set-points of all motions in one message."""
        points = self.motions.set_points(now)
        if not points:
            self._unanswered = 0
            return
        self._sent.update(points)
        message = JointState(name=list(points), position=list(points.values()))
        message.header.stamp = self.get_clock().now().to_msg()
        self._command.publish(message)
        self._unanswered += 1

    def _on_joint_states(self, message: JointState) -> None:
        self.measured.update(zip(message.name, message.position, strict=False))

    def _on_gate(self, _: JointState) -> None:
        self._unanswered = 0


class _Motion(Job):
    driver: MoveJointsDriver

    def __init__(self, driver: MoveJointsDriver, goal: Goal) -> None:
        super().__init__(driver, goal)
        self._trajectory: Trajectory | None = None
        self._started_at = 0.0
        self._settling_since: float | None = None

    def step(self, now: float) -> bool:
        driver = self.driver
        if driver.halted:
            raise DriverRefusal(MotionCode.DRIVER_HALTED, HALTED)
        if self._trajectory is None:
            if driver.halted is None:
                if now < self.begun_at + driver.gate_wait_s:
                    return False
                raise DriverRefusal(MotionCode.DRIVER_HALTED, gate_silence(driver))
            self._trajectory = self._started(now)
            return False
        if driver.gate_silent:
            raise DriverRefusal(MotionCode.DRIVER_HALTED, GATE_SILENT)
        return self.goal.goal_id in driver.motions.finished(now) and self._reached(now, self._trajectory)

    def _started(self, now: float) -> Trajectory:
        wished, tolerance = self.goal.request.trajectory, self.goal.request.goal_tolerance
        try:
            if not tolerance >= 0:
                raise MotionError(MotionCode.BAD_TRAJECTORY, f"goal_tolerance {tolerance} rad must be 0 or more")
            trajectory = Trajectory.checked(
                self.driver.known,
                list(wished.joint_names),
                [seconds(p.time_from_start) for p in wished.points],
                [list(p.positions) for p in wished.points],
            )
            self.driver.motions.start(self.goal.goal_id, trajectory, self.driver.start_positions(trajectory), now)
        except MotionError as error:
            raise DriverRefusal(error.code, str(error)) from error
        self._started_at = now
        return trajectory

    def _reached(self, now: float, trajectory: Trajectory) -> bool:
        """Return whether the joints are within tolerance of the last point. Raises DriverRefusal when they stay away."""
        tolerance = self.goal.request.goal_tolerance
        measured = self.driver.measured
        last = zip(trajectory.joints, trajectory.positions[-1], strict=True)
        off = {joint: abs(measured.get(joint, math.inf) - position) for joint, position in last}
        worst = max(off, key=lambda joint: off[joint])
        if tolerance == 0 or off[worst] <= tolerance:
            return True
        if self._settling_since is None:
            self._settling_since = now
        if now - self._settling_since >= self.driver.settle_s:
            text = f"joint '{worst}' is {off[worst]:.3f} rad from its goal, more than {tolerance:.3f}: is it blocked?"
            raise DriverRefusal(MotionCode.NOT_REACHED, text)
        return False

    def ended(self) -> None:
        self.driver.motions.stop(self.goal.goal_id)

    def feedback(self) -> MoveJoints.Feedback:
        return MoveJoints.Feedback(completed_s=self._completed_s())

    def result(self) -> MoveJoints.Result:
        if self._trajectory is None:
            return MoveJoints.Result()
        measured = [self.driver.measured.get(joint, math.nan) for joint in self._trajectory.joints]
        return MoveJoints.Result(completed_s=self._completed_s(), final_positions=measured)

    def _completed_s(self) -> float:
        if self._trajectory is None:
            return 0.0
        return min(self.driver.steady_now() - self._started_at, self._trajectory.duration_s)
