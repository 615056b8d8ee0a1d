# SPDX-License-Identifier: Apache-2.0
"""An answer that goes round in circles is cut; songs, many tasks and words said often are not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import examples

from planners.models.repetition import STRETCH, RepetitionWatch

NOD = '<head_act action="nod" duration="0.7"/>'
REFRAIN = "Row, row, row your boat, gently down the stream. Merrily, merrily, merrily, merrily, life is but a dream.\n"


def cut(text: str, size: int = 4) -> str:
    """Return why a text that comes in pieces is cut, "" where it is not."""
    watch = RepetitionWatch()
    return next(filter(None, (watch.feed(text[i : i + size]) for i in range(0, len(text), size))), "")


@pytest.mark.parametrize("size", [1, 4, 900])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<|im_end|>\n" * 100, "control tokens"),
        ("".join(f"<|im_start|>user\nkeyboard {n}<|im_end|>\n" for n in range(30)), "control tokens"),
        ("Hello. " + "The robot is now turning its head to the right.\n" * 60, "repeats itself"),
        (
            "A story. " + "It was a dark and stormy night, and all the robots of the house were asleep in their docks. " * 20,
            "itself",
        ),
        (NOD * 200, "repeats itself"),
        ("x" * 1000, "repeats itself"),
    ],
)
def test_circles_are_cut_with_a_reason(text: str, why: str, size: int) -> None:
    assert why in cut(text, size)


@pytest.mark.parametrize(
    "text",
    [
        "nod nod nod",
        REFRAIN * 2,
        "First verse.\n" + REFRAIN * 3 + "Second verse.\n" + REFRAIN * 3,
        NOD * 34,
        "".join(f"<step>{NOD}</step>\n<step><shake_ears/></step>\n" for _ in range(17)),
        "".join(f"Task {n} of 34: I nod. {NOD}\n" for n in range(34)),
        "".join(f"{n} green bottles, hanging on the wall.\n" for n in range(99)),
        "la " * 100,
        "I will not talk in class.\n" * 20,
    ],
)
def test_honest_repeats_are_not_cut(text: str) -> None:
    assert cut(text) == ""


@settings(max_examples=examples(100))
@given(st.text("abc <>/", min_size=1, max_size=40), st.integers(1, 7))
def test_whatever_repeats_for_long_is_cut_before_the_stretch_is_full(unit: str, size: int) -> None:
    assert cut("Well. " + unit * (2 * STRETCH // len(unit)), size)
