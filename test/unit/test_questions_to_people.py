# SPDX-License-Identifier: Apache-2.0
"""Questions to people end exactly once, whatever comes first, and an answer is never guessed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from planners.language.choices import chosen
from planners.language.stop_words import is_stop
from skill_kernel.codes import AnswerCode, AskCode
from skill_kernel.processes.questions import (
    LONGEST_S,
    MAX_ANSWER,
    MAX_OPEN,
    USUAL_S,
    AnswerError,
    AskError,
    QuestionEnd,
    Questions,
    named,
    new_id,
)


class Desk:
    """Questions on a clock that a test sets, and what was told of their ends."""

    def __init__(self) -> None:
        self.now_s, self.changes = 0.0, 0
        ids = (f"{n:04x}" for n in itertools.count())
        self.questions = Questions(now=lambda: self.now_s, new_id=lambda: next(ids), chosen=chosen, on_change=self._changed)
        self.ends: list[tuple[str, QuestionEnd]] = []

    def _changed(self) -> None:
        self.changes += 1

    def ask(self, text: str = "Shall I?", choices: tuple[str, ...] = (), process_id: str = "p", wait_s: float = 0.0) -> str:
        asked = self.questions.ask(
            text, choices, wait_s, process_id=process_id, on_end=lambda end: self.ends.append((asked.question_id, end))
        )
        return asked.question_id

    def ended(self, question_id: str) -> QuestionEnd:
        (end,) = (end for one, end in self.ends if one == question_id)
        return end


def refused(act: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises((AnswerError, AskError)) as caught:
        act()
    return int(caught.value.code), str(caught.value)


def test_the_first_of_two_answers_counts_and_the_second_hears_what_the_first_was() -> None:
    desk = Desk()
    asked = desk.ask(choices=("yes", "no"))
    assert desk.questions.answer("", "Yes, please!", "operator")[1] == "yes"
    code, why = refused(lambda: desk.questions.answer(asked, "no", "somebody"))
    assert code == AnswerCode.NO_SUCH_QUESTION and "“yes” by operator" in why
    assert desk.ended(asked) == QuestionEnd("yes", "operator") and desk.questions.open == [] and desk.changes == 2


def test_an_answer_that_is_no_choice_leaves_the_question_open_and_names_the_choices() -> None:
    desk = Desk()
    desk.ask(choices=("the red one", "the blue one", "neither"))
    for text in ("not the red one", "red or blue", "red one and blue one", "green", "  ", "x" * (MAX_ANSWER + 1)):
        code, why = refused(lambda text=text: desk.questions.answer("", text, "me"))
        assert code == AnswerCode.BAD_ANSWER and "the red one, the blue one or neither" in why
    assert desk.ends == [] and desk.questions.answer("", "Red one, thanks", "me")[1] == "the red one"


def test_with_several_open_an_answer_names_its_question() -> None:
    desk = Desk()
    first, second = desk.ask("One?"), desk.ask("Two?")
    code, why = refused(lambda: desk.questions.answer("", "yes", "me"))
    assert code == AnswerCode.WHICH_QUESTION and f"{first} “One?”, {second} “Two?”" in why
    desk.questions.answer(second, "yes", "me")
    assert [q.question_id for q in desk.questions.open] == [first]
    desk.questions.answer("", "no", "me")
    assert refused(lambda: desk.questions.answer("", "no", "me"))[0] == AnswerCode.NO_SUCH_QUESTION
    assert "nobody asked it" in refused(lambda: desk.questions.answer("beef", "no", "me"))[1]


def test_a_question_ends_with_its_process_its_time_its_asker_or_all_and_says_which() -> None:
    desk = Desk()
    of_process, late, taken_back, program = (
        desk.ask(),
        desk.ask(process_id="q", wait_s=5.0),
        desk.ask(),
        desk.ask(process_id=""),
    )
    desk.questions.withdraw(taken_back, "no longer wanted")
    desk.questions.process_ended("p", "STOPPED")
    desk.questions.process_ended("", "a program has no process")
    desk.now_s = 4.9
    desk.questions.tick()
    assert [q.question_id for q in desk.questions.open] == [late, program]
    desk.now_s = 5.0
    desk.questions.tick()
    desk.questions.end_all(AskCode.ROBOT_HALTED, "halted")
    codes = [desk.ended(one).code for one in (of_process, late, taken_back, program)]
    assert codes == [AskCode.PROCESS_ENDED, AskCode.NO_ANSWER, AskCode.CANCELLED, AskCode.ROBOT_HALTED]
    assert "nobody answered within 5 s" in refused(lambda: desk.questions.answer(late, "yes", "me"))[1]


def test_what_cannot_be_asked_is_refused_with_the_reason() -> None:
    desk = Desk()
    bad: list[tuple[str, tuple[str, ...]]] = [
        (" ", ()),
        ("x" * 301, ()),
        ("Which?", ("yes", "")),
        ("Which?", ("a" * 61,)),
        ("Which?", tuple(map(str, range(13)))),
        ("Which?", ("Red", "red!")),
        ("Which?", ("?", "!")),
    ]
    for text, choices in bad:
        assert refused(lambda text=text, choices=choices: desk.ask(text, choices))[0] == AskCode.BAD_QUESTION, (text, choices)
    for _ in range(MAX_OPEN):
        desk.ask()
    assert refused(desk.ask)[0] == AskCode.TOO_MANY_QUESTIONS and len(desk.questions.open) == MAX_OPEN


def test_an_answer_is_waited_for_as_long_as_is_asked_and_never_for_ever() -> None:
    desk = Desk()
    waits = [0.0, -1.0, float("nan"), 7.0, float("inf")]
    for wait_s in waits:
        desk.ask(wait_s=wait_s)
    assert [q.until_s for q in desk.questions.open] == [USUAL_S, USUAL_S, USUAL_S, 7.0, LONGEST_S]


def test_who_hears_of_an_end_may_ask_again_at_once() -> None:
    desk = Desk()
    again: list[str] = []
    desk.questions.ask("One?", process_id="p", on_end=lambda end: again.append(desk.ask("Two?")))
    desk.questions.process_ended("p", "STOPPED")
    assert [q.question_id for q in desk.questions.open] == again, "a new question is not the ended process's old one"


def test_who_hears_of_an_end_may_end_others_which_end_once_all_the_same() -> None:
    desk = Desk()
    other: list[str] = []
    desk.questions.ask("One?", on_end=lambda end: desk.questions.withdraw(other[0], "it hung on the other one"))
    other.append(desk.ask("Two?"))
    desk.questions.end_all(AskCode.ROBOT_HALTED, "halted")
    assert desk.ended(other[0]).code is AskCode.CANCELLED


PLAIN = {
    "Yes.": "yes",
    "sure": "yes",
    "ok, thanks": "yes",
    "please, no": "no",
    "Don't!": "no",
    "好的": "yes",
    "不要": "no",
    "yes or no": None,
    "yes, but slowly": None,
    "not yes": None,
    "maybe": None,
    "please": None,
    "…": None,
}


@pytest.mark.parametrize("said", PLAIN)
def test_a_plain_yes_or_no_is_read_and_anything_more_is_not(said: str) -> None:
    assert chosen(said, ("yes", "no")) == PLAIN[said] and not is_stop(said)


def test_an_answer_may_begin_with_the_id_of_its_question_and_no_word_is_one() -> None:
    ids = [new_id() for _ in range(200)]
    assert [named([one, "yes", "please"]) for one in ids] == [(one, "yes please") for one in ids]
    assert named(["3fa2:", "no"]) == ("3fa2", "no") and named(["feed", "the", "dog"]) == ("", "feed the dog")
    assert named([]) == ("", "")


@pytest.mark.parametrize("said", ["1500", "2026", "1500 mm", "3000: about", "١٢٣٤", "2000"])
def test_a_number_is_an_answer_and_no_id(said: str) -> None:
    assert named(said.split()) == ("", said)


def test_a_short_answer_is_never_taken_for_a_longer_word() -> None:
    assert chosen("no", ("now", "later")) is None and chosen("lock", ("unlock", "leave")) is None
    assert chosen("yeah", ("yes", "sure")) is None and chosen("不", ("不是", "不要")) is None
    assert chosen("左边吧", ("左边", "右边")) == "左边"
    assert chosen("red", ("the red", "a red")) is None and chosen("the red", ("the red", "a red")) == "the red"


STEPS = st.lists(
    st.tuples(st.sampled_from(["ask", "answer", "withdraw", "process", "tick", "all"]), st.integers(0, 9), st.booleans()),
    max_size=40,
)


@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
def test_every_question_ends_once_in_whatever_order_things_happen(steps: list[tuple[str, int, bool]]) -> None:
    desk, asked = Desk(), []
    for what, number, flag in steps:
        desk.now_s += number
        if what == "ask" and len(desk.questions.open) < MAX_OPEN:
            asked.append(desk.ask(choices=("yes", "no") if flag else (), process_id=f"p{number % 3}", wait_s=number + 1.0))
        elif what == "answer" and asked:
            one = asked[number % len(asked)]
            if one in {q.question_id for q in desk.questions.open}:
                desk.questions.answer(one, "yes", "me")
            else:
                assert refused(lambda one=one: desk.questions.answer(one, "yes", "me"))[0] == AnswerCode.NO_SUCH_QUESTION
        elif what == "withdraw" and asked:
            desk.questions.withdraw(asked[number % len(asked)], "gone")
        elif what == "process":
            desk.questions.process_ended(f"p{number % 3}", "SUCCESS")
        elif what == "tick":
            desk.questions.tick()
        elif what == "all" and flag:
            desk.questions.end_all(AskCode.ROBOT_HALTED, "halted")
    desk.questions.end_all(AskCode.CANCELLED, "the end")
    assert Counter(one for one, _ in desk.ends) == Counter(asked)
    assert all((end.answer == "yes") == (end.code is AskCode.NONE) for _, end in desk.ends)


def test_a_person_has_one_open_question_and_others_may_be_asked_meanwhile() -> None:
    desk, ends = Desk(), Counter[str]()

    def ask(person: str, text: str = "May I?", **how: object) -> str:
        on_end = lambda end: ends.update([end.answer])  # noqa: E731
        return desk.questions.ask(text, ("yes", "no"), person=person, on_end=on_end, **how).question_id  # type: ignore[arg-type]

    first = ask("Li", why="Wang needs it")
    code, why = refused(lambda: ask("Li", "And may I?"))
    assert code == AskCode.PERSON_BUSY and why == "Li has an open request; ask when it has been answered"
    ask("Bo"), ask(""), ask("")
    assert first + " to Li “May I?” (yes or no)" in refused(lambda: desk.questions.answer("", "yes", "me"))[1]
    desk.questions.answer(first, "yes", "Li")
    ask("Li", "And may I?")
    assert ends == {"yes": 1} and refused(lambda: ask("Wang", why="x" * 301))[0] == AskCode.BAD_QUESTION


@pytest.mark.parametrize("said", ["private: no, I see a doctor", "Private:no, I see a doctor", "私下：no, I see a doctor"])
def test_an_answer_in_private_is_told_to_who_asked_alone_and_taken_only_from_a_person_by_name(said: str) -> None:
    desk, ends = Desk(), list[QuestionEnd]()
    asked = desk.questions.ask("May I?", ("yes", "no"), person="Li", any_words=True, on_end=ends.append)
    desk.questions.answer("", said, "Li")
    assert ends == [QuestionEnd("no, I see a doctor", "Li", private=True)] and "doctor" not in ends[0].told
    assert "doctor" not in refused(lambda: desk.questions.answer(asked.question_id, "yes", "Li"))[1]
    nobody = desk.ask(choices=("yes", "no"))
    code, why = refused(lambda: desk.questions.answer(nobody, said, "Li"))
    assert code == AnswerCode.BAD_ANSWER and "nobody is asked by name" in why and "doctor" not in why
    strict = desk.questions.ask("May I?", ("yes", "no"), person="Li", on_end=ends.append).question_id
    assert "doctor" not in refused(lambda: desk.questions.answer(strict, said, "Li"))[1]


def test_other_words_than_the_choices_are_an_answer_where_who_asks_can_read_them() -> None:
    desk = Desk()
    for any_words, answer in ((True, "ask Bo instead"), (False, None)):
        asked = desk.questions.ask("May I?", ("yes", "no"), any_words=any_words, on_end=lambda end: None)
        if answer is None:
            assert refused(lambda asked=asked: desk.questions.answer(asked.question_id, "ask Bo instead", "Li"))[0] == 546
        else:
            assert desk.questions.answer(asked.question_id, "ask Bo instead", "Li")[1] == answer
