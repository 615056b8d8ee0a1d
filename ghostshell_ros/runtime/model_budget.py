# SPDX-License-Identifier: Apache-2.0
"""Keep the token budget of a planning node, by the events of all planning nodes of its robot."""

from __future__ import annotations

from ghostshell.msg import ProcessArray, ProcessState

from ghostshell_ros.runtime.node import RuntimeNode
from planners.models.budget import BudgetLimits, TokenBudget
from skill_kernel.events import ModelKind, RunEvent

MAX_TOKENS = 1_000_000_000


class ModelBudget(TokenBudget):
    """Declare `process_tokens`, `hour_tokens`, `budget_slow_from` and `budget_slowest_s`, and keep the budget they set."""

    def __init__(self, node: RuntimeNode) -> None:
        process, hour = "tokens that the planning of one process may use", "tokens that all planning may use in an hour"
        slow = "share of a budget from which on models are asked less often"
        slowest = "gap between two questions of a layer when the budget is nearly spent [s]"
        limits = BudgetLimits(
            node.declare("process_tokens", 500_000, f"{process}, 0: any number", 0, MAX_TOKENS),
            node.declare("hour_tokens", 3_000_000, f"{hour}, 0: any number", 0, MAX_TOKENS),
            node.declare("budget_slow_from", 0.5, slow, 0.0, 0.99),
            node.declare("budget_slowest_s", 20.0, slowest, 0.0, 600.0),
        )
        super().__init__(limits, node.steady_now)

    def hear(self, event: RunEvent) -> None:
        """Count a question or an answer of any planning node."""
        if event.kind is ModelKind.ASKED:
            self.asked(event.process_id, event.layer)
        elif event.kind is ModelKind.ANSWERED:
            self.answered(event.process_id, event.layer, event.prompt_tokens + event.completion_tokens)

    def processes(self, message: ProcessArray) -> None:
        """Take the tokens that processes used before this node was started, and forget processes that have ended."""
        for process in message.processes:
            if process.status >= ProcessState.SUCCESS:
                self.forget(process.process_id)
            else:
                self.at_least(process.process_id, process.prompt_tokens + process.completion_tokens)
