# SPDX-License-Identifier: Apache-2.0
"""Move the joints of arms, and their grippers by the action of ros2_control."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from control_msgs.action import GripperCommand
from sensor_msgs.msg import JointState

from ghostshell_ros.drivers.driver import DriverRefusal, Job
from ghostshell_ros.drivers.move_joints_driver import JointMotion, MoveJointsDriver
from ghostshell_ros.drivers.moveit import MoveIt, PlannedMotion
from ghostshell_ros.drivers.trajectory import MotionCode
from ghostshell_ros.runtime.goal_server import Goal
from ghostshell_ros.runtime.node import Health, Level
from ghostshell_ros.wire.sensing import measured

SPEED = 0.5
"""Share of their largest speed at which fingers move."""
LEAST_S = 0.1
REACHED_M, STILL_M, STILL_S = 0.002, 0.0005, 0.3
"""A gap is reached when it is so near; fingers that move less in that time have stalled."""


class ArmDriver(MoveJointsDriver):
    """Serve what `MoveJointsDriver` serves, and for each arm `<arm>_gripper_controller/gripper_cmd`, a GripperCommand.

    `position` is the gap between the fingers [m]. A `max_effort` above 0 stops their set-points when a finger's measured effort
    reaches it; the servos' own bound holds always. A goal succeeds when the gap is reached, and when the fingers have stalled,
    on a thing perhaps. All set-points go through the safety gate.

    With the parameter `moveit`, goals of `move_joints` with a `planned_speed` are each a `PlannedMotion`, and trajectories of
    the arms' joints are played as the ways of such goals alone: what MoveIt plans for others moves no arm.
    """

    def __init__(self, name: str = "move_joints_driver", **options: Any) -> None:
        super().__init__(name, **options)
        self.efforts: dict[str, float] = {}
        for arm, config in self.arms.items():
            begin = partial(_Gripping, self, fingers=config.fingers)
            self.serve(GripperCommand, f"{arm}_gripper_controller/gripper_cmd", begin)
        planned = self.declare("moveit", False, "let MoveIt find and play the ways of the arms that are asked for so")
        # The others are declared in any case, because one file has them all.
        moveit = partial(
            MoveIt,
            action=self.declare("moveit_action", "move_action", "MoveIt's action; a relative name is the robot's"),
            wait_s=self.declare("moveit_wait_s", 3.0, "how long a goal waits for MoveIt to appear [s]", 0.0, 30.0),
            plan_s=self.declare("moveit_plan_s", 5.0, "time that MoveIt may plan [s]", 0.1, 60.0),
            silence_s=self.declare("moveit_silence_s", 2.0, "silence of MoveIt that ends a goal [s]", 0.5, 30.0),
        )
        self.moveit = moveit(self) if planned else None

    def health(self) -> Health:
        health = super().health()
        if self.moveit is None or self.moveit.client.server_is_ready():
            return health
        return Health(f"{health.message}; {self.moveit.absent()}", Level.WARN, health.values)

    def begin_move(self, goal: Goal) -> Job:
        if self.moveit is not None and goal.request.planned_speed:
            return PlannedMotion(self, goal, self.moveit)
        return super().begin_move(goal)

    def begin_following(self, goal: Goal) -> JointMotion:
        if self.moveit is None:
            return super().begin_following(goal)
        named = set(goal.request.trajectory.joint_names)
        ways = [job for job in self.jobs.values() if isinstance(job, PlannedMotion) and job.joints & named]
        try:
            motion = super().begin_following(goal)
            arms = {joint for arm in self.arms.values() for joint in arm.joints}
            if arms & named and not any(way.takes(motion) for way in ways):
                text = "no goal of move_joints asks for this way now: what MoveIt plans by itself, as for RViz, moves no arm"
                raise DriverRefusal(MotionCode.JOINTS_BUSY, text)
        except DriverRefusal as refusal:
            for way in ways:
                way.refused = str(refusal)
            raise
        return motion

    def on_joint_states(self, message: JointState) -> None:
        super().on_joint_states(message)
        self.efforts.update(measured(message.name, message.effort))


class _Gripping(JointMotion):
    driver: ArmDriver

    def __init__(self, driver: ArmDriver, goal: Goal, fingers: Sequence[str]) -> None:
        self.fingers = fingers
        self.command = goal.request.command
        self._kept: dict[str, float] = {}
        """Set-points at which the fingers stay once they press hard enough."""
        self._gap, self._moved_at = math.nan, 0.0
        self._stalled = False
        super().__init__(driver, goal)

    def wished(self, request: GripperCommand.Goal) -> tuple[Sequence[str], Sequence[float], Sequence[Sequence[float]]]:
        each = request.command.position / len(self.fingers)
        limits = [self.driver.joints[finger] for finger in self.fingers]
        if not all(limit.lower <= each <= limit.upper for limit in limits) or not request.command.max_effort >= 0:
            most = len(limits) * min(limit.upper for limit in limits)
            text = (
                f"gap {request.command.position:.3f} m, effort {request.command.max_effort:g} N: the gap is 0 to {most:.3f} m"
            )
            raise DriverRefusal(MotionCode.BAD_TRAJECTORY, text)
        start = self.driver.start_positions()
        ways = [
            abs(each - start.get(finger, each)) / limit.max_velocity for finger, limit in zip(self.fingers, limits, strict=True)
        ]
        return self.fingers, [max(LEAST_S, *(way / SPEED for way in ways))], [[each] * len(self.fingers)]

    def points(self, now: float) -> list[tuple[str, float, float]]:
        wished = super().points(now)
        if not self._kept and 0 < self.command.max_effort <= self.effort:
            self._kept = {finger: wish for finger, wish, _ in wished}
        return [(finger, self._kept.get(finger, wish), measured) for finger, wish, measured in wished]

    def step(self, now: float) -> bool:
        if not (super().step(now) or self._kept):
            return False
        if not abs(self.gap - self._gap) <= STILL_M:
            self._gap, self._moved_at = self.gap, now
        self._stalled = not self.reached and now - self._moved_at >= STILL_S
        return self.reached or self._stalled

    @property
    def gap(self) -> float:
        """Return how far the fingers are apart [m]."""
        return sum(self.driver.measured.get(finger, math.nan) for finger in self.fingers)

    @property
    def effort(self) -> float:
        """Return the largest effort of a finger [N], 0 where none is measured."""
        return max(abs(self.driver.efforts.get(finger, 0.0)) for finger in self.fingers)

    @property
    def reached(self) -> bool:
        """Return whether the gap is as it was asked for."""
        return abs(self.gap - self.command.position) <= REACHED_M

    def report(self) -> dict[str, Any]:
        return {"position": self.gap, "effort": self.effort, "stalled": self._stalled, "reached_goal": self.reached}
