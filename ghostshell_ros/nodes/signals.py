# SPDX-License-Identifier: Apache-2.0
"""SIGINT and SIGTERM handed to a thread, so that they are heard while the main thread waits in the middleware."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

ENDING = (signal.SIGINT, signal.SIGTERM)


def on_end(callback: Callable[[], object]) -> None:
    """From now on each SIGINT or SIGTERM calls `callback` on a thread of its own. In the main thread, once a process.

    A handler of Python's own runs only when the main thread comes back from its wait; rclpy's shuts the context down while
    the executor still uses it, which now and then ends in a hang or in a segmentation fault.
    """
    heard, told = os.pipe()
    for end in (heard, told):
        os.set_blocking(end, end == heard)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    for number in ENDING:
        signal.signal(number, lambda *_: None)

    def listen() -> None:
        while received := os.read(heard, 1):
            if received[0] in ENDING:
                callback()

    threading.Thread(target=listen, name="signals", daemon=True).start()


def heard_enough() -> None:
    """The process ends: what comes now must not kill it on its last lines. A terminal and a launcher each send their own
    SIGINT, and at its end the interpreter puts the default action back in the place of any handler but this one."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
