# SPDX-License-Identifier: Apache-2.0
"""Play joint trajectories through the safety gate, several at once on disjoint joints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from ghostshell.action import MoveJoints
from rclpy.duration import Duration
from sensor_msgs.msg import JointState

from ghostshell_ros.drivers.driver import HALTED, Driver, DriverRefusal, Job
from ghostshell_ros.drivers.trajectory import MotionCode, Trajectory, within
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.lifecycle import gate_silence
from ghostshell_ros.wire.qos import SENSORS, SET_POINTS
from ghostshell_ros.wire.sensing import measured
from ghostshell_ros.wire.values import seconds
from skill_kernel.robot import RobotConfig

GATE_SILENCE_S = 0.5
"""Time without an answer to set-points after which the gate is gone. Counted in set-points sent, because a stall of this
process is no silence of the gate."""
GATE_SILENT = "the safety gate does not answer set-points: is safety_gate running, and are joint_states published?"
AHEAD_S = 60.0
"""Time for which a trajectory may have to wait for the stamp in its header: one of another clock lies further ahead."""
FOLLOWED_RAD = 0.3
"""Distance from its last set-point beyond which somebody else moved a joint: motion then starts where it is."""


class MoveJointsDriver(Driver):
    """Serve the actions `move_joints` and, for tools such as MoveIt, `joint_trajectory_controller/follow_joint_trajectory`.

    Their types are MoveJoints.action and control_msgs/FollowJointTrajectory. A goal that cannot be played ends at once as
    aborted with its error code, because a rejection would carry no reason.

    FollowJointTrajectory: some or all joints; positions are joined by straight lines; a trajectory beyond the joints' ranges
    or speeds is refused whole; a stamp in the header is when it starts, a minute ahead at most; tolerances of velocity are
    refused.

    It commands only while goals run, so that a cancel leaves the joints to the gate's hold. While the gate is halted or
    silent, goals end with DRIVER_HALTED.
    """

    def __init__(self, name: str = "move_joints_driver", **options: Any) -> None:
        super().__init__(name, **options)
        robot = RobotConfig.load(self.declare("robot", "coco", "robot's name in config/robots, or a YAML file's path"))
        self.rate_hz = self.declare("rate_hz", 50.0, "set-points a second [Hz]", 10.0, 500.0)
        self.gate_wait_s = self.declare("gate_wait_s", 5.0, "how long a first goal waits for the gate to appear [s]", 0.0, 10.0)
        self.settle_s = self.declare("settle_s", 0.5, "time to come within goal_tolerance after the last point [s]", 0.0, 10.0)
        self.joints, self.arms = robot.joints, robot.arms
        self.measured: dict[str, float] = {}
        self._sent: dict[str, float] = {}
        self.unanswered = 0
        """Set-points that the gate has not answered."""
        self.unanswered_limit = math.ceil(GATE_SILENCE_S * self.rate_hz)
        self._command = self.create_publisher(JointState, "joint_command_in", SET_POINTS)
        self.create_subscription(JointState, "joint_states", self.on_joint_states, SENSORS)
        self.create_subscription(JointState, "joint_command", self._on_gate, SET_POINTS)
        self.watch_gate(teleop=False)
        self.serve(MoveJoints, "move_joints", self.begin_move)
        name = "joint_trajectory_controller/follow_joint_trajectory"
        self.serve(FollowJointTrajectory, name, self.begin_following, code=_standard)

    def begin_move(self, goal: Goal) -> Job:
        """Return the job of a goal of `move_joints`. Raises DriverRefusal."""
        if goal.request.planned_speed:
            text = "planned_speed is set, and nobody plans here: launch with moveit:=true, for a robot with arms"
            raise DriverRefusal(MotionCode.BAD_TRAJECTORY, text)
        return _MoveJoints(self, goal)

    def begin_following(self, goal: Goal) -> JointMotion:
        """Return the job of a goal of `follow_joint_trajectory`. Raises DriverRefusal."""
        return _FollowJointTrajectory(self, goal)

    def start_positions(self) -> dict[str, float]:
        """Return where motion of the measured joints starts [rad]: at the last set-point, else where the joint was measured.

        The set-point counts while the joint is near it, because its measured position sags under load.
        """
        follows = {j: sent for j, sent in self._sent.items() if abs(sent - self.measured.get(j, math.inf)) < FOLLOWED_RAD}
        return {**self.measured, **follows}

    def playing(self) -> list[JointMotion]:
        """Return the motions that have started."""
        jobs = [job for job in self.jobs.values() if isinstance(job, JointMotion)]
        return [job for job in jobs if job.started_at is not None and not job.revoked]

    def before_steps(self, now: float) -> None:
        """Send the set-points of all motions in one message."""
        points = {joint: wished for motion in self.playing() for joint, wished, _ in motion.points(now)}
        if not points:
            self.unanswered = 0
            return
        self._sent.update(points)
        message = JointState(name=list(points), position=list(points.values()))
        message.header.stamp = self.get_clock().now().to_msg()
        self._command.publish(message)
        self.unanswered += 1

    def on_joint_states(self, message: JointState) -> None:
        self.measured.update(measured(message.name, message.position))

    def _on_gate(self, _: JointState) -> None:
        self.unanswered = 0


class JointMotion(Job):
    """Play a trajectory, watch the tolerances of its joints, and wait for them at its end."""

    driver: MoveJointsDriver

    def __init__(self, driver: MoveJointsDriver, goal: Goal) -> None:
        super().__init__(driver, goal)
        self.goal_rad: Mapping[str, float] = {}
        self.path_rad: Mapping[str, float] = {}
        """Distance each joint may have from its end and from its way; one that is not named is not watched."""
        self.settle_s = driver.settle_s
        self.delay_s = 0.0
        self.started_at: float | None = None
        self.revoked = ""
        """Why it must not go on, "" while it may."""
        self._start: tuple[float, ...] = ()
        self.trajectory = Trajectory.checked(driver.joints.keys(), *self.wished(goal.request))
        self.take(goal.request)

    def wished(self, request: Any) -> tuple[Sequence[str], Sequence[float], Sequence[Sequence[float]]]:
        """Return the joints that the goal moves, times [s] and positions [rad] at them. May raise DriverRefusal."""
        points = request.trajectory.points
        times = [seconds(point.time_from_start) for point in points]
        return list(request.trajectory.joint_names), times, [list(point.positions) for point in points]

    def take(self, request: Any) -> None:
        """Read what else the goal says of the trajectory. Raises DriverRefusal."""

    def step(self, now: float) -> bool:
        driver = self.driver
        if driver.halted:
            raise DriverRefusal(MotionCode.DRIVER_HALTED, HALTED)
        if self.revoked:
            raise DriverRefusal(MotionCode.JOINTS_BUSY, self.revoked)
        if self.started_at is None:
            if driver.halted is not None:
                others = {joint for motion in driver.playing() for joint in motion.trajectory.joints}
                if busy := others.intersection(self.trajectory.joints):
                    text = f"joints {', '.join(sorted(busy))} are moving for another goal: wait or cancel that one"
                    raise DriverRefusal(MotionCode.JOINTS_BUSY, text)
                self._start = self.trajectory.start_from(driver.start_positions())
                self.started_at = now + self.delay_s
            elif now >= self.begun_at + driver.gate_wait_s:
                raise DriverRefusal(MotionCode.DRIVER_HALTED, gate_silence(driver))
            return False
        if driver.unanswered > driver.unanswered_limit:
            raise DriverRefusal(MotionCode.DRIVER_HALTED, GATE_SILENT)
        off = {joint: abs(measured - wished) for joint, wished, measured in self.points(now)}
        within(MotionCode.PATH_LEFT, off, self.path_rad, "its way")
        late_s = now - self.started_at - self.trajectory.duration_s
        if late_s < 0:
            return False
        try:
            within(MotionCode.NOT_REACHED, off, self.goal_rad, "its goal")
        except DriverRefusal:
            if late_s >= self.settle_s:
                raise
            return False
        return True

    @property
    def completed_s(self) -> float:
        """Return the seconds of the trajectory that were played."""
        return 0.0 if self.started_at is None else min(self.driver.steady_now() - self.started_at, self.trajectory.duration_s)

    def points(self, now: float) -> list[tuple[str, float, float]]:
        """Return each joint with its wished and its measured position."""
        assert self.started_at is not None
        wished = self.trajectory.sample(now - self.started_at, self._start)
        measured = self.driver.measured
        return [(j, wish, measured.get(j, math.nan)) for j, wish in zip(self.trajectory.joints, wished, strict=True)]


class _MoveJoints(JointMotion):
    def take(self, request: MoveJoints.Goal) -> None:
        tolerance = request.goal_tolerance
        if not tolerance >= 0:
            raise DriverRefusal(MotionCode.BAD_TRAJECTORY, f"goal_tolerance {tolerance} rad must be 0 or more")
        self.goal_rad = dict.fromkeys(self.trajectory.joints, tolerance) if tolerance else {}

    def feedback(self) -> MoveJoints.Feedback:
        return MoveJoints.Feedback(completed_s=self.completed_s)

    def result(self) -> MoveJoints.Result:
        if self.started_at is None:
            return MoveJoints.Result()
        measured = [self.driver.measured.get(joint, math.nan) for joint in self.trajectory.joints]
        return MoveJoints.Result(completed_s=self.completed_s, final_positions=measured)


_ERRORS: dict[int, int] = {
    MotionCode.UNKNOWN_JOINT: FollowJointTrajectory.Result.INVALID_JOINTS,
    MotionCode.NOT_REACHED: FollowJointTrajectory.Result.GOAL_TOLERANCE_VIOLATED,
    MotionCode.PATH_LEFT: FollowJointTrajectory.Result.PATH_TOLERANCE_VIOLATED,
    MotionCode.TOO_LATE: FollowJointTrajectory.Result.OLD_HEADER_TIMESTAMP,
}
"""Codes of the action; it has only INVALID_GOAL for all others."""


def _standard(code: int) -> int:
    return _ERRORS.get(code, FollowJointTrajectory.Result.INVALID_GOAL)


class _FollowJointTrajectory(JointMotion):
    def take(self, request: FollowJointTrajectory.Goal) -> None:
        if request.multi_dof_trajectory.joint_names or request.component_path_tolerance or request.component_goal_tolerance:
            raise DriverRefusal(
                MotionCode.UNKNOWN_JOINT, "there is no joint of several degrees of freedom: leave those fields empty"
            )
        self.trajectory.check_limits(self.driver.joints)
        self.path_rad, self.goal_rad = self._tolerances(request.path_tolerance), self._tolerances(request.goal_tolerance)
        self.settle_s = seconds(request.goal_time_tolerance) or self.settle_s
        if at := seconds(request.trajectory.header.stamp):
            self.delay_s = at - self.driver.now_s()
            if self.delay_s + self.trajectory.duration_s < 0:
                text = f"the trajectory ended {-self.delay_s - self.trajectory.duration_s:.1f} s ago by its header's stamp"
                raise DriverRefusal(MotionCode.TOO_LATE, text)
            if self.delay_s > AHEAD_S:
                text = f"its header's stamp is {self.delay_s:.0f} s ahead, more than {AHEAD_S:g}: is it of another clock?"
                raise DriverRefusal(MotionCode.BAD_TRAJECTORY, text)

    def _tolerances(self, given: Sequence[JointTolerance]) -> dict[str, float]:
        """Return the tolerances to watch: in the action, 0 is the driver's default, which is none, and below 0 is none."""
        for one in given:
            if one.name not in self.trajectory.joints:
                text = f"a tolerance names the joint '{one.name[:80]}', which the trajectory does not move"
                raise DriverRefusal(MotionCode.UNKNOWN_JOINT, text)
            if not math.isfinite(one.position) or not max(one.velocity, one.acceleration) <= 0:
                text = f"tolerance of '{one.name}': only positions are watched; give a number of rad, and 0 for the others"
                raise DriverRefusal(MotionCode.BAD_TRAJECTORY, text)
        return {one.name: one.position for one in given if one.position > 0}

    def feedback(self) -> FollowJointTrajectory.Feedback:
        message = FollowJointTrajectory.Feedback(joint_names=self.trajectory.joints)
        message.header.stamp = self.driver.get_clock().now().to_msg()
        if self.started_at is not None:
            now = self.driver.steady_now()
            _, wished, measured = zip(*self.points(now), strict=True)
            message.desired.positions, message.actual.positions = wished, measured
            message.error.positions = [a - b for a, b in zip(wished, measured, strict=True)]
            elapsed = Duration(seconds=max(0.0, now - self.started_at)).to_msg()
            message.desired.time_from_start = message.actual.time_from_start = message.error.time_from_start = elapsed
        return message
