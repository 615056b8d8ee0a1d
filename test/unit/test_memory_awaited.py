# SPDX-License-Identifier: Apache-2.0
"""The lines of the memory stand right behind the task in every question, and a first question waits for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import layered_kit
import pytest
import task_kit
from layer_prompts import ROBOT, baseline, observed

from bench.baselines import PlanAndExecutePlanner, ReactPlanner
from bench.reading import read_blocks
from bench.virtual_clock import VirtualClock
from planners.models.base import ModelRequest
from planners.strategies.stream.stream_planner import Stream
from planners.strategies.turns import Known
from planners.strategy import Interrupted, Restarted, Task

LINES = ("yesterday at 12:00:00 (24 h ago): kalos saw a ball in the lounge [record 7]",)


class Waiting:
    """A process of strategy `stream` whose memory answers when the test says so, and whose model is only asked."""

    judge = None
    about = ROBOT
    routines = SimpleNamespace(list=tuple)
    images = staticmethod(tuple)
    observed = staticmethod(lambda: None)
    thinks = staticmethod(lambda role: True)
    now_s = staticmethod(lambda: 0.0)
    open = staticmethod(lambda turn: SimpleNamespace(ended=False, stream_id="s1", end=lambda *_: None))

    def __init__(self) -> None:
        self.settings = {p.name: p.default for p in Stream.parameters} | {"max_output_tokens": 500, "deadline_s": 60.0}
        self.clock = VirtualClock()
        self.asked: list[ModelRequest] = []
        self.planning = Stream().start(Task("p", "find the ball"), self, self)  # type: ignore[arg-type]

    def recollect(self, then: Callable[[Sequence[str]], None]) -> None:
        self.remember = then

    def ask(self, role: str, request: ModelRequest, *_: Any, **__: Any) -> Any:
        self.asked.append(request)
        return SimpleNamespace(cancel=lambda: None)

    @property
    def shown(self) -> list[list[Any]]:
        return [read_blocks(request.messages[-1].text).get("MEMORY", []) for request in self.asked]


def test_a_first_question_waits_for_the_memory() -> None:
    desk = Waiting()
    desk.clock.run(30.0)
    assert desk.asked == [], "whoever asks the memory has the deadline"
    desk.remember(LINES)
    assert desk.shown == [list(LINES)]


def test_a_process_that_is_interrupted_meanwhile_asks_when_it_goes_on() -> None:
    desk = Waiting()
    desk.planning.on(Interrupted("a test"))
    desk.remember(LINES)
    assert desk.asked == []
    desk.planning.on(Restarted(()))
    assert desk.shown == [list(LINES)]


@pytest.mark.parametrize("end", ["restarted", "closed"])
def test_late_lines_ask_nothing_again(end: str) -> None:
    desk = Waiting()
    if end == "closed":
        desk.planning.close("a test")
    else:
        desk.planning.on(Restarted(()))
    desk.remember(LINES)
    assert desk.shown == ([] if end == "closed" else [[]])


def alike(one: str, other: str) -> str:
    """Return with what both texts begin."""
    length = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def test_system_1_is_shown_them_at_one_place() -> None:
    answers = iter(['<step><walk s="5"/></step>', "<step><nod/></step><subtask_complete/>"])
    bench = layered_kit.Bench(lambda asked: next(answers, "<nothing/>"), plans=False, first_actions=())
    bench.planner._recollected(LINES)
    bench.run(20.0)
    texts = [q.request.messages[-1].text for q in bench.model.of()]
    assert len(texts) >= 2 and LINES[0] in alike(*texts[:2])
    assert list(read_blocks(texts[0]))[:2] == ["TASK", "MEMORY"]


def test_system_2_is_shown_them_in_all_that_it_is_asked() -> None:
    bench = task_kit.Bench([task_kit.PLAN, "<keep/>"])
    bench.planner.recollected(LINES)
    bench.run(2.0)
    bench.fail()
    bench.run(2.0)
    texts = [q.request.messages[-1].text for q in bench.asked]
    assert len(texts) == 2 and LINES[0] in alike(*texts)


@pytest.mark.parametrize("kind", [ReactPlanner, PlanAndExecutePlanner])
def test_the_baselines_are_shown_them(kind: Any) -> None:
    request = baseline(kind).begin("find the ball", known=Known(observed(), memory=LINES))
    assert read_blocks(request.messages[-1].text)["MEMORY"] == list(LINES)
    request = baseline(kind).begin("find the ball", known=Known(observed()))
    assert "MEMORY" not in request.messages[-1].text
