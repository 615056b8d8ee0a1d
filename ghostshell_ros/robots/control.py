# SPDX-License-Identifier: Apache-2.0
"""Give a driver's call one event to stop by, while the skill around it is paused or is to end."""

import time
from collections.abc import Callable
from threading import Event

from skill_kernel import PauseEvent

PAUSE_LOOK_S = 0.01
"""Time between two looks at stop and pause; short, because a reflex waits for the pause of what it displaces."""


class Control:
    """Tell drivers to stop while the call is paused or to end. `rested_s` is how long the call was paused so far."""

    def __init__(self, stop: Event, pause: PauseEvent, now: Callable[[], float] = time.monotonic) -> None:
        self._stop, self._pause, self.now = stop, pause, now
        self.rested_s = 0.0

    @property
    def stopped(self) -> bool:
        """Return whether the call is to end."""
        return self._stop.is_set()

    def is_set(self) -> bool:
        """Return whether the call is paused or to end."""
        return self._stop.is_set() or self._pause.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until either is set, at most `timeout` seconds; without one, a minute."""
        end = self.now() + (60.0 if timeout is None else timeout)
        while not self.is_set() and (left := end - self.now()) > 0:
            self._stop.wait(min(left, PAUSE_LOOK_S))
        return self.is_set()

    def go_on(self) -> bool:
        """Rest while the call is paused, the body standing still; false when the call is to end."""
        while self._pause.is_set() and not self._stop.is_set():
            since = self.now()
            self._pause.rest()
            self.rested_s += self.now() - since
        return not self._stop.is_set()
