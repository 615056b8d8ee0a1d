# SPDX-License-Identifier: Apache-2.0
"""Strategy `console`: a model writes Python at an emulated prompt, a statement at a time (incremental learning, section 3)."""

from collections.abc import Callable

from planners.prompts.blocks import Layer
from planners.strategies.console.desk import Desk
from planners.strategies.console.loop import ConsolePlanning
from planners.strategies.console.rehearsal import Executor
from planners.strategies.stream.stream_planner import HISTORY
from planners.strategy import ModelRole, Parameter, PlannerIO, Planning, RobotView, Strategy, Task


class Console(Strategy):
    """Plan at a prompt. The tasks of a robot go on at one console after another: what was said and done stays known, and what
    was learned is used. `executor` makes what performs calls where an improved interaction is tried, instead of a check."""

    name = "console"
    roles = (
        ModelRole(Layer.CONSOLE.value),
        ModelRole(Layer.FUNCTIONS.value, deadline_s=20.0),
        ModelRole(Layer.IMPROVE.value, deadline_s=30.0),
    )
    needs = Layer.CONSOLE.value
    parameters = (HISTORY, Parameter("console.max_rounds", 15, "statements of one task at most", 1, 1000))

    def __init__(self, executor: Callable[[RobotView], Executor] | None = None) -> None:
        self._desk, self._executor = Desk(), executor

    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        return ConsolePlanning(task, robot, io, self._desk, self._executor)

    def close(self) -> None:
        """End the interpreters, when no task is planned any more."""
        self._desk.close()
