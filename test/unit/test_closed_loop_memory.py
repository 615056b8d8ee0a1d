# SPDX-License-Identifier: Apache-2.0
"""The memory of `closed_loop`: first in, first out, and one summary for each entry, whatever comes in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


class Models:
    """Observer and summarizer that answer when the test lets them; each may have one question open."""

    def __init__(self) -> None:
        self.open: dict[str, Callable[[], None]] = {}
        self.observed: list[Pictures] = []
        self.summarized: list[tuple[int, ...]] = []
        self.memory = Memory(self._observe, self._summarize, lambda: None)

    def _observe(self, pictures: Pictures, heard: Callable[[str], None]) -> Asked:
        def answer() -> None:
            self.observed.append(pictures)
            heard(f"look {len(self.observed)}")

        return self._ask("observer", answer)

    def _summarize(self, entries: Sequence[Entry], heard: Callable[[str], None]) -> Asked:
        def answer() -> None:
            self.summarized.append(tuple(entry.step for entry in entries))
            heard(f"belief {entries[-1].step}")

        return self._ask("summarizer", answer)

    def _ask(self, role: str, answer: Callable[[], None]) -> Asked:
        assert role not in self.open, "two questions at a time"
        self.open[role] = answer
        return Asked(self.open, role)

    def answer(self, role: str) -> None:
        """Have a role answer what it is asked."""
        if (given := self.open.pop(role, None)) is not None:
            given()

    def answer_all(self) -> None:
        """Have both answer until nothing is asked any more."""
        while self.open:
            self.answer(next(iter(self.open)))


@dataclass(frozen=True)
class Asked:
    """A question that can be taken back."""

    open: dict[str, Callable[[], None]]
    role: str

    def cancel(self) -> None:
        del self.open[self.role]


def act(number: int) -> Action:
    return Action("atlas", "wave", {"speed": number})


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.sampled_from(["act", "act", "look", "observer", "observer", "summarizer", "stop", "resume"]), max_size=120))
def test_each_entry_is_known_in_order_whatever_happens_in_between(what: list[str]) -> None:
    models = Models()
    memory, acted, stopped = models.memory, 0, False
    for step in [*what, "resume"]:
        if step == "act":
            acted += 1
            memory.record(act(acted), f"fed back {acted}", Pictures({}, {}))
        elif step == "look":
            memory.record(None, "", Pictures({}, {}))
        elif step == "stop":
            memory.stop()
        elif step == "resume":
            memory.resume()
        else:
            models.answer(step)
        stopped = step == "stop" or (stopped and step != "resume")
        assert not models.open or not stopped, "nothing is asked while it is stopped"
        known = int(memory.belief.split()[-1]) if memory.belief else 0
        assert [entry.step for entry in memory.recent] == list(range(known + 1, acted + 1))[-len(memory.recent) :]
        assert len(memory.recent) >= min(CAPACITY, acted - known), "what the belief does not know is told beside it"
    models.answer_all()
    assert not memory.observing and not memory.recent
    kept = range(max(1, acted - CAPACITY + 1), acted + 1)
    assert [(entry.step, entry.action, entry.feedback) for entry in memory.entries] == [
        (number, str(act(number)), f"fed back {number}") for number in kept
    ]
    ends = [steps[-1] for steps in models.summarized]
    assert ends == sorted(set(ends)) and all(
        steps == tuple(range(max(1, n - 29), n + 1)) for n, steps in zip(ends, models.summarized, strict=True)
    )
    assert memory.belief == (f"belief {acted}" if acted else "")
    looks = [int(entry.observation.split()[1]) for entry in memory.entries]
    assert looks == sorted(set(looks)), "each action has the look after it"


def test_the_thirty_first_entry_pushes_out_the_first() -> None:
    models = Models()
    for number in range(31):
        models.memory.record(act(number), "DONE", Pictures({}, {}))
    models.answer_all()
    assert [entry.step for entry in models.memory.entries] == list(range(2, 32))


def test_actions_that_ended_together_have_one_look() -> None:
    models, look = Models(), Pictures({}, {})
    models.memory.record(act(1), "DONE", look)
    models.memory.record(act(2), "DONE", look)
    models.answer_all()
    assert len(models.observed) == 1 and models.summarized == [(1, 2)]


def test_what_ends_while_the_summarizer_writes_is_summed_up_by_the_next_one() -> None:
    models = Models()
    models.memory.record(act(1), "DONE", Pictures({}, {}))
    models.answer("observer")
    for number in (2, 3):
        models.memory.record(act(number), "DONE", Pictures({}, {}))
        models.answer("observer")
    assert [entry.step for entry in models.memory.recent] == [1, 2, 3] and models.memory.seen == "look 3"
    models.answer("summarizer")
    assert models.memory.belief == "belief 1" and [entry.step for entry in models.memory.recent] == [2, 3]
    models.answer_all()
    assert models.summarized == [(1,), (1, 2, 3)]


def test_without_a_summary_the_outcomes_are_what_is_believed() -> None:
    models = Models()
    memory = Memory(models._observe, lambda _, heard: models._ask("summarizer", lambda: heard("")), lambda: None)
    memory.record(act(1), "FAILED: it slipped", Pictures({}, {}))
    models.answer_all()
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
