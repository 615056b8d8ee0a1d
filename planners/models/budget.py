# SPDX-License-Identifier: Apache-2.0
"""Limit the tokens that planning layers spend, for one process and in an hour: the less is left, the seldomer they ask."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from planners.prompts.blocks import Layer

HOUR_S = 3600.0
BUCKET_S = 60.0
"""The spending of the last hour is kept by the minute, so that its size does not depend on the number of calls."""

_ACTING = (Layer.S1, Layer.STREAM, Layer.REACT, Layer.PLAN_AND_EXECUTE, Layer.PLANNER, Layer.ASSIGNER, Layer.VALIDATOR)
ESSENTIAL = frozenset(layer.value for layer in _ACTING)
"""Layers without which a process cannot even be brought to a proper end: the last of the budget is theirs."""

RESERVE = 0.1
"""The share of a budget that only they may touch."""


@dataclass(frozen=True)
class BudgetLimits:
    """Tokens are those of prompts and answers together, cached ones included; 0 means no limit.

    From the share `slow_from` of a budget on, a layer waits between two of its calls, up to `slowest_s` when the budget is
    nearly spent.
    """

    process_tokens: int = 500_000
    hour_tokens: int = 3_000_000
    slow_from: float = 0.5
    slowest_s: float = 20.0


class TokenBudget:
    """Counts what every planning node of the robot has spent and says who may ask. `now` gives seconds on a steady clock.

    A call counts when it has ended: those that run together may overdraw a budget by what they use. What is asked for no
    process (id ""), or for one that nobody has told of by `at_least`, counts for the hour alone.
    """

    def __init__(self, limits: BudgetLimits, now: Callable[[], float]) -> None:
        self._limits, self._now = limits, now
        self._spent: dict[str, int] = {}
        self._hour: deque[tuple[float, int]] = deque()

    # -- what is heard ------------------------------------------------------------------------------------------------

    def answered(self, process_id: str, tokens: int) -> None:
        """Note the end of a question, answered or not, and the tokens that it used."""
        if tokens <= 0:
            return
        if process_id in self._spent:
            self._spent[process_id] += tokens
        minute = self._now() // BUCKET_S * BUCKET_S
        if self._hour and self._hour[-1][0] >= minute:
            minute, before = self._hour.pop()
            tokens += before
        self._hour.append((minute, tokens))

    def at_least(self, process_id: str, tokens: int) -> None:
        """Note a living process and what it has spent in all, perhaps before this program was started."""
        if process_id:
            self._spent[process_id] = max(tokens, self._spent.get(process_id, 0))

    def forget(self, process_id: str) -> None:
        """Note the end of a process; what it spent still counts for the hour."""
        self._spent.pop(process_id, None)

    # -- what is allowed ----------------------------------------------------------------------------------------------

    def share(self, process_id: str) -> float:
        """Return the share of the scarcer of the two budgets that is spent: 0 = nothing, 1 = all."""
        process, hour = self._spent.get(process_id, 0), self._in_hour()
        return max(_share(process, self._limits.process_tokens), _share(hour, self._limits.hour_tokens))

    def allow(self, process_id: str, layer: str) -> tuple[bool, float, str]:
        """Return whether the layer may ask for this process, the least gap between two of its questions in seconds, and why it
        may not, or why there is a gap."""
        allowed = 1.0 if layer in ESSENTIAL else 1.0 - RESERVE
        kept = "" if layer in ESSENTIAL else f"; the last {RESERVE:.0%} are kept for the layer that acts"
        used, limit = self._spent.get(process_id, 0), self._limits.process_tokens
        if _share(used, limit) >= allowed:
            told = f"process {process_id} has used {used} of its {limit} tokens{kept}"
            return False, 0.0, f"{told}: give a smaller task, or raise process_tokens"
        used, limit = self._in_hour(), self._limits.hour_tokens
        if _share(used, limit) >= allowed:
            free_s = self._hour[0][0] + BUCKET_S + HOUR_S - self._now() if self._hour else BUCKET_S
            told = f"the robot has used {used} of the {limit} tokens it may use in an hour{kept}"
            return False, 0.0, f"{told}: some are free again in {max(1.0, free_s / 60):.0f} min, or raise hour_tokens"
        share, slow_from = self.share(process_id), self._limits.slow_from
        if share <= slow_from:
            return True, 0.0, ""
        gap_s = self._limits.slowest_s * min(1.0, (share - slow_from) / (1.0 - slow_from))
        return True, gap_s, f"{share:.0%} of the tokens are used, so {layer} asks every {gap_s:.1f} s at most"

    def _in_hour(self) -> int:
        """Tokens spent in the hour up to now; a minute counts until an hour after its end."""
        while self._hour and self._hour[0][0] + BUCKET_S + HOUR_S <= self._now():
            self._hour.popleft()
        return sum(tokens for _, tokens in self._hour)


def _share(used: int, limit: int) -> float:
    return used / limit if limit else 0.0
