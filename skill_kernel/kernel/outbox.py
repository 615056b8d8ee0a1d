# SPDX-License-Identifier: Apache-2.0
"""Callbacks in the order they were decided, called outside the lock they were decided under."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable


class Outbox:
    """A queue that whoever comes first empties. `flush` never waits: what another thread is emptying leaves with it."""

    def __init__(self) -> None:
        self._queue: deque[Callable[[], None]] = deque()
        self._emptying = threading.Lock()

    def put(self, callback: Callable[[], None]) -> None:
        """Add a callback; call `flush` once the lock is released."""
        self._queue.append(callback)

    def flush(self) -> None:
        """Call everything queued, in order. A callback that raises is logged, and the others follow."""
        while self._queue and self._emptying.acquire(blocking=False):
            try:
                while self._queue:
                    callback = self._queue.popleft()
                    try:
                        callback()
                    except Exception:
                        logging.getLogger(__name__).exception("a listener of the kernel raised")
            finally:
                self._emptying.release()
