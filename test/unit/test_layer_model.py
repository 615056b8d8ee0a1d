# SPDX-License-Identifier: Apache-2.0
"""What the answers of models are told to have cost: those read to their end, cut off, broken off, or never asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from skill_kernel.events import ModelKind

pytest.importorskip("rclpy", reason="the node's part is of ROS")
pytest.importorskip("ghostshell.msg", reason="needs the built interfaces")


from ghostshell_ros.runtime.layer_model import Answer, LayerModel
from planners.models.base import (
    CancelToken,
    Finished,
    Message,
    ModelError,
    ModelEvent,
    ModelRequest,
    Reading,
    Retrying,
    TextDelta,
    Usage,
)
from planners.models.model_call import AnswerEnd
from planners.prompts.blocks import Layer
from skill_kernel.codes import ModelCode, TaskCode

REQUEST = ModelRequest("r" * 400, (Message("user", "q" * 40),))
PROMPT_TOKENS = 110
FIRST = Usage(100, 1)
"""A provider tells the prompt's size first, with an answer of one token."""


class Client:
    """Says what it is given; a None waits for the test's word, an error is raised."""

    name = "toy"
    is_language_model = True

    def __init__(self, *said: ModelEvent | ModelError | None) -> None:
        self._said = said
        self.asked = 0
        self.go_on = threading.Event()

    def stream(self, request: ModelRequest, *, cancel: CancelToken | None = None) -> Iterator[ModelEvent]:
        self.asked += 1
        return self._events()

    def _events(self) -> Iterator[ModelEvent]:
        for event in self._said:
            if event is None:
                self.go_on.wait(10.0)
            elif isinstance(event, ModelError):
                raise event
            else:
                yield event


class Desk:
    """A node's part that LayerModel needs; what is handed to its thread is done by `settle`."""

    def __init__(self, client: Client, *, spent: str = "") -> None:
        self._soon: list[Callable[[], object]] = []
        self._later: list[Callable[[], object]] = []
        self.events: list[Any] = []
        self.ends: list[AnswerEnd] = []
        self.text, self.now_s = "", 1.0
        node = SimpleNamespace(
            create_publisher=lambda *_: SimpleNamespace(get_subscription_count=lambda: 0),
            steady_now=lambda: self.now_s,
            call_soon=lambda call, *args: self._soon.append(lambda: call(*args)),
            call_later=lambda _, call: self._later.append(call),
            now_s=lambda: 0.0,
            guarded=lambda callback, _: callback,
        )
        events = SimpleNamespace(write=self.events.append)
        budget = SimpleNamespace(allow=lambda process_id, layer: (not spent, 0.0, spent))
        model = LayerModel(node, {Layer.S1: client}, events, budget)  # type: ignore[arg-type, dict-item]
        self.answer: Answer = model.ask(Layer.S1, "p", REQUEST, self._heard, self.ends.append)

    def _heard(self, text: str) -> None:
        self.text += text

    def settle(self, *, read_out: bool = True) -> None:
        """Let the model say the rest, and do what is due."""
        for thread in threading.enumerate():
            if read_out and thread.name == "model-s1":
                thread.join(10.0)
        while self._soon:
            self._soon.pop(0)()

    def time_passes(self) -> None:
        for call in self._later:
            call()

    def costs(self) -> list[tuple[int, int, int]]:
        """Code, prompt's and answer's tokens of each answer that was told of."""
        told = [e for e in self.events if e.kind is ModelKind.ANSWERED]
        return [(e.error_code, e.prompt_tokens, e.completion_tokens) for e in told]


def test_the_count_of_an_answer_that_came_to_its_end_is_believed() -> None:
    desk = Desk(Client(FIRST, TextDelta("w" * 400), Usage(100, 90)))
    desk.settle()
    assert desk.costs() == [(0, 100, 90)] and desk.ends[0].code == 0


@pytest.mark.parametrize("reason", ["stop", "length"])
def test_an_answer_that_came_to_its_longest_is_told_as_cut(reason: str) -> None:
    desk = Desk(Client(TextDelta("w" * 400), Finished(reason)))
    desk.settle()
    assert desk.ends[0].cut == (reason == "length")


