# SPDX-License-Identifier: Apache-2.0
"""YAML files by hand: what is given twice is said, with its line."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from skill_kernel.config.yaml_text import DuplicateKeyError, read_yaml, what_is_wrong

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_given_once_reads_as_ever(value: object) -> None:
    text = yaml.safe_dump(value)
    assert read_yaml(text) == yaml.safe_load(text) == value


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("speed: 1\nname: a\nspeed: 2", 3, "speed"),
        ("robot:\n  joints:\n    pan: {lower: 1, upper: 2,\n      lower: 3}", 4, "lower"),
        ("- a: 1\n- b: 1\n  'b': 2", 3, "b"),
        ("base: &b {x: 1}\nbase: *b", 2, "base"),
    ],
)
def test_a_key_given_twice_is_named_with_its_line(text: str, line: int, key: str) -> None:
    with pytest.raises(DuplicateKeyError) as caught:
        read_yaml(text)
    assert what_is_wrong(caught.value) == f"line {line}: the key '{key}' is given twice; remove one of them"


def test_a_merged_mapping_may_be_overridden() -> None:
    assert read_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}")["b"] == {"x": 3, "y": 2}


def test_merges_of_merges_are_no_duplicates() -> None:
    text = "base: &base {x: 1}\ndeep: {deeper: {a: &a {<<: *base, x: 2}}}\nb: {<<: *a, y: 3}\n"
    assert read_yaml(text) == yaml.safe_load(text)


def test_other_mistakes_name_their_line() -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        read_yaml("a: 1\nb: [1,\nc: : 2")
    assert what_is_wrong(caught.value) == (
        "line 3: is not valid YAML (did not find expected node content); look for a missing colon, a wrong indent or a tab"
    )


@pytest.mark.parametrize("text", ["v: 2024-02-30", "v: 0x_", "[" * 5000])
def test_a_value_that_is_none_is_a_mistake_of_the_file_too(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_a_depth_without_bound_is_refused(opening: str) -> None:
    with pytest.raises(yaml.YAMLError, match="more than 100 levels"):
        read_yaml(opening * 100_000)
