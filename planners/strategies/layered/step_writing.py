# SPDX-License-Identifier: Apache-2.0
"""Write one answer of System 1 to the robot: steps go out as they are read and are entered in the book (TypeGo 6)."""

from __future__ import annotations

from collections.abc import Callable

from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd
from planners.prompts.blocks import Layer
from planners.strategies.layered.step_answer import COMPLETE, REPLACE, Check, StepAnswer
from planners.strategies.layered.step_goals import Item, StepBook
from planners.strategy import PlannerIO, StreamHandle
from skill_kernel.codes import ModelCode


class StepWriting:
    """Ask the model and write its answer. `on_end` hears code and reason once; `cancel` ends it without a word.

    `following` gives the subtask behind one that is said to be complete, "" where none is known yet.
    """

    def __init__(
        self,
        io: PlannerIO,
        book: StepBook,
        request: ModelRequest,
        check: Check,
        subtask: str,
        handles: frozenset[str],
        following: Callable[[str], str],
        on_end: Callable[[int, str], None],
    ) -> None:
        self._book, self._handles, self._following, self._on_end = book, handles, following, on_end
        self.subtask = subtask
        self.answer = StepAnswer(check, self)
        self.useful = False
        """True when something of it was sent."""
        self._stream: StreamHandle | None = None
        self._turn = book.use_turn()
        self._item: Item | None = None
        self._marked = False
        """True when it said that a subtask is complete, and no step since."""
        self._over = False
        late = f"the answer was not complete within {request.deadline_s:g} s"
        self._timer = io.clock.call_later(request.deadline_s, lambda: self._end(int(ModelCode.MODEL_TIMEOUT), late))
        self._handle = io.ask(Layer.S1, request, self._read, self._answered)

    def cancel(self, why: str) -> None:
        """Void what was planned; end what was sent."""
        if not self._over:
            self._handle.cancel()
            self._close(int(ModelCode.MODEL_CANCELLED), why)

    def _read(self, text: str) -> None:
        if not self._over:
            self.answer.feed(text)
            if not self._over and self.answer.over:
                self._handle.enough()
                self._end(0, "")

    def _answered(self, end: AnswerEnd) -> None:
        self._end(end.code, end.why)

    def _end(self, code: int, why: str) -> None:
        if not self._over:
            if code == ModelCode.MODEL_TIMEOUT:
                self._handle.cancel()
            self.answer.close()
            self._close(code, why)
            self._on_end(code, why)

    def _close(self, code: int, why: str) -> None:
        self._over = True
        self._timer.cancel()
        if self._stream is not None:
            self._stream.end(code, why)

    # -- StepWriter ---------------------------------------------------------------------------------------------------

    def has_room(self) -> bool:
        return self._book.has_room()

    def is_live(self) -> bool:
        return self._book.idle

    def begin(self) -> None:
        self._item = Item(self._opened().stream_id, self.subtask, handles=self._handles)
        self._book.add(self._item)

    def text(self, text: str) -> None:
        self._opened().text(text)

    def step(self, source: str) -> None:
        assert self._item is not None
        self._item.source = source
        self.useful, self._marked = True, False

    def complete(self) -> None:
        if not self.subtask:
            return
        if self._marked:
            self.answer.faults.append(f"a second <{COMPLETE}/> with no step between was not read; write one for SUBTASK only")
            self.subtask = ""
        else:
            self.useful = self._marked = True
            self._book.add(Item(self._opened().stream_id, self.subtask, mark=True))
            self.text(f"<{COMPLETE}/>")
            self.subtask = self._following(self.subtask)
        self.answer.over = self.answer.over or not self.subtask

    def replace(self) -> None:
        self._book.drop_queue()
        self._book.next_turn()
        self._turn = self._book.use_turn()
        self.text(f"<{REPLACE}/>")

    def _opened(self) -> StreamHandle:
        if self._stream is None:
            self._stream = self._book.open(self._turn)
        return self._stream
