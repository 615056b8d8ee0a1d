# SPDX-License-Identifier: Apache-2.0
"""What the roles of `closed_loop` answer is read as it is meant, and nothing in it is evaluated."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kitchen_kit import Kitchen, answers, plan
from thorough import examples

from planners.models.model_call import AnswerError, WholeAnswer
from planners.strategies.closed_loop.actions import Action, read_action
from planners.strategies.closed_loop.answers import Status, read_judgement, read_plan

ROBOTS = Kitchen(answers([])).views
PICK = Action("atlas", "pick_from", {"object": "apple", "space": "table"})
VALUES = st.one_of(st.text(max_size=30), st.booleans(), st.integers(-99, 99), st.floats(-1e6, 1e6))


@pytest.mark.parametrize(
    "text",
    [
        'pick_from(robot="atlas", object="apple", space="table")',
        "pick_from('atlas', 'apple', 'table')",
        ' pick_from("atlas", space="table", object="apple") ',
        'pick_from("apple", "table", robot="atlas")',
    ],
)
def test_an_action_is_read_by_keywords_or_in_order(text: str) -> None:
    assert read_action(text, ROBOTS) == PICK and not PICK.fault(ROBOTS)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("__import__('os').system('true')", "is no action"),
        ("pick_from(robot='atlas', object=open('x'), space='table')", "neither a text in quotes nor a number"),
        ("pick_from(robot='atlas', object=apple, space='table')", "neither a text in quotes nor a number"),
        ("pick_from(robot='atlas', object='ap' 'ple' + '', space='table')", "neither a text in quotes nor a number"),
        ("pick_from(**{'robot': 'atlas'})", "an argument twice, or one without a name"),
        ("open(robot='atlas', what='drawer', what='fridge')", "an argument twice"),
        ("open(robot='atlas', what=None)", "neither a text in quotes nor a number"),
        ("open(robot='atlas', what=1e999)", "neither a text in quotes nor a number"),
        (f"open(robot='atlas', what={'9' * 400})", "neither a text in quotes nor a number"),
        (r"open(robot='atlas', what='\ud800')", "neither a text in quotes nor a number"),
        ("open('drawer')", "robot is one of hebe, atlas"),
        ("open(robot=['atlas'], what='drawer')", "neither a text in quotes nor a number"),
        ("open(robot='robot_1', what='drawer')", "robot is one of hebe, atlas"),
        ("open('atlas', 'drawer', 'wide')", "too many arguments"),
        ("open('atlas', 'drawer', what='drawer')", "too many arguments"),
        ("open(robot='atlas', what='drawer'); open(robot='atlas', what='drawer')", "is no action"),
        ("(lambda: 1)()", "is no action"),
        ("(" * 490, "is no action"),
        ("x" * 600 + "()", "is no action"),
        ("", "is no action"),
    ],
)
def test_what_is_no_call_of_literals_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        read_action(text, ROBOTS)


@settings(max_examples=examples(400), deadline=None)
@given(robot=st.sampled_from(list(ROBOTS)), values=st.lists(VALUES, max_size=4))
def test_any_action_of_literals_reads_back_as_it_is_written(robot: str, values: list[object]) -> None:
    action = Action(robot, "pick_from", {f"a{i}": value for i, value in enumerate(values)})
    if len(str(action)) <= 500:
        assert read_action(str(action), ROBOTS) == action


@settings(max_examples=examples(400), deadline=None)
@given(text=st.text(max_size=200))
def test_no_text_does_anything_but_be_read_or_refused(text: str) -> None:
    for read in (
        lambda: read_action(text, ROBOTS),
        lambda: read_plan(text, ROBOTS, 5),
        lambda: read_judgement(text, ["atlas"]),
    ):
        try:
            read()
        except AnswerError as error:
            assert str(error)


def test_a_robot_alone_need_not_be_named() -> None:
    alone = {"atlas": ROBOTS["atlas"]}
    assert read_action("pick_from('apple', space='table')", alone) == PICK


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('pick_from(robot="hebe", object="apple", space="bin")', "pick_from.*bin"),
        ('go_to(robot="atlas", point="in_front_of_table")', "atlas has no function 'go_to'"),
        ('fly(robot="hebe")', "hebe has no function 'fly'"),
        ('sleep(robot="hebe", seconds=3)', "hebe has no function 'sleep'"),
        ('wave(robot="atlas", speed="fast")', "speed"),
        ('open(robot="atlas")', "what"),
    ],
)
def test_an_action_that_the_robot_can_never_do_is_a_fault_of_the_answer(text: str, why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        read_plan(plan(text), ROBOTS, 5)
    assert read_plan(plan(text), ROBOTS, 5, checked=False).actions, "the open loop finds out by doing"


WRITTEN = 'pick_from(robot="atlas", object="apple", space="table")'
SHAPES = {
    "fenced": f"Thought: now\n```yaml\nSubgoal: take it\nAction Plan:\n  - {WRITTEN}\nStatus: continue\n```",
    "fence of no language": f"```\nSubgoal: take it\nAction Plan:\n- {WRITTEN}\n```\nThat is my plan.",
    "no fence": f"Thought: now\nSubgoal: take it\nAction Plan:\n  - {WRITTEN}\nStatus: continue",
    "prose around": f"Sure! Here is the plan.\n\nSubgoal: take it\nAction Plan:\n- {WRITTEN}\n\nI hope that this helps.",
    "prose behind": f"Subgoal: take it\nAction Plan:\n- {WRITTEN}\nStatus: continue\n\nI wait for the result.",
    "reasoning without its begin": f"Subgoal: no\nAction Plan:\n- x</think>\nSubgoal: take it\nAction Plan:\n- {WRITTEN}",
    "open fence": f"```yaml\nSubgoal: take it\nAction Plan:\n- {WRITTEN}\nStatus: continue",
    "quoted items": f"Subgoal: 'take it'\nAction Plan: ['{WRITTEN}']\nStatus: Continue",
    "numbers": f"Subgoal: take it\nAction Plan:\n1. {WRITTEN}\nStatus: continue",
    "ticks": f"**Subgoal**: take it\n**Action Plan**:\n- `{WRITTEN}`\n**Status**: continue",
    "reasoning": f"<think>Subgoal: no\nAction Plan:\n- nonsense</think>\nSubgoal: take it\nAction Plan:\n- {WRITTEN}",
    "two fences": f"```\nsome()\n```\n```yaml\nSubgoal: take it\nAction Plan:\n- {WRITTEN}\n```",
    "Windows": f"Subgoal: take it\r\nAction Plan:\r\n  - {WRITTEN}\r\nStatus: continue\r\n",
    "a flow of lines": f"Subgoal: |\n  take\n  it\nAction Plan:\n  - >-\n    {WRITTEN}\nStatus: continue",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_plan_is_read_in_every_shape_that_models_give_it(shape: str) -> None:
    reader = WholeAnswer(lambda text: read_plan(text, ROBOTS, 5))
    for start in range(0, len(SHAPES[shape]), 7):
        reader.feed(SHAPES[shape][start : start + 7])
    read = reader.close()
    assert (read.subgoal, read.actions, read.status) == ("take it", (PICK,), Status.CONTINUE)


def test_a_colon_in_an_item_or_a_text_breaks_nothing() -> None:
    text = (
        'Subgoal: two things: this and that\nAction Plan:\n  - wave(robot="atlas", speed=1.0)  # first: wave\nStatus: continue'
    )
    read = read_plan(text, ROBOTS, 5)
    assert read.subgoal == "two things: this and that" and read.actions[0].skill == "wave"


def test_a_plan_that_is_too_long_is_read_up_to_its_most() -> None:
    assert len(read_plan(plan(*[WRITTEN] * 9), ROBOTS, 5).actions) == 5


@pytest.mark.parametrize("text", ["", "I do not know.", plan(), plan(WRITTEN, status="done"), plan(WRITTEN, status="soon")])
def test_a_plan_without_sense_is_refused(text: str) -> None:
    with pytest.raises(AnswerError):
        read_plan(text, ROBOTS, 5)


def test_done_and_impossible_need_no_actions() -> None:
    read = read_plan(plan(subgoal="the apple is in the bin", status="done"), ROBOTS, 5)
    assert (read.status, read.subgoal, read.actions) == (Status.DONE, "the apple is in the bin", ())
    assert read_plan("Status: impossible\nSubgoal: it is glued\nAction Plan:", ROBOTS, 5).status is Status.IMPOSSIBLE


def test_an_answer_without_end_is_cut_off() -> None:
    reader = WholeAnswer(str)
    with pytest.raises(AnswerError, match="longer than"):
        for _ in range(200):
            reader.feed("and so on " * 10)


# -- the critic -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word", ["False", '"False"', "'false'", "no", "No.", "FALSE - the door is shut", "unsuitable", "not suitable"]
)
def test_false_is_false_however_it_is_written(word: str) -> None:
    assert read_judgement(f"Action Suitability: {word}\nFeedback: shut", []).suits is False


@pytest.mark.parametrize(
    "word", ["True", '"True"', "true", "yes", "Yes, it is there", "suitable", "True!", "True\n\nAll is well"]
)
def test_true_is_true(word: str) -> None:
    assert read_judgement(f"```yaml\nAction Suitability: {word}\nFeedback: fine\n```", []).suits is True


@pytest.mark.parametrize(
    "text", ["", "Feedback: fine", "Action Suitability: perhaps", "Action Suitability: 1", "Action Suitability: [True]", "True"]
)
def test_a_verdict_that_says_neither_is_none(text: str) -> None:
    with pytest.raises(AnswerError):
        read_judgement(text, [])


def test_a_verdict_that_is_there_twice_is_none() -> None:
    with pytest.raises(AnswerError, match="twice"):
        read_judgement("Action Suitability: True\nFeedback: a\nAction Suitability: False\nFeedback: b", [])


def test_feedback_with_a_colon_stays_whole() -> None:
    read = read_judgement("Action Suitability: False\nFeedback: the drawer is shut: open it first", [])
    assert read.feedback == "the drawer is shut: open it first"


@pytest.mark.parametrize(
    ("region", "regions"),
    [
        ("{atlas: [0.1, 0.2, 0.4, 0.6]}", {"atlas": (0.1, 0.2, 0.4, 0.6)}),
        ("{atlas: [0, 0, 1, 1], hebe: [0.5, 0.5, 0.6, 0.6]}", {"atlas": (0, 0, 1, 1), "hebe": (0.5, 0.5, 0.6, 0.6)}),
        ("{atlas: [0.4, 0.2, 0.1, 0.6]}", {}),
        ("{atlas: [40, 20, 100, 60]}", {}),
        ("{atlas: [0.1, 0.2, 0.4, .nan]}", {}),
        ("{atlas: [0.1, 0.2, 0.4, 0.6], nobody: [0.1, 0.2, 0.4, 0.6]}", {}),
        ("[0.1, 0.2, 0.4, 0.6]", {}),
        ("the left half", {}),
    ],
)
def test_a_region_counts_only_when_it_is_one(region: str, regions: dict[str, object]) -> None:
    assert read_judgement(f"Action Suitability: True\nRegion: {region}", ["atlas", "hebe"]).regions == regions


def test_a_bare_region_is_of_the_only_picture() -> None:
    read = read_judgement("Action Suitability: True\nRegion: [0.1, 0.2, 0.4, 0.6]", ["atlas"])
    assert read.regions == {"atlas": (0.1, 0.2, 0.4, 0.6)}
