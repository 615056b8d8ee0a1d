# SPDX-License-Identifier: Apache-2.0
"""What all conditions of one round ask of the observation."""

from __future__ import annotations

from typing import Any

from skill_kernel.observation.accessors import View
from skill_kernel.observation.model import StaleFieldError


class Answers:
    """A view that asks each question once a round: fifty rules mostly ask the same few."""

    __slots__ = ("_known", "_view")

    def __init__(self, view: View) -> None:
        self._view = view
        self._known: dict[tuple[Any, ...], Any] = {}

    def __call__(self, *question: Any) -> Any:
        try:
            answer = self._known[question]
        except KeyError:
            try:
                answer = self._view.call(*question)
            except StaleFieldError as error:
                answer = error
            self._known[question] = answer
        if answer.__class__ is StaleFieldError:
            raise answer.with_traceback(None)
        return answer
