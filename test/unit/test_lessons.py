# SPDX-License-Identifier: Apache-2.0
"""Lessons in the memory's file: proposed, confirmed, taken back, replaced; they survive a restart and are no evidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from memory_kit import Clock

from planners.learned import LearnedError, LessonKind, Level, Proposal, State, newest
from planners.memory import Memory, Store
from planners.memory.lessons import LessonBook
from planners.memory.records import Provenance, Record, Tier
from planners.memory.schema import by_ids, insert

FILE = "memory.sqlite3"
DANCE = Proposal(">>> wait_for_trigger()\n'dance'\n>>> dance('egyptian')", "no, the Egyptian one", Level.PLAN, "dance another")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / FILE, power_safe=False)
    yield made
    made.close()


@pytest.fixture
def book(store: Store) -> LessonBook:
    return LessonBook(store, "toto", wall=Clock())


def used(book: LessonBook, kind: LessonKind = LessonKind.EXAMPLE) -> list[int]:
    return [lesson.id for lesson in book.confirmed(kind)]


def test_only_what_is_confirmed_is_used_also_after_a_restart(store: Store, book: LessonBook, tmp_path: Path) -> None:
    lesson = book.propose(DANCE)
    assert [one.state for one in book.lessons()] == [State.PROPOSED] and used(book) == []
    book.confirm(lesson, "alice")
    store.close()
    again = Store(tmp_path / FILE, power_safe=False)
    (kept,) = LessonBook(again, "toto", wall=Clock()).confirmed(LessonKind.EXAMPLE)
    assert (kept.id, kept.by, kept.correction, kept.level, kept.text) == (
        lesson,
        "alice",
        DANCE.correction,
        Level.PLAN,
        DANCE.text,
    )
    LessonBook(again, "toto", wall=Clock()).revoke(lesson, "bob", "it was a joke")
    again.close()
    third = Store(tmp_path / FILE, power_safe=False)
    after = LessonBook(third, "toto", wall=Clock())
    third.close()
    assert used(after) == [] and [(one.state, one.by, one.why) for one in after.lessons()] == [
        (State.REVOKED, "bob", "it was a joke")
    ]


def test_a_confirmed_lesson_takes_the_place_of_those_that_it_contradicts(book: LessonBook) -> None:
    first = book.propose(DANCE)
    book.confirm(first, "alice")
    second = book.propose(Proposal(">>> dance('waltz')", "no, a waltz", Level.SKILL, contradicts=(first,)))
    assert used(book) == [first], "nothing changes before somebody confirms"
    book.confirm(second, "bob")
    assert used(book) == [second] and book.lessons()[0].why == f"lesson {second} takes its place"


def test_functions_are_confirmed_and_taken_back_with_their_lesson(book: LessonBook) -> None:
    lesson = book.propose(Proposal("text", "so", Level.PLAN, routines=("def bow():\n    nod()",)))
    assert [one.kind for one in book.lessons()] == [LessonKind.EXAMPLE]
    book.confirm(lesson, "alice")
    (routine,) = book.confirmed(LessonKind.ROUTINE)
    assert (routine.text, routine.by) == ("def bow():\n    nod()", "alice")
    book.revoke(lesson, "bob")
    assert used(book) == used(book, LessonKind.ROUTINE) == []
    book.confirm(lesson, "alice")
    assert len(used(book, LessonKind.ROUTINE)) == 1, "what was taken back by mistake can be confirmed again"
    assert len(book.lessons()) == 2, "however often"


@pytest.mark.parametrize("data", ["[", "[]", '{"of": [1], "state": {}, "contradicts": 5}'])
def test_a_damaged_lesson_is_not_used_and_takes_no_other_one_along(store: Store, book: LessonBook, data: str) -> None:
    first, second = book.propose(DANCE), book.propose(DANCE)
    book.confirm(first, "alice")
    store.do(lambda file: file.execute("UPDATE record SET data = ? WHERE id = ?", (data, second))).result()
    assert used(book) == [first]
    with pytest.raises(LearnedError, match=f"{second} .*is damaged.*forget it"):
        book.confirm(second, "alice")
    book.revoke(first, "bob")
    assert used(book) == [] and book.propose(DANCE)


def test_another_robots_lessons_are_its_own(store: Store, book: LessonBook) -> None:
    other = LessonBook(store, "titi", wall=Clock())
    lesson = other.propose(DANCE)
    assert not book.lessons()
    with pytest.raises(LearnedError, match=f"toto has no lesson {lesson}; ghostshell learned list"):
        book.confirm(lesson, "alice")


def test_a_lesson_takes_the_place_of_nothing_but_lessons_of_its_own_robot(store: Store, book: LessonBook) -> None:
    """Whoever proposes one names what it contradicts: that must not reach anything else in the memory."""
    other = LessonBook(store, "titi", wall=Clock())
    theirs = other.propose(DANCE)
    other.confirm(theirs, "alice")
    said = Record(Tier.M3, "fact", Clock()(), "the key is under the mat", {"a": 1}, Provenance("toto", "chat"))
    (fact,) = store.do(lambda file: insert(file, [said])).result()
    book.confirm(book.propose(replace(DANCE, contradicts=(theirs, fact, 10**9))), "bob")
    assert used(other) == [theirs]
    with store.reading() as file:
        assert by_ids(file, [fact])[0].data == {"a": 1}


def test_what_cannot_be_kept_or_confirmed_says_why(book: LessonBook) -> None:
    for large in ({"routines": ("x" * 3000,) * 2}, {"better": "x" * 4001}, {"contradicts": tuple(range(1001))}):
        with pytest.raises(LearnedError, match="at most"):
            book.propose(replace(DANCE, **large))
    with pytest.raises(LearnedError, match="1 to 4000 characters, not 4001"):
        book.propose(Proposal("x" * 4001, "", Level.PLAN))
    lesson = book.propose(DANCE)
    book.confirm(lesson, "alice")
    with pytest.raises(LearnedError, match="is confirmed already, by alice"):
        book.confirm(lesson, "bob")


def test_many_proposals_push_out_the_oldest_and_no_lesson_that_is_used(
    book: LessonBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("planners.memory.lessons.MAX_KEPT", 3)
    first = book.propose(DANCE)
    book.confirm(first, "alice")
    others = [book.propose(DANCE) for _ in range(4)]
    assert [one.id for one in book.lessons()] == [first, *others[-2:]]
    monkeypatch.setattr("planners.learned.MAX_TOLD", 1)
    assert [one.id for one in newest(book.lessons())] == [first, others[-1]]
    for lesson in others[-2:]:
        book.confirm(lesson, "alice")
    with pytest.raises(LearnedError, match="toto uses 3 lessons"):
        book.propose(DANCE)


def test_a_lesson_is_forgotten_like_any_record_and_answers_no_question(store: Store, book: LessonBook) -> None:
    lesson = book.propose(DANCE)
    book.confirm(lesson, "alice")
    memory = Memory(store, wall=Clock(), background=False)
    assert "Egyptian" not in memory.ask("What about the Egyptian one?").text
    memory.forget([lesson], who="carol").result()
    assert not book.lessons()
