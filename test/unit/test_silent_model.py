# SPDX-License-Identifier: Apache-2.0
"""Strategy `stream` does not wait for a silent model to carry out what needs none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from layer_prompts import ROBOT

from bench.virtual_clock import VirtualClock
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd
from planners.scene import Present
from planners.strategies.stream.stream_planner import Stream
from planners.strategies.turns import SILENT_S
from planners.strategy import Task
from skill_kernel.events import ModelEvent, ModelKind


class Desk:
    """A robot and a model that answers after `delay_s`: the view and the door of one process."""

    judge = None
    about = ROBOT
    images = staticmethod(lambda: ())
    observed = staticmethod(lambda: None)
    present = staticmethod(Present)
    thinks = staticmethod(lambda role: True)
    recollect = staticmethod(lambda then: then(()))

    def __init__(self, instruction: str, delay_s: float) -> None:
        self.settings = {
            "prompt": "full",
            "dialect": "xml",
            "history_tokens": 0,
            "max_turns": 3,
            "max_output_tokens": 500,
            "deadline_s": 60.0,
        }
        self.clock, self.told, self.text, self.cancelled = VirtualClock(), [], "", False  # type: ignore[var-annotated]
        self.stream_id, self.ended = "s1", False
        self._delay_s = delay_s
        self.planning = Stream().start(Task("p", instruction), self, self)  # type: ignore[arg-type]

    @property
    def routines(self) -> Desk:
        return self

    def list(self) -> tuple[()]:
        return ()

    def get(self, name: str) -> None:
        return None

    def now_s(self) -> float:
        return self.clock.now()

    def open(self, turn: int) -> _Stream:
        return _Stream(self)

    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: Any = None,
    ) -> Desk:
        def answer() -> None:
            if not self.cancelled:
                on_text("<nod/>")
                on_end(AnswerEnd("<nod/>"))

        self.clock.call_later(self._delay_s, answer)
        return self

    def cancel(self) -> None:
        self.cancelled = True

    def report(self, report: Any) -> None:
        self.told.append(report)


class _Stream:
    stream_id, ended = "s1", False

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def text(self, text: str) -> None:
        self._desk.text += text

    def end(self, code: int = 0, why: str = "") -> None:
        self.ended = self._desk.ended = True


def test_a_plain_command_begins_when_the_model_stays_silent() -> None:
    desk = Desk("bark twice", 47.0)
    desk.clock.run(SILENT_S - 0.1)
    assert desk.text == "" and not desk.cancelled
    desk.clock.run(SILENT_S + 0.1)
    assert desk.text == '<bark times="2"/>' and desk.cancelled and desk.ended
    (told,) = desk.told
    assert isinstance(told, ModelEvent) and told.kind is ModelKind.DEGRADED and "nothing for 2 s" in told.error_msg
    desk.clock.run(60.0)
    assert desk.text == '<bark times="2"/>'


@pytest.mark.parametrize(
    ("instruction", "delay_s"), [("bark twice", 1.0), ("Dance as if nobody watched.", 10.0), ("find your way home", 10.0)]
)
def test_a_model_that_speaks_in_time_or_alone_understands_is_waited_for(instruction: str, delay_s: float) -> None:
    desk = Desk(instruction, delay_s)
    desk.clock.run(30.0)
    assert desk.text == "<nod/>" and desk.told == []
