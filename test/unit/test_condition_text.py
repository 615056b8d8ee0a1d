# SPDX-License-Identifier: Apache-2.0
"""A condition as models write it: code over accessors, code that cannot be run, or a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skill_kernel.guard import GuardError
from skill_kernel.guard.condition_text import MAX_SENTENCE, holds, read_condition
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.observation.model import StaleFieldError
from skill_kernel.robot import RobotConfig

ACCESSORS = accessors_of(RobotConfig.load("kalos"))


def answers(**known: object) -> object:
    """Accessors by name; one that is not given is stale."""

    def call(name: str, *arguments: object) -> object:
        if name not in known:
            raise StaleFieldError(name, 9.0, f"field '{name}' is stale")
        return known[name]

    return call


@pytest.mark.parametrize(
    ("text", "true"),
    [
        ("visible('apple')", True),
        ('visible("apple") and front_distance_m() < 0.5', True),
        ("visible('apple') && front_distance_m() < 0.5", True),
        ("!visible('apple') || moving()", False),
        ("not moving()", True),
        ("`visible('apple')`", True),
        ("visible('apple') == true", True),
        ("room() == 'kitchen'", True),
        ("'a && b' == room()", False),
        ("0.1 < front_distance_m() <= 0.4", True),
        ("false", False),
    ],
)
def test_code_is_read_as_models_write_it(text: str, true: bool) -> None:
    condition = read_condition(text, ACCESSORS)
    assert condition.expression is not None
    call = answers(visible=True, front_distance_m=0.4, moving=False, room="kitchen")
    assert holds(condition.expression, call) == (true, "")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "the door is open",
        "door is open",
        "not raining",
        "there is a person (with a hat) in front of you",
        "看见苹果",
        "a person is near && it is dark",
        "the battery is nearly empty!",
    ],
)
def test_a_sentence_is_left_to_a_judge(text: str) -> None:
    assert read_condition(text, ACCESSORS) == read_condition(f"  {text} ", ACCESSORS)
    assert read_condition(text, ACCESSORS).expression is None


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("visible('aple')", "'apple'"),
        ("is_visible('apple')", "did you mean 'visible'"),
        ("battery < 20", "battery_percent"),
        ("battery_percent < 20", "call it"),
        ("moving", "call it"),
        ("visible('apple'", "bracket or quote"),
        ("visible('apple').real", "dot"),
        ("__import__('os').system('x') == 0", "underscore"),
        ("", "empty"),
        ("very " * 200 + "long", str(MAX_SENTENCE)),
        ("visible('apple') or " * 400 + "moving()", "characters"),
    ],
)
def test_what_is_meant_as_code_and_cannot_be_run_says_why(text: str, hint: str) -> None:
    with pytest.raises(GuardError, match=hint.replace("(", "[(]")):
        read_condition(text, ACCESSORS)


def test_a_stale_field_is_neither_true_nor_false() -> None:
    condition = read_condition("not visible('apple')", ACCESSORS)
    assert condition.expression is not None
    assert holds(condition.expression, answers()) == (None, "field 'visible' is stale")  # type: ignore[arg-type]


@given(st.text(max_size=400))
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    try:
        read_condition(text, ACCESSORS)
    except GuardError as error:
        assert str(error)
