# SPDX-License-Identifier: Apache-2.0
"""The action server that plays joint trajectories through the safety gate, several at once on disjoint joints."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from ghostshell.action import MoveJoints
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool

from ghostshell_ros.drivers.trajectory import MotionCode, MotionError, Motions, Trajectory
from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.lifecycle import ManagedNode
from ghostshell_ros.runtime.node_runtime import LATCHED, SENSORS, SET_POINTS, Later, run
from skill_kernel.robot import RobotConfig

FEEDBACK_S = 0.1
GATE_SILENCE_S = 0.5
"""A running gate answers set-points; this long without an answer, it is gone. Counted in set-points sent, because a
stall of this process is no silence of the gate."""
HALTED = "the safety gate is halted: call clear_halt when it is safe"
GATE_SILENT = "the safety gate does not answer set-points: is safety_gate running, and are joint_states published?"
FOLLOWED_RAD = 0.3
"""A joint further than this from its last set-point was moved by somebody else: motion then starts where it is."""


@dataclass
class _Run:
    goal: Goal
    trajectory: Trajectory
    started_at: float
    told_at: float
    settling_since: float | None = None


class MoveJointsDriver(ManagedNode):
    """Action `move_joints` (MoveJoints.action). Every goal is accepted; one that cannot be played ends at once as
    aborted with its error code, because a rejection would carry no reason.

    Publishes `joint_command_in` (sensor_msgs/JointState, rad) only while goals run, so that a cancel leaves the joints
    to the gate's hold. Subscribes `joint_states`, `joint_command` (is the gate alive?) and `halted` (latched). While
    the gate is halted or silent, goals end with DRIVER_HALTED.

    Parameters: `robot` (coco), `rate_hz` (50), `gate_wait_s` (5.0), `settle_s` (0.5), and those of ManagedNode.
    """

    def __init__(self) -> None:
        super().__init__("move_joints_driver")
        robot = RobotConfig.load(self.declare("robot", "coco", "robot's name in config/robots, or a YAML file's path"))
        rate = self.declare("rate_hz", 50.0, "set-points a second [Hz]", minimum=10.0, maximum=500.0)
        self._gate_wait_s = self.declare(
            "gate_wait_s", 5.0, "how long a first goal waits for the gate to appear [s]", minimum=0.0, maximum=10.0
        )
        self._settle_s = self.declare(
            "settle_s", 0.5, "time to come within goal_tolerance after the last point [s]", minimum=0.0, maximum=10.0
        )
        self._known = frozenset(robot.joints)
        self._motions = Motions()
        self._runs: dict[bytes, _Run] = {}
        self._waiting: dict[bytes, tuple[Goal, Later]] = {}
        self._measured: dict[str, float] = {}
        self._sent: dict[str, float] = {}
        self._halted: bool | None = None
        self._unanswered = 0
        self._unanswered_limit = math.ceil(GATE_SILENCE_S * rate)

        self._command = self.create_publisher(JointState, "joint_command_in", SET_POINTS)
        self.create_subscription(JointState, "joint_states", self._on_joint_states, SENSORS)
        self.create_subscription(JointState, "joint_command", self._on_gate, SET_POINTS)
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        self._timer = self.steady_timer(1.0 / rate, self._tick)
        self._timer.cancel()
        self._server = GoalServer(self, MoveJoints, "move_joints", on_goal=self._on_goal, on_cancel=self._on_cancel)

    def _on_joint_states(self, message: JointState) -> None:
        self._measured.update(zip(message.name, message.position, strict=False))

    def _on_gate(self, _: JointState) -> None:
        self._unanswered = 0

    def _on_halted(self, message: Bool) -> None:
        self._halted = message.data
        if message.data:
            for run_ in list(self._runs.values()):
                self._abort(run_, MotionCode.DRIVER_HALTED, HALTED)
        for goal, timer in list(self._waiting.values()):
            timer.cancel()
            del self._waiting[goal.goal_id]
            self._begin(goal)

    def _on_goal(self, goal: Goal) -> None:
        if self._halted is None:
            self._await_gate(goal, self.steady_now() + self._gate_wait_s)
        else:
            self._begin(goal)

    def _await_gate(self, goal: Goal, deadline: float) -> None:
        """Before the gate was ever heard: look again at every heartbeat, refuse at the deadline."""
        if self.steady_now() < deadline:
            goal.feedback(MoveJoints.Feedback())
            later = self.call_later(FEEDBACK_S, lambda: self._await_gate(goal, deadline))
            self._waiting[goal.goal_id] = (goal, later)
            return
        self._waiting.pop(goal.goal_id, None)
        topic = self.resolve_topic_name("halted")
        text = f"no safety gate was heard on {topic}: is it running, and are joint_states published?"
        goal.abort(self._failed(MotionCode.DRIVER_HALTED, text))

    def _begin(self, goal: Goal) -> None:
        wished = goal.request.trajectory
        times = [p.time_from_start.sec + p.time_from_start.nanosec * 1e-9 for p in wished.points]
        now = self.steady_now()
        try:
            if self._halted:
                raise MotionError(MotionCode.DRIVER_HALTED, HALTED)
            if not goal.request.goal_tolerance >= 0:
                raise MotionError(
                    MotionCode.BAD_TRAJECTORY, f"goal_tolerance {goal.request.goal_tolerance} rad must be 0 or more"
                )
            trajectory = Trajectory.checked(
                self._known, list(wished.joint_names), times, [list(p.positions) for p in wished.points]
            )
            self._motions.start(goal.goal_id, trajectory, self._start_positions(trajectory), now)
        except MotionError as error:
            goal.abort(self._failed(error.code, str(error)))
            return
        if not self._runs:
            self._unanswered = 0
        self._runs[goal.goal_id] = _Run(goal, trajectory, started_at=now, told_at=now)
        if self._timer.is_canceled():
            self._timer.reset()
        self._tick()

    def _start_positions(self, trajectory: Trajectory) -> dict[str, float]:
        """The last set-point where the joint followed it (its measured position sags under load), else the measured."""
        start = {}
        for joint in trajectory.joints:
            measured, sent = self._measured.get(joint), self._sent.get(joint)
            if measured is not None:
                followed = sent is not None and abs(sent - measured) < FOLLOWED_RAD
                start[joint] = sent if followed and sent is not None else measured
        return start

    def _tick(self) -> None:
        now = self.steady_now()
        points = self._motions.set_points(now)
        if points:
            self._sent.update(points)
            message = JointState(name=list(points), position=list(points.values()))
            message.header.stamp = self.get_clock().now().to_msg()
            self._command.publish(message)
            self._unanswered += 1
        gate_silent = self._unanswered > self._unanswered_limit
        ended = set(self._motions.finished(now))
        for run_ in list(self._runs.values()):
            if gate_silent:
                self._abort(run_, MotionCode.DRIVER_HALTED, GATE_SILENT)
            elif run_.goal.goal_id in ended:
                self._settle(run_, now)
            if now - run_.told_at >= FEEDBACK_S - 1e-3:
                run_.told_at = now
                run_.goal.feedback(MoveJoints.Feedback(completed_s=self._completed_s(run_, now)))
        if not self._runs:
            self._timer.cancel()

    def _settle(self, run_: _Run, now: float) -> None:
        """At the last point: done, or done as soon as the joints are within tolerance, or not reached."""
        tolerance = run_.goal.request.goal_tolerance
        last = run_.trajectory.positions[-1]
        off = {j: abs(self._measured.get(j, math.inf) - p) for j, p in zip(run_.trajectory.joints, last, strict=True)}
        worst = max(off, key=lambda joint: off[joint])
        if tolerance == 0 or off[worst] <= tolerance:
            result = self._result(run_, now)
            self._forget(run_)
            run_.goal.succeed(result)
            return
        if run_.settling_since is None:
            run_.settling_since = now
        if now - run_.settling_since >= self._settle_s:
            self._abort(
                run_,
                MotionCode.NOT_REACHED,
                f"joint '{worst}' is {off[worst]:.3f} rad from its goal, more than {tolerance:.3f}: is it blocked?",
            )

    def _on_cancel(self, goal: Goal) -> None:
        waiting = self._waiting.pop(goal.goal_id, None)
        if waiting is not None:
            waiting[1].cancel()
            goal.canceled(MoveJoints.Result())
        run_ = self._runs.get(goal.goal_id)
        if run_ is not None:
            result = self._result(run_, self.steady_now())
            self._forget(run_)
            goal.canceled(result)

    def _abort(self, run_: _Run, code: MotionCode, text: str) -> None:
        result = self._result(run_, self.steady_now())
        result.error_code, result.error_msg = int(code), text
        self._forget(run_)
        run_.goal.abort(result)

    def _forget(self, run_: _Run) -> None:
        self._motions.stop(run_.goal.goal_id)
        self._runs.pop(run_.goal.goal_id, None)

    def _completed_s(self, run_: _Run, now: float) -> float:
        return min(now - run_.started_at, run_.trajectory.duration_s)

    def _result(self, run_: _Run, now: float) -> MoveJoints.Result:
        measured = [self._measured.get(joint, math.nan) for joint in run_.trajectory.joints]
        return MoveJoints.Result(completed_s=self._completed_s(run_, now), final_positions=measured)

    def _failed(self, code: MotionCode, text: str) -> MoveJoints.Result:
        return MoveJoints.Result(error_code=int(code), error_msg=text)


def main() -> int:
    return run(MoveJointsDriver)


if __name__ == "__main__":
    sys.exit(main())
