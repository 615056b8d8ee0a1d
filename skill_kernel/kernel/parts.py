# SPDX-License-Identifier: Apache-2.0
"""What the parts of the kernel share: lock, clock, tables, and the way to its listeners."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from skill_kernel.calls import CallResult, CallSpec, KernelEvent, KernelEventType
from skill_kernel.clock import Clock
from skill_kernel.kernel.call_table import CallTable
from skill_kernel.kernel.epochs import EpochTable
from skill_kernel.kernel.holds import HoldTable
from skill_kernel.kernel.leases import LeaseTable
from skill_kernel.kernel.outbox import Outbox
from skill_kernel.robot import SubsystemConfig


@dataclass(frozen=True)
class KernelSettings:
    """Bounds of the kernel, seconds where a name says so. `deadline_factor` times the nominal duration plus
    `deadline_extra_s` is what a call may take at most."""

    stop_margin_s: float = 0.5
    deadline_factor: float = 3.0
    deadline_extra_s: float = 10.0
    content_timeout_s: float = 30.0
    max_running: int = 64


@dataclass
class Listeners:
    """Whom the kernel tells (see Kernel)."""

    on_result: Callable[[str, CallResult], None]
    on_event: Callable[[KernelEvent], None]
    on_change: Callable[[], None]
    on_halt: Callable[[str], None]


class KernelLock:
    """The kernel's lock. `before_release` is called under it at the end of each step that did not raise."""

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


class KernelParts:
    """One kernel's shared state. Everything but `clock`, `settings` and `flush` needs `lock`."""

    def __init__(
        self, subsystems: Mapping[str, SubsystemConfig], clock: Clock, settings: KernelSettings, listeners: Listeners
    ) -> None:
        self.lock = KernelLock()
        self.clock, self.settings, self.listeners = clock, settings, listeners
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
        """Tell of an event once the lock is released."""
        event = KernelEvent(kind, text, call, process_id, subsystems)
        self.outbox.put(lambda: self.listeners.on_event(event))

    def changed(self) -> None:
        """Tell that the state is another."""
        self.outbox.put(lambda: self.listeners.on_change())

    def result(self, call_id: str, result: CallResult) -> None:
        """Give a call's result."""
        self.outbox.put(partial(self.listeners.on_result, call_id, result))

    def flush(self) -> None:
        """Tell it all. Without the lock."""
        self.outbox.flush()
