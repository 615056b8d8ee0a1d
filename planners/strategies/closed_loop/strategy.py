# SPDX-License-Identifier: Apache-2.0
"""Strategy `closed_loop`: plan a few actions, weigh each before it begins, and plan again when the world is not as supposed
(CLEA IV)."""

from collections.abc import Mapping

from planners.prompts.blocks import Layer
from planners.strategies.closed_loop.loop import ClosedLoopPlanning
from planners.strategy import Feed, ModelRole, Parameter, PlannerIO, Planning, RobotView, Task, TeamStrategy


class ClosedLoop(TeamStrategy):
    """Plan for one robot or several."""

    name = "closed_loop"
    roles = (
        ModelRole(Layer.PLANNER.value),
        *(ModelRole(layer.value, deadline_s=20.0) for layer in (Layer.OBSERVER, Layer.SUMMARIZER, Layer.CRITIC)),
    )
    needs = Layer.PLANNER.value
    wants = frozenset({Feed.OBSERVATION})
    parameters = (
        Parameter(
            "closed_loop.critic",
            "on_doubt",
            "when a model that sees the pictures weighs an action: always, on_doubt where what is known of the world cannot, "
            "never: nothing is weighed but its types",
            choices=("always", "on_doubt", "never"),
        ),
        Parameter(
            "closed_loop.mode",
            "closed",
            "closed: a few actions, then another look; open: one whole plan, with one more after an action that failed",
            choices=("closed", "open"),
        ),
        Parameter("closed_loop.max_rejections", 6, "plans in a row that may be rejected, nothing done between them", 1, 100),
        Parameter("closed_loop.max_failures", 5, "actions in a row that may fail", 1, 100),
        Parameter("closed_loop.max_tries", 3, "failures of one action, nothing that it rests on changed between them", 1, 100),
        Parameter("closed_loop.max_plans", 40, "plans of one task at most", 1, 1000),
    )

    def start_team(self, task: Task, robots: Mapping[str, RobotView], io: PlannerIO) -> Planning:
        return ClosedLoopPlanning(task, robots, io)
