# SPDX-License-Identifier: Apache-2.0
"""A deadline that can be put off and paused."""

from __future__ import annotations

from collections.abc import Callable

from skill_kernel.clock import Clock, Timer


class Deadline:
    """Calls back once when the time set has passed, pauses left out. Not thread-safe: its owner's lock guards it.
    The callback comes without that lock, so it asks `passed` under it: the deadline may have been put off meanwhile."""

    def __init__(self, clock: Clock, on_late: Callable[[], None]) -> None:
        self._clock = clock
        self._on_late = on_late
        self._due_s: float | None = None
        self._paused_at_s: float | None = None
        self._timer: Timer | None = None
        self._closed = False

    def extend(self, delay_s: float) -> None:
        """Not before `delay_s` seconds from now."""
        due_s = self._clock.now() + delay_s
        if not self._closed and (self._due_s is None or due_s > self._due_s):
            self._due_s = due_s
            self._arm()

    def pause(self) -> None:
        """Let time pass without counting it."""
        if self._paused_at_s is None:
            self._paused_at_s = self._clock.now()
            self._disarm()

    def resume(self) -> None:
        """Count on."""
        if self._paused_at_s is not None:
            if self._due_s is not None:
                self._due_s += self._clock.now() - self._paused_at_s
            self._paused_at_s = None
            self._arm()

    def close(self) -> None:
        """It will never pass."""
        self._closed = True
        self._disarm()

    @property
    def passed(self) -> bool:
        """Whether its time has come."""
        running = not self._closed and self._paused_at_s is None and self._due_s is not None
        return running and self._clock.now() >= (self._due_s or 0.0) - 1e-6

    def _arm(self) -> None:
        self._disarm()
        if self._due_s is not None and self._paused_at_s is None and not self._closed:
            self._timer = self._clock.call_later(self._due_s - self._clock.now(), self._on_late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
