# SPDX-License-Identifier: Apache-2.0
"""Have MoveIt find ways of an arm and carry them out, by its action MoveGroup; its set-points pass the safety gate like any."""

from __future__ import annotations

import math
from typing import Any

from ghostshell.action import MoveJoints

from ghostshell_ros.drivers.driver import HALTED, DriverRefusal, Job
from ghostshell_ros.drivers.move_joints_driver import JointMotion, MoveJointsDriver
from ghostshell_ros.drivers.trajectory import MotionCode, Trajectory, within
from ghostshell_ros.runtime.goal_client import ANSWER_S, GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.lifecycle import gate_silence
from ghostshell_ros.runtime.node import NodeStartError
from skill_kernel.codes import CallCode
from skill_kernel.config.sections import shown

GOAL_RAD, SAME_RAD = 0.001, 0.01
"""Tolerance of the goal that MoveIt gets, and by how much the end of its trajectory may differ from that goal."""
ASK_S = 0.5
"""Time between two questions whether the server is alive: it sends feedback at the beginning of a phase only."""
MORE_S, END_S = 3.0, 3.0
"""Time beyond that for planning in which the arm begins to move, and time after its motion in which its end is told."""
ENDS = {
    GoalEnd.REJECTED: (CallCode.DRIVER_INACTIVE, "MoveIt rejected the goal: see the log of move_group"),
    GoalEnd.UNKNOWN: (CallCode.DRIVER_LOST, "MoveIt does not know the goal any more: it was restarted"),
    GoalEnd.CANCELED: (MotionCode.NO_WAY, "somebody else cancelled the goal at MoveIt: ask again"),
}
"""Code and reason of goals that MoveIt neither reached nor gave up."""


class MoveIt:
    """Be the client of MoveIt (moveit_msgs/action/MoveGroup), and know whether its server answers."""

    def __init__(self, driver: MoveJointsDriver, *, action: str, wait_s: float, plan_s: float, silence_s: float) -> None:
        """Make the client. Raises NodeStartError without moveit_msgs."""
        try:
            from moveit_msgs.action import MoveGroup
            from moveit_msgs.msg import Constraints, JointConstraint, MoveItErrorCodes
        except ImportError as error:
            raise NodeStartError(
                f"moveit needs moveit_msgs ({error}): install it (`sudo apt install ros-jazzy-moveit-msgs`) and source ROS "
                "again, or set moveit to false"
            ) from error
        self._driver, self._type, self._constraints, self._constraint = driver, MoveGroup, Constraints, JointConstraint
        self.wait_s, self.plan_s, self.silence_s = wait_s, plan_s, silence_s
        self.action = driver.resolve_topic_name(action)
        self.client = GoalClient(driver, MoveGroup, action)
        self._names = {getattr(MoveItErrorCodes, name): name for name in dir(type(MoveItErrorCodes)) if name.isupper()}
        self._asked_at = self._heard_at = -math.inf

    def absent(self) -> str:
        """Return what to do while it is not there."""
        return f"no action server {self.action} answers: start MoveIt (move_group), or launch without moveit:=true"

    def alive(self, now: float) -> bool:
        """Return whether the server has answered in the last `silence_s`. Call it repeatedly."""
        if self.client.server_is_ready():
            self._heard_at = now
            if now - self._asked_at >= ASK_S:
                self._asked_at = now
                self.client.doubt()
        return now - self._heard_at <= self.silence_s

    def send(self, group: str, goal: dict[str, float], speed: float, **callbacks: Any) -> SentGoal:
        """Ask for a way of a group from where it is to joints [rad], at a share of its speed and acceleration."""
        message = self._type.Goal()
        request, options = message.request, message.planning_options
        request.group_name, request.num_planning_attempts, request.allowed_planning_time = group, 1, self.plan_s
        request.max_velocity_scaling_factor = request.max_acceleration_scaling_factor = speed
        wishes = [
            self._constraint(joint_name=j, position=q, tolerance_above=GOAL_RAD, tolerance_below=GOAL_RAD, weight=1.0)
            for j, q in goal.items()
        ]
        request.goal_constraints = [self._constraints(joint_constraints=wishes)]
        # Differences that are empty: the state and the scene that MoveIt knows hold.
        request.start_state.is_diff = options.planning_scene_diff.is_diff = True
        options.planning_scene_diff.robot_state.is_diff = True
        self._heard_at = self._driver.steady_now()
        return self.client.send(message, **callbacks)

    def why(self, result: Any) -> str:
        """Return why it gave a goal up, "" where it says that it reached it."""
        code, text = int(result.error_code.val), shown(str(result.error_code.message))
        if code == result.error_code.SUCCESS:
            return ""
        return f"MoveIt gave up ({self._names.get(code, f'code {code}')}{f': {text}' if text else ''})"


