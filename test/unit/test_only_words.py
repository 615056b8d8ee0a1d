# SPDX-License-Identifier: Apache-2.0
"""A model that only talks where a deed was asked for is asked once more, and then the task has failed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from layer_prompts import ROBOT

from bench.baselines import React
from bench.virtual_clock import VirtualClock
from planners.models.base import ModelRequest
from planners.models.model_call import AnswerEnd
from planners.scene import Present
from planners.strategies.only_words import REMINDER, UNLESS
from planners.strategies.stream.stream_planner import Stream
from planners.strategies.turns import CUT
from planners.strategy import Strategy, Task
from skill_kernel.codes import Outcome, TaskCode
from skill_kernel.events import CallEvent, CallKind, StreamEvent, StreamKind

_PIECE = re.compile(r"<(\w+)[^>]*/>|([^<]+)")


class Desk:
    """A robot whose calls all succeed, and a model with these answers: the view and the door of one process."""

    judge = None
    about = ROBOT
    images = staticmethod(lambda: ())
    observed = staticmethod(lambda: None)
    present = staticmethod(Present)
    list = staticmethod(lambda: ())
    thinks = staticmethod(lambda role: True)
    recollect = staticmethod(lambda then: then(()))

    def __init__(self, instruction: str, *answers: str, strategy: Strategy | None = None, max_turns: int = 3) -> None:
        texts = {"prompt": "full", "dialect": "xml"}
        numbers = {"history_tokens": 3000, "max_turns": max_turns, "max_output_tokens": 500, "deadline_s": 60.0}
        self.settings = {**texts, **numbers}
        self.clock, self.routines, self.answers = VirtualClock(), self, [*answers]
        self.asked: list[str] = []
        self.ended: tuple[int, str] | None = None
        self.planning = (strategy or Stream()).start(Task("p", instruction), self, self)  # type: ignore[arg-type]
        self.clock.run(10.0)

    def now_s(self) -> float:
        return self.clock.now()

    def open(self, turn: int) -> _Stream:
        return _Stream(self, f"s{turn}")

    def ask(
        self,
        role: str,
        request: ModelRequest,
        on_text: Callable[[str], None],
        on_end: Callable[[AnswerEnd], None],
        *,
        stream: Any = None,
    ) -> Desk:
        self.asked.append(request.messages[-1].text)
        answer = self.answers.pop(0)

        def write() -> None:
            on_text(answer.removesuffix("…"))
            on_end(AnswerEnd(answer.removesuffix("…"), cut=answer.endswith("…")))

        self.clock.call_later(0.1, write)
        return self

    def cancel(self) -> None:
        """Do nothing: the answer is complete."""

    def finish(self, code: int = 0, why: str = "") -> None:
        self.ended = (code, why)


class _Stream:
    ended = False

    def __init__(self, desk: Desk, stream_id: str) -> None:
        self._desk, self.stream_id, self._text = desk, stream_id, ""

    def text(self, text: str) -> None:
        self._text += text

    def end(self, code: int = 0, why: str = "") -> None:
        if not self.ended:
            self.ended = True
            self._desk.clock.call_later(0.1, self._perform)

    def _perform(self) -> None:
        tell = partial(self._desk.planning.on)
        for tag, words in _PIECE.findall(self._text):
            name, arguments = (tag, {}) if tag else ("text", {"text": words})
            tell(
                CallEvent(
                    kind=CallKind.ENDED, call_id=name, function=name, args_json=json.dumps(arguments), outcome=Outcome.DONE
                )
            )
        end = "plan_done" if "<plan_done/>" in self._text else "end"
        tell(StreamEvent(kind=StreamKind.TURN_ENDED, stream_id=self.stream_id, end=end))


def test_who_only_talks_is_asked_once_more_and_then_the_task_has_failed() -> None:
    desk = Desk("bark twice", "Woof, woof!", "I have barked twice.")
    assert [REMINDER in text for text in desk.asked] == [False, True]
    assert desk.ended == (TaskCode.ONLY_WORDS, "answered without action, also when asked again: “I have barked twice.”")


def test_who_acts_when_asked_again_has_done_it() -> None:
    desk = Desk("bark twice", "Sure, I bark!", '<bark times="2"/>')
    assert desk.ended == (0, "") and len(desk.asked) == 2


def test_an_answer_that_is_cut_is_no_end_of_the_task() -> None:
    desk = Desk("bark, then walk a metre", '<bark times="1"/>…', '<move_forward distance_m="1"/>')
    assert desk.ended == (0, "") and [CUT in text for text in desk.asked] == [False, True]
    desk = Desk("bark, then walk a metre", "…", "…")
    assert desk.ended == (TaskCode.CALL_FAILED, CUT)


@pytest.mark.parametrize("instruction", ["How are you?", "What can you do?", "Tell me about walking.", "你会做什么？"])
def test_who_was_asked_for_words_has_answered(instruction: str) -> None:
    desk = Desk(instruction, "I am well, and I can walk.")
    assert desk.ended == (0, "") and len(desk.asked) == 1


def test_who_acted_in_an_earlier_turn_may_end_with_words() -> None:
    desk = Desk("bark twice", '<bark times="2"/><observe/>', "I have barked twice.<plan_done/>")
    assert desk.ended == (0, "")


def test_where_only_the_verb_asks_for_a_deed_the_model_may_say_that_words_were_meant() -> None:
    desk = Desk("Turn this sentence into French.", "Ceci est une phrase.", "<plan_done/>")
    assert desk.ended == (0, "") and UNLESS.format(plan_done="plan_done") in desk.asked[1]
    desk = Desk("bark twice", "Woof!", "<plan_done/>")
    assert desk.ended is not None and desk.ended[0] == TaskCode.ONLY_WORDS, "not where the robot understands it"
    assert "alone if it asks for words" not in desk.asked[1]
    desk = Desk("bark as loud as you can", "Woof!", "Woof, woof!")
    assert desk.ended is not None and desk.ended[0] == TaskCode.ONLY_WORDS


def test_a_refusal_in_words_is_no_success_and_tells_the_reason() -> None:
    desk = Desk("go upstairs", "Sorry! I cannot climb stairs, my legs are too short.")
    assert desk.ended == (TaskCode.GIVEN_UP, "not done; the model says: “I cannot climb stairs, my legs are too short”")
    assert len(desk.asked) == 1, "it is not talked into it"


def test_a_plan_held_for_done_without_a_call_is_no_success_under_any_strategy() -> None:
    desk = Desk("bark twice", "<plan_done/>", "<plan_done/>", strategy=React())
    assert desk.ended == (TaskCode.ONLY_WORDS, "answered without action, also when asked again")


def test_at_the_limit_of_turns_it_is_not_asked_again() -> None:
    desk = Desk("bark twice", "Woof!", max_turns=1)
    assert desk.ended is not None and desk.ended[0] == TaskCode.ONLY_WORDS and len(desk.asked) == 1
