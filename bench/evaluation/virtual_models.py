# SPDX-License-Identifier: Apache-2.0
"""Ask the simulated model in this process on a virtual clock, with the delays, deadlines and retries of a client."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bench.simulated_model.__main__ import FAST
from bench.simulated_model.model_dialects import CHARS_PER_TOKEN, RecordedRequest
from bench.simulated_model.model_dialects import Answer as Said
from bench.simulated_model.service import SimulatedModel
from bench.simulated_model.table import Table
from planners.models.base import Message, ModelRequest, Usage, tokens_in
from planners.models.config import ModelConfig
from planners.models.model_call import AnswerEnd
from planners.prompts.blocks import Layer
from skill_kernel.clock import Clock, Timer
from skill_kernel.codes import ModelCode
from skill_kernel.events import ModelEvent, ModelKind

WIRE_S = 0.004
"""Time that a message is under way."""
NOWHERE = Path(os.devnull) / "nothing"
"""Folder of strategies' files: nothing outlives a run."""
CONFIG = ModelConfig(provider="offline")
"""Deadlines and retries of a model that sets none."""


class Models:
    """Ask the simulated model, and where it stays silent the fast one as well; a `Model`. `tell` hears what was answered."""

    def __init__(self, simulated: SimulatedModel, table: Table, clock: Clock, tell: Callable[[ModelEvent], None]) -> None:
        self.simulated, self.table, self.clock, self.tell = simulated, table, clock, tell

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
    ) -> Saying:
        return Saying(self, layer, process_id, request, on_text, on_end)


class Saying:
    """One answer; a `Handle`."""

    def __init__(
        self,
        models: Models,
        layer: Layer,
        process_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
    ) -> None:
        self._models, self._clock = models, models.clock
        self._layer, self._process_id, self._request = layer, process_id, request
        self._on_text, self._on_end = on_text, on_end
        self._row = self._paid = FAST if layer is Layer.S1P and FAST in models.table.rows else "planner"
        self._asked_s = self._clock.now()
        self._due_s = self._asked_s + request.deadline_s
        self._written, self._prompt_tokens, self._cached_tokens, self._attempts = "", 0, 0, 0
        self._over = self._muted = False
        self._timers: list[Timer] = []
        self._attempt()

    def cancel(self) -> None:
        """Stop the answer and report nothing more of it."""
        self._told(int(ModelCode.MODEL_CANCELLED))

    def enough(self) -> None:
        """Read no further."""
        self._muted = True

    def _attempt(self) -> None:
        self._attempts += 1
        self._prompt_tokens = 0
        (at, answer), row = self._asked(self._row), self._row
        if row != FAST and 0.0 < CONFIG.hedge_s < at and FAST in self._models.table.rows:
            after, second = self._asked(FAST)
            if CONFIG.hedge_s + after < at:
                at, answer, row = CONFIG.hedge_s + after, second, FAST
        self._paid, self._cached_tokens = row, answer.cached_tokens
        if answer.fault is not None:
            wait_s = min(CONFIG.first_token_s, self._due_s - self._clock.now())
            self._later(wait_s, self._silent)
            return
        rate = answer.rate or 1.0
        for start in range(0, len(answer.text), CHARS_PER_TOKEN):
            self._later(at, partial(self._text, answer.text[start : start + CHARS_PER_TOKEN]))
            at += 1.0 / rate
        self._later(at, self._end)

    def _asked(self, row: str) -> tuple[float, Said]:
        """Ask one row; return in how many seconds its first token comes, and the answer. A silent one never comes."""
        system = {"role": "system", "content": self._request.system}
        said = [{"role": m.role, "content": _content(m)} for m in self._request.messages]
        body = {"model": row, "messages": [system, *said]}
        answer = self._models.simulated(RecordedRequest("/virtual", {}, body, self._clock.now()))
        self._prompt_tokens += answer.prompt_tokens or 0
        return math.inf if answer.fault is not None else answer.first_token_s or 0.0, answer

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        self._timers.append(self._clock.call_later(delay_s + WIRE_S, call))

    def _text(self, text: str) -> None:
        self._written += text
        if not self._muted:
            self._on_text(text)

    def _silent(self) -> None:
        """Try again as the clients do, while there is time."""
        wait_s = CONFIG.retry.first_wait_s * 2.0 ** (self._attempts - 1)
        if self._attempts <= CONFIG.retry.max_retries and self._clock.now() + wait_s < self._due_s:
            self._later(wait_s, self._attempt)
        else:
            self._end(int(ModelCode.MODEL_TIMEOUT), "the first token did not come in time")

    def _end(self, code: int = 0, why: str = "") -> None:
        if not self._over:
            self._told(code)
            if not self._muted:
                self._on_end(AnswerEnd(self._written, code, why))

    def _told(self, code: int) -> None:
        if self._over:
            return
        self._over = True
        for timer in self._timers:
            timer.cancel()
        usage = Usage(self._prompt_tokens, tokens_in(self._written) if self._written else 0, self._cached_tokens)
        told = ModelEvent(
            kind=ModelKind.ANSWERED,
            process_id=self._process_id,
            layer=self._layer.value,
            error_code=code,
            start_s=self._asked_s,
            end_s=self._clock.now(),
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
            cost_usd=self._models.table.rows[self._paid].prices.cost_usd(usage),
        )
        self._models.tell(told)


def _content(message: Message) -> str | list[Mapping[str, Any]]:
    """Return a message's text, behind its pictures where it has any, as the OpenAI protocol writes them."""
    if not message.images:
        return message.text
    pictures = [{"type": "image_url", "image_url": {"url": f"data:{i.media_type};base64,{i.base64}"}} for i in message.images]
    return [*pictures, {"type": "text", "text": message.text}]
