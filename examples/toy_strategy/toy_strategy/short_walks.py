# SPDX-License-Identifier: Apache-2.0
"""Veto walks that are too long for a small room."""

from __future__ import annotations

from collections.abc import Callable

from planners.verdict import ProposedCall, Verdict, VerdictWorld

MAX_CM = 30.0


class ShortWalks(Verdict):
    """Let a walk pass that is no longer than MAX_CM, and everything that is no walk."""

    name = "short_walks"

    def weigh(self, call: ProposedCall, world: VerdictWorld, answer: Callable[[str], None]) -> None:
        """Answer at once: the call alone tells."""
        distance = abs(float(call.arguments.get("distance", 0.0)))
        answer(f"{distance:g} cm is too far in this room; walk {MAX_CM:g} cm at most" if distance > MAX_CM else "")
