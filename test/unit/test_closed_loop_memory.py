# SPDX-License-Identifier: Apache-2.0
"""The memory of `closed_loop`: first in, first out, and one summary for each entry, whatever comes in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from kitchen_kit import Kitchen, answers
from thorough import examples

from bench.reading import read_blocks
from planners.models.base import tokens_in
from planners.prompts.prompt import CallReport
from planners.strategies.closed_loop.actions import Action
from planners.strategies.closed_loop.memory import CAPACITY, Entry, Memory
from planners.strategies.closed_loop.pictures import Pictures
from planners.strategies.closed_loop.prompts import Prompts
from planners.strategy import Task

LOOK = Pictures({}, {})


class Models:
    """Observer and summarizer that answer when the test lets them; one question at a time may be open."""

    def __init__(self) -> None:
        self.open: Callable[[], None] | None = None
        self.observed: list[Pictures] = []
        self.summarized: list[tuple[int, ...]] = []
        self.settled = 0
        self.memory = Memory(self._observe, self._summarize, self._settle)

    def _observe(self, pictures: Pictures, heard: Callable[[str], None]) -> Models:
        return self._ask(lambda: (self.observed.append(pictures), heard(f"look {len(self.observed)}")))

    def _summarize(self, entries: Sequence[Entry], heard: Callable[[str], None]) -> Models:
        steps = tuple(entry.step for entry in entries)
        return self._ask(lambda: (self.summarized.append(steps), heard(f"belief {len(self.summarized)}")))

    def _ask(self, answer: Callable[[], object]) -> Models:
        assert self.open is None, "two questions at a time"
        self.open = lambda: (answer(), None)[1]
        return self

    def cancel(self) -> None:
        self.open = None

    def answer(self) -> None:
        """Answer what is being asked."""
        if (given := self.open) is not None:
            self.open = None
            given()

    def _settle(self) -> None:
        assert not self.memory.busy
        self.settled += 1


def act(number: int) -> Action:
    return Action("atlas", "wave", {"speed": number})


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.sampled_from(["act", "act", "look", "answer", "answer", "stop", "resume"]), max_size=120))
def test_each_entry_is_summarised_once_in_order_whatever_happens_in_between(what: list[str]) -> None:
    models = Models()
    memory, acted, stopped = models.memory, 0, False
    for step in [*what, "resume", *["answer"] * 300]:
        if step == "act":
            acted += 1
            memory.record(act(acted), f"fed back {acted}", Pictures({}, {}))
        elif step == "look":
            memory.record(None, "", Pictures({}, {}))
        elif step == "answer":
            models.answer()
        elif step == "stop":
            memory.stop()
        else:
            memory.resume()
        stopped = step == "stop" or (stopped and step != "resume")
        assert models.open is None or not stopped, "nothing is asked while it is stopped"
    assert not memory.busy
    kept = range(max(1, acted - CAPACITY + 1), acted + 1)
    assert [(entry.step, entry.action, entry.feedback) for entry in memory.entries] == [
        (number, str(act(number)), f"fed back {number}") for number in kept
    ]
    assert models.summarized == [tuple(range(max(1, n - CAPACITY + 1), n + 1)) for n in range(1, acted + 1)]
    assert memory.belief == (f"belief {acted}" if acted else "")
    looks = [int(entry.observation.split()[1]) for entry in memory.entries]
    assert looks == sorted(set(looks)), "each action has the look after it"


def test_the_thirty_first_entry_pushes_out_the_first() -> None:
    models = Models()
    for number in range(31):
        models.memory.record(act(number), "DONE", LOOK)
    for _ in range(100):
        models.answer()
    assert [entry.step for entry in models.memory.entries] == list(range(2, 32)) and len(models.summarized) == 31


def test_actions_that_ended_together_have_one_look_and_a_summary_each() -> None:
    models, look = Models(), Pictures({}, {})
    models.memory.record(act(1), "DONE", look)
    models.memory.record(act(2), "DONE", look)
    for _ in range(9):
        models.answer()
    assert len(models.observed) == 1 and models.summarized == [(1,), (1, 2)] and models.settled == 1


def test_without_a_summary_the_outcomes_are_what_is_believed() -> None:
    memory = Memory(lambda _, heard: heard("a look") or LOOK, lambda _, heard: heard("") or LOOK, lambda: None)  # type: ignore[arg-type, func-returns-value, return-value]
    memory.record(act(1), "FAILED: it slipped", LOOK)
    assert memory.belief.startswith("Trajectory:\nstep 1: wave(") and "FAILED: it slipped\nSpatial:" in memory.belief


def test_what_was_done_before_is_remembered() -> None:
    memory = Models().memory
    memory.adopt([CallReport("walk", {"m": 2}, "DONE", "walked 2 m")])
    assert [entry.step for entry in memory.entries] == [1] and "walk({'m': 2}): DONE: walked 2 m" in memory.belief


def test_the_summarizer_s_question_is_bounded_however_much_was_said() -> None:
    prompts = Prompts(Task("p", "tidy up"), Kitchen(answers([])).views, open_loop=False)
    entries = [Entry(n, "o" * 9000, 'wave(robot="atlas")', "f" * 9000) for n in range(1, 31)]
    text = prompts.summarizer(entries)
    assert tokens_in(text) < 5000
    assert [item["step"] for item in read_blocks(text)["HISTORY"]] == list(range(1, 31))
