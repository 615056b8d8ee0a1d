# SPDX-License-Identifier: Apache-2.0
"""The world verdict of `closed_loop`: what is believed of doors, things and hands, and which actions that lets pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kitchen_kit import Kitchen, answers

from planners.strategies.closed_loop.actions import Action, read_action
from planners.strategies.closed_loop.world import HALTED_S, LAG_S, Fit, World
from skill_kernel.codes import CallCode, Outcome
from skill_kernel.events import CallEvent, CallKind

MAX_TRIES = 2


class Bench:
    """A world on observations that the test writes."""

    def __init__(self, **fields: Any) -> None:
        self.now_s = 100.0
        self._kitchen = Kitchen(answers([]))
        self.world = World(self._kitchen.views, lambda: self.now_s, MAX_TRIES)  # type: ignore[arg-type]
        self.see(**fields)

    def see(self, **fields: Any) -> None:
        """Let hebe see this, and atlas nothing."""
        self._kitchen.observed = {"hebe": fields, "atlas": {}}
        self.world.look()

    def see_both(self, hebe: dict[str, Any], atlas: dict[str, Any]) -> None:
        self._kitchen.observed = {"hebe": hebe, "atlas": atlas}
        self.world.look()

    def act(self, text: str) -> Action:
        return read_action(text, self._kitchen.views)  # type: ignore[arg-type]

    def weigh(self, text: str, *supposed: str) -> tuple[Fit, str]:
        return self.world.weigh(self.act(text), map(self.act, supposed))

    def ended(self, text: str, outcome: Outcome = Outcome.DONE, code: int = 0, why: str = "") -> None:
        self.world.ended(self.act(text), CallEvent(kind=CallKind.ENDED, outcome=outcome, error_code=code, error_msg=why))


PICK = 'pick_from("hebe", "tea", "fridge")'
SHUT, OPENED = {"fridge": "shut"}, {"fridge": "open"}


@pytest.mark.parametrize(
    ("seen", "action", "fit", "why"),
    [
        ({"doors": SHUT}, PICK, Fit.UNFIT, "fridge is shut; it must be opened first"),
        ({"doors": OPENED, "things": {"tea": "fridge"}, "hand": ""}, PICK, Fit.FITS, ""),
        ({"doors": OPENED, "hand": ""}, PICK, Fit.DOUBTED, ""),
        ({"things": {"tea": "sink"}, "hand": ""}, PICK, Fit.UNFIT, "tea is in sink, not in fridge"),
        ({"things": {"tea": ""}, "hand": ""}, PICK, Fit.DOUBTED, ""),
        (
            {"things": {"tea": "fridge"}, "hand": "cup"},
            PICK,
            Fit.UNFIT,
            "the hand of hebe holds cup; it must be put down first",
        ),
        ({"doors": SHUT}, 'open("hebe", "fridge")', Fit.FITS, ""),
        ({}, 'open("hebe", "fridge")', Fit.FITS, ""),
        ({"doors": {"fridge": "ajar"}}, 'open("hebe", "fridge")', Fit.FITS, ""),
        ({"doors": OPENED}, 'open("hebe", "fridge")', Fit.UNFIT, "fridge is open already"),
        ({"hand": ""}, 'release_to("hebe", "table")', Fit.UNFIT, "the hand of hebe is empty"),
        ({"hand": "tea"}, 'release_to("hebe", "table")', Fit.FITS, ""),
        ({}, 'release_to("hebe", "table")', Fit.DOUBTED, ""),
        ({"hand": "tea"}, 'release_to("hebe", "fridge")', Fit.DOUBTED, ""),
        ({"hand": "tea", "doors": SHUT}, 'release_to("hebe", "fridge")', Fit.UNFIT, "fridge is shut"),
        ({"hand": "tea", "doors": OPENED}, 'release_to("hebe", "fridge")', Fit.FITS, ""),
        ({"hand": "tea"}, 'pick_from("atlas", "tea", "table")', Fit.UNFIT, "hebe holds tea"),
        ({}, 'go_to("hebe", "in_front_of_fridge")', Fit.FITS, ""),
        ({}, 'wave("atlas", 1.0)', Fit.DOUBTED, ""),
        ({"doors": {"stale_s": 9.0, "last": SHUT}}, 'open("hebe", "fridge")', Fit.FITS, ""),
        ({"doors": {"missing": "nobody tells"}, "things": "rubbish", "hand": {"stale_s": 3}}, PICK, Fit.DOUBTED, ""),
    ],
)
def test_what_is_seen_decides(seen: dict[str, Any], action: str, fit: Fit, why: str) -> None:
    found, told = Bench(**seen).weigh(action)
    assert found is fit and why in told and bool(told) == (fit is Fit.UNFIT)


def test_outcomes_are_believed_where_nobody_sees() -> None:
    bench = Bench()
    bench.ended('open("hebe", "fridge")')
    assert bench.weigh('open("hebe", "fridge")')[0] is Fit.UNFIT and bench.weigh(PICK)[0] is Fit.DOUBTED
    bench.ended(PICK)
    assert bench.weigh('pick_from("hebe", "cup", "sink")')[1].startswith("the hand of hebe holds tea")
    assert bench.weigh('pick_from("atlas", "tea", "table")')[1] == "hebe holds tea"
    bench.ended('release_to("hebe", "table")')
    assert bench.weigh('release_to("hebe", "table")')[1] == "the hand of hebe is empty"
    bench.ended('go_to("hebe", "in_front_of_table")')
    assert bench.weigh('go_to("hebe", "in_front_of_table")')[0] is Fit.UNFIT
    assert bench.weigh('go_to("hebe", "in_front_of_fridge")')[0] is Fit.FITS


def test_what_failed_leaves_nothing_believed_and_is_doubted_when_it_is_tried_again() -> None:
    bench = Bench(things={"tea": "fridge"}, doors=OPENED, hand="")
    bench.ended('go_to("hebe", "in_front_of_fridge")')
    bench.ended(PICK, Outcome.FAILED)
    bench.see(things={"tea": "fridge"}, doors=OPENED, hand="")
    assert bench.weigh(PICK)[0] is Fit.DOUBTED
    assert bench.weigh('go_to("hebe", "in_front_of_fridge")')[0] is Fit.FITS, "it may have been pushed away"
    bench.ended('open("atlas", "drawer")')
    assert bench.weigh(PICK)[0] is Fit.DOUBTED, "the other robot's drawer has nothing to do with it"
    bench.ended('open("hebe", "fridge")')
    assert bench.weigh(PICK)[0] is Fit.FITS, "something was done since"


@pytest.mark.parametrize(
    ("change", "free"),
    [
        (lambda b: b.ended('open("atlas", "drawer")'), False),
        (lambda b: b.ended('pick_from("hebe", "tea", "sink")', Outcome.FAILED), False),
        (lambda b: b.see(things={"tea": "fridge", "cup": "table"}, doors=OPENED, hand=""), False),
        (lambda b: b.ended('go_to("hebe", "in_front_of_table")'), True),
        (lambda b: b.ended('pick_from("atlas", "tea", "table")'), True),
        (lambda b: b.see(things={"tea": "sink"}, doors=OPENED), True),
        (lambda b: b.see(things={"tea": "fridge"}, doors=SHUT), True),
        (lambda b: b.world.allow_again(), True),
    ],
)
def test_what_failed_too_often_is_spent_until_something_that_it_rests_on_has_changed(
    change: Callable[[Bench], None], free: bool
) -> None:
    bench = Bench(things={"tea": "fridge", "cup": "sink"}, doors=OPENED, hand="")
    other_order = bench.act('pick_from(space="fridge", object="tea", robot="hebe")')
    bench.ended(PICK, Outcome.FAILED)
    bench.ended(PICK, Outcome.INTERRUPTED)
    bench.ended(PICK, Outcome.REFUSED, int(CallCode.HALTED))
    assert not bench.world.spent(other_order), "it failed once"
    bench.ended(PICK, Outcome.REFUSED, int(CallCode.OUT_OF_RANGE), "out of reach")
    why = "it has failed 2 times and nothing that it rests on has changed since; at last: out of reach"
    assert bench.world.spent(other_order) == why
    assert not bench.world.spent(bench.act('pick_from("hebe", "tea", "sink")'))
    change(bench)
    assert bench.world.spent(other_order) == ("" if free else why)


def test_observations_that_lag_behind_an_action_make_it_doubtful_and_no_more() -> None:
    bench = Bench(doors=SHUT, things={"tea": "fridge"})
    bench.ended('open("hebe", "fridge")')
    bench.see(doors=SHUT, things={"tea": "fridge"})
    assert bench.weigh(PICK)[0] is Fit.DOUBTED
    bench.see(doors=OPENED, things={"tea": "fridge"})
    assert bench.weigh(PICK)[0] is Fit.FITS
    bench.now_s += LAG_S
    bench.see(doors=SHUT, things={"tea": "fridge"})
    assert bench.weigh(PICK)[1].startswith("fridge is shut"), "by then somebody has shut it"


def test_a_thing_that_two_robots_see_in_two_places_is_in_doubt() -> None:
    bench = Bench()
    bench.see_both({"things": {"apple": "table"}}, {"things": {"apple": "drawer"}})
    assert bench.weigh('pick_from("atlas", "apple", "drawer")')[0] is Fit.DOUBTED
    bench.see_both({"things": {"apple": "table"}}, {"things": {"apple": "table"}})
    assert bench.weigh('pick_from("atlas", "apple", "table")')[0] is Fit.FITS


def test_a_thing_that_is_held_is_not_where_it_was_last_seen() -> None:
    bench = Bench()
    bench.see_both({"things": {"apple": "table"}}, {"hand": "apple"})
    assert bench.weigh('pick_from("hebe", "apple", "table")')[1] == "atlas holds apple"


def test_a_halted_robot_is_left_out_until_it_may_have_been_let_go() -> None:
    bench = Bench()
    bench.ended('open("hebe", "fridge")', Outcome.INTERRUPTED, int(CallCode.HALTED))
    assert bench.weigh('go_to("hebe", "in_front_of_table")')[1].startswith("hebe is halted")
    assert bench.weigh('open("atlas", "drawer")')[0] is Fit.FITS, "the other one goes on"
    bench.now_s += HALTED_S
    assert bench.weigh('go_to("hebe", "in_front_of_table")')[0] is Fit.FITS, "the kernel has the last word"


def test_what_runs_is_supposed_to_end_well() -> None:
    bench = Bench(doors=SHUT, hand="")
    assert bench.weigh(PICK, 'open("hebe", "fridge")')[0] is Fit.DOUBTED
    assert bench.weigh('release_to("hebe", "table")', 'open("hebe", "fridge")', PICK)[0] is Fit.FITS
    assert bench.weigh('release_to("hebe", "table")')[0] is Fit.UNFIT, "nothing of it is believed before it is true"
