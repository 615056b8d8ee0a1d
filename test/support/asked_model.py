# SPDX-License-Identifier: Apache-2.0
"""A model that a test answers by hand, for the cores of the planning layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.reading import layer_of, read_blocks
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd
from planners.prompts.blocks import Layer
from planners.strategy import Report
from skill_kernel.events import ModelKind, Notice, ProcessEvent


@dataclass
class Question:
    """One question; it is answered with `answer`, or fails with `fails`."""

    layer: Layer
    process_id: str
    request: ModelRequest
    on_text: Callable[[str], None]
    on_end: Callable[[AnswerEnd], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def answer(self, text: str) -> None:
        """Letter by letter, then the end."""
        for letter in text:
            if not self.cancelled:
                self.on_text(letter)
        if not self.cancelled:
            self.on_end(AnswerEnd(text))

    def fails(self, code: int = 303, why: str = "the model is silent") -> None:
        self.on_end(AnswerEnd("", code, why))

    @property
    def blocks(self) -> dict[str, list[Any]]:
        """Return what was shown."""
        return read_blocks(self.request.messages[-1].text)


class AskedModel:
    """Implements `model_call.Model`; keeps every question."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def ask(
        self,
        layer: Layer,
        process_id: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream_id: str = "",
    ) -> Question:
        assert layer_of(request.system) is layer
        question = Question(layer, process_id, request, on_text, on_end)
        self.questions.append(question)
        return question

    @property
    def last(self) -> Question:
        return self.questions[-1]


class Told:
    """Keep what System 3 reports, by kind; `fires` holds the guideline and the process that it has begun."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.skips: list[str] = []
        self.degrades: list[tuple[str, str]] = []
        self.fires: list[tuple[str, str]] = []

    def __call__(self, report: Report) -> None:
        if isinstance(report, Notice):
            self.notices.append(report.text)
        elif isinstance(report, ProcessEvent):
            self.fires.append((report.guideline, report.process_id))
        elif report.kind is ModelKind.SKIPPED:
            self.skips.append(report.reason)
        else:
            self.degrades.append((report.fallback, report.error_msg))
