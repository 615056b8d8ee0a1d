# SPDX-License-Identifier: Apache-2.0
"""T(v): attributes become typed arguments, and everything that does not fit is refused with a hint."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from thorough import examples

from skill_kernel import CallCode, Content, Limited, Skill, SkillDefinitionError, SkillReturn, robot_skill
from skill_kernel.skills.arguments import (
    ArgumentError,
    BoundArguments,
    Converter,
    bind,
    bind_typed,
    converters,
    parameters_schema,
    parse_json,
    signature_text,
    to_json,
    unknown_limits,
)


def bind_json(skill: Skill, text: str, limits: dict[str, tuple[float, float]]) -> BoundArguments:
    """Do what the kernel's node does with the arguments of a call."""
    return bind_typed(skill, parse_json(skill.name, text), limits)


LIMITS = {"walk": (0.0, 200.0), "count": (0.5, 4.5)}


class Mood(Enum):
    HAPPY = "happy"
    SAD = "sad"


class Point(BaseModel):
    x: float
    y: float = 0.0


@dataclass
class Pose:
    yaw: float


def skill(function: Any) -> Skill:
    return robot_skill()(function).__robot_skill__


@skill
def everything(
    number: float = 0.0,
    whole: int = 0,
    flag: bool = False,
    word: str = "",
    side: Literal["left", "right"] = "left",
    leg: Literal[1, 2, 3, 4] = 1,
    mood: Mood = Mood.HAPPY,
    numbers: list[float] = [],  # noqa: B006
    table: dict[str, int] = {},  # noqa: B006
    pair: tuple[int, str] = (0, ""),
    point: Point = Point(x=0),  # noqa: B008
    pose: Pose = Pose(0),  # noqa: B008
    maybe: Optional[int] = None,  # noqa: UP045
    maybe_word: str | None = "x",
    auto: Union[float, Literal["auto"]] = "auto",  # noqa: UP007
    angle: Annotated[float, "deg"] = 0.0,
    volume: Annotated[int, Field(ge=0, le=100, description="% of full")] = 50,
    distance: Annotated[float, Limited("walk")] = 0.0,
    count: Annotated[int, Limited("count")] = 1,
    short: Annotated[str, Field(max_length=3)] = "",
) -> SkillReturn:
    """Everything a parameter can be."""
    return SkillReturn.success()