def test_of_an_answer_that_was_enough_and_went_on_what_was_written_counts() -> None:
    client = Client(FIRST, TextDelta("w" * 400), None)
    desk = Desk(client)
    while not desk.text:
        desk.settle(read_out=False)
    desk.answer.enough()
    desk.time_passes()
    client.go_on.set()
    desk.settle()
    assert desk.costs() == [(0, 100, 100)] and desk.ends == []


def test_one_that_was_enough_and_then_broke_off_counts_alike() -> None:
    client = Client(FIRST, TextDelta("w" * 400), None, ModelError(ModelCode.MODEL_CONNECTION, "gone"))
    desk = Desk(client)
    while not desk.text:
        desk.settle(read_out=False)
    desk.answer.enough()
    client.go_on.set()
    desk.settle()
    assert desk.costs() == [(0, 100, 100)]


@pytest.mark.parametrize("stop", ["cancel", "enough"])
def test_what_the_budget_forbids_and_is_then_unwanted_costs_nothing(stop: str) -> None:
    client = Client()
    desk = Desk(client, spent="it is spent")
    getattr(desk.answer, stop)()
    desk.time_passes()
    desk.settle()
    assert desk.costs() == [] and desk.ends == [] and client.asked == 0


def test_what_the_budget_forbids_ends_unasked() -> None:
    desk = Desk(Client(), spent="it is spent")
    desk.settle()
    assert [end.code for end in desk.ends] == [int(TaskCode.BUDGET_SPENT)] and desk.costs() == []


@pytest.mark.parametrize(
    ("code", "tokens"), [(ModelCode.MODEL_TIMEOUT, PROMPT_TOKENS), (ModelCode.MODEL_CONNECTION, 0), (ModelCode.MODEL_AUTH, 0)]
)
def test_a_model_that_was_too_slow_has_read_the_prompt_one_not_reached_has_not(code: ModelCode, tokens: int) -> None:
    desk = Desk(Client(ModelError(code, "no answer")))
    desk.settle()
    assert desk.costs() == [(int(code), tokens, 0)]


def test_an_error_names_its_model_once() -> None:
    desk = Desk(Client(ModelError(ModelCode.MODEL_AUTH, "toy: the provider refused access")))
    desk.settle()
    assert [end.why for end in desk.ends] == ["model toy: the provider refused access"]


def test_an_answer_that_goes_round_in_circles_is_cut_and_ends_with_a_code() -> None:
    desk = Desk(Client(FIRST, TextDelta("Hello. "), TextDelta("I am a robot, I am. " * 50), TextDelta("<walk/>")))
    desk.settle()
    (end,) = desk.ends
    assert end.code == ModelCode.MODEL_NOT_UNDERSTOOD and "toy" in end.why and "repeats itself" in end.why
    assert desk.text == "Hello. " and "<walk/>" not in end.text and desk.costs()[0][0] == end.code


def test_whoever_asked_hears_that_the_earlier_messages_were_forgotten() -> None:
    too_long = ModelError(ModelCode.MODEL_REFUSED, "exceeds the context", too_long=True)
    desk = Desk(Client(Retrying(1, 0.0, too_long), TextDelta("<nod/>")))
    desk.settle()
    assert desk.ends == [AnswerEnd("<nod/>", forgot=True)]
    assert any("exceeds the context" in event.error_msg for event in desk.events)


@pytest.mark.parametrize(("now_s", "notices"), [(1.5, 0), (4.0, 1)])
def test_of_a_prompt_that_is_read_for_long_it_is_told_once(now_s: float, notices: int) -> None:
    desk = Desk(Client(Reading(10, 100), Reading(60, 100), Reading(100, 100), TextDelta("Hi")))
    desk.now_s = now_s
    desk.settle()
    told = [event.error_msg for event in desk.events if "tokens" in getattr(event, "error_msg", "")]
    assert len(told) == notices and all("10 of the prompt's 100 tokens" in one for one in told) and desk.text == "Hi"
