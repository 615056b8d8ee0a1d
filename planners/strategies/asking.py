# SPDX-License-Identifier: Apache-2.0
"""Ask the models of one process: within its budget, again after an answer that is missing, and for whole answers."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from planners.models.base import Image, Message, ModelRequest
from planners.models.model_call import CallEnd, ModelCall, WholeAnswer
from planners.prompts.blocks import Layer
from planners.strategy import PlannerIO
from skill_kernel.codes import ModelCode, TaskCode
from skill_kernel.events import ModelEvent, ModelKind

T = TypeVar("T")

LOST_ANSWERS, RETRY_S = 3, 2.0
"""Missing answers in a row that end the task, and the wait after the first [s]; after the next twice as long."""
HOPELESS = frozenset({int(ModelCode.MODEL_AUTH), int(ModelCode.MODEL_REFUSED), int(TaskCode.BUDGET_SPENT)})
"""Codes after which asking once more cannot help."""


class Patience:
    """Wait until one process may ask, and give up after too many answers that are missing."""

    def __init__(self, io: PlannerIO) -> None:
        self._io = io
        self._lost, self._not_before_s = 0, 0.0

    def may_ask(
        self, layer: Layer, later: Callable[[], None] | None = None, never: Callable[[int, str], None] | None = None
    ) -> bool:
        """Return whether a role may be asked now. Else `later` is called once it may, or `never` with the code and the reason
        why it may not."""
        allowed, gap_s, why = self._io.allowance(layer.value)
        wait_s = max(gap_s, self._not_before_s - self._io.clock.now())
        if not allowed and never is not None:
            never(int(TaskCode.BUDGET_SPENT), why)
        elif allowed and wait_s > 0.0 and later is not None:
            self._io.clock.call_later(wait_s, later)
        return allowed and wait_s <= 0.0

    def answered(self) -> None:
        """Take note that an answer has come."""
        self._lost = 0

    def lost(self, layer: Layer, code: int, why: str) -> bool:
        """Take note that an answer is missing; return whether to give up. Else it is asked for again, a while later."""
        self._lost += 1
        if code in HOPELESS or self._lost >= LOST_ANSWERS:
            return True
        self._io.report(ModelEvent(kind=ModelKind.DEGRADED, layer=layer.value, fallback="asks again", error_msg=why))
        self._not_before_s = self._io.clock.now() + RETRY_S * 2.0 ** (self._lost - 1)
        return False


class Ask(Patience):
    """Ask the roles of one process about its task. `system` gives the static front of a role's prompts."""

    def __init__(self, io: PlannerIO, instruction: str, system: Callable[[Layer], str]) -> None:
        super().__init__(io)
        self._instruction, self._system = instruction, system

    def __call__(
        self,
        layer: Layer,
        text: str,
        images: Sequence[Image],
        read: Callable[[str], T],
        on_end: Callable[[CallEnd[T]], None],
        schema: Mapping[str, Any] | None = None,
    ) -> ModelCall[T]:
        """Ask a role. `read` makes its answer of the text or raises AnswerError; `on_end` hears it once, never from within."""
        request = ModelRequest(
            self._system(layer),
            (Message("user", text, tuple(images)),),
            max_output_tokens=self._io.settings["max_output_tokens"],
            deadline_s=self._io.settings["deadline_s"],
            instruction=self._instruction,
            schema=schema,
        )
        return ModelCall(partial(self._io.ask, layer.value), self._io.clock, request, partial(WholeAnswer, read), on_end)
