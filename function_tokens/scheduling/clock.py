# SPDX-License-Identifier: Apache-2.0
"""A virtual clock for dry runs and tests: time passes only when the next timer is due."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class VirtualTimer:
    """A pending callback; cancelling it twice is allowed."""

    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        self.due_s = due_s
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """Implements `calls.Clock`. Timers due at the same instant fire in the order they were made."""

    def __init__(self) -> None:
        self._now = 0.0
        self._heap: list[tuple[float, int, VirtualTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Seconds since the clock was made."""
        return self._now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> VirtualTimer:
        """Call back once, `delay_s` seconds from now (at once in time when not positive)."""
        timer = VirtualTimer(self._now + max(0.0, delay_s), callback)
        heapq.heappush(self._heap, (timer.due_s, next(self._order), timer))
        return timer

    def run(self, until_s: float | None = None) -> None:
        """Fire timers in order until none is left, or until `until_s`, where the clock then stands."""
        while self._heap and (until_s is None or self._heap[0][0] <= until_s):
            due_s, _, timer = heapq.heappop(self._heap)
            callback, timer.callback = timer.callback, None
            if callback is not None:
                self._now = max(self._now, due_s)
                callback()
        if until_s is not None:
            self._now = max(self._now, until_s)
