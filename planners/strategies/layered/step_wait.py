# SPDX-License-Identifier: Apache-2.0
"""A wait for somebody else, which counts only the time in which the process may go on."""

from __future__ import annotations

from collections.abc import Callable

from skill_kernel.clock import Clock, Timer


class Wait:
    """Calls back once, after so many seconds in which it was not held; after a hold they begin anew, since whoever is waited
    for may have been held as well."""

    def __init__(self, clock: Clock, over: Callable[[], None]) -> None:
        self._clock, self._over = clock, over
        self._seconds: float | None = None
        self._timer: Timer | None = None
        self._held = False

    def begin(self, seconds: float) -> None:
        """Wait so long from now, or from the end of the hold."""
        self._stop()
        self._seconds = seconds
        if not self._held:
            self._timer = self._clock.call_later(seconds, self._rings)

    def end(self) -> None:
        """Wait no longer."""
        self._stop()
        self._seconds = None

    def hold(self) -> None:
        """The process may not go on."""
        self._held = True
        self._stop()

    def go_on(self) -> None:
        """It may go on."""
        if self._held:
            self._held = False
            if self._seconds is not None:
                self.begin(self._seconds)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rings(self) -> None:
        self._timer = self._seconds = None
        self._over()
