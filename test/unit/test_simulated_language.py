# SPDX-License-Identifier: Apache-2.0
"""What instructions come to: goals that can be said again, in the words of the robot that is shown."""

from __future__ import annotations

import pytest
from layer_prompts import S1

from bench.simulated_model.goals import Approach, Face, Find, Goal, GoTo, If, Look, Picture, Report, Return
from bench.simulated_model.language import understand
from bench.simulated_model.prompt import Question
from bench.simulated_model.vocabulary import Vocabulary


def words() -> Vocabulary:
    return Question(S1, ("",)).words


def kinds(text: str) -> list[str]:
    return [type(g).__name__ for g in understand(text, words()).goals]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Turn around and face the person.", ["Do", "Face"]),
        ("Step back, turn left twice, and nod three times.", ["Do", "Do", "Do"]),
        ("Go to the hallway.", ["GoTo"]),
        ("Look for a chair in the hallway and take a picture of it.", ["Find", "Picture"]),
        ("Stop, check what is on your left, then resume.", ["Look"]),
        ("How many places have you explored?", ["Ask"]),
        ("Go to the kitchen, the office and the lounge, then come back.", ["GoTo", "GoTo", "GoTo", "Return"]),
        ("Find an apple in the kitchen or the office and report where it is.", ["Find", "Report"]),
        ("Search the lobby for a bottle. Otherwise go to the lounge.", ["Find", "If"]),
        ("Look for a person; if you find one, follow them for 20 seconds.", ["Find", "If"]),
        ("Please come here.", ["Approach"]),
        ('Sit down and say "hello and welcome".', ["Do", "Do"]),
        ("Go to the office. If you see a person there, say good morning, otherwise come back.", ["GoTo", "Find", "If", "If"]),
        (
            "Go to the kitchen and if you find a bottle, bark, if not, go to the office and look for it there.",
            ["GoTo", "Find", "If", "If"],
        ),
        ("If there is a chair in the office, take a picture of it.", ["Find", "If"]),
        ("Walk to the lounge, look for a bottle and if there is one take two pictures.", ["GoTo", "Find", "If"]),
        ("Is there a ball in the lobby?", ["Find", "Report"]),
        ("What is behind you?", ["Look"]),
        ("Tell me how many chairs you see.", ["Report"]),
        ("Take three pictures of the person.", ["Face", "Do"]),
        ("Bark twice at the person.", ["Face", "Do"]),
        ("Keep looking for a ball until you find it.", ["Find"]),
        ("Explore the building.", ["Do"]),
        ("Go to the kitchen but take a picture first.", ["Unknown"]),
        ("Do not move.", ["Unknown"]),
        ("Go to the moon.", ["Unknown"]),
        ("Find the ball and bring it to me.", ["Find", "Unknown"]),
    ],
)
def test_an_instruction_comes_to_these_goals(text: str, expected: list[str]) -> None:
    assert kinds(text) == expected


@pytest.mark.parametrize(
    "goal",
    [
        GoTo(("kitchen",), "kitchen"),
        Find("apple"),
        Find("apple", here=True),
        Find("chair", ("kitchen", "office"), "kitchen or the office"),
        Face("person"),
        Approach("ball"),
        Picture("chair"),
        Picture(),
        Return((1.5, -2.0)),
        Look("left"),
        Look("behind"),
        Look("front"),
        Report("ball"),
        Report("chair", count=True),
        Report(),
        If("ball", True, (Approach("ball"),)),
        If("apple", False, (Return((0.0, 0.0)),)),
    ],
    ids=lambda g: g.words(),
)
def test_the_words_of_a_goal_mean_that_goal(goal: Goal) -> None:
    assert understand(goal.words(), words()).goals == (goal,)


def test_places_and_things_are_those_that_were_said() -> None:
    for place in ("kitchen", "office", "lounge", "lobby"):
        (goal,) = understand(f"Go to the {place}.", words()).goals
        assert isinstance(goal, GoTo) and goal.waypoints == (place,)
    (corner,) = understand("Walk to the western end of the hallway.", words()).goals
    assert isinstance(corner, GoTo) and corner.waypoints == ("hallway_west",)
    (found,) = understand("Look for somebody.", words()).goals
    assert isinstance(found, Find) and found.label == "person"


def test_a_condition_on_what_was_looked_for_is_no_event_and_one_on_anything_else_is() -> None:
    looked_for = understand("Look for a ball. If you see one, bark.", words())
    other = understand("Go to the kitchen. When you see a person, bark.", words())
    assert not looked_for.watches and isinstance(looked_for.goals[1], If)
    assert [w.label for w in other.watches] == ["person"] and kinds("Go to the kitchen.") == ["GoTo"]


def test_only_what_asks_for_it_is_resumed() -> None:
    assert understand("Check what is on your left, then resume.", words()).resumes
    assert not understand("Check what is on your left.", words()).resumes
