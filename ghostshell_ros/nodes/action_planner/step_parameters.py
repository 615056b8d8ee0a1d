# SPDX-License-Identifier: Apache-2.0
"""The parameters of strategy `layered` in the action planner's node."""

from __future__ import annotations

from ghostshell_ros.runtime.node_runtime import RuntimeNode
from planners.strategies.layered.failures import Bounds
from planners.strategies.layered.step_link import StepSettings


def declare_steps(node: RuntimeNode, longest_s: float) -> StepSettings:
    """Declare them; no answer takes longer than `longest_s`."""
    step_deadline_s = node.declare(
        "step_deadline_s", 20.0, "layered: an answer that writes steps may take so long [s]", minimum=0.1, maximum=600.0
    )
    return StepSettings(
        queue_steps=node.declare("queue_steps", 3, "layered: steps that may wait", minimum=1, maximum=20),
        refill_at=node.declare(
            "refill_at", 1, "layered, cost_aware: more steps are asked for when so many wait", minimum=0, maximum=20
        ),
        cost_aware=node.declare(
            "cost_aware", True, "layered: ask only when something has changed; else whenever there is room", read_only=False
        ),
        deadline_s=min(step_deadline_s, longest_s),
        plan_wait_s=node.declare(
            "plan_wait_s",
            4.0,
            "layered: so long it waits for a plan before it goes by the instruction [s]",
            minimum=0.0,
            maximum=60.0,
        ),
        first_deadline_s=node.declare(
            "first_deadline_s",
            3.0,
            "layered: a first action later than this is thrown away, 0: none is asked for [s]",
            minimum=0.0,
            maximum=60.0,
        ),
        review_wait_s=node.declare(
            "review_wait_s",
            8.0,
            "layered: after equal failures it waits so long for another plan [s]",
            minimum=0.0,
            maximum=600.0,
        ),
        bounds=Bounds(
            subtask=node.declare("max_subtask_failures", 5, "layered: failures in one subtask at most", minimum=1, maximum=100),
            process=node.declare("max_failures", 12, "layered: failures in one process at most", minimum=1, maximum=1000),
            answers=node.declare("max_subtask_answers", 25, "layered: answers in one subtask at most", minimum=1, maximum=1000),
            all_answers=node.declare("max_answers", 150, "layered: answers in one process at most", minimum=1, maximum=10_000),
        ),
    )
