# SPDX-License-Identifier: Apache-2.0
"""One thread with an event loop for a client's network traffic, so that a blocked read can be cancelled from any
thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class IoThread:
    """Runs coroutines on a daemon thread that begins with the first of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start a coroutine; cancelling the future cancels it inside the loop."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def wake(self, event: asyncio.Event) -> None:
        """Set an event of the loop from another thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(event.set)

    def stop(self, timeout_s: float = 1.0) -> None:
        """Cancel what runs, wait for it to end and stop the thread. It may be used again afterwards."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        ending = asyncio.run_coroutine_threadsafe(_cancel_all(timeout_s), loop)
        ending.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
        if thread is not threading.current_thread():
            thread.join(timeout_s * 2)
        if not thread.is_alive():
            loop.close()


async def _cancel_all(timeout_s: float) -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_s)
