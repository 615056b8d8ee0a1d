# SPDX-License-Identifier: Apache-2.0
"""Reading System 2's answers: the same however they are cut, and nothing but a named fault for what cannot be meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.models.model_call import AnswerError
from planners.plan import GlobalEvent, Subtask
from planners.strategies.layered.task_answer import TaskAnswer, TaskReader, ending_with, revised, revised_events, with_done

FIELDS = frozenset({"room", "battery"})
PARTS = [
    '<subtask criteria="seen" watch="room, mood">Find it</subtask>',
    "<subtask id='t1'/>",
    '<subtask id="t9">New</subtask>',
    "<event cond=\"visible('ball')\">bark</event>",
    "<keep/>",
    "<achieved/>",
    "<give_up>no way</give_up>",
    "some words ",
    "<think>maybe <subtask>x</subtask></think>",
    "```xml\n",
    "<plan>",
    "</plan>",
    "<subtask>",
    "</subtask>",
    "<",
    "&amp;",
    "<b>",
    "<Sub-Task>Sit</Sub-Task>",
    "<global_event condition='x' response='y'/>",
]


def read(*pieces: str, strict: bool = True, first: bool = False, claimed: bool = False) -> TaskAnswer:
    reader = TaskReader(most=12, known={"t1"}, fields=FIELDS, first=first, claimed=claimed, strict=strict)
    for piece in pieces:
        reader.feed(piece)
    return reader.close()


@given(st.lists(st.sampled_from(PARTS), max_size=8).map("".join), st.lists(st.integers(0, 300)), st.booleans())
def test_how_an_answer_is_cut_does_not_matter_and_a_fault_is_an_answer_error(text: str, cuts: list[int], strict: bool) -> None:
    def result(*pieces: str) -> object:
        try:
            return read(*pieces, strict=strict)
        except AnswerError as error:
            return str(error)

    ends = sorted({c for c in cuts if c < len(text)})
    assert result(*(text[a:b] for a, b in zip([0, *ends], [*ends, None], strict=True))) == result(text)


@given(st.text(alphabet="<>/=\"'subtaskevncdgi_ &;-!?[]\n\u505c\x00", max_size=120), st.booleans())
def test_garbage_is_an_answer_or_a_fault_and_nothing_else(text: str, first: bool) -> None:
    try:
        found = read(text, first=first)
    except AnswerError as error:
        assert str(error)
    else:
        assert not first or found.subtasks or found.achieved or found.give_up


def test_names_are_read_as_models_write_them() -> None:
    found = read("<Sub-Task description='Sit'/><GLOBAL_EVT cond='c' resp='r'/>")
    assert found.subtasks == (Subtask("", "Sit"),) and [(e.condition, e.response) for e in found.events] == [("c", "r")]
    assert read("<giveup reason='the door is shut'/>").give_up == "the door is shut"


def test_only_known_fields_are_watched_and_long_texts_are_cut() -> None:
    found = read(f'<subtask watch="room;mood  battery" criteria="{"c" * 900}">{"long " * 400}</subtask>').subtasks[0]
    assert found.watch == ("room", "battery") and len(found.criteria) == 400 and found.description.endswith("\u2026")


@pytest.mark.parametrize("text", ["<keep/><subtask>a</subtask>", "<achieved/><subtask>a</subtask>"])
def test_of_two_things_that_contradict_each_other_twice_the_work_counts(text: str) -> None:
    with pytest.raises(AnswerError, match="contradict"):
        read(text)
    assert read(text, strict=False) == TaskAnswer((Subtask("", "a"),))


WORDS = st.sampled_from(["go", "Go!", "find it", "sit"])
LIST = st.lists(st.builds(Subtask, st.sampled_from(["", "", "t1", "t2", "t3"]), WORDS), max_size=6)


@given(LIST, st.sets(st.integers(1, 6)), st.sets(st.integers(1, 6)), LIST)
def test_a_new_list_takes_back_nothing_and_names_nothing_twice(
    before: list[Subtask], done: set[int], done_when_asked: set[int], after: list[Subtask]
) -> None:
    count = iter(range(1, 100))
    subtasks = revised((), before, done_when_asked=(), new_id=lambda: f"t{next(count)}")
    for number in done | done_when_asked:
        subtasks = with_done(subtasks, f"t{number}")
    found = revised(subtasks, after, done_when_asked={f"t{n}" for n in done_when_asked}, new_id=lambda: f"t{next(count)}")
    assert [s for s in found if s.done] == [s for s in subtasks if s.done] and found[: sum(s.done for s in found)] == tuple(
        s for s in subtasks if s.done
    )
    assert len({s.id for s in found}) == len(found) and len([s for s in found if not s.done]) <= len(after)
    assert revised(found, [Subtask(s.id, "") for s in found], done_when_asked=(), new_id=lambda: "x") == found


def test_a_list_that_broke_off_ends_with_the_whole_task_once() -> None:
    made = ending_with((Subtask("t1", "Walk, then sit"),), "walk then sit!", lambda: "t2")
    assert [s.id for s in made] == ["t1"]
    made = ending_with((Subtask("t1", "Walk"),), "walk then sit", lambda: "t2")
    assert [s.description for s in made] == ["Walk", "walk then sit"]


def test_events_are_told_apart_by_their_conditions() -> None:
    old = (GlobalEvent("e1", "a", "bark", 3),)
    assert revised_events(old, (), lambda: "e2") == old
    written = read("<event cond='a'>nod</event><event cond='a'>sit</event><event cond='b'>sit</event>").events
    assert revised_events(old, written, iter(["e2", "e3"]).__next__) == (
        GlobalEvent("e1", "a", "sit", 3),
        GlobalEvent("e2", "b", "sit"),
    )
