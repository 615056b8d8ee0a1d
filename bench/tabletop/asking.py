# SPDX-License-Identifier: Apache-2.0
"""Ask a real model from a run on a virtual clock, which stands still meanwhile and then goes on by the time that it took."""

from __future__ import annotations

import time
from collections.abc import Callable

from planners.models.base import CancelToken, ModelClient, ModelError, ModelRequest, TextDelta
from planners.models.model_call import AnswerEnd
from planners.prompts.blocks import Layer
from skill_kernel.clock import Clock
from skill_kernel.codes import ModelCode


class Answer:
    """One answer; a `Handle`."""

    def __init__(self) -> None:
        self.over = False

    def cancel(self) -> None:
        self.over = True

    enough = cancel


class RealModel:
    """Ask a client, and wait for the whole answer; a `Model`. Where nobody answers, ModelError ends the measurement: that is no
    failure of the robot's."""

    def __init__(self, client: ModelClient, clock: Clock) -> None:
        self._client, self._clock = client, clock

    def allowance(self, process_id: str, layer: str) -> tuple[bool, float, str]:
        return True, 0.0, ""

    def ask(
        self,
        layer: Layer,
        process_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream_id: str = "",
    ) -> Answer:
        begun, text, end = time.monotonic(), "", AnswerEnd("")
        try:
            for event in self._client.stream(request, cancel=CancelToken()):
                text += event.text if isinstance(event, TextDelta) else ""
            end = AnswerEnd(text)
        except ModelError as error:
            if error.code is not ModelCode.MODEL_REFUSED:
                raise
            end = AnswerEnd(text, int(error.code), error.message)
        answer = Answer()

        def told() -> None:
            if not answer.over:
                on_text(text)
            if not answer.over:
                answer.over = True
                on_end(end)

        self._clock.call_later(time.monotonic() - begun, told)
        return answer
