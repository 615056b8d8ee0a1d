# SPDX-License-Identifier: Apache-2.0
"""Done, partly done, answered, not done: what a process's calls say of its end, in the core alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process_desk import Desk
from thorough import examples

from skill_kernel.codes import Achievement, CallCode, Outcome, TaskCode
from skill_kernel.events import CallKind
from skill_kernel.processes.process import CallPurpose, ProcessStatus, Tally

PURPOSES = {"text": CallPurpose.SPEAK, "sleep": CallPurpose.PAUSE, "run": CallPurpose.ORDER}
Ended = tuple[str, Outcome, int]
DONE, FAILED, REFUSED = Outcome.DONE, Outcome.FAILED, Outcome.REFUSED
DROPPED = (Outcome.DROPPED, int(CallCode.TURN_ENDED))


def achieved(calls: Sequence[Ended], *, success: bool = True) -> Achievement:
    tally = Tally()
    for function, outcome, code in calls:
        tally = tally.plus(function, outcome.value, code, PURPOSES.get(function, CallPurpose.ACT))
    return tally.achievement(success=success)


@pytest.mark.parametrize(
    ("calls", "success", "achievement"),
    [
        ([("walk", DONE, 0), ("text", DONE, 0)], True, Achievement.DONE),
        ([("walk", DONE, 0), ("nod", FAILED, 130)], True, Achievement.PARTLY_DONE),
        ([("walk", DONE, 0), ("nod", *DROPPED)], True, Achievement.PARTLY_DONE),
        ([("nod", FAILED, 130), ("walk", *DROPPED), ("nod", DONE, 0), ("walk", DONE, 0)], True, Achievement.DONE),
        ([("walk", DONE, 0), ("nod", Outcome.DROPPED, 0)], True, Achievement.DONE),
        ([("walk", DONE, 0), ("text", *DROPPED)], True, Achievement.DONE),
        ([("walk", Outcome.INTERRUPTED, 140)], True, Achievement.DONE),
        ([("walk", Outcome.INTERRUPTED, 140)], False, Achievement.PARTLY_DONE),
        ([("walk", DONE, 0)], False, Achievement.PARTLY_DONE),
        ([("text", DONE, 0), ("sleep", DONE, 0), ("text", DONE, 0)], True, Achievement.ANSWERED),
        ([("sleep", DONE, 0)], True, Achievement.DONE),
        ([("text", DONE, 0)], False, Achievement.NOT_DONE),
        ([("walk", REFUSED, 104), ("text", DONE, 0)], True, Achievement.NOT_DONE),
        ([("run", DONE, 0)], True, Achievement.NOT_DONE),
        ([], True, Achievement.NOT_DONE),
    ],
)
def test_an_end_is_named_after_what_came_of_the_calls(calls: list[Ended], success: bool, achievement: Achievement) -> None:
    assert achieved(calls, success=success) is achievement


ENDED = st.tuples(
    st.sampled_from(["walk", "nod", "text", "sleep", "run"]),
    st.sampled_from(list(Outcome)),
    st.sampled_from([0, int(CallCode.TURN_ENDED), int(CallCode.INTERRUPTED_BY), int(CallCode.SKILL_FAILED)]),
)


@settings(max_examples=examples(400))
@given(st.lists(ENDED, max_size=8), st.booleans())
def test_an_achievement_never_claims_more_than_the_calls(calls: list[Ended], success: bool) -> None:
    found = achieved(calls, success=success)
    done = {function for function, outcome, _ in calls if outcome is DONE}
    begun = {function for function, outcome, _ in calls if outcome in (DONE, Outcome.INTERRUPTED)}
    bad = {function for function, outcome, _ in calls if outcome in (FAILED, REFUSED)}
    if found is Achievement.DONE:
        assert success and begun & {"walk", "nod", "sleep"} and bad <= done
    if found is Achievement.ANSWERED:
        assert success and "text" in begun and not begun & {"walk", "nod"} and bad <= done
    if not begun & {"walk", "nod", "sleep"}:
        assert found in (Achievement.ANSWERED, Achievement.NOT_DONE)
    if not success:
        assert found in (Achievement.PARTLY_DONE, Achievement.NOT_DONE)
    if begun & {"walk", "nod"}:
        assert found in (Achievement.DONE, Achievement.PARTLY_DONE)


def test_a_process_tells_it_at_its_end_and_not_before() -> None:
    desk = Desk()
    name = desk.says()
    desk.call_ends(name, Outcome.DONE, 0)
    assert desk.process(name).achievement is Achievement.OPEN
    desk.finishes(name)
    assert desk.process(name).achievement is Achievement.DONE


def test_a_plan_that_gave_up_half_way_and_one_that_began_nothing() -> None:
    desk = Desk()
    half, none = desk.says(), desk.says()
    desk.call_ends(half, Outcome.DONE, 0)
    for name in (half, none):
        desk.plan_ends(name, desk.process(name).epoch, int(TaskCode.GIVEN_UP), "the ball is gone")
    assert [desk.process(n).achievement for n in (half, none)] == [Achievement.PARTLY_DONE, Achievement.NOT_DONE]


def test_who_is_stopped_in_the_midst_of_a_walk_has_done_a_part() -> None:
    desk = Desk()
    walks, waits = desk.says(), desk.says("nod")
    desk.wants_legs(walks)
    for name in (walks, waits):
        desk.core.stop(name, "enough")
    assert [desk.process(n).status for n in (walks, waits)] == [ProcessStatus.STOPPED] * 2
    assert [desk.process(n).achievement for n in (walks, waits)] == [Achievement.PARTLY_DONE, Achievement.NOT_DONE]


def test_steps_that_a_better_plan_replaced_are_not_missed() -> None:
    desk = Desk()
    name = desk.says()
    desk.tell(CallKind.ENDED, name, call_id="a", function="nod", outcome=Outcome.DROPPED, error_code=int(CallCode.TURN_ENDED))
    desk.core.steps_replaced(name)
    desk.call_ends(name, Outcome.DONE, 0)
    desk.finishes(name)
    assert desk.process(name).achievement is Achievement.DONE
