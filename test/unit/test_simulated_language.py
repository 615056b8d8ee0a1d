# SPDX-License-Identifier: Apache-2.0
"""What instructions come to: goals that can be said again, in the words of the robot that is shown."""

from __future__ import annotations

import pytest
from layer_prompts import S1

from bench.simulated_model.chinese import to_people
from bench.simulated_model.phrases import HERE, Goal, understand, words
from bench.simulated_model.prompt import Question

KALOS = Question(S1, ("",)).robot


def kinds(text: str) -> list[str]:
    return [goal.kind for goal in understand(text, KALOS).goals]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Turn around and face the person.", ["do", "face"]),
        ("Step back, turn left twice, and nod three times.", ["do", "do", "do"]),
        ("Go to the hallway.", ["go"]),
        ("Look for a chair in the hallway and take a picture of it.", ["find", "picture"]),
        ("Stop, check what is on your left, then resume.", ["look"]),
        ("How many places have you explored?", ["ask"]),
        ("Go to the kitchen, the office and the lounge, then come back.", ["go", "go", "go", "home"]),
        ("Find an apple in the kitchen or the office and report where it is.", ["find", "report"]),
        ("Search the lobby for a bottle. Otherwise go to the lounge.", ["find", "if"]),
        ("Look for a person; if you find one, follow them for 20 seconds.", ["find", "if"]),
        ("Please come here.", ["approach"]),
        ('Sit down and say "hello and welcome".', ["do", "do"]),
        ("Go to the office. If you see a person there, say good morning, otherwise come back.", ["go", "find", "if", "if"]),
        (
            "Go to the kitchen and if you find a bottle, bark, if not, go to the office and look for it there.",
            ["go", "find", "if", "if"],
        ),
        ("If there is a chair in the office, take a picture of it.", ["find", "if"]),
        ("Walk to the lounge, look for a bottle and if there is one take two pictures.", ["go", "find", "if"]),
        ("Is there a ball in the lobby?", ["find", "report"]),
        ("What is behind you?", ["look"]),
        ("Tell me how many chairs you see.", ["count"]),
        ("Take three pictures of the person.", ["face", "do"]),
        ("Bark twice at the person.", ["face", "do"]),
        ("Keep looking for a ball until you find it.", ["find"]),
        ("Explore the building.", ["do"]),
        ("Go to the kitchen but take a picture first.", ["unknown"]),
        ("Do not move.", ["unknown"]),
        ("Go to the moon.", ["unknown"]),
        ("Find the ball and bring it to me.", ["find", "unknown"]),
    ],
)
def test_an_instruction_comes_to_these_goals(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(
    "goal",
    [
        Goal("go", places=("kitchen",), name="kitchen"),
        Goal("find", "apple"),
        Goal("find", "apple", name=HERE),
        Goal("find", "chair", ("kitchen", "office"), "kitchen or the office"),
        Goal("face", "person"),
        Goal("approach", "ball"),
        Goal("picture", "chair"),
        Goal("picture"),
        Goal("home", at=(1.5, -2.0)),
        Goal("look", name="left"),
        Goal("look", name="behind"),
        Goal("look", name="front"),
        Goal("report", "ball"),
        Goal("count", "chair"),
        Goal("report"),
        Goal("if", "ball", goals=(Goal("approach", "ball"),)),
        Goal("if", "apple", found=False, goals=(Goal("home", at=(0.0, 0.0)),)),
    ],
    ids=words,
)
def test_the_words_of_a_goal_mean_that_goal(goal: Goal) -> None:
    assert understand(words(goal), KALOS).goals == (goal,)


def test_places_and_things_are_those_that_were_said() -> None:
    for place in ("kitchen", "office", "lounge", "lobby"):
        (goal,) = understand(f"Go to the {place}.", KALOS).goals
        assert goal.kind == "go" and goal.places == (place,)
    (corner,) = understand("Walk to the western end of the hallway.", KALOS).goals
    assert corner.kind == "go" and corner.places == ("hallway_west",)
    (found,) = understand("Look for somebody.", KALOS).goals
    assert found.kind == "find" and found.thing == "person"


def test_a_condition_on_what_was_looked_for_is_no_event_and_one_on_anything_else_is() -> None:
    looked_for = understand("Look for a ball. If you see one, bark.", KALOS)
    other = understand("Go to the kitchen. When you see a person, bark.", KALOS)
    assert not looked_for.watches and looked_for.goals[1].kind == "if"
    assert [w.thing for w in other.watches] == ["person"] and kinds("Go to the kitchen.") == ["go"]


def test_only_what_asks_for_it_is_resumed() -> None:
    assert understand("Check what is on your left, then resume.", KALOS).resumes
    assert not understand("Check what is on your left.", KALOS).resumes


@pytest.mark.parametrize(
    ("chinese", "english"),
    [
        ("转身，面对那个人。", "Turn around, face the person."),
        ("去走廊。", "Go to hallway."),
        ("如果看到球就叫三声，否则坐下。", "If you see the ball, bark 3 times. Otherwise sit."),
        ("看到人就点头，要不然躺下", "If you see a person, nod. Otherwise lie."),
        (
            "看看这个房间里有没有球。如果有，就走过去叫两声；如果没有，就回到原来的地方坐下。",
            "Look for a ball in this room. If there is one, walk up to it, bark 2 times. If not, return to the start, sit.",
        ),
        ("去走廊找椅子，给它拍照", "Go to the hallway, find the chair, take a picture of it."),
        ("在厨房找苹果", "Find an apple in the kitchen."),
        ("如果这个房间里有人，就去大厅", "If there is a person in this room, go to the lobby."),
        ("后退，左转两次，点三下头", "Walk backward, turn left 2 times, nod 3 times."),
    ],
)
def test_chinese_means_what_english_means(chinese: str, english: str) -> None:
    assert understand(chinese, KALOS) == understand(english, KALOS)


@pytest.mark.parametrize("text", ["去月球", "不要动", "找一个杯子", "如果下雨就去厨房", "把球给我"])
def test_chinese_words_that_mean_nothing_here_are_never_taken_for_others(text: str) -> None:
    assert not understand(text, KALOS).understood


def test_a_question_in_chinese_is_for_the_memory_and_a_failure_is_told_in_chinese() -> None:
    (asked,) = understand("你昨天在哪里看到球？", KALOS).goals
    assert asked.kind == "ask" and asked.calls[0].arguments == {"question": "你昨天在哪里看到球？"}
    why = "I could not do it: I cannot get to the hallway: the way is blocked."
    assert to_people(why, "去走廊") == "我没做到：去不了走廊：路走不通。" and to_people(why, "go to the hallway") == why
