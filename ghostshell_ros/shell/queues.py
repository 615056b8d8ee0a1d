# SPDX-License-Identifier: Apache-2.0
"""The order of live calls on their channels, and which of them may start (laws C1, C2, C3 and C6)."""

from __future__ import annotations

from collections.abc import Iterator

from ghostshell_ros.shell.calls import Call, CallState
from skill_kernel.skill import MAIN


class ChannelQueues:
    """All live calls of a process, in token order on each channel they claim.

    A call waits for every earlier live call that is not one of its ancestors and either shares a channel with it (C1)
    or claims main (C3); calls on a `parallel` channel do not wait for one another. So on each channel at most one call
    can be next, and looking at those suffices.
    """

    def __init__(self, parallel: frozenset[str] = frozenset()) -> None:
        self._parallel = parallel
        self._queues: dict[str, dict[int, Call]] = {MAIN: {}}

    def add(self, call: Call) -> None:
        """Append a new call to the queues of its channels; calls come in the order of their tokens."""
        for key in self._keys(call):
            self._queues.setdefault(key, {})[call.seq] = call

    def remove(self, call: Call) -> None:
        """Take out a call that has ended."""
        for key in self._keys(call):
            queue = self._queues.get(key, {})
            queue.pop(call.seq, None)
            if not queue and key != MAIN:
                self._queues.pop(key, None)

    def _keys(self, call: Call) -> list[str]:
        """Names of the call's queues; on a parallel channel every call has one of its own."""
        return [f"{c}#{call.seq}" if c in self._parallel else c for c in call.channels]

    def candidates(self) -> Iterator[Call]:
        """The next call of each channel that has not been handed to the executor."""
        for channel, queue in list(self._queues.items()):
            for call in queue.values():
                if call.state is CallState.QUEUED:
                    yield call
                    break
                if channel != MAIN:
                    break

    def blocker(self, call: Call) -> Call | None:
        """The first live call that `call` has to wait for by order, or None."""
        for key in {*self._keys(call), MAIN}:
            for seq, other in self._queues[key].items():
                if seq >= call.seq:
                    break
                if not call.is_descendant_of(other):
                    return other
        return None
