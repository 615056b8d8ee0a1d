# SPDX-License-Identifier: Apache-2.0
"""The clock of dry runs and tests: time passes only when it is told to."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from skill_kernel.clock import OneShotTimer


class VirtualClock:
    """Implement `Clock` without a thread: time passes only in `run`. Timers of one instant fire in the order they were made."""

    def __init__(self) -> None:
        self._now = 0.0
        self._heap: list[tuple[float, int, OneShotTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Return the seconds since the clock was made."""
        return self._now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> OneShotTimer:
        """Call back once, `delay_s` seconds from now; a delay that is not positive counts as none."""
        timer = OneShotTimer(self._now + max(0.0, delay_s), callback)
        heapq.heappush(self._heap, (timer.due_s, next(self._order), timer))
        return timer

    def run(self, until_s: float | None = None) -> None:
        """Fire timers in order until none is left, or until `until_s`, where the clock then stands."""
        while self._heap and (until_s is None or self._heap[0][0] <= until_s):
            due_s, _, timer = heapq.heappop(self._heap)
            if (callback := timer.take()) is not None:
                self._now = max(self._now, due_s)
                callback()
        if until_s is not None:
            self._now = max(self._now, until_s)
