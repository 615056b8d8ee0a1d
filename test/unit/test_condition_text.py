# SPDX-License-Identifier: Apache-2.0
"""A condition as models write it: code over accessors, code that cannot be run, or a sentence."""

from __future__ import annotations

import contextlib
import warnings

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from planners.prescriptions.contradictions import may_meet
from skill_kernel.guard.condition_text import MAX_SENTENCE, holds, read_condition
from skill_kernel.guard.reading import GuardError, RuleFault
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


ODD = st.lists(
    st.sampled_from(["1or 2", "0x1for", "1 is 1", "'a'()", "()[0,]", "moving()", "1if 2else 3", "and", "(", ")", "<", " "])
)


@example(["1or 2"])
@example(["moving()", "and", "1 is 1"])
@given(ODD)
def test_no_condition_makes_python_warn_on_standard_error(pieces: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            read_condition(" ".join(pieces), ACCESSORS)
        except GuardError:
            pass
        may_meet(" ".join(pieces), "moving()")


ERRORS = st.sampled_from([ZeroDivisionError, ValueError, TypeError, KeyError, AssertionError, RecursionError, MemoryError])
VALUES = st.none() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400) | st.lists(st.integers(), max_size=2)
CONDITIONS = [
    "7 % people_visible() > 0",
    "1 / (x_m() - x_m()) > 2",
    "min([v for v in [1.0] if moving()]) > 0",
    "round(x_m() * 1e9) // people_visible() == 0",
    "lower(room()) == 'a' and max(y_m(), 1 / x_m()) < 1",
    "not visible('apple') or sum([people_visible(), 1]) % people_visible() == 0",
]


@given(
    st.sampled_from(CONDITIONS),
    st.dictionaries(st.sampled_from("people_visible moving x_m y_m room visible".split()), VALUES | ERRORS),
)
def test_whatever_python_raises_in_a_condition_it_is_unknown_and_says_why(text: str, known: dict[str, object]) -> None:
    condition = read_condition(text, ACCESSORS)
    assert condition.expression is not None

    def call(name: str, *arguments: object) -> object:
        value = known.get(name, 0)
        if isinstance(value, type):
            raise value("raised")
        return value

    held, why = holds(condition.expression, call)
    assert held in (True, False) or why
    with contextlib.suppress(RuleFault):
        condition.expression.evaluate(call)
