# SPDX-License-Identifier: Apache-2.0
"""One answer of System 1 on its way to the robot: steps go out as they are read and are entered in the book (TypeGo 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.prompts.blocks import Layer
from planners.strategies.layered.step_answer import COMPLETE, REPLACE, Found, StepAnswer, What
from planners.strategies.layered.step_book import Item, StepBook
from planners.strategies.layered.step_link import Outlet, StepLink
from skill_kernel.codes import ModelCode


@dataclass
class Turn:
    """What the streams to come know of; counts up with each failure and each replaced queue."""

    number: int = 0
    used: bool = False

    def next(self) -> None:
        """Something has happened that what was written before did not know."""
        if self.used:
            self.number, self.used = self.number + 1, False

    def use(self) -> int:
        """The number for a stream."""
        self.used = True
        return self.number


@dataclass(frozen=True)
class Written:
    """What came of an answer: `code` and `why` when it was broken off, else whether it added anything."""

    steps: int
    marks: int
    nothing: bool
    faults: tuple[str, ...]
    code: int = 0
    why: str = ""

    @property
    def useful(self) -> bool:
        """Whether something of it was sent."""
        return bool(self.steps or self.marks)


@dataclass
class StepWriter:
    """Writes to the robot and into the book alike. `room` is how many steps may wait."""

    outlet: Outlet
    book: StepBook
    turn: Turn
    room: int
    begun: list[str] = field(default_factory=list)
    """Streams that have not been reported over."""

    def has_room(self) -> bool:
        """Whether one more step may wait."""
        return len(self.book.queued) < self.room

    def send(self, source: str, items: list[Item]) -> str:
        """A whole stream at once; `items` are the steps and marks in it, in order."""
        stream_id = self.open(self.turn.use())
        for item in items:
            item.stream_id = stream_id
            self.book.add(item)
        self.outlet.text(stream_id, source)
        self.outlet.close_stream(stream_id)
        return stream_id

    def open(self, turn: int) -> str:
        """Begin a stream."""
        stream_id = self.outlet.open(turn)
        self.begun.append(stream_id)
        return stream_id


class StepWriting:
    """Asks the model and writes its answer. `on_end` hears once what came of it; `cancel` ends it without a word."""

    def __init__(
        self,
        process_id: str,
        request: ModelRequest,
        writer: StepWriter,
        subtask: str,
        handles: frozenset[str],
        link: StepLink,
        deadline_s: float,
        following: Callable[[str], str],
        on_end: Callable[[Written], None],
    ) -> None:
        """`following` gives the subtask behind one that is said to be complete, "" where none is known yet."""
        self.subtask = subtask
        self._following = following
        self._writer, self._handles, self._on_end = writer, handles, on_end
        self._answer = StepAnswer(link.check, room=writer.has_room, live=lambda: writer.book.idle)
        self._stream_id = ""
        self._turn = writer.turn.use()
        self._item: Item | None = None
        self._steps = self._marks = 0
        self._marked = False
        """Whether it said that a subtask is complete, and no step since."""
        self._over = False
        self._deadline_s = deadline_s
        self._timer = link.clock.call_later(deadline_s, self._too_late)
        request = replace(request, deadline_s=min(deadline_s, request.deadline_s))
        self._handle: Handle = link.model.ask(Layer.S1, process_id, request, self._text, self._model_ended)

    def cancel(self, why: str) -> None:
        """What was planned is void; what was sent is ended."""
        if not self._over:
            self._over = True
            self._timer.cancel()
            self._handle.cancel()
            self._close(int(ModelCode.MODEL_CANCELLED), why)

    def _text(self, text: str) -> None:
        if not self._over:
            self._write(self._answer.feed(text))
            if not self._over and (self._answer.over or not self.subtask):
                self._handle.enough()
                self._write(self._answer.close())
                self._finish(0, "")

    def _model_ended(self, end: AnswerEnd) -> None:
        if not self._over:
            self._write(self._answer.close())
            self._finish(end.code, end.why)

    def _too_late(self) -> None:
        if not self._over:
            self._handle.cancel()
            self._write(self._answer.close())
            self._finish(int(ModelCode.MODEL_TIMEOUT), f"the answer was not complete within {self._deadline_s:g} s")

    def _finish(self, code: int, why: str) -> None:
        self._over = True
        self._timer.cancel()
        self._close(code, why)
        answer = self._answer
        self._on_end(Written(self._steps, self._marks, answer.nothing, tuple(answer.faults), code, why))

    def _write(self, found: Iterable[Found]) -> None:
        for what, text in found:
            if self._over or not self.subtask:
                return
            self._one(what, text)

    def _one(self, what: What, text: str) -> None:
        writer = self._writer
        if what is What.REPLACE:
            writer.book.drop_queue()
            writer.turn.next()
            self._turn = writer.turn.use()
            self._send(f"<{REPLACE}/>")
        elif what is What.BEGUN:
            self._item = Item("", self.subtask, handles=self._handles, reads=True)
            self._send("")
            self._item.stream_id = self._stream_id
            writer.book.add(self._item)
        elif what is What.TEXT:
            self._send(text)
        elif what in (What.STEP, What.CUT) and self._item is not None:
            self._item.source, self._item.reads = text, False
            self._steps += 1
            self._marked = False
        elif what is What.COMPLETE and self._marked:
            self._answer.faults.append(f"a second <{COMPLETE}/> with no step between was not read; write one for SUBTASK only")
            self.subtask = ""
        elif what is What.COMPLETE:
            self._marks += 1
            self._marked = True
            self._send("")
            writer.book.add(Item(self._stream_id, self.subtask, mark=True))
            self._send(f"<{COMPLETE}/>")
            self.subtask = self._following(self.subtask)

    def _send(self, text: str) -> None:
        if not self._stream_id:
            self._stream_id = self._writer.open(self._turn)
        if text:
            self._writer.outlet.text(self._stream_id, text)

    def _close(self, code: int, why: str) -> None:
        if self._stream_id:
            self._writer.outlet.close_stream(self._stream_id, code, why)
