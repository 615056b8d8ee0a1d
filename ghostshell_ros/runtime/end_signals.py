# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM, heard while the main thread waits in the middleware."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

ENDING = (signal.SIGINT, signal.SIGTERM)


class EndSignals:
    """From the start on each SIGINT or SIGTERM calls `callback` on a thread of its own. In the main thread, once a process.

    A handler of Python's own runs only when the main thread comes back from its wait; rclpy's shuts the context down while
    the executor still uses it, which now and then ends in a hang or in a segmentation fault.
    """

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        heard, self._told = os.pipe()
        os.set_blocking(self._told, False)
        signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        for number in ENDING:
            signal.signal(number, lambda *_: None)
        self._thread = threading.Thread(target=self._listen, args=(heard,), name="signals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """The process ends; what comes now must not kill it on its last lines. A terminal and a launcher each send a SIGINT,
        and at its end the interpreter puts the default action back in the place of any handler but this one."""
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        os.close(self._told)
        self._thread.join()

    def _listen(self, heard: int) -> None:
        while received := os.read(heard, 1):
            if received[0] in ENDING:
                self._callback()
        os.close(heard)
