# SPDX-License-Identifier: Apache-2.0
"""Standing guidelines that a model judges: when it is asked, when not, and what its answers begin."""

from __future__ import annotations

import math

import pytest
from guideline_kit import ENGAGE, GREET, PERSON, RULED, Guideline, Watched
from process_desk import IDLE, PAUSED, REACTIVE

from planners.processes.guidelines import BY_RULE


def settled() -> Watched:
    """Wait until what it sees at first has been asked about."""
    desk = Watched(ENGAGE)
    desk.sees("chair")
    desk.model.last.answer("<nothing/>")
    desk.sees("chair", for_s=10.0)
    return desk


def test_it_is_not_asked_while_nothing_changes() -> None:
    desk = settled()
    desk.sees("chair", for_s=60.0)
    desk.sees(for_s=0.6)
    desk.sees("chair", for_s=3.0)
    assert desk.times_asked() == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"labels": ("chair", "ball")}, "ball has come into sight"),
        ({"labels": ("chair", "person")}, "1 in sight, 0 before"),
        ({"room": "office"}, "room is “office” now"),
        ({"battery": 68.0}, "the battery is at 68 %"),
    ],
)
def test_it_is_asked_when_something_relevant_changes(change: dict[str, object], told: str) -> None:
    desk = settled()
    labels = change.pop("labels", ("chair",))
    desk.sees(*labels, **change)  # type: ignore[misc, arg-type]
    assert desk.times_asked() == 2 and any(told in why for why in desk.model.last.blocks["WHY"])
    assert desk.model.last.blocks["GUIDELINES"] == [{"name": "engage", "sentence": ENGAGE.prescription.sentence}]


def test_a_person_who_leaves_is_a_change_and_a_blink_is_none() -> None:
    desk = settled()
    desk.sees("person")
    desk.model.last.answer("<nothing/>")
    desk.sees("person", for_s=4.0)
    desk.sees(for_s=0.8)
    desk.sees("person", for_s=2.0)
    assert desk.times_asked() == 2
    desk.sees(for_s=1.6)
    assert desk.times_asked() == 3 and "left" in desk.model.last.blocks["WHY"][-1]


def test_the_battery_is_told_by_steps_not_by_every_percent() -> None:
    desk = settled()
    for percent in (80.4, 79.6, 79.0, 80.1, 79.2, 80.3):
        desk.sees("chair", battery=percent, for_s=3.0)
    assert desk.times_asked() == 1
    desk.sees("chair", battery=70.0)
    assert desk.times_asked() == 2


def test_a_task_that_ends_is_a_change_but_not_a_guidelines_own() -> None:
    desk = settled()
    task, own = desk.says("sit"), desk.core.instruct("x", door="guideline", sender="engage", source=REACTIVE).process_id
    desk.ends(own)
    desk.sees("chair", for_s=60.0)
    assert desk.times_asked() == 1
    desk.ends(task)
    desk.sees("chair")
    assert desk.times_asked() == 2 and "“sit” has ended: SUCCESS" in desk.model.last.blocks["WHY"][0]


def test_at_most_every_two_seconds_and_never_two_at_a_time() -> None:
    desk = Watched(ENGAGE)
    labels = ["person", "chair", "ball", "apple", "bottle", "door"]
    for number, _ in enumerate(labels):
        desk.sees(*labels[: number + 1], for_s=0.4)
    assert desk.times_asked() == 1, "the first is not answered yet"
    desk.model.last.answer("<nothing/>")
    desk.sees(*labels)
    assert desk.times_asked() == 2 and len(desk.model.last.blocks["WHY"]) == 5


def test_blind_asks_every_two_seconds_whatever_has_changed() -> None:
    desk = Watched(ENGAGE, blind=True)
    for _ in range(10):
        desk.sees("chair", for_s=1.0)
        desk.model.last.answer("<nothing/>")
    assert 4 <= desk.times_asked() <= 6


def test_the_models_answer_begins_a_reactive_process() -> None:
    desk = settled()
    desk.sees("person")
    desk.model.last.answer('<react guideline="engage">go to the person and say hello</react>')
    ((name, process),) = desk.fired
    assert (name, process.instruction, process.source) == ("engage", "go to the person and say hello", REACTIVE)
    desk.sees("person", "ball", "apple", for_s=5.0)
    assert desk.times_asked() == 2, "while its process lives nobody asks about it"


@pytest.mark.parametrize(
    "answer",
    [
        '<react guideline="dance">dance</react>',
        '<react guideline="engage"></react>',
        '<react guideline="engage"/>',
        '<react guideline="engage"><walk/></react>',
        '<relation process="p1" is="replace"/>',
        "of course!",
        "",
        f'<react guideline="engage">{"x" * 600}</react>',
        '<go to="kitchen"/>',
    ],
    ids=["unknown", "empty", "no body", "tags", "a relation", "words", "silence", "endless", "another element"],
)
def test_a_malformed_answer_is_repaired_once_and_begins_nothing(answer: str) -> None:
    desk = settled()
    desk.says("patrol")
    desk.sees("person")
    desk.model.last.answer(answer)
    assert desk.times_asked() == 3 and desk.model.last.blocks["FAULTS"]
    desk.model.last.answer(answer)
    assert not desk.fired and desk.times_asked() == 3 and desk.told.degrades[0][0] == BY_RULE


def test_a_stop_word_is_no_task_for_a_guideline() -> None:
    desk = settled()
    desk.sees("person")
    desk.model.last.answer('<react guideline="engage">Kalos, stop!</react>')
    assert not desk.fired and "only a person stops" in desk.told.notices[0]


