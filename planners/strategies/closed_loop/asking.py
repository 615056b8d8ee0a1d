# SPDX-License-Identifier: Apache-2.0
"""Ask the roles of one process."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from planners.models.base import Image, Message, ModelRequest
from planners.models.model_call import CallEnd, ModelCall
from planners.prompts.blocks import Layer
from planners.strategies.closed_loop.answers import WholeAnswer
from planners.strategies.closed_loop.prompts import Prompts
from planners.strategy import PlannerIO

T = TypeVar("T")


class Ask:
    """Ask the models of one process, within the limits of its node."""

    def __init__(self, io: PlannerIO, prompts: Prompts, instruction: str) -> None:
        self._io, self._prompts, self._instruction = io, prompts, instruction

    def __call__(
        self, layer: Layer, text: str, images: Sequence[Image], read: Callable[[str], T], on_end: Callable[[CallEnd[T]], None]
    ) -> ModelCall[T]:
        """Ask a role. `read` makes its answer of the text or raises AnswerError; `on_end` hears it once, never from within."""
        request = ModelRequest(
            self._prompts.system(layer),
            (Message("user", text, tuple(images)),),
            max_output_tokens=self._io.settings["max_output_tokens"],
            deadline_s=self._io.settings["deadline_s"],
            instruction=self._instruction,
        )
        return ModelCall(partial(self._io.ask, layer.value), self._io.clock, request, partial(WholeAnswer, read), on_end)
