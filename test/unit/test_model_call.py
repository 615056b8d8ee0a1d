# SPDX-License-Identifier: Apache-2.0
"""One question of a layer: bounded in time, repaired once, told once; and the judge that is asked so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from layered_kit import Says, ScriptedModel, failing

from bench.virtual_clock import VirtualClock
from planners.judging import Judgement, SentenceJudge
from planners.models.base import Message, ModelRequest
from planners.models.model_call import AnswerError, CallEnd, Element, ElementParser, ModelCall
from planners.prompts.blocks import Layer
from skill_kernel.codes import ModelCode


class Number:
    """Reads a whole number."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, text: str) -> None:
        self._text += text
        if "x" in self._text:
            raise AnswerError("there is an x in it")

    def close(self) -> int:
        try:
            return int(self._text)
        except ValueError as error:
            raise AnswerError("it is no number") from error


Asking = tuple[VirtualClock, ScriptedModel, list[CallEnd[int]], ModelCall[int]]


def ask(*answers: Says | str, deadline_s: float = 10.0) -> Asking:
    clock, left = VirtualClock(), list(answers)
    model = ScriptedModel(clock, lambda asked: left.pop(0))
    ends: list[CallEnd[int]] = []
    request = ModelRequest("system", (Message("user", "how many?\n"),), deadline_s=deadline_s)
    call = ModelCall(partial(model.ask, Layer.S2, "p"), clock, request, Number, ends.append)
    return clock, model, ends, call


def test_a_good_answer_is_told_once() -> None:
    clock, model, ends, _ = ask("42")
    clock.run()
    assert ends == [CallEnd(42)] and len(model.questions) == 1


@pytest.mark.parametrize("bad", ["many", "1x2"])
def test_a_bad_answer_is_asked_for_once_more_with_the_error_and_the_whole_prompt(bad: str) -> None:
    clock, model, ends, _ = ask(bad, "42")
    clock.run()
    assert ends == [CallEnd(42)]
    prompt = model.questions[1].request.messages[-1].text
    assert prompt.startswith("how many?") and len(model.questions[1].blocks["FAULTS"]) == 1


def test_two_bad_answers_are_enough() -> None:
    clock, model, ends, _ = ask("many", "more", "42")
    clock.run()
    assert len(model.questions) == 2 and ends[0].code == ModelCode.MODEL_NOT_UNDERSTOOD and "no number" in ends[0].why


def test_a_model_that_gives_no_answer_is_not_asked_again() -> None:
    clock, model, ends, _ = ask(failing(), "42")
    clock.run()
    assert len(model.questions) == 1 and ends[0].code == ModelCode.MODEL_CONNECTION


@pytest.mark.parametrize("answers", [(Says(silent=True),), ("many", Says(silent=True)), (Says("42", delay_s=11.0),)])
def test_the_deadline_holds_for_both_answers_together(answers: tuple[Says | str, ...]) -> None:
    clock, model, ends, _ = ask(*answers)
    clock.run()
    assert len(ends) == 1 and ends[0].code == ModelCode.MODEL_TIMEOUT
    assert model.questions[-1].cancelled and model.questions[-1].ended_s == 10.0


def test_of_a_cancelled_question_nothing_is_heard() -> None:
    clock, model, ends, call = ask("42")
    call.cancel()
    clock.run()
    assert ends == [] and model.questions[0].cancelled


def robot_that_sees(observed: Callable[[], object]) -> Any:
    """Return a view of a robot that never moves."""
    return SimpleNamespace(
        observed=observed, observation=lambda: None, steady_now=lambda: 0.0, system_prompt=lambda make: "the front"
    )


def judge(answer: object, *sentences: str) -> tuple[list[Judgement], ScriptedModel]:
    clock = VirtualClock()
    model = ScriptedModel(clock, answer)  # type: ignore[arg-type]
    asked = SentenceJudge(model, clock, robot_that_sees(dict), 3.0)
    heard: list[Judgement] = []
    for sentence in sentences:
        asked.ask("p", sentence, heard.append)
    clock.run(5.0)
    return heard, model


SAID = {"yes": True, "Yes, there is one.": True, "no": False, "**No** way": False, "<think>hm</think>unknown": None}


@pytest.mark.parametrize("said", ["yes", "Yes, there is one.", "no", "**No** way", "<think>hm</think>unknown"])
def test_the_first_word_is_the_judgement(said: str) -> None:
    heard, _ = judge(lambda asked: said, "it is so")
    assert heard[0].holds is SAID[said] and not heard[0].code


def test_what_is_neither_yes_nor_no_is_not_known() -> None:
    heard, model = judge(lambda asked: "maybe", "it is so")
    assert heard[0].holds is None and heard[0].code == ModelCode.MODEL_NOT_UNDERSTOOD and len(model.questions) == 2


@pytest.mark.parametrize("size", [1, 3, 100])
def test_elements_come_as_they_are_completed_and_what_wraps_them_is_not_seen(size: int) -> None:
    text = "```xml\n<think>so</think><response><a x='1'>one &amp; two<b/></a>loose<c/></response>\n```"
    parser, found = ElementParser(), []
    for i in range(0, len(text), size):
        found += parser.feed(text[i : i + size])
    found += parser.close()
    assert found == [Element("a", {"x": "1"}, "one & two", ("b",)), Element("", text="loose"), Element("c")]


SAYS = {
    "\u662f\u7684\u3002": True,
    "\u6709\u4e00\u4e2a\u4eba": True,
    "\u6ca1\u6709\u4eba": False,
    "\u4e0d\u662f": False,
    "\u4e0d": False,
    "\u4e0d\u786e\u5b9a": None,
    "\u65e0\u6cd5\u5224\u65ad": None,
    "\u6709\u53ef\u80fd": None,
    "\u6ca1\u6709\u8db3\u591f\u7684\u4fe1\u606f": None,
}


@pytest.mark.parametrize("said", SAYS)
def test_a_judgement_in_chinese_has_no_space_behind_its_first_word(said: str) -> None:
    heard, _ = judge(lambda asked: said, "it is so")
    assert heard[0].holds is SAYS[said] and not heard[0].code


OPEN = ["Yes/no/unknown", "yes? no", "yes or no", "no | yes", "No idea.", "\u662f\u5426\u4e0d\u660e", "not sure"]
OPEN += ["No one is in the kitchen.", "No information about that."]  # of “nobody is there” the first says yes


@pytest.mark.parametrize("said", OPEN)
def test_what_leaves_it_open_is_no_judgement(said: str) -> None:
    heard, _ = judge(lambda asked: said, "it is so")
    assert heard[0].holds is None and heard[0].code == ModelCode.MODEL_NOT_UNDERSTOOD


def test_nothing_is_judged_while_nothing_is_observed() -> None:
    clock = VirtualClock()
    model = ScriptedModel(clock, lambda asked: "yes")
    seen: list[dict[str, object] | None] = [None]
    asked = SentenceJudge(model, clock, robot_that_sees(lambda: seen[-1]), 3.0)
    heard: list[Judgement] = []
    asked.ask("p", "somebody stands in the way", heard.append)
    assert heard[0].holds is None and "observe" in heard[0].reason and not model.questions
    seen.append({"room": "hall"})
    asked.ask("p", "somebody stands in the way", heard.append)
    clock.run(5.0)
    assert heard[1].holds is True
