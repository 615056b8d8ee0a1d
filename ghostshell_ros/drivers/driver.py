# SPDX-License-Identifier: Apache-2.0
"""Run the goals of every driver: begin, step, heartbeat, refusal, cancel and end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import rclpy
from rclpy.parameter import Parameter
from rclpy.timer import Timer
from std_msgs.msg import Bool

from ghostshell_ros.runtime.goal_server import Goal, GoalServer
from ghostshell_ros.runtime.lifecycle import ManagedNode
from ghostshell_ros.runtime.node import NodeStartError, RuntimeNode, with_reason
from ghostshell_ros.wire.qos import LATCHED
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.drivers import DriverRefusal as DriverRefusal

FREE_S = 0.35
"""Time a goal waits to hear that a halt was cleared or the base given back; the kernel may hear of it sooner."""
FEEDBACK_S = 0.1
"""Time between two feedbacks of a goal; a caller takes 0.7 s of silence for the driver's death."""
HALTED = "the safety gate is halted; when it is safe: ghostshell clear"
TELEOP = "an operator drives the base (teleop): ask again when he has given it back (release_teleop)"


class Job:
    """Carry out one goal. All methods are called on the executor's thread and return at once."""

    def __init__(self, driver: Driver, goal: Goal) -> None:
        self.driver, self.goal = driver, goal
        self.begun_at = self.feedback_at = 0.0
        """Steady time of its begin and of its last feedback."""
        self.action: Any = None
        self.code: Callable[[int], int] = int
        """The type of its action, and `code` of `Driver.serve`."""
        self.done = False
        """True once the goal was reached; `result` may look at it."""
        self.why = ""
        """The reason for which it was refused."""

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since its begin."""
        return self.driver.steady_now() - self.begun_at

    def held_back(self, now: float, *, begun: bool, halted: int, busy: int) -> bool:
        """Return whether a halt or an operator keeps the goal from moving the base.

        Raises DriverRefusal, with the code of either, where that ends it: once it has `begun`, or when it lasts.
        """
        driver = self.driver
        if not (driver.halted or driver.operator):
            return False
        if begun or now > self.begun_at + FREE_S:
            raise DriverRefusal(halted, HALTED) if driver.halted else DriverRefusal(busy, TELEOP)
        return True

    @abstractmethod
    def step(self, now: float) -> bool:
        """Go on, and return whether the goal is reached. Raises DriverRefusal when it cannot be."""

    def report(self) -> dict[str, Any]:
        """Return the fields of feedback and result: all that was really done so far."""
        return {}

    def feedback(self) -> Any:
        return self.action.Feedback(**self.report())

    def result(self) -> Any:
        return self.action.Result(**self.report())

    def ended(self) -> None:
        """Come to rest, after the result was taken. Called once, however the goal ended."""

    def release(self) -> None:
        """Let go of threads and processes, because the node closes."""


class Driver(ManagedNode):
    """Serve actions: `serve` each of them in `__init__` with a function that makes a Job of a goal.

    Jobs are stepped `rate_hz` times a second and whenever `step_jobs` is called. The caller's cancel, a deactivation and the
    job's DriverRefusal end it with what it has done; feedback goes out every 0.1 s. The node's name and the parameters set
    in the robot's file come with `name` and `options`: hand both on.
    """

    rate_hz = 10.0

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self.jobs: dict[bytes, Job] = {}
        self.halted: bool | None = None
        """State of the safety gate, None before it was heard; kept with `watch_gate`."""
        self.operator = False
        """True while an operator has the base; kept with `watch_gate`."""
        self._loop: Timer | None = None

    def serve(self, action_type: Any, name: str, begin: Callable[[Goal], Job], code: Callable[[int], int] = int) -> None:
        """Serve an action. `begin` makes a goal's Job and may raise DriverRefusal. Set `rate_hz` before.

        `code` turns the codes of refusals into those of the action, where it has its own.
        """
        if self._loop is None:
            self._loop = self.steady_timer(1.0 / self.rate_hz, self.step_jobs)
            self._loop.cancel()
        on_goal = partial(self._on_goal, action_type, begin, code)
        GoalServer(self, action_type, name, on_goal=on_goal, on_cancel=self._on_cancel)

    def watch_gate(self, *, teleop: bool = True) -> None:
        """Subscribe `halted` and `teleop_active` (std_msgs/Bool, latched); jobs are stepped at every change."""
        self.create_subscription(Bool, "halted", self._on_halted, LATCHED)
        if teleop:
            self.create_subscription(Bool, "teleop_active", self._on_teleop, LATCHED)

    def before_steps(self, now: float) -> None:
        """Do what concerns all jobs, before they are stepped."""

    def step_jobs(self) -> None:
        now = self.steady_now()
        self.before_steps(now)
        for key, job in list(self.jobs.items()):
            if key in self.jobs:
                self._step(job, now)
        if not self.jobs and self._loop is not None:
            self._loop.cancel()

    def close(self) -> None:
        for job in self.jobs.values():
            job.release()
        super().close()

    def _on_goal(self, action_type: Any, begin: Callable[[Goal], Job], code: Callable[[int], int], goal: Goal) -> None:
        try:
            job = begin(goal)
        except DriverRefusal as refusal:
            goal.abort(with_reason(action_type.Result(), code(refusal.code), str(refusal)))
            return
        job.begun_at, job.action, job.code = self.steady_now(), action_type, code
        job.feedback_at = job.begun_at
        self.jobs[goal.goal_id] = job
        if self._loop is not None and self._loop.is_canceled():
            self._loop.reset()
        self.step_jobs()

    def _step(self, job: Job, now: float) -> None:
        try:
            job.done = job.step(now)
            if job.done:
                job.goal.succeed(self._ended(job))
            elif now - job.feedback_at >= 0.9 * FEEDBACK_S:
                job.feedback_at = now
                job.goal.feedback(job.feedback())
        except DriverRefusal as refusal:
            job.why = str(refusal)
            job.goal.abort(with_reason(self._ended(job), job.code(refusal.code), job.why))
        except Exception as error:  # noqa: BLE001 - whatever it is, the goal ends and its part comes to rest
            job.goal.fail(error)
            if job.goal.goal_id in self.jobs:
                self._ended(job)

    def _on_cancel(self, goal: Goal) -> None:
        job = self.jobs.get(goal.goal_id)
        if job is not None:
            goal.canceled(self._ended(job))

    def _ended(self, job: Job) -> Any:
        del self.jobs[job.goal.goal_id]
        try:
            return job.result()
        finally:
            job.ended()

    def _on_halted(self, message: Bool) -> None:
        self.halted = message.data
        self.step_jobs()

    def _on_teleop(self, message: Bool) -> None:
        self.operator = message.data
        self.step_jobs()


def declared_drivers() -> list[RuntimeNode]:
    """Return the nodes of the robot's drivers. Raises ValueError with the reason why one cannot start."""
    reader = rclpy.create_node("drivers", start_parameter_services=False)
    name = str(reader.declare_parameter("robot", "coco").value)
    reader.destroy_node()
    robot = RobotConfig.load(name)
    classes = robot.load_drivers()
    if not classes:
        raise NodeStartError(f"robot '{name}' names no driver with a node; add one under drivers:, or say drivers:=false")
    nodes: list[RuntimeNode] = []
    for driver, node_class in classes.items():
        given = robot.drivers[driver].parameters
        nodes.append(node_class(driver, parameter_overrides=[Parameter(key, value=value) for key, value in given.items()]))
    return nodes
