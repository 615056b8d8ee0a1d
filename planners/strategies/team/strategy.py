# SPDX-License-Identifier: Apache-2.0
"""Strategy `team`: a manager, a perceiver, a planner, an assigner and a validator have robots and people do a task together
(InteractGen III)."""

from collections.abc import Mapping

from planners.prompts.blocks import Layer
from planners.strategies.team.loop import TeamPlanning
from planners.strategy import Feed, ModelRole, Parameter, PlannerIO, Planning, RobotView, Task, TeamStrategy

ROLES = (Layer.MANAGER, Layer.PERCEIVER, Layer.PLANNER, Layer.ASSIGNER, Layer.VALIDATOR)
_OFF = "false: without it, its work is a sentence in the assigner's prompt (the ablation of figure 12)"


class Team(TeamStrategy):
    """Plan for robots and people."""

    name = "team"
    roles = tuple(ModelRole(layer.value) for layer in ROLES)
    needs = Layer.ASSIGNER.value
    wants = frozenset({Feed.OBSERVATION})
    parameters = (
        Parameter("team.manager", True, f"a manager asks back and reflects; {_OFF}"),
        Parameter("team.perceiver", True, f"a perceiver reads what is known; {_OFF}"),
        Parameter("team.planner", True, f"a planner writes the steps; {_OFF}"),
        Parameter("team.validator", True, f"a validator looks at each plan before anything of it begins; {_OFF}"),
        Parameter("team.pictures", False, "the perceiver sees the robots' newest pictures; only for a model that reads them"),
        Parameter("team.max_plans", 12, "plans of one task, or of one proposal, at most", 1, 1000),
        Parameter("team.max_rejections", 4, "plans in a row that may be rejected", 1, 100),
        Parameter("team.answer_s", 120.0, "a person is waited for so long, from the first try on [s]", 1.0, 3600.0),
        Parameter("team.work_s", 600.0, "a person who has accepted is waited for so long [s]", 1.0, 3600.0),
    )

    def start_team(self, task: Task, robots: Mapping[str, RobotView], io: PlannerIO) -> Planning:
        return TeamPlanning(task, robots, io)
