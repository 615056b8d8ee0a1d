# SPDX-License-Identifier: Apache-2.0
"""One answer of System 1 on its way to the robot: steps go out as they are read and are entered in the book (TypeGo 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd
from planners.prompts.blocks import Layer
from planners.strategies.layered.step_answer import COMPLETE, REPLACE, Check, Found, StepAnswer, What
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
        self.answer = StepAnswer(check, room=book.has_room, live=lambda: book.idle)
        self.useful = False
        """Whether something of it was sent."""
        self._stream: StreamHandle | None = None
        self._turn = book.use_turn()
        self._item: Item | None = None
        self._marked = False
        """Whether it said that a subtask is complete, and no step since."""
        self._over = False
        late = f"the answer was not complete within {request.deadline_s:g} s"
        self._timer = io.clock.call_later(request.deadline_s, lambda: self._end(int(ModelCode.MODEL_TIMEOUT), late))
        self._handle = io.ask(Layer.S1, request, self._text, self._answered)

    def cancel(self, why: str) -> None:
        """Void what was planned; end what was sent."""
        if not self._over:
            self._handle.cancel()
            self._close(int(ModelCode.MODEL_CANCELLED), why)

    def _text(self, text: str) -> None:
        if not self._over:
            self._write(self.answer.feed(text))
            if not self._over and (self.answer.over or not self.subtask):
                self._handle.enough()
                self._end(0, "")

    def _answered(self, end: AnswerEnd) -> None:
        self._end(end.code, end.why)

    def _end(self, code: int, why: str) -> None:
        if not self._over:
            if code == ModelCode.MODEL_TIMEOUT:
                self._handle.cancel()
            self._write(self.answer.close())
            self._close(code, why)
            self._on_end(code, why)

    def _close(self, code: int, why: str) -> None:
        self._over = True
        self._timer.cancel()
        if self._stream is not None:
            self._stream.end(code, why)

    def _write(self, found: Iterable[Found]) -> None:
        for what, text in found:
            if self._over or not self.subtask:
                return
            self._one(what, text)

    def _one(self, what: What, text: str) -> None:
        book = self._book
        if what is What.REPLACE:
            book.drop_queue()
            book.next_turn()
            self._turn = book.use_turn()
            self._opened().text(f"<{REPLACE}/>")
        elif what is What.BEGUN:
            self._item = Item(self._opened().stream_id, self.subtask, handles=self._handles)
            book.add(self._item)
        elif what is What.TEXT:
            self._opened().text(text)
        elif what in (What.STEP, What.CUT) and self._item is not None:
            self._item.source = text
            self.useful, self._marked = True, False
        elif what is What.COMPLETE and self._marked:
            self.answer.faults.append(f"a second <{COMPLETE}/> with no step between was not read; write one for SUBTASK only")
            self.subtask = ""
        elif what is What.COMPLETE:
            self.useful = self._marked = True
            book.add(Item(self._opened().stream_id, self.subtask, mark=True))
            self._opened().text(f"<{COMPLETE}/>")
            self.subtask = self._following(self.subtask)

    def _opened(self) -> StreamHandle:
        if self._stream is None:
            self._stream = self._book.open(self._turn)
        return self._stream
