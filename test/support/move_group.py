# SPDX-License-Identifier: Apache-2.0
"""A server of MoveIt's action MoveGroup: it interpolates between joints, and has the robot's controller play what it planned.

`python3 move_group.py --ros-args -r __ns:=/atlas` runs it as a process of its own, which a test may kill.
"""

from __future__ import annotations

import sys
from typing import Any

from control_msgs.action import FollowJointTrajectory
from moveit_msgs.action import MoveGroup
from moveit_msgs.msg import MoveItErrorCodes
from rclpy.duration import Duration
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ghostshell_ros.runtime.goal_client import GoalClient, GoalEnd, SentGoal
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.node import RuntimeNode
from ghostshell_ros.wire.qos import SENSORS

STEP_S = 0.05


class MoveGroupServer(RuntimeNode):
    """Plans straight through the joints' space, at `speed` [rad/s]. `moods` and `code` change what it does."""

    def __init__(self, namespace: str | None = None, speed: float = 1.0) -> None:
        super().__init__("move_group", namespace=namespace)
        self.speed, self.code = speed, MoveItErrorCodes.SUCCESS
        self.moods: set[str] = set()
        self.goals: list[Any] = []
        self.cancelled: list[bytes] = []
        self.played: list[tuple[GoalEnd, Any]] = []
        """How its trajectories ended at the controller."""
        self.joints: dict[str, float] = {}
        self._playing: SentGoal | None = None
        self.create_subscription(JointState, "joint_states", self._on_joints, SENSORS)
        self.controller = GoalClient(self, FollowJointTrajectory, "joint_trajectory_controller/follow_joint_trajectory")
        GoalServer(self, MoveGroup, "move_action", on_goal=self._on_goal, on_cancel=self._on_cancel)
        self.steady_timer(0.1, self.controller.server_is_ready)

    def refuses_goals(self) -> str:
        return "inactive" if "inactive" in self.moods else ""

    def _on_joints(self, message: JointState) -> None:
        self.joints = dict(zip(message.name, message.position, strict=True))

    def _on_goal(self, goal: Goal) -> None:
        self.goals.append(goal.request)
        goal.feedback(MoveGroup.Feedback(state="PLANNING"))
        if self.code != MoveItErrorCodes.SUCCESS:
            goal.abort(_result(self.code))
        elif "lazy" in self.moods:
            goal.succeed(_result(self.code))
        elif "hangs" not in self.moods:
            request = goal.request.request
            wishes = {wish.joint_name: wish.position for wish in request.goal_constraints[0].joint_constraints}
            self.play(self.plan(wishes, self.speed * request.max_velocity_scaling_factor), goal)

    def plan(self, wishes: dict[str, float], speed: float) -> JointTrajectory:
        """Return a straight way from where the joints are, with a point every 0.05 s."""
        most = max(abs(wish - self.joints[joint]) for joint, wish in wishes.items())
        steps = max(1, round(most / speed / STEP_S))
        made = JointTrajectory(joint_names=list(wishes))
        for k in range(steps + 1):
            at = [self.joints[joint] + (wish - self.joints[joint]) * k / steps for joint, wish in wishes.items()]
            made.points.append(JointTrajectoryPoint(positions=at, time_from_start=Duration(seconds=k * STEP_S).to_msg()))
        return made

    def play(self, trajectory: JointTrajectory, goal: Goal | None = None) -> None:
        """Have the controller play a trajectory, and end the goal as it ends."""

        def ended(end: GoalEnd, result: Any) -> None:
            self.played.append((end, result))
            if goal is None:
                return
            if end is GoalEnd.SUCCEEDED:
                goal.succeed(_result(MoveItErrorCodes.SUCCESS))
            elif goal.goal_id in self.cancelled:
                goal.canceled(_result(MoveItErrorCodes.PREEMPTED))
            else:
                goal.abort(_result(MoveItErrorCodes.CONTROL_FAILED))

        self._playing = self.controller.send(FollowJointTrajectory.Goal(trajectory=trajectory), on_end=ended)

    def _on_cancel(self, goal: Goal) -> None:
        self.cancelled.append(goal.goal_id)
        if "deaf" in self.moods:
            return
        if self._playing is None or self._playing.ended:
            goal.canceled(_result(MoveItErrorCodes.PREEMPTED))
        else:
            self._playing.cancel()


def _result(code: int) -> MoveGroup.Result:
    return MoveGroup.Result(error_code=MoveItErrorCodes(val=code))


if __name__ == "__main__":
    from ghostshell_ros.runtime.node_runtime import run

    sys.exit(run(MoveGroupServer))
