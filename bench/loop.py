# SPDX-License-Identifier: Apache-2.0
"""A single-threaded event loop on the steady clock, so that the benchmarks run the scheduler as a node does: other
threads post, one thread acts, and nobody polls."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable


class LoopTimer:
    """A pending callback."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Implements `function_tokens.scheduling.calls.Clock`. Callbacks run on the thread inside `run_until`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._posted: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, LoopTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Seconds of the steady clock."""
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> LoopTimer:
        """Call back once, `delay_s` seconds from now."""
        timer = LoopTimer(callback)
        with self._changed:
            heapq.heappush(self._timers, (self.now() + max(0.0, delay_s), next(self._order), timer))
            self._changed.notify()
        return timer

    def post(self, callback: Callable[[], None]) -> None:
        """Call back as soon as possible. May be called from any thread."""
        with self._changed:
            self._posted.append(callback)
            self._changed.notify()

    def run_until(self, done: Callable[[], bool], timeout_s: float) -> bool:
        """Serve callbacks until `done()` or a timeout; return whether it is done. The thread sleeps while nothing is due."""
        end_s = self.now() + timeout_s
        while not done():
            with self._changed:
                while self._timers and self._timers[0][2].callback is None:
                    heapq.heappop(self._timers)
                due_s = min(end_s, self._timers[0][0] if self._timers else end_s)
                if not self._posted and due_s > self.now():
                    self._changed.wait(due_s - self.now())
                ready = list(self._posted)
                self._posted.clear()
                while self._timers and self._timers[0][0] <= self.now():
                    callback = heapq.heappop(self._timers)[2].callback
                    if callback is not None:
                        ready.append(callback)
            for callback in ready:
                callback()
            if self.now() >= end_s:
                return done()
        return True