def one(name: str, text: str) -> Any:
    return bind(everything, {name: text}, LIMITS).values[name]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("number", "90", 90.0),
        ("number", " -1.5e1 ", -15.0),
        ("number", "+.5", 0.5),
        ("number", "3.", 3.0),
        ("whole", "90", 90),
        ("whole", "90.0", 90),
        ("whole", "1e3", 1000),
        ("whole", "-7", -7),
        ("flag", "true", True),
        ("flag", "False", False),
        ("flag", "0", False),
        ("flag", "YES", True),
        ("flag", "off", False),
        ("word", " as it is ", " as it is "),
        ("word", "", ""),
        ("side", "right", "right"),
        ("leg", "3", 3),
        ("mood", "sad", Mood.SAD),
        ("mood", "SAD", Mood.SAD),
        ("numbers", "[1, 2.5]", [1.0, 2.5]),
        ("table", '{"a": 1}', {"a": 1}),
        ("pair", '[1, "b"]', (1, "b")),
        ("point", '{"x": 1}', Point(x=1, y=0)),
        ("pose", '{"yaw": 2}', Pose(2.0)),
        ("maybe", "", None),
        ("maybe", "None", None),
        ("maybe", "null", None),
        ("maybe", "5", 5),
        ("maybe_word", "none", None),
        ("auto", "auto", "auto"),
        ("auto", "1.5", 1.5),
        ("angle", "90deg", 90.0),
        ("angle", "90°", 90.0),
        ("angle", "90 degrees", 90.0),
        ("volume", "50%", 50),
        ("volume", "100", 100),
        ("short", "abc", "abc"),
    ],
)
def test_a_string_becomes_the_type_of_its_parameter(name: str, text: str, value: Any) -> None:
    made = one(name, text)
    assert made == value and type(made) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "code", "hint"),
    [
        ("number", "fast", CallCode.INVALID_ARGUMENT, "number is 'fast'; it must be a number"),
        ("number", "nan", CallCode.INVALID_ARGUMENT, "a number"),
        ("number", "inf", CallCode.INVALID_ARGUMENT, "a number"),
        ("number", "1e999", CallCode.OUT_OF_RANGE, "too large"),
        ("number", "1,5", CallCode.INVALID_ARGUMENT, "write the number alone, as in '1000.5'"),
        ("number", "1/2", CallCode.INVALID_ARGUMENT, "write the number alone, as in '1000.5'"),
        ("number", "20 cm", CallCode.INVALID_ARGUMENT, "write the number alone, '20'"),
        ("number", "", CallCode.INVALID_ARGUMENT, "a number"),
        ("angle", "1.57 rad", CallCode.INVALID_ARGUMENT, "convert it to deg and write the number alone; it must be"),
        ("angle", "2 turns", CallCode.INVALID_ARGUMENT, "convert it to deg and write the number alone; it must be"),
        ("angle", "90 cm", CallCode.INVALID_ARGUMENT, "a number in deg"),
        ("whole", "1.5", CallCode.INVALID_ARGUMENT, "a whole number"),
        ("whole", "1" * 5000, CallCode.OUT_OF_RANGE, "too large"),
        ("whole", "1_000", CallCode.INVALID_ARGUMENT, "write the number alone"),
        ("flag", "maybe", CallCode.INVALID_ARGUMENT, "true or false"),
        ("side", "Left", CallCode.INVALID_ARGUMENT, "it must be one of left, right; did you mean 'left'?"),
        ("leg", "5", CallCode.INVALID_ARGUMENT, "one of 1, 2, 3, 4"),
        ("mood", "hapy", CallCode.INVALID_ARGUMENT, "did you mean 'happy'"),
        ("numbers", "1, 2", CallCode.INVALID_ARGUMENT, "JSON for list[float]"),
        ("numbers", "[1, NaN]", CallCode.INVALID_ARGUMENT, "nan is no number"),
        ("numbers", "[1, 1e999]", CallCode.INVALID_ARGUMENT, "inf is no number"),
        ("numbers", "[1, 'a']", CallCode.INVALID_ARGUMENT, "not valid JSON"),
        ("numbers", "[" * 100_000, CallCode.INVALID_ARGUMENT, "JSON"),
        ("point", '{"y": 1}', CallCode.INVALID_ARGUMENT, "at x field required"),
        ("maybe", "many", CallCode.INVALID_ARGUMENT, "a whole number"),
        ("auto", "manual", CallCode.INVALID_ARGUMENT, "a number or one of auto"),
        ("volume", "101", CallCode.OUT_OF_RANGE, "a whole number at least 0 and at most 100 in %"),
        ("short", "abcd", CallCode.OUT_OF_RANGE, "at most 3 characters"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_code_and_a_hint(name: str, text: str, code: CallCode, hint: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        one(name, text)
    assert caught.value.code is code
    assert hint in caught.value.message and caught.value.message.startswith("everything: ")
    assert len(caught.value.message) < 500


def test_an_unknown_parameter_is_answered_with_the_nearest() -> None:
    with pytest.raises(ArgumentError, match="no parameter 'Numbr'; did you mean 'number'?") as caught:
        bind(everything, {"Numbr": "1"}, LIMITS)
    assert caught.value.code is CallCode.UNKNOWN_ARGUMENT


def test_a_missing_parameter_is_named_with_what_it_needs() -> None:
    @skill
    def turn(angle: Annotated[float, Field(ge=-180, le=180), "deg"], speed: float = 1.0) -> SkillReturn:
        return SkillReturn.success()

    with pytest.raises(ArgumentError, match="turn needs angle: a number at least -180 and at most 180 in deg") as caught:
        bind(turn, {"speed": "2"}, {})
    assert caught.value.code is CallCode.MISSING_ARGUMENT
    assert bind(turn, {"angle": "3"}, {}).values == {"angle": 3.0, "speed": 1.0}


def test_values_that_bound_motion_are_clamped_and_say_so() -> None:
    bound = bind(everything, {"distance": "500", "count": "9"}, LIMITS)
    assert bound.values["distance"] == 200.0 and type(bound.values["distance"]) is float
    assert bound.values["count"] == 4
    assert bound.clamped[0] == "everything: distance 500.0 was limited to 200.0 (walk)" and len(bound.clamped) == 2
    assert bind(everything, {"distance": "200"}, LIMITS).clamped == []
    assert bind_typed(everything, {"distance": -5}, LIMITS).values["distance"] == 0.0


def test_a_default_is_clamped_too() -> None:
    @skill
    def run(distance: Annotated[float, Limited("walk")] = 300.0) -> SkillReturn:
        return SkillReturn.success()

    assert bind(run, {}, LIMITS).values == {"distance": 200.0}
    assert unknown_limits(run, {}) == ["walk"] and unknown_limits(run, LIMITS) == []


def test_content_is_no_required_parameter_but_may_come_as_an_attribute() -> None:
    @skill
    def speak(text: Content, rate: float = 1.0) -> SkillReturn:
        return SkillReturn.success()

    assert bind(speak, {}, {}).values == {"rate": 1.0}
    assert bind(speak, {"text": "Hi"}, {}).values == {"text": "Hi", "rate": 1.0}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("number", "1"),
        ("number", True),
        ("whole", 1.5),
        ("flag", 1),
        ("flag", "true"),
        ("word", 5),
        ("leg", "x"),
        ("leg", True),
        ("number", None),
        ("number", math.nan),
        ("numbers", [math.inf]),
        ("maybe", "5"),
        ("side", 3),
        ("volume", 101),
    ],
)
def test_json_of_the_wrong_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError):
        bind_typed(everything, {name: value}, LIMITS)


