# SPDX-License-Identifier: Apache-2.0
"""One call to come, however often it is asked for: the earliest time counts."""

from __future__ import annotations

from collections.abc import Callable

from skill_kernel.clock import Clock, Timer


class Alarm:
    """Calls back once, at the earliest of the times asked for since it did so last."""

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock, self._callback = clock, callback
        self._timer: Timer | None = None
        self._due_s = 0.0

    def within(self, seconds: float) -> None:
        """Call back after so long, or sooner."""
        due_s = self._clock.now() + seconds
        if self._timer is not None and self._due_s <= due_s:
            return
        self.cancel()
        self._due_s = due_s
        self._timer = self._clock.call_later(seconds, self._rings)

    def cancel(self) -> None:
        """Do not call."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self._timer = None
        self._callback()
