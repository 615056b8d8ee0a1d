# SPDX-License-Identifier: Apache-2.0
"""Standing guidelines with a condition and a task: when one fires, without any model."""

from __future__ import annotations

import pytest
from guideline_kit import ENGAGE, GREET, PERSON, Guideline, Watched
from process_desk import PAUSED, REACTIVE, RUNS

from skill_kernel.observation.model import Observation


@pytest.mark.parametrize("model", [True, False], ids=["with a model", "offline"])
def test_a_condition_with_a_task_fires_without_asking_anybody(model: bool) -> None:
    desk = Watched(GREET, model=model)
    desk.sees("chair")
    assert not desk.fired
    desk.sees("person")
    ((name, process),) = desk.fired
    assert (name, process.instruction, process.source, process.door, process.sender) == (
        "greet",
        "say hello",
        REACTIVE,
        "guideline",
        "greet",
    )
    assert desk.times_asked() == 0


def test_it_fires_once_for_as_long_as_the_condition_holds() -> None:
    desk = Watched(GREET, model=False)
    desk.sees("person", for_s=1.0)
    desk.ends(desk.fired[0][1].process_id)
    desk.sees("person", for_s=30.0)
    assert len(desk.fired) == 1


def test_a_flicker_of_the_detector_is_no_new_person() -> None:
    desk = Watched(GREET, model=False)
    desk.sees("person")
    desk.ends(desk.fired[0][1].process_id)
    desk.clock.run(until_s=desk.clock.now() + 20.0)
    for _ in range(5):
        desk.sees(for_s=0.6)
        desk.sees("person")
    assert len(desk.fired) == 1
    desk.sees(for_s=1.4)
    desk.sees("person")
    assert len(desk.fired) == 2


def test_it_rests_after_its_process_and_never_has_two() -> None:
    desk = Watched(GREET, model=False)
    desk.sees("person")
    for _ in range(3):
        desk.sees(for_s=2.0)
        desk.sees("person", for_s=1.0)
    assert len(desk.fired) == 1, "its process still lives"
    desk.ends(desk.fired[0][1].process_id)
    desk.sees(for_s=2.0)
    desk.sees("person", for_s=4.0)
    assert len(desk.fired) == 1, "it rests for ten seconds after that"
    desk.sees("person", for_s=6.0)
    assert len(desk.fired) == 2, "the condition that came true meanwhile still holds"


def test_also_a_process_from_before_counts_as_its_own() -> None:
    desk = Watched(GREET, model=False)
    desk.core.instruct("say hello", door="guideline", sender="greet", source=REACTIVE)
    desk.sees("person")
    assert not desk.fired


def test_a_stale_or_missing_field_fires_nothing() -> None:
    desk = Watched(GREET, Guideline("dark", "bark", "not visible('person')", "bark"), model=False)
    desk.sees("person", age_s=1.5)
    desk.loop.observe(Observation(desk.clock.now()))
    assert not desk.fired
    desk.sees(age_s=1.5)
    assert not desk.fired, "that nobody is seen now is not known either"


def test_nothing_fires_while_halted_and_what_came_true_then_is_past() -> None:
    desk = Watched(GREET, ENGAGE)
    desk.sees("chair")
    desk.model.last.answer("<nothing/>")
    desk.halting = True
    desk.sees("person", for_s=3.0)
    desk.halting = False
    asked = desk.times_asked()
    desk.sees("person", for_s=3.0)
    assert not desk.fired and desk.times_asked() == asked
    desk.sees(for_s=2.0)
    desk.sees("person")
    assert [name for name, _ in desk.fired] == ["greet"]


def test_nothing_fires_between_a_stop_word_and_the_halt() -> None:
    desk = Watched(GREET, ENGAGE)
    desk.sees("chair")
    desk.halting = True
    desk.sees("person", for_s=1.0)
    desk.model.last.answer('<react guideline="engage">say hello</react>')
    assert not desk.fired


def test_the_table_decides_for_a_guideline_as_for_anybody() -> None:
    desk = Watched(GREET, model=False)
    patrol = desk.says("patrol")
    desk.wants_legs(patrol)
    desk.sees("person")
    react = desk.fired[0][1].process_id
    desk.wants_legs(react)
    assert desk.status(patrol, react) == [PAUSED, RUNS] and desk.process(patrol).displaced_by == react
    desk.ends(react)
    desk.answer()
    assert desk.status(patrol) == [RUNS]


def test_two_at_once_begin_in_the_order_they_were_written() -> None:
    desk = Watched(GREET, Guideline("bark", "bark", PERSON, "bark"), model=False)
    desk.sees("person")
    assert [name for name, _ in desk.fired] == ["greet", "bark"]


def test_too_many_processes_are_told_and_the_guideline_rests() -> None:
    desk = Watched(GREET, model=False)
    for _ in range(4):
        desk.says()
    desk.sees("person", for_s=2.0)
    assert not desk.fired and len(desk.told.notices) == 1 and "greet" in desk.told.notices[0]


def test_a_broken_condition_hurts_nobody_else() -> None:
    desk = Watched(Guideline("odd", "odd", "1.0 / (count('ball') + 0.0) > 2.0", "bark"), GREET, model=False)
    desk.sees("person")
    assert [name for name, _ in desk.fired] == ["greet"]
