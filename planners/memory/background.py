# SPDX-License-Identifier: Apache-2.0
"""The thread on which the memory's background work goes on, step by step."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress

from planners.memory.errors import StoreError


class Background:
    """Runs steps on a thread of low priority: one after the other while there is work, then every `period_s`."""

    def __init__(
        self, step: Callable[[], bool], *, name: str, period_s: float, on_problem: Callable[[StoreError], None]
    ) -> None:
        self._step, self._period_s, self._on_problem = step, period_s, on_problem
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End after the step that runs."""
        self._ending.set()
        self._thread.join(5.0)

    def _run(self) -> None:
        with suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
        wait_s = 0.0
        while not self._ending.wait(wait_s):
            try:
                # A breath between two steps: readers and the writer's other work go first.
                wait_s = 0.002 if self._step() else self._period_s
            except StoreError as error:
                self._on_problem(error)
                wait_s = max(2.0, self._period_s)
            except Exception as error:  # noqa: BLE001 - the thread lives on; what failed is tried again
                self._on_problem(StoreError(f"{type(error).__name__} in the memory's background work: {error}"))
                wait_s = max(10.0, self._period_s)
