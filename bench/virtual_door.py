# SPDX-License-Identifier: Apache-2.0
"""Open the door of strategies to a world on a virtual clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.evaluation.virtual_models import CONFIG, NOWHERE, WIRE_S
from bench.virtual_call import VirtualCall
from function_tokens.parsing.tokens import FunctionToken
from planners.learned import LearnedStore
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd, Handle
from planners.people import People
from planners.strategy import Judge, Parameter, Report, StreamHandle
from skill_kernel.clock import Clock
from skill_kernel.events import Notice


class VirtualDoor(ABC):
    """`PlannerIO` of one process that acts by calls alone. A world implements its models, its calls and its end.

    `notices`: what the strategy told, with its time [s] and layer. `ended`: whether the plan has ended.
    """

    judge: Judge | None = None
    learned: LearnedStore | None = None
    folder: Path = NOWHERE

    def __init__(self, clock: Clock, people: People, settings: Mapping[str, Any], process_id: str = "p1") -> None:
        self.clock, self.people, self.settings, self.process_id = clock, people, settings, process_id
        self.notices: list[tuple[float, str, str]] = []
        self.ended = False

    @abstractmethod
    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: StreamHandle | None = None,
    ) -> Handle:
        """Ask a model."""

    @abstractmethod
    def call(self, skill: str, robot: str = "", /, **arguments: Any) -> VirtualCall:
        """Have a robot, or a person, do something."""

    @abstractmethod
    def unavailable(self, robot: str) -> str:
        """Return why a robot takes no calls now; "" where it takes them."""

    @abstractmethod
    def finished(self, code: int, why: str) -> None:
        """Take it that the plan has ended; called once."""

    def thinks(self, role: str) -> bool:
        return True

    def allowance(self, role: str) -> tuple[bool, float, str]:
        return True, 0.0, ""

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        then(())

    def work(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        value = work()
        self.clock.call_later(0.0, lambda: None if self.ended else then(value))

    def open(self, turn: int) -> StreamHandle:
        raise NotImplementedError("this world has no streams")

    def perform(self, tokens: Iterable[FunctionToken]) -> StreamHandle:
        raise NotImplementedError("this world has no streams")

    def stop(self, why: str, then: Callable[[], None]) -> None:
        self.clock.call_later(WIRE_S, then)

    def report(self, report: Report) -> None:
        if isinstance(report, Notice):
            self.notices.append((self.clock.now(), report.layer, report.text))

    def finish(self, code: int = 0, why: str = "") -> None:
        if not self.ended:
            self.ended = True
            self.finished(code, why)


def settings_of(parameters: Iterable[Parameter], **own: Any) -> dict[str, Any]:
    """Return a strategy's settings, its parameters as they are by default, with some of one's own."""
    given: dict[str, Any] = {"deadline_s": CONFIG.deadlines.answer_s, "max_output_tokens": 2048}
    return given | {parameter.name: parameter.default for parameter in parameters} | own