def test_an_answer_is_not_followed_when_it_is_no_longer_true() -> None:
    near = Guideline("near", "engage whoever is near", PERSON)
    desk = Watched(near)
    desk.sees("person")
    question = desk.model.last
    desk.sees(for_s=2.0)
    question.answer('<react guideline="near">say hello</react>')
    assert not desk.fired and "no longer true" in desk.told.skips[0]


def test_a_guideline_that_was_switched_off_meanwhile_does_not_fire() -> None:
    desk = settled()
    desk.sees("person")
    desk.loop.set([])
    desk.model.last.answer('<react guideline="engage">say hello</react>')
    assert not desk.fired


def test_a_halt_ends_the_question() -> None:
    desk = settled()
    desk.sees("person")
    desk.halting = True
    desk.loop.close()
    assert desk.model.last.cancelled
    desk.model.last.answer('<react guideline="engage">say hello</react>')
    assert not desk.fired


def test_with_a_condition_the_model_is_asked_only_when_that_comes_true() -> None:
    desk = Watched(Guideline("near", "engage whoever is near", "distance_to('person') < 2"))
    desk.sees("ball", "chair", for_s=5.0)
    assert desk.times_asked() == 0
    desk.sees("person")
    assert desk.times_asked() == 1 and "'near' has come true" in desk.model.last.blocks["WHY"][-1]


def test_a_silent_model_is_asked_ever_less_often_and_told_of_once() -> None:
    desk = Watched(ENGAGE, blind=True)
    desk.sees("person", for_s=120.0)
    assert 4 <= desk.times_asked() <= 7
    assert len(desk.told.degrades) == 1 and desk.told.degrades[0][0] == BY_RULE


def test_a_sentence_that_is_a_plain_rule_works_without_its_model() -> None:
    offline = Watched(RULED, ENGAGE, model=False)
    offline.sees("person")
    assert [name for name, _ in offline.fired] == ["wave"]
    desk = Watched(RULED)
    desk.sees("chair")
    desk.sees("person")
    assert not desk.fired and desk.times_asked() == 1, "with a model its judgement counts"
    desk.model.last.fails()
    desk.sees("person")
    assert [p.instruction for _, p in desk.fired] == ["bark"]


def test_when_the_model_is_back_its_judgement_counts_again() -> None:
    desk = Watched(RULED, ENGAGE)
    desk.sees("person")
    desk.model.last.fails()
    desk.sees("person", for_s=6.0)
    assert desk.reactions() == ["bark"] and desk.times_asked() == 2
    desk.model.last.answer("<nothing/>")
    desk.ends(desk.fired[0][1].process_id)
    desk.clock.run(until_s=100.0)
    desk.sees(for_s=2.0)
    desk.sees("person", for_s=2.4)
    assert desk.times_asked() > 2 and len(desk.fired) == 1


def test_a_plain_rule_alone_goes_back_to_the_model_after_a_failed_answer() -> None:
    desk = Watched(RULED)
    desk.sees("chair")
    desk.sees("person")
    desk.model.last.fails()
    desk.sees("person")
    ((_, by_rule),) = desk.fired
    desk.ends(by_rule.process_id)
    desk.sees("person", "ball", for_s=31.0)
    assert desk.times_asked() == 2, "it is asked again as soon as the guideline may fire again"
    desk.model.last.answer("<nothing/>")
    desk.sees(for_s=3.0)
    desk.sees("person", for_s=3.0)
    assert desk.times_asked() > 2 and len(desk.fired) == 1, "its judgement counts, not the rule"


def test_a_stop_word_as_the_task_of_a_condition_begins_nothing() -> None:
    desk = Watched(Guideline("odd", "odd", PERSON, "Kalos, stop!"))
    desk.sees("person", for_s=2.0)
    assert not desk.fired and len(desk.told.notices) == 1 and "only a person stops" in desk.told.notices[0]


def test_several_reactions_of_one_answer_begin_in_its_order_once_each() -> None:
    desk = Watched(ENGAGE, Guideline("tell", "tell people about lunch"), Guideline("third", "x"))
    desk.sees("person")
    tell, engage = '<react guideline="tell">say lunch</react>', '<react guideline="engage">say hello</react>'
    desk.model.last.answer(f"{tell}{engage}{tell}")
    assert [name for name, _ in desk.fired] == ["tell", "engage"]


def test_a_new_guideline_is_weighed_at_once_and_what_was_known_keeps_its_state() -> None:
    desk = Watched(GREET, ENGAGE)
    desk.sees("person")
    desk.model.last.answer("<nothing/>")
    desk.clock.run(until_s=30.0)
    desk.loop.set([GREET, ENGAGE, Guideline("tell", "tell people about lunch")])
    desk.sees("person")
    assert desk.times_asked() == 2 and len(desk.fired) == 1
    assert "guideline 'tell' is new" in desk.model.last.blocks["WHY"]


def test_numbers_that_are_none_do_no_harm() -> None:
    desk = settled()
    desk.sees("chair", battery=math.nan)
    desk.sees("chair", battery=math.inf)
    assert desk.times_asked() == 1


def test_idle_behaviour_gives_way_to_a_guideline() -> None:
    desk = Watched(GREET, model=False)
    wag = desk.says("wag", IDLE)
    desk.wants_legs(wag)
    desk.sees("person")
    desk.wants_legs(desk.fired[0][1].process_id)
    assert desk.status(wag) == [PAUSED]
