# SPDX-License-Identifier: Apache-2.0
"""Play the person at the table, who sees how it turned out, corrects it in plain words and confirms what was learned."""

from __future__ import annotations

from bench.evaluation.propositions import Report
from bench.tabletop.tasks import Trial

MOST = 3
"""Corrections of a task; then the person gives up."""
REMEMBER, YES = "Good. Remember that for next time.", "Yes."
OFFERED = ("remember that?",)
"""Ends of the robot's question whether something is to be kept."""


def correction(trial: Trial, report: Report, number: int) -> str:
    """Return what the person says of a task that is not done: at first what is usually wrong with such a task, then what is not
    so yet."""
    if number > 1:
        return f"It is still not right: {'; '.join(report.reasons)}."
    if trial.template.id == "beside a bowl":
        much = trial.binding["magnitude"]
        return f"That is not {much}. " + ("I mean 18 cm." if much == "a lot" else "I mean 10 cm.")
    if trial.template.id == "mismatched bowls":
        return "No block may be in a bowl of its own color."
    if "place" in trial.binding or "corner" in trial.template.id:
        where = trial.binding.get("place", "corner")
        return f"That is not the {where}. It must be right at the edge of the table."
    return f"That is not right. I said: {trial.instruction}."


def is_offer(said: str) -> bool:
    """Return whether the robot has asked whether it is to remember something."""
    return said.strip().endswith(OFFERED)
