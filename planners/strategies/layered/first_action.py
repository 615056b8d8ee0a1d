# SPDX-License-Identifier: Apache-2.0
"""The one immediate call with which a process begins, from a fast model and within narrow limits (TypeGo 6, S1P)."""

from __future__ import annotations

from collections.abc import Callable, Collection

from function_tokens.parsing.tokens import FunctionToken, TokenKind
from function_tokens.routines import RoutineError, to_source
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerError, CallEnd, Model, ModelCall
from planners.prompts.blocks import Layer
from planners.prompts.elements import Element, ElementParser
from planners.strategies.layered.step_answer import Check
from skill_kernel.clock import Clock

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


class FirstAction:
    """Asks once; `begin` hears the call's source when it comes in time. `cancel` throws it away: a step has begun, the
    process is paused, or the robot halted."""

    def __init__(
        self,
        model: Model,
        clock: Clock,
        process_id: str,
        request: ModelRequest,
        *,
        allowed: Collection[str],
        check: Check,
        begin: Callable[[str], None],
        failed: Callable[[int, str], None],
        deadline_s: float,
    ) -> None:
        self._begin, self._failed = begin, failed
        self._call: ModelCall[str] = ModelCall(
            model,
            clock,
            Layer.S1P,
            process_id,
            request,
            lambda: FirstActionReader(allowed, check),
            self._ended,
            deadline_s=deadline_s,
        )

    @property
    def over(self) -> bool:
        """Whether it has been told or thrown away."""
        return self._call.over

    def cancel(self) -> None:
        """Too late for it."""
        self._call.cancel()

    def _ended(self, end: CallEnd[str]) -> None:
        if end.value is None:
            self._failed(end.code, end.why)
        elif end.value:
            self._begin(end.value)
