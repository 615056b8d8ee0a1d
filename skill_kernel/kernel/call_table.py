# SPDX-License-Identifier: Apache-2.0
"""The calls a kernel runs and remembers, and what arrives for a call before the call itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from skill_kernel.calls import CallSpec
from skill_kernel.kernel.running import RunningCall

EARLY_CALLS, EARLY_MESSAGES = 256, 2000
"""Calls not known yet for which content and control is kept, and how much of each: it may overtake the call."""

REMEMBERED_CALLS = 4096
"""Ended calls whose ids are remembered, so that a late control for one is not kept and no id is used twice."""

Message = Callable[[RunningCall], None]


class CallTable:
    """Running calls by id, in the order they came. Guarded by the kernel's lock."""

    def __init__(self) -> None:
        self._calls: dict[str, RunningCall] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._early: OrderedDict[str, list[Message]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def running(self) -> list[RunningCall]:
        """All of them."""
        return list(self._calls.values())

    def of(self, process_id: str) -> list[RunningCall]:
        """Those of one process."""
        return [run for run in self._calls.values() if run.spec.process_id == process_id]

    def get(self, call_id: str) -> RunningCall | None:
        """The running call of that id."""
        return self._calls.get(call_id)

    def used(self, call_id: str) -> bool:
        """Whether a call of that id runs or is remembered."""
        return call_id in self._calls or call_id in self._ended

    def add(self, run: RunningCall) -> None:
        """Take a new call."""
        self._calls[run.spec.call_id] = run

    def early(self, call_id: str) -> list[Message]:
        """What came for a call before it, once."""
        return self._early.pop(call_id, [])

    def forget(self, run: RunningCall) -> None:
        """The call is over."""
        del self._calls[run.spec.call_id]
        self._ended[run.spec.call_id] = None
        while len(self._ended) > REMEMBERED_CALLS:
            self._ended.popitem(last=False)

    def deliver(self, call_id: str, message: Message) -> None:
        """What concerns a call not known yet waits for it; what concerns one that has its result is void."""
        run = self._calls.get(call_id)
        if run is not None and not run.reported:
            message(run)
        elif run is None and call_id not in self._ended:
            waiting = self._early.setdefault(call_id, [])
            if len(waiting) < EARLY_MESSAGES:
                waiting.append(message)
            while len(self._early) > EARLY_CALLS:
                self._early.popitem(last=False)

    def around(self, call: CallSpec) -> list[RunningCall]:
        """Running calls around this one. What a caller says of its parents may be wrong, even circular."""
        found: list[RunningCall] = []
        run = self._calls.get(call.parent_id)
        while run is not None and run not in found:
            found.append(run)
            run = self._calls.get(run.spec.parent_id)
        return found
