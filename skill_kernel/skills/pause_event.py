# SPDX-License-Identifier: Apache-2.0
"""The `pause_evt` of a skill: an event that also hears when the skill has come to rest."""

from __future__ import annotations

import threading
from collections.abc import Callable


class PauseEvent(threading.Event):
    """Set while the call is to pause. The skill looks at it in its loop, brings the body to rest, then calls `rest`."""

    def __init__(self, on_rest: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._on_rest = on_rest
        self._changed = threading.Condition()
        self._pauses = 0

    def set(self) -> None:
        """Ask for a pause. The kernel's."""
        with self._changed:
            if not self.is_set():
                self._pauses += 1
            super().set()

    def clear(self) -> None:
        """Let the skill go on. The kernel's."""
        with self._changed:
            super().clear()
            self._changed.notify_all()

    def rest(self) -> None:
        """The body is at rest: say so and wait until the call goes on or is stopped; look at `stop_evt` then.

        From here on the subsystems may be another's. Returns at once when no pause is asked for.
        """
        while True:
            with self._changed:
                if not self.is_set():
                    return
                pause = self._pauses
            self._on_rest()
            with self._changed:
                while self.is_set() and self._pauses == pause:
                    self._changed.wait()  # no deadline: the kernel ends it by a resume or a stop