def test_json_numbers_of_the_other_kind_that_mean_the_same_are_accepted() -> None:
    values = bind_typed(everything, {"number": 90, "whole": 90.0, "leg": 2}, LIMITS).values
    assert (values["number"], values["whole"], values["leg"]) == (90.0, 90, 2)
    assert type(values["number"]) is float and type(values["whole"]) is int


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 100_000, '{"number": Infinity}', '"x"'])
def test_arguments_that_are_no_json_object_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        bind_json(everything, text, LIMITS)
    assert caught.value.code is CallCode.INVALID_ARGUMENT and len(caught.value.message) < 300


def test_what_was_bound_from_strings_comes_back_from_json() -> None:
    attrs = {
        "mood": "sad",
        "numbers": "[1]",
        "pair": '[1, "b"]',
        "point": '{"x": 1}',
        "pose": '{"yaw": 2}',
        "maybe": "",
        "leg": "2",
    }
    bound = bind(everything, attrs, LIMITS)
    again = bind_json(everything, to_json(bound.values), LIMITS)
    assert again.values == bound.values and again.clamped == []


@settings(max_examples=examples(100))
@given(st.text(max_size=30), st.sampled_from(sorted(everything.signature.parameters)))
def test_no_text_makes_binding_raise_anything_but_argument_errors(text: str, name: str) -> None:
    try:
        bound = bind(everything, {name: text}, LIMITS)
    except ArgumentError:
        return
    assert bind_json(everything, to_json(bound.values), LIMITS).values == bound.values


@settings(max_examples=examples(100))
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    )
)
def test_no_json_makes_binding_raise_anything_but_argument_errors(value: Any) -> None:
    for name in everything.signature.parameters:
        try:
            bind_json(everything, json.dumps({name: value}), LIMITS)
        except ArgumentError:
            pass


def test_a_parameter_no_model_could_write_is_refused_when_the_skill_is_read() -> None:
    class Opaque:
        pass

    def odd(thing: Any) -> SkillReturn:
        return SkillReturn.success()

    odd.__annotations__["thing"] = Opaque
    with pytest.raises(SkillDefinitionError, match="parameter 'thing' cannot be written by a model"):
        converters(skill(odd))


def test_a_field_that_pydantic_refuses_names_its_parameter() -> None:
    @skill
    def spell(word: Annotated[str, Field(pattern="(")]) -> SkillReturn:
        """Have a broken pattern."""

    with pytest.raises(SkillDefinitionError, match="skill 'spell': parameter 'word' cannot be written by a model"):
        converters(spell)


def test_a_field_in_the_place_of_a_default_is_refused_because_it_bounds_nothing() -> None:
    @skill
    def look(pan: float = Field(0, ge=-90, le=90)) -> SkillReturn:
        """Look."""

    with pytest.raises(SkillDefinitionError, match=r"'pan' is bounded by nothing.*write pan: Annotated\[…, Field"):
        converters(look)


def test_a_limit_clamps_what_is_in_a_list_or_table_and_is_refused_inside_their_types() -> None:
    @skill
    def pose(
        angles: Annotated[list[float], Limited("walk")], by_name: Annotated[dict[str, float] | None, Limited("walk")] = None
    ) -> SkillReturn:
        """Pose."""

    values = bind(pose, {"angles": "[-1, 500]", "by_name": '{"hip": 900, "knee": 3}'}, LIMITS).values
    assert values == {"angles": [0.0, 200.0], "by_name": {"hip": 200.0, "knee": 3.0}}

    @skill
    def odd(angles: list[Annotated[float, Limited("walk")]] | None = None) -> SkillReturn:
        """Pose."""

    with pytest.raises(SkillDefinitionError, match="parameter 'angles' has a Limited inside its type, where it clamps nothing"):
        converters(odd)


