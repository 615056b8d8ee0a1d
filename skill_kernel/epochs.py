# SPDX-License-Identifier: Apache-2.0
"""Epochs of (process, channel): which goals an interrupt has made void (law C9)."""

from __future__ import annotations

from collections.abc import Iterable


class EpochTable:
    """Lowest epoch still valid per process and channel. Not thread-safe by itself: the kernel's lock guards it.

    Epochs come from one counter for all processes, so the answer to an interrupt of every process holds for processes
    made later as well.
    """

    def __init__(self) -> None:
        self._last = 0
        self._lowest: dict[tuple[str, str], int] = {}

    def lowest(self, process_id: str, channels: Iterable[str]) -> int:
        """The lowest epoch a goal of this process on these channels may have."""
        keys = [(p, c) for p in ("", process_id) for c in ("", *channels)]
        return max(self._lowest.get(key, 0) for key in keys)

    def seen(self, epoch: int) -> None:
        """A goal of this epoch was accepted; the next one issued is higher."""
        self._last = max(self._last, epoch)

    def advance(self, process_id: str, channels: Iterable[str], at_least: int = 0) -> int:
        """Issue a new epoch ("" = every process, no channels = all) and void all older ones there."""
        self._last = max(self._last + 1, at_least)
        for channel in tuple(channels) or ("",):
            self._lowest[process_id, channel] = self._last
        return self._last
