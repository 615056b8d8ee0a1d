# SPDX-License-Identifier: Apache-2.0
"""Begin a process with one immediate call from a fast model, within narrow limits (TypeGo 6, S1P)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source
from planners.models.model_call import AnswerError, CallEnd, ModelCall
from planners.prompts.blocks import Layer
from planners.prompts.elements import Element, ElementParser
from planners.strategies.layered.step_answer import STEP, Check
from planners.strategies.layered.step_book import Item
from planners.strategies.layered.step_link import StepLink
from planners.strategies.layered.step_writing import StepWriter
from planners.strategy import Task

NONE = "none"
MAX_ANSWER = 1000


class FirstActionReader:
    """Reads one self-contained tag; the value is its source, or "" for `<none/>`. Raises AnswerError for a function outside
    `allowed`, or arguments that `check` refuses."""

    def __init__(self, allowed: Collection[str], check: Check) -> None:
        self._allowed, self._check = allowed, check
        self._parser = ElementParser()
        self._length = 0
        self._source: str | None = None

    def feed(self, text: str) -> None:
        """The next piece; what follows the first tag is ignored."""
        self._length += len(text)
        if self._length > MAX_ANSWER and self._source is None:
            raise AnswerError("the answer is too long; write one tag and nothing else")
        for element in self._parser.feed(text):
            self._take(element)

    def close(self) -> str:
        """The call."""
        for element in self._parser.close():
            self._take(element)
        if self._source is None:
            raise AnswerError("there is no tag in the answer; write one call, or <none/>")
        return self._source

    def _take(self, element: Element) -> None:
        if self._source is not None or not element.name:
            return
        if element.name == NONE:
            self._source = ""
            return
        if element.name not in self._allowed:
            raise AnswerError(f"<{element.name[:40]}> may not be the first action; use one of {', '.join(self._allowed)}")
        if element.inner or element.text:
            raise AnswerError(f"<{element.name}> must be empty: <{element.name} …/>")
        if why := self._check(element.name, element.attrs):
            raise AnswerError(why)
        try:
            self._source = to_source([FunctionToken(TokenKind.SCF, element.name, element.attrs)])
        except RoutineError as error:
            raise AnswerError(str(error)) from error


class FirstActionRequest:
    """Ask once for a first action. It becomes a step of its own if it comes in time and `wanted` says so."""

    def __init__(self, task: Task, link: StepLink, writer: StepWriter, wanted: Callable[[], bool]) -> None:
        self._task, self._link, self._writer, self._wanted = task, link, writer, wanted
        self._call: ModelCall[str] | None = None

    def begin(self, deadline_s: float) -> None:
        """Ask, if there is something to choose from; 0: do not."""
        link = self._link
        if deadline_s > 0 and (request := link.first_request()) is not None:
            self._call = ModelCall(
                link.model,
                link.clock,
                Layer.S1P,
                self._task.process_id,
                request,
                lambda: FirstActionReader(link.first_actions, link.check),
                self._ended,
                deadline_s=deadline_s,
            )

    def throw_away(self) -> None:
        """Drop the answer: a step has begun, the process is paused, or the robot was halted."""
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _ended(self, end: CallEnd[str]) -> None:
        self._call = None
        if end.value is None:
            self._link.degraded(Layer.S1P, "begins without a first action", end.why)
        elif end.value and self._wanted():
            step = f"<{STEP}>{end.value}</{STEP}>"
            self._writer.send(step, [Item("", "", source=step)])
