# SPDX-License-Identifier: Apache-2.0
"""Threads for skills: one a call, kept for the next call, because a new one takes far longer to begin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

KEPT = 16
"""Idle threads that are kept."""


class SkillThreads:
    """Runs each function on a daemon thread that does nothing else meanwhile; never waits for a free one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle = 0
        self._handed_over: SimpleQueue[tuple[Callable[[], None], str]] = SimpleQueue()

    def __call__(self, run: Callable[[], None], name: str) -> None:
        """Begin; raises RuntimeError when the system has no thread left."""
        with self._lock:
            idle = self._idle > 0
            if idle:
                self._idle -= 1
        if idle:
            self._handed_over.put((run, name))
        else:
            threading.Thread(target=self._work, args=(run, name), daemon=True).start()

    def _work(self, run: Callable[[], None], name: str) -> None:
        while True:
            threading.current_thread().name = name
            run()
            with self._lock:
                if self._idle >= KEPT:
                    return
                self._idle += 1
            run, name = self._handed_over.get()