def test_a_default_that_python_allows_and_its_type_does_not_reaches_the_skill() -> None:
    @skill
    def look(
        pan: float = None,  # type: ignore[assignment]  # noqa: RUF013
        seconds: Annotated[float, Field(gt=0)] = 0,
        side: Literal["left", "right"] = "both",  # type: ignore[assignment]
    ) -> SkillReturn:
        """Look."""

    bound = bind(look, {}, {})
    assert bind_json(look, to_json(bound.values), {}).values == bound.values == {"pan": None, "seconds": 0, "side": "both"}
    for wrong in ({"seconds": -1}, {"seconds": False}, {"side": "up"}, {"pan": "1"}):
        with pytest.raises(ArgumentError):
            bind_typed(look, wrong, {})


@pytest.mark.parametrize(
    ("about", "unit"),
    [("s", "s"), ("m, from the wall", "m"), ("times", "times"), ("time to wait, in s", ""), ("x in the map", "")],
)
def test_the_first_word_of_a_description_may_be_the_unit(about: str, unit: str) -> None:
    assert Converter(Annotated[float, Field(description=about)]).unit == unit


def test_the_schema_tells_type_range_unit_and_default() -> None:
    schema = parameters_schema(everything)
    assert schema["properties"]["volume"] == {
        "default": 50,
        "description": "% of full",
        "maximum": 100,
        "minimum": 0,
        "type": "integer",
    }
    assert schema["properties"]["angle"]["description"] == "deg"
    assert schema["properties"]["side"]["enum"] == ["left", "right"]
    assert schema["additionalProperties"] is False


def test_the_signature_shows_types_without_what_is_annotated_to_them() -> None:
    @skill
    def turn(text: Content, angle: Annotated[float, Field(ge=0), "deg"], side: Literal["l", "r"] = "l") -> SkillReturn:
        return SkillReturn.success()

    assert signature_text(turn) == "turn(text: str, angle: float, side: Literal['l', 'r'] = 'l')"


# -- values that can only mean one thing ------------------------------------------------------------------------------------


@skill
def face(
    mood: Literal["surprised", "sleepy", "sad"] = "sad",
    turn: Literal["clockwise", "none"] = "none",
    angle: Annotated[float, Field(ge=-180, le=180), "deg"] = 0.0,
    times: Annotated[int, Field(ge=1, le=20)] = 1,
    tens: Annotated[int, Field(ge=0, le=100, multiple_of=10)] = 10,
    side: Literal["left", "right"] | None = None,
) -> SkillReturn:
    """Show something."""


def mended(**given: str) -> BoundArguments:
    return bind(face, given, {}, mends=True)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("mood", "surprise", "surprised"),
        ("mood", "SLEEPY ", "sleepy"),
        ("angle", "185", 180.0),
        ("angle", "-189 deg", -180.0),
        ("times", "21", 20),
        ("side", "rigth", "right"),
    ],
)
def test_a_value_that_can_only_mean_one_is_taken_for_it_and_told(name: str, text: str, value: object) -> None:
    bound = mended(**{name: text})
    assert bound.values[name] == value and type(bound.values[name]) is type(value)
    (note,) = bound.clamped
    assert f"face: {name}" in note and str(value) in note
    with pytest.raises(ArgumentError):
        bind(face, {name: text}, {})


def test_what_is_mended_is_still_held_to_the_limits_of_the_robot() -> None:
    @skill
    def stride(metres: Annotated[float, Limited("stride"), Field(ge=0, le=50)] = 1.0) -> SkillReturn:
        """Walk."""

    bound = bind(stride, {"metres": "51"}, {"stride": (0.0, 10.0)}, mends=True)
    assert bound.values == {"metres": 10.0} and len(bound.clamped) == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mood", "s"),
        ("turn", "anticlockwise"),
        ("tens", "97"),
        ("mood", "happy"),
        ("angle", "190"),
        ("angle", "far"),
        ("times", "0"),
        ("times", "22"),
        ("side", "up"),
    ],
)
def test_what_may_mean_anything_stays_refused(name: str, text: str) -> None:
    with pytest.raises(ArgumentError):
        mended(**{name: text})


@given(st.sampled_from(list(converters(face))), st.text(max_size=12) | st.floats().map(str) | st.integers(-999, 999).map(str))
def test_what_is_mended_fits(name: str, text: str) -> None:
    try:
        bound = mended(**{name: text})
    except ArgumentError:
        return
    again = bind(face, {name: str(bound.values[name])}, {})
    assert again.values[name] == bound.values[name] and not again.clamped
