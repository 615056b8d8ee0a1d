# SPDX-License-Identifier: Apache-2.0
"""Share the lock, the clock, the tables and the callbacks between the parts of the kernel."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from skill_kernel.calls import CallResult, CallSpec, KernelEvent, KernelEventType
from skill_kernel.clock import Clock
from skill_kernel.kernel.holds import EpochTable, HoldTable
from skill_kernel.kernel.leases import LeaseTable
from skill_kernel.kernel.running import CallTable
from skill_kernel.robot import SubsystemConfig


class Outbox:
    """Queue callbacks in the order they were decided, and call them outside the lock.

    `flush` never waits: callbacks that another thread is emptying leave with that one.
    """

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


@dataclass(frozen=True)
class KernelSettings:
    """Bound the kernel, in seconds where a name says so.

    A call may take `deadline_factor` times its nominal duration plus `deadline_extra_s`.
    """

    stop_margin_s: float = 0.5
    deadline_factor: float = 3.0
    deadline_extra_s: float = 10.0
    content_timeout_s: float = 30.0
    max_running: int = 64


@dataclass
class KernelCallbacks:
    """Hold the functions the kernel calls (see Kernel)."""

    on_result: Callable[[str, CallResult], None]
    on_event: Callable[[KernelEvent], None]
    on_change: Callable[[], None]
    on_halt: Callable[[str], None]


class KernelLock:
    """Lock the kernel. `before_release` is called under the lock at the end of each step that did not raise."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.before_release: Callable[[], None] = lambda: None

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.before_release()
        finally:
            self._lock.release()


class KernelContext:
    """Share one kernel's state between its parts. Everything but `clock`, `settings` and `flush` needs `lock`."""

    def __init__(
        self, subsystems: Mapping[str, SubsystemConfig], clock: Clock, settings: KernelSettings, callbacks: KernelCallbacks
    ) -> None:
        self.lock = KernelLock()
        self.clock, self.settings, self.callbacks = clock, settings, callbacks
        self.outbox = Outbox()
        self.leases = LeaseTable(subsystems)
        self.holds = HoldTable(self.leases)
        self.epochs = EpochTable()
        self.calls = CallTable()
        self.halt_cause: str | None = None
        self.stop_measured_s: dict[str, float] = {}

    def report(
        self,
        kind: KernelEventType,
        text: str,
        call: CallSpec | None = None,
        *,
        process_id: str = "",
        subsystems: tuple[str, ...] = (),
    ) -> None:
        """Report an event once the lock is released."""
        event = KernelEvent(kind, text, call, process_id, subsystems)
        self.outbox.put(lambda: self.callbacks.on_event(event))

    def changed(self) -> None:
        """Report that the state has changed."""
        self.outbox.put(lambda: self.callbacks.on_change())

    def result(self, call_id: str, result: CallResult) -> None:
        """Give a call's result."""
        self.outbox.put(partial(self.callbacks.on_result, call_id, result))

    def flush(self) -> None:
        """Call all queued callbacks. Needs to be called without the lock."""
        self.outbox.flush()
