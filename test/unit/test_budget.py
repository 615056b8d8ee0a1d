# SPDX-License-Identifier: Apache-2.0
"""The token budget: what is spent is never forgotten too early, scarcity slows, and a spent budget says what to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planners.models.budget import BUCKET_S, ESSENTIAL, HOUR_S, BudgetLimits, TokenBudget
from planners.prompts.blocks import Layer

LIMITS = BudgetLimits(process_tokens=1000, hour_tokens=5000, slow_from=0.5, slowest_s=20.0)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def budget(limits: BudgetLimits = LIMITS) -> tuple[TokenBudget, Clock]:
    clock = Clock()
    spending = TokenBudget(limits, clock)
    for process_id in "pqr":
        spending.at_least(process_id, 0)
    return spending, clock


def test_while_there_is_plenty_nobody_waits() -> None:
    spending, _ = budget()
    spending.answered("p", 500)
    assert spending.allow("p", "s2") == (True, 0.0, "")


def test_the_gap_grows_with_what_is_spent_before_anything_is_refused() -> None:
    spending, _ = budget()
    gaps = []
    while spending.allow("p", "s1")[0]:
        gaps.append(spending.allow("p", "s1")[1])
        spending.answered("p", 50)
    assert gaps == sorted(gaps) and gaps[0] == 0.0 and gaps[-1] == pytest.approx(18.0) and len(gaps) == 20


def test_a_spent_process_is_refused_with_what_to_do_and_others_are_not() -> None:
    spending, _ = budget()
    spending.answered("p", 1000)
    allowed, _, why = spending.allow("p", "s1")
    assert not allowed and "p has used 1000 of its 1000" in why and "raise process_tokens" in why
    assert spending.allow("q", "s2")[0]


def test_the_last_of_it_is_kept_for_the_layer_that_acts() -> None:
    spending, _ = budget()
    spending.answered("p", 920)
    refused = {layer.value for layer in Layer if not spending.allow("p", layer.value)[0]}
    assert refused == {layer.value for layer in Layer} - ESSENTIAL


def test_questions_that_are_of_no_process_go_on_for_good_and_count_for_the_hour() -> None:
    spending, clock = budget(BudgetLimits(process_tokens=1000, hour_tokens=5000))
    for _ in range(3):
        clock.now += 1200.0
        spending.answered("", 1000)
    assert spending.allow("", "s3")[0] and spending.share("") == pytest.approx(0.6)
    spending.answered("", 2000)
    allowed, _, why = spending.allow("", "s3")
    assert not allowed and "in an hour" in why
    spending.at_least("", 10**9)
    clock.now += HOUR_S + 2 * BUCKET_S
    assert spending.allow("", "s3") == (True, 0.0, "")


def test_an_hour_s_tokens_are_free_again_an_hour_later_and_not_before() -> None:
    spending, clock = budget()
    for number in range(10):
        spending.answered(f"p{number}", 500)
    allowed, _, why = spending.allow("new", "s1")
    assert not allowed and "hour" in why and "61 min" in why
    clock.now = HOUR_S - 1
    assert not spending.allow("new", "s1")[0]
    clock.now = HOUR_S + BUCKET_S
    assert spending.allow("new", "s1")[0]


def test_an_hour_is_counted_from_when_it_was_spent_and_not_from_the_minute_s_beginning() -> None:
    spending, clock = budget()
    clock.now = BUCKET_S - 1
    spending.answered("p", 5000)
    clock.now += HOUR_S - 1
    assert not spending.allow("new", "s1")[0]


def test_what_is_known_from_before_counts_once() -> None:
    spending, _ = budget()
    spending.answered("p", 300)
    spending.at_least("p", 700)
    spending.at_least("p", 200)
    assert spending.share("p") == pytest.approx(0.7)
    spending.forget("p")
    assert spending.allow("p", "s1")[0]


def test_a_process_that_nobody_knows_counts_for_the_hour_alone_and_leaves_nothing_behind() -> None:
    spending, _ = budget(BudgetLimits(process_tokens=1000, hour_tokens=50_000))
    before = set(vars(spending)["_spent"])
    for number in range(40):
        spending.answered(f"made up {number}", 1000)
        assert spending.allow(f"made up {number}", "judge")[0]
    assert set(vars(spending)["_spent"]) == before
    spending.answered("made up", 6000)
    allowed, _, why = spending.allow("another", "judge")
    assert not allowed and "hour" in why


def test_no_limit_is_no_limit() -> None:
    spending, _ = budget(BudgetLimits(process_tokens=0, hour_tokens=0))
    spending.answered("p", 10**9)
    assert spending.allow("p", "s2") == (True, 0.0, "")


SPENDING = st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 400), st.floats(0.0, 900.0)), max_size=60)


@given(SPENDING)
def test_in_any_hour_no_more_is_allowed_than_the_limit_and_one_call(calls: list[tuple[str, int, float]]) -> None:
    """A layer that asks only when it may, and whose calls are told of at once, overdraws by its last call at most."""
    spending, clock = budget()
    spent: list[tuple[float, str, int]] = []
    for process_id, tokens, wait_s in calls:
        clock.now += wait_s
        if spending.allow(process_id, "s1")[0]:
            spending.answered(process_id, tokens)
            spent.append((clock.now, process_id, tokens))
        for at_s, _, _ in spent:
            assert sum(t for s, _, t in spent if at_s <= s <= at_s + HOUR_S) < 5000 + 400
        for name in "pqr":
            assert sum(t for _, p, t in spent if p == name) < 1000 + 400
    for name in "pqr":
        allowed, gap_s, why = spending.allow(name, "s1")
        assert 0.0 <= gap_s <= 20.0 and (allowed or why)
