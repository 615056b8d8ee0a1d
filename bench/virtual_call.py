# SPDX-License-Identifier: Apache-2.0
"""Tell a strategy how a call on a virtual clock has ended."""

from __future__ import annotations

from collections.abc import Callable

from skill_kernel.events import CallEvent


class VirtualCall:
    """A `CallHandle`, which whoever performs the call ends."""

    def __init__(self) -> None:
        self.ended: CallEvent | None = None
        self._callbacks: list[Callable[[CallEvent], None]] = []

    def then(self, callback: Callable[[CallEvent], None]) -> None:
        if self.ended is not None:
            callback(self.ended)
        else:
            self._callbacks.append(callback)

    def end(self, event: CallEvent) -> None:
        """End it; does nothing the second time."""
        if self.ended is None:
            self.ended = event
            for callback in self._callbacks:
                callback(event)