class PlannedMotion(Job):
    """Bring an arm to joints on a way that MoveIt finds and plays by `follow_joint_trajectory` of the same driver.

    That action takes trajectories of the arm's joints while this goal runs and they end where it does, and ends them with it,
    whatever MoveIt does meanwhile. Success is what the joints measure, not what MoveIt says.
    """

    driver: MoveJointsDriver

    def __init__(self, driver: MoveJointsDriver, goal: Goal, moveit: MoveIt) -> None:
        """Take a goal of `move_joints`. Raises DriverRefusal."""
        super().__init__(driver, goal)
        self._moveit, request = moveit, goal.request
        if not 0.0 < request.planned_speed <= 1.0:
            raise _refusal(f"planned_speed {request.planned_speed:g} is not in 0 to 1: give a share of the joints' speeds")
        if not request.goal_tolerance >= 0:
            raise _refusal(f"goal_tolerance {request.goal_tolerance} rad must be 0 or more")
        last = [list(point.positions) for point in request.trajectory.points[-1:]]
        self._to = Trajectory.checked(driver.joints.keys(), list(request.trajectory.joint_names), [0.0] * len(last), last)
        self._to.check_limits(driver.joints)
        self.joints = set(self._to.joints)
        self._group = next((name for name, arm in driver.arms.items() if set(arm.joints) == self.joints), "")
        if not self._group:
            raise _refusal(f"MoveIt moves one arm, with all of its joints: those of {' or '.join(driver.arms)}")
        others = [job for job in driver.jobs.values() if isinstance(job, PlannedMotion)]
        if any(self.joints.intersection(other.joints) for other in others):
            text = f"{self._group} moves for another goal: wait or cancel that one"
            raise DriverRefusal(MotionCode.JOINTS_BUSY, text)
        self._sent: SentGoal | None = None
        self._end: tuple[GoalEnd, Any] | None = None
        self._sent_at = self._accepted_at = self._moved_at = self._ended_at = 0.0
        self._motion: JointMotion | None = None
        self.refused = ""
        """Why the driver did not take a trajectory of this arm; "" where it has refused none."""

    def takes(self, motion: JointMotion) -> bool:
        """Return whether a trajectory is this goal's way, and take it as that."""
        goal, end = self._to.end(), motion.trajectory.end()
        if self._sent is None or self._end is not None or not self.joints.issuperset(end):
            return False
        if any(abs(position - goal[joint]) > SAME_RAD for joint, position in end.items()):
            return False
        self._motion, self._moved_at = motion, self.driver.steady_now()
        return True

    def step(self, now: float) -> bool:
        if self.driver.halted:
            raise DriverRefusal(MotionCode.DRIVER_HALTED, HALTED)
        if self._end is not None:
            return self._arrived(now, *self._end)
        if self._sent is None:
            self._send_when_ready(now)
        elif not self._sent.accepted:
            if self._moveit.client.unanswered(self._sent, self._sent_at):
                text = f"MoveIt did not answer within {2 * ANSWER_S:g} s: is move_group alive?"
                raise DriverRefusal(CallCode.DRIVER_UNAVAILABLE, text)
        else:
            self._watch(now)
        return False

    def feedback(self) -> MoveJoints.Feedback:
        return MoveJoints.Feedback(completed_s=self._completed_s())

    def result(self) -> MoveJoints.Result:
        measured = [self.driver.measured.get(joint, math.nan) for joint in self._to.joints]
        return MoveJoints.Result(completed_s=self._completed_s(), final_positions=measured)

    def ended(self) -> None:
        if self._sent is not None:
            self._sent.abandon()
        if self._motion is not None:
            self._motion.revoked = "the goal that this way is of has ended"

    def _completed_s(self) -> float:
        return 0.0 if self._motion is None else self._motion.completed_s

    def _send_when_ready(self, now: float) -> None:
        driver, moveit = self.driver, self._moveit
        waited_s = now - self.begun_at
        if driver.halted is None:
            if waited_s >= driver.gate_wait_s:
                raise DriverRefusal(MotionCode.DRIVER_HALTED, gate_silence(driver))
        elif moveit.client.server_is_ready():
            self._sent_at = now
            self._sent = moveit.send(
                self._group,
                self._to.end(),
                float(self.goal.request.planned_speed),
                on_end=self._on_end,
                on_accepted=self._on_accepted,
            )
        elif waited_s > moveit.wait_s:
            raise DriverRefusal(CallCode.DRIVER_UNAVAILABLE, moveit.absent())

    def _watch(self, now: float) -> None:
        """Raise DriverRefusal where MoveIt has died, hangs, or does not say how its motion ended."""
        moveit, motion = self._moveit, self._motion
        if not moveit.alive(now):
            text = f"MoveIt has not answered for {moveit.silence_s:g} s: move_group died or hangs"
            raise DriverRefusal(CallCode.DRIVER_LOST, text)
        if motion is None:
            if now - self._accepted_at > (most_s := moveit.plan_s + MORE_S):
                text = f"MoveIt has neither moved {self._group} nor given up within {most_s:g} s: see the log of move_group"
                raise DriverRefusal(MotionCode.NO_WAY, text)
        elif motion.goal.goal_id in self.driver.jobs:
            self._moved_at = now
        elif now - self._moved_at > END_S:
            text = f"MoveIt has not said within {END_S:g} s how its motion ended{self._because()}: see the log of move_group"
            raise DriverRefusal(CallCode.DRIVER_LOST, text)

    def _arrived(self, now: float, end: GoalEnd, result: Any) -> bool:
        """Return whether the arm is there, where MoveIt says so. Raises DriverRefusal with the reason where it is not."""
        if end in ENDS:
            raise DriverRefusal(*ENDS[end])
        if (why := self._moveit.why(result)) or end is GoalEnd.ABORTED:
            raise DriverRefusal(MotionCode.NO_WAY, f"{why or 'MoveIt gave up'}{self._because()}")
        tolerance, measured = float(self.goal.request.goal_tolerance), self.driver.measured
        off = {joint: abs(measured.get(joint, math.nan) - wish) for joint, wish in self._to.end().items()}
        try:
            within(MotionCode.NOT_REACHED, off, dict.fromkeys(off, tolerance) if tolerance else {}, "its goal")
        except DriverRefusal:
            if now - self._ended_at >= self.driver.settle_s:
                raise
            return False
        return True

    def _because(self) -> str:
        """Return what the driver knows of why MoveIt failed."""
        why = self._motion.why if self._motion is not None else self.refused
        return f"; the driver says of its trajectory: {why}" if why else ""

    def _on_accepted(self) -> None:
        self._accepted_at = self.driver.steady_now()

    def _on_end(self, end: GoalEnd, result: Any) -> None:
        self._end, self._ended_at = (end, result), self.driver.steady_now()


def _refusal(text: str) -> DriverRefusal:
    return DriverRefusal(MotionCode.BAD_TRAJECTORY, text)
