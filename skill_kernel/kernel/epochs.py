# SPDX-License-Identifier: Apache-2.0
"""Epochs of (process, channel): which goals an interrupt has made void (law C9)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

UNSEEN_S = 1.0
"""An interrupt of every process also voids goals of processes not seen before it, for this long: goals that were on
their way arrive within it, and a process made later, which begins at epoch 0, is not shut out for good."""

PROCESSES = 4096
"""Processes remembered."""


class EpochTable:
    """Lowest epoch still valid per process and channel; epochs come from one counter for all processes.

    Not thread-safe by itself: the kernel's lock guards it. Times are seconds of the kernel's clock.
    """

    def __init__(self) -> None:
        self._last = 0
        self._every: dict[str, tuple[int, float]] = {}
        self._lowest: OrderedDict[str, dict[str, int]] = OrderedDict()
        self._first_seen_s: OrderedDict[str, float] = OrderedDict()

    def lowest(self, process_id: str, channels: Iterable[str], now_s: float) -> int:
        """The lowest epoch a goal of this process on these channels may have. The process counts as seen from now."""
        first_s = self._first_seen_s.setdefault(process_id, now_s)
        self._trim(self._first_seen_s)
        keys, own, found = ("", *channels), self._lowest.get(process_id, {}), 0
        for key in keys:
            epoch, at_s = self._every.get(key, (0, 0.0))
            void = first_s <= at_s or now_s < at_s + UNSEEN_S
            found = max(found, own.get(key, 0), epoch if void else 0)
        return found

    def seen(self, epoch: int) -> None:
        """A goal of this epoch was accepted; the next one issued is higher."""
        self._last = max(self._last, epoch)

    def advance(self, process_id: str, channels: Iterable[str], now_s: float, at_least: int = 0) -> int:
        """Issue a new epoch ("" = every process, no channels = all) and void all older ones there."""
        self._last = max(self._last + 1, at_least)
        for channel in tuple(channels) or ("",):
            if process_id:
                self._lowest.setdefault(process_id, {})[channel] = self._last
                self._trim(self._lowest)
            else:
                self._every[channel] = (self._last, now_s)
        return self._last

    @staticmethod
    def _trim(table: OrderedDict[str, float] | OrderedDict[str, dict[str, int]]) -> None:
        while len(table) > PROCESSES:
            table.popitem(last=False)
