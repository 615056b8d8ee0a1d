# SPDX-License-Identifier: Apache-2.0
"""What has become of the steps of a process: written, begun, ended; kept from what the channel scheduler reports (TypeGo 6)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from planners.prompts.prompt import CallReport
from planners.strategies.layered.step_answer import COMPLETE, STEP
from planners.strategy import CallEvent
from skill_kernel.codes import CallCode

SILENT = frozenset({"if", "else", "elif", "wait", "replace_steps"})
"""Built-ins whose end says nothing that their contents do not say."""
IDLE_WORDS = frozenset({"text", "sleep", STEP, COMPLETE}) | SILENT
"""Calls that mend no failure."""
BAD = frozenset({"FAILED", "REFUSED"})
"""Outcomes that are a failure. An interrupted call is one only when its step fails of it; else somebody wanted it so."""
KEPT_DONE = 60


@dataclass(eq=False)
class Item:
    """A step that was written, or the mark behind the last step of a subtask (`mark`). `subtask`: whose it is, "" for the
    first action. `reads`: its end has not been read."""

    stream_id: str
    subtask: str
    mark: bool = False
    source: str = ""
    reads: bool = False
    begun: bool = False
    call_id: str = ""
    handles: frozenset[str] = frozenset()
    """Global events that were known when it was written."""


@dataclass(frozen=True)
class StepEnd:
    """A step or mark has ended; `cause` is the call in it that failed, `moved`: it did more than speak and wait."""

    item: Item
    outcome: str
    cause: CallEvent | None = None
    moved: bool = False


class StepBook:
    """The steps of one process in the order in which they were written, and its calls."""

    def __init__(self, done: list[CallReport]) -> None:
        self._items: list[Item] = []
        self._calls: dict[str, CallEvent] = {}
        self.done: deque[CallReport] = deque(done, maxlen=KEPT_DONE)
        self.since_mark: list[CallReport] = list(done)
        """Calls that have ended since the last mark was DONE: what has been done of the subtask after it."""
        self.ended = 0
        """Calls that have ended so far."""
        self.fault = ""
        """The last failure, until a later step has done something."""
        self._fault_in: Item | None = None
        self._moved = False
        self._cause: CallEvent | None = None

    # -- what is written ----------------------------------------------------------------------------------------------

    def add(self, item: Item) -> None:
        """A step begins to be written, or a mark was."""
        self._items.append(item)

    def drop_queue(self) -> None:
        """What has not begun is replaced."""
        self._items = [item for item in self._items if item.begun]

    def clear(self) -> None:
        """Everything was interrupted."""
        self._items.clear()
        self._calls.clear()
        self.fault, self._fault_in, self._cause, self._moved = "", None, None, False

    @property
    def queued(self) -> list[Item]:
        """Steps that have not begun, oldest first."""
        return [item for item in self._items if not item.mark and not item.begun]

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self._items and not self._calls

    def marked(self, subtask: str) -> bool:
        """Whether the mark of a subtask waits for the steps before it."""
        return any(item.mark and item.subtask == subtask for item in self._items)

    def shown_queue(self) -> list[str]:
        """The queue as prompts show it."""
        waiting = [item for item in self._items if not item.begun]
        return [f"<{COMPLETE}/>" if item.mark else item.source or f"<{STEP}>…" for item in waiting]

    def shown_running(self) -> list[dict[str, Any]]:
        """What runs as prompts show it."""
        step = self._running()
        calls = [
            {"function": c.function, "arguments": dict(c.arguments)}
            for c in self._calls.values()
            if c.function != STEP and c.function not in SILENT and c.function != COMPLETE
        ]
        if step is None and not calls:
            return []
        return [{"step": step.source or f"<{STEP}>…" if step is not None else "", "calls": calls}]

    # -- what is reported ---------------------------------------------------------------------------------------------

    def started(self, call: CallEvent) -> Item | None:
        """A call has begun; the item that begins with it."""
        self._calls[call.call_id] = call
        if call.function != STEP or call.parent_id:
            return None
        item = self._next(call.stream_id, mark=False)
        if item is not None:
            item.begun, item.call_id = True, call.call_id
        return item

    def call_ended(self, call: CallEvent) -> StepEnd | None:
        """A call has its outcome; the end of a step or of a mark, if it is one."""
        self._calls.pop(call.call_id, None)
        self.ended += 1
        known = replace(call, message=call.message[:400])
        if call.function == STEP and not call.parent_id:
            return self._step_ended(known)
        if call.function == COMPLETE:
            return self._mark_ended(known)
        if call.function in SILENT or call.outcome == "DROPPED":
            return None
        self._report(known)
        if all(item.stream_id != call.stream_id for item in self._items):
            return None  # heard of too late: nothing of its stream is left
        if call.outcome in BAD:
            self._cause = known
            self.fault = f"'{call.function}' {call.outcome}: {call.message}"
            self._fault_in = self._running()
        elif call.outcome == "INTERRUPTED":
            self._cause = self._cause or known
        elif call.outcome == "DONE" and call.function not in IDLE_WORDS:
            self._moved = True
            if self._running() is not self._fault_in:
                self.fault = ""
        return None

    def stream_over(self, stream_id: str) -> None:
        """The scheduler has nothing more of a stream; what was never heard of it is lost."""
        self._items = [item for item in self._items if item.stream_id != stream_id]
        self._calls = {i: c for i, c in self._calls.items() if c.stream_id != stream_id}

    def _step_ended(self, call: CallEvent) -> StepEnd | None:
        item = next((i for i in self._items if i.call_id == call.call_id), None) or self._next(call.stream_id, mark=False)
        if item is None:
            return None
        self._items.remove(item)
        if call.outcome == "DROPPED":
            return StepEnd(item, call.outcome)
        cause, self._cause = self._cause, None
        moved, self._moved = self._moved, False
        if call.outcome in BAD:
            if cause is None or call.code == CallCode.CONDITION_UNKNOWN:
                cause = call
                self._report(call)
            self.fault = f"{'a step' if cause is call else repr(cause.function)} {cause.outcome}: {cause.message}"
        return StepEnd(item, call.outcome, cause, moved)

    def _mark_ended(self, call: CallEvent) -> StepEnd | None:
        if call.outcome == "DONE":
            self.done.append(call.report())
            self.since_mark.clear()
        if call.parent_id:
            step = self._running()
            return StepEnd(Item(call.stream_id, step.subtask, mark=True), call.outcome) if step is not None else None
        item = self._next(call.stream_id, mark=True)
        if item is None:
            return None
        self._items.remove(item)
        return StepEnd(item, call.outcome)

    def _report(self, call: CallEvent) -> None:
        self.done.append(call.report())
        self.since_mark.append(call.report())

    def _running(self) -> Item | None:
        return next((item for item in self._items if item.begun and not item.mark), None)

    def _next(self, stream_id: str, *, mark: bool) -> Item | None:
        """Calls of a stream come in the order in which they were written."""
        return next((i for i in self._items if i.stream_id == stream_id and i.mark == mark and not i.begun), None)
