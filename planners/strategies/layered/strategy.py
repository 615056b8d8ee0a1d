# SPDX-License-Identifier: Apache-2.0
"""Strategy `layered`: System 2 splits the task, System 1 writes steps of one subtask while earlier steps are performed
(TypeGo 6)."""

from planners.prompts.blocks import Layer
from planners.strategies.layered.step_planner import StepPlanner
from planners.strategies.stream.stream_planner import Stream
from planners.strategy import Feed, ModelRole, Parameter, PlannerIO, Planning, RobotView, Strategy, Task


class Layered(Strategy):
    """Plan in layers. Without a language model instructions are carried out as `stream` does it."""

    name = "layered"
    roles = (
        ModelRole(Layer.S1.value),
        ModelRole(Layer.S1P.value, model="fast_model"),
        ModelRole(Layer.S2.value),
        *Stream.roles,
    )
    wants = frozenset({Feed.PLANS, Feed.ADVICE, Feed.OBSERVATION})
    parameters = (
        *Stream.parameters,
        Parameter("begin_directly", True, "layered: begin a plain command at once, before any model has answered"),
        Parameter("queue_steps", 3, "layered: steps that may wait", minimum=1, maximum=20),
        Parameter("refill_at", 1, "layered, cost_aware: ask for more steps when so few wait", minimum=0, maximum=20),
        Parameter("cost_aware", True, "layered: ask only when something has changed; else whenever there is room", live=True),
        Parameter("step_deadline_s", 20.0, "layered: time for an answer that writes steps [s]", 0.1, 3600.0),
        Parameter("plan_wait_s", 4.0, "layered: wait for a plan before the instruction itself becomes the plan [s]", 0.0, 60.0),
        Parameter("first_deadline_s", 3.0, "layered: a first action later than this is thrown away, 0: none [s]", 0.0, 3600.0),
        Parameter("review_wait_s", 8.0, "layered: wait for another plan after equal failures [s]", 0.0, 600.0),
        Parameter("max_subtask_failures", 5, "layered: failures in one subtask at most", 1, 100),
        Parameter("max_failures", 12, "layered: failures in one process at most", 1, 1000),
        Parameter("max_subtask_answers", 25, "layered: answers in one subtask at most", 1, 1000),
        Parameter("max_answers", 150, "layered: answers in one process at most", 1, 10_000),
    )

    def __init__(self) -> None:
        self._without_model = Stream()

    def prepare(self) -> None:
        """Import the parser of direct commands, which is needed when a model fails."""
        import planners.language.client  # noqa: F401

    def start(self, task: Task, robot: RobotView, io: PlannerIO) -> Planning:
        if not io.thinks(Layer.S1):
            return self._without_model.start(task, robot, io)
        return StepPlanner(task, robot, io)
