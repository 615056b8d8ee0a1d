# SPDX-License-Identifier: Apache-2.0
"""Ask the roles of one process, within its budget and the limits of the node."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from planners.models.base import Image, Message, ModelRequest
from planners.models.model_call import CallEnd, ModelCall
from planners.prompts.blocks import Layer
from planners.strategies.closed_loop.answers import WholeAnswer
from planners.strategies.closed_loop.prompts import Prompts
from planners.strategy import PlannerIO
from skill_kernel.codes import TaskCode

T = TypeVar("T")


class Asked(Generic[T]):
    """Ask as soon as the budget lets it. `on_end` hears the answer once, never from within; `cancel` ends it silently."""

    def __init__(
        self, io: PlannerIO, layer: Layer, asked: ModelRequest, read: Callable[[str], T], on_end: Callable[[CallEnd[T]], None]
    ) -> None:
        self._io, self._layer, self._asked, self._read, self._on_end = io, layer, asked, read, on_end
        self._call: ModelCall[T] | None = None
        allowed, wait_s, why = io.allowance(layer.value)
        refused = partial(on_end, CallEnd[T](None, int(TaskCode.BUDGET_SPENT), why))
        self._timer = io.clock.call_later(wait_s if allowed else 0.0, self._ask if allowed else refused)

    def cancel(self) -> None:
        """End it without a word."""
        self._timer.cancel()
        if self._call is not None:
            self._call.cancel()

    def _ask(self) -> None:
        ask = partial(self._io.ask, self._layer.value)
        self._call = ModelCall(ask, self._io.clock, self._asked, partial(WholeAnswer, self._read), self._on_end)


class Ask:
    """Ask the models of one process."""

    def __init__(self, io: PlannerIO, prompts: Prompts, instruction: str) -> None:
        self._io, self._prompts, self._instruction = io, prompts, instruction

    def __call__(
        self, layer: Layer, text: str, images: Sequence[Image], read: Callable[[str], T], on_end: Callable[[CallEnd[T]], None]
    ) -> Asked[T]:
        """Ask a role; `read` makes its answer of the text, or raises AnswerError."""
        request = ModelRequest(
            self._prompts.system(layer),
            (Message("user", text, tuple(images)),),
            max_output_tokens=self._io.settings["max_output_tokens"],
            deadline_s=self._io.settings["deadline_s"],
            instruction=self._instruction,
        )
        return Asked(self._io, layer, request, read, on_end)
