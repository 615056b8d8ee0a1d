# SPDX-License-Identifier: Apache-2.0
"""Clocks with one-shot timers."""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

WAKE_S = 3600.0
"""Time after which the clock's thread looks again at the latest: Python refuses to wait for more than some 290 years."""


class Timer(Protocol):
    """A pending callback; cancelling it twice is allowed."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Seconds from any origin, and one-shot timers whose callbacks may come on another thread."""

    def now(self) -> float: ...
    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer: ...


class OneShotTimer:
    """Implement `Timer` for clocks that keep a heap of them."""

    def __init__(self, due_s: float, callback: Callable[[], None]) -> None:
        self.due_s = due_s
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def take(self) -> Callable[[], None] | None:
        """Return the callback once; None when it was cancelled or taken."""
        callback, self.callback = self.callback, None
        return callback


class SteadyClock:
    """Implement `Clock` on monotonic time. One daemon thread sleeps until the first timer is due; callbacks are short."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, OneShotTimer]] = []
        self._order = itertools.count()
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def now(self) -> float:
        return time.monotonic()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call back once, `delay_s` seconds from now, unless the timer is cancelled or the clock closed before."""
        timer = OneShotTimer(self.now() + max(0.0, delay_s), callback)
        with self._wake:
            entry = (timer.due_s, next(self._order), timer)
            heapq.heappush(self._heap, entry)
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="steady_clock", daemon=True)
                self._thread.start()
            elif self._heap[0] is entry:
                self._wake.notify()
        return timer

    def close(self) -> None:
        """End the thread; timers still pending never fire."""
        with self._wake:
            self._closed = True
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._closed and (not self._heap or self._heap[0][0] > self.now()):
                    self._wake.wait(min(self._heap[0][0] - self.now(), WAKE_S) if self._heap else None)
                if self._closed:
                    return
                timer = heapq.heappop(self._heap)[2]
            if (callback := timer.take()) is not None:
                try:
                    callback()
                except Exception:
                    logging.getLogger(__name__).exception("a timer's callback raised")
