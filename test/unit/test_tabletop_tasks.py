# SPDX-License-Identifier: Apache-2.0
"""Blocks and bowls without physics: what the robot's functions do, and what the judge says of each task."""

from __future__ import annotations

import math

import pytest

from bench.evaluation.propositions import Moment, evaluate
from bench.tabletop.oracle import judged
from bench.tabletop.table import Table
from bench.tabletop.tasks import ATTRIBUTES, TEMPLATES, trial
from skill_kernel import SkillReturn

CASES = [(template, attributes) for attributes in ATTRIBUTES for template in TEMPLATES]


def put(table: Table, first: str, second: str | list[float]) -> SkillReturn:
    return table.call("put_first_on_second", {"first": first, "second": second})


def at(table: Table, x: float, y: float) -> list[float]:
    """Return a normalised position in metres."""
    return list(table.call("denormalize_xy", {"position": [x, y]}).value)


@pytest.fixture
def table() -> Table:
    return Table({"blue block": (0.0, 0.3, 0.0), "red block": (0.1, 0.5, 0.0), "red bowl": (-0.1, 0.5, 0.0)})


@pytest.mark.parametrize(("template", "attributes"), CASES)
def test_the_oracle_does_each_task_and_doing_nothing_does_none(template: str, attributes: str) -> None:
    for seed in range(12):
        one = trial(template, attributes, seed)
        assert (report := judged(one)).success, (seed, one.instruction, report.reasons)
        assert not judged(one, idle=True).success, (seed, one.instruction)


def test_there_are_fourteen_templates_and_a_trial_is_the_same_for_the_same_seed() -> None:
    assert len(TEMPLATES) == 14 and sum(one.seen for one in TEMPLATES.values()) == 8
    first, again = trial("line", "unseen", 3), trial("line", "unseen", 3)
    assert (first.instruction, first.table) == (again.instruction, again.table)
    assert first.table != trial("line", "unseen", 4).table


def test_slots_are_filled_in_another_way_than_before() -> None:
    before = [trial("all at place", "seen", seed).binding for seed in range(3)]
    assert trial("all at place", "seen", 9, before).binding not in before


def test_a_tenth_from_the_edges_is_not_in_the_corner(table: Table) -> None:
    put(table, "blue block", at(table, 0.1, 0.9))
    assert math.dist(table.at("blue block"), at(table, 0.0, 1.0)) == pytest.approx(0.0707, abs=1e-4)
    assert ("at", "blue block", "top left corner") not in set(table.facts())
    put(table, "blue block", at(table, 0.0, 1.0))
    facts = set(table.facts())
    assert {("at", "blue block", place) for place in ("top left corner", "top side", "left side")} <= facts


def test_a_stack_stands_and_is_taken_down_from_above(table: Table) -> None:
    assert put(table, "blue block", "red block").ok
    assert ("on", "blue block", "red block") in set(table.facts())
    refused = put(table, "red block", "red bowl")
    assert not refused.ok and refused.message == "the blue block is on the red block; put the blue block away first"
    assert put(table, "blue block", "red bowl").ok
    facts = set(table.facts())
    assert ("on", "blue block", "red bowl") in facts and ("on", "blue block", "red block") not in facts


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("pink block", "red bowl", "there is no 'pink block' on the table; use a name that get_obj_names() returns"),
        ("red bowl", "blue block", "the red bowl is too wide for the fingers; put blocks only"),
        ("blue block", "blue block", "cannot be put on itself"),
        ("blue block", [0.6, 0.4], "(0.60, 0.40) is off the table"),
    ],
)
def test_what_cannot_be_put_stays_where_it_is(table: Table, first: str, second: str | list[float], says: str) -> None:
    before = dict(table.things)
    refused = put(table, first, second)
    assert not refused.ok and says in refused.message
    assert table.things == before


@pytest.mark.parametrize(
    ("x", "y", "holds"), [(0.1, 0.5, ""), (-0.02, 0.5, "a little"), (0.1, 0.3, ""), (0.2, 0.5, "a lot"), (-0.2, 0.5, "")]
)
def test_a_little_is_at_most_a_third_of_the_table(table: Table, x: float, y: float, holds: str) -> None:
    table.things["red bowl"] = (-0.12 if holds else 0.1), 0.5, 0.0
    put(table, "blue block", [x, y])
    told = {fact[4] for fact in table.facts() if fact[:4] == ("beside", "blue block", "red bowl", "right")}
    assert told == ({holds} if holds else set())


def test_lines_have_a_direction_and_no_bend() -> None:
    def lines(*places: tuple[float, float]) -> set[str]:
        blocks = {f"{c} block": (x, y, 0.0) for c, (x, y) in zip(("blue", "red", "green"), places, strict=True)}
        return {fact[1] for fact in Table(blocks).facts() if fact[0] == "lined"}

    assert lines((0.0, 0.3), (0.1, 0.3), (0.2, 0.31)) == {"horizontal"}
    assert lines((0.0, 0.3), (0.0, 0.4), (0.0, 0.5)) == {"vertical"}
    assert lines((0.0, 0.3), (0.1, 0.4), (0.2, 0.5)) == {"diagonal"}
    assert lines((0.0, 0.3), (0.1, 0.45), (0.2, 0.5)) == set()
    assert lines((0.0, 0.3), (0.0, 0.3), (0.2, 0.5)) == set(), "two on one another are not side by side"


def test_what_was_put_right_and_taken_away_again_is_not_done() -> None:
    one = next(found for seed in range(50) if (found := trial("all at place", "seen", seed)).binding["place"] == "top side")
    table, moments = one.table.copy(), [Moment(0.0, frozenset(one.table.facts()))]
    for block in table.of("block"):
        put(table, block, at(table, 0.5, 1.0))
        moments.append(Moment(moments[-1].at + 1.0, frozenset(table.facts())))
    assert evaluate(one.criterion, moments).success
    table.things[table.of("block")[-1]] = 0.0, 0.4, 0.0
    moments.append(Moment(99.0, frozenset(table.facts())))
    assert not evaluate(one.criterion, moments).success
