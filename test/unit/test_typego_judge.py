# SPDX-License-Identifier: Apache-2.0
"""The judge of TypeGo's tasks believes what was true, and nothing that a planner says of itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from typego_kit import ADDED, Story, reasons

from bench.evaluation.tasks import TASKS, Setting, setting
from bench.evaluation.truth import number_said
from skill_kernel.codes import ModelCode, TaskCode

PERSON = Setting((0.0, 0.0, 0.0), person=(-1.5, 0.2, 0.0))
HERE = Setting((2.0, 0.0, 0.0))
OFFICE = Setting((5.0, 2.4, -1.57), door_shut=True)
KITCHEN = Setting((0.9, 2.3, math.pi), chair=(4.0, 0.7, 0.0))
BALL = Setting((10.4, 2.8, 0.0), ball=(8.5, 1.6))
NO_BALL = Setting((10.4, 2.8, 0.0))


def test_who_faces_the_person_at_the_end_has_turned_around() -> None:
    assert reasons("T1", PERSON, Story(PERSON).face(-1.5, 0.2).end()) == ""
    assert reasons("T1", PERSON, Story(PERSON).face(-1.5, 0.2).end("FAILED")) == "", "what the planner thinks does not count"


@pytest.mark.parametrize(
    ("tell", "why"),
    [
        (lambda s: s.rest(2.0), "the person is 172 degrees from where it faces"),
        (lambda s: s.walk(turn_deg=150.0), "22 degrees from where it faces"),
        (lambda s: s.face(-1.5, 0.2).walk(ahead=1.2), "1.2 m from its start"),
    ],
)
def test_who_does_not_face_the_person_has_not(tell: Callable[[Story], Story], why: str) -> None:
    assert why in reasons("T1", PERSON, tell(Story(PERSON)).end())


def test_back_left_left_and_three_nods_is_all_of_it() -> None:
    assert reasons("T2", HERE, Story(HERE).walk(-0.5).walk(turn_deg=90).walk(turn_deg=88).nod(3).end()) == ""


@pytest.mark.parametrize(
    ("tell", "why"),
    [
        (lambda s: s.walk(turn_deg=180).walk(-0.5).nod(3), "0.00 m back when it began to turn"),
        (lambda s: s.walk(-0.5).walk(turn_deg=90).nod(3), "turned 90 degrees to the left when it nodded"),
        (lambda s: s.walk(-0.5).walk(turn_deg=-178).nod(3), "turned -178 degrees"),
        (lambda s: s.walk(-0.5).nod(3).walk(turn_deg=180), "turned 0 degrees to the left when it nodded"),
        (lambda s: s.walk(-0.5).walk(turn_deg=180).nod(2), "nodded 2 times"),
        (lambda s: s.walk(-0.5).walk(turn_deg=180).nod(4), "nodded 4 times"),
        (lambda s: s.walk(0.5).walk(turn_deg=180).nod(3), "-0.50 m back"),
        (lambda s: s.walk(-0.5).walk(turn_deg=180).nod(3).sit(), "posture is 'sit'"),
    ],
)
def test_a_part_that_lacks_or_comes_in_another_order_is_named(tell: Callable[[Story], Story], why: str) -> None:
    assert why in reasons("T2", HERE, tell(Story(HERE)).end())


def tried() -> Story:
    """T3 until its walk has failed."""
    story = Story(OFFICE).rest(4.0)
    return story.call("goto_waypoint", 1.0, 3.0, outcome="FAILED", told="no way", waypoint="hallway_middle").rest(1.0)


REPORTS = [
    ("FAILED", TaskCode.CALL_FAILED, "", ""),
    ("FAILED", TaskCode.GIVEN_UP, "", ""),
    ("SUCCESS", 0, "I cannot get out, the door is shut.", ""),
    ("SUCCESS", 0, "", "no failure was reported"),
    ("SUCCESS", 0, "I am in the hallway.", "it said that it had come there"),
    ("FAILED", ModelCode.MODEL_TIMEOUT, "", "no failure was reported"),
    ("", 0, "The way is blocked.", "did not end within 120 s"),
]


@pytest.mark.parametrize(("status", "code", "said", "why"), REPORTS)
def test_the_shut_door_must_be_reported_and_in_time(status: str, code: int, said: str, why: str) -> None:
    story = tried().say(said) if said else tried()
    found = reasons("T3", OFFICE, story.end(status, "told", code))
    assert why in found and bool(found) == bool(why)


@pytest.mark.parametrize(("status", "code", "said"), [(*r[:2], t) for r in REPORTS for t in (r[2], "I am sorry, I cannot.")])
def test_who_did_not_try_the_door_has_found_out_nothing(status: str, code: int, said: str) -> None:
    assert "did not try the way" in reasons("T3", OFFICE, Story(OFFICE).rest(4.0).say(said).end(status, "told", code))


@pytest.mark.parametrize(
    ("outcome", "ended", "arguments", "did"),
    [
        ("FAILED", 3.0, {"waypoint": "hallway_west"}, True),
        ("FAILED", 3.0, {"x_m": "5.2", "y_m": 0.0}, True),
        ("FAILED", 3.0, {"waypoint": "office"}, False),
        ("FAILED", 3.0, {"x_m": 5.2, "y_m": 3.0}, False),
        ("FAILED", 3.0, {}, False),
        ("FAILED", 3.0, {"x_m": "far", "y_m": 1.0}, False),
        ("FAILED", 1.0, {"waypoint": "hallway_west"}, False),
        ("REFUSED", 3.0, {"waypoint": "hallway_west"}, False),
        ("DONE", 3.0, {"waypoint": "hallway_west"}, False),
        ("INTERRUPTED", 3.0, {"waypoint": "hallway_west"}, False),
    ],
)
def test_the_way_was_tried_by_a_call_out_of_the_office_that_began_and_failed(
    outcome: str, ended: float, arguments: dict[str, object], did: bool
) -> None:
    story = Story(OFFICE).rest(4.0).call("nav", 1.0, ended, outcome=outcome, **arguments)
    assert ("did not try" in reasons("T3", OFFICE, story.end("FAILED", "told", TaskCode.CALL_FAILED))) is not did
    other = Story(OFFICE).rest(4.0).call("nav", 1.0, ended, outcome=outcome, process=ADDED, **arguments)
    assert "did not try" in reasons("T3", OFFICE, other.end("FAILED", "told", TaskCode.CALL_FAILED)), "somebody else did"


def test_the_way_was_tried_by_who_came_to_the_door() -> None:
    story = Story(OFFICE).go(5.2, 1.7, -1.57)
    assert reasons("T3", OFFICE, story.say("The door is shut.").end("SUCCESS")) == ""


def test_a_robot_that_got_out_was_not_stopped_by_the_door() -> None:
    assert "not in the office" in reasons("T3", OFFICE, Story(OFFICE).go(5.2, 0.0, 0.0).end("FAILED", "tired"))


def test_a_picture_counts_where_the_hallways_chair_was_truly_in_view(tmp_path: Path) -> None:
    story = Story(KITCHEN).go(1.5, 0.0, 0.0).face(4.0, 0.7).picture(tmp_path)
    assert reasons("T4", KITCHEN, story.end()) == ""


@pytest.mark.parametrize(
    ("tell", "why"),
    [
        (lambda s, f: s.picture(f), "taken in 'kitchen'"),
        (lambda s, f: s.go(1.5, 0.0, math.pi).picture(f), "aside and 2.6 m away"),
        (lambda s, f: s.go(-1.3, 0.0, 0.1).picture(f), "5.3 m away"),
        (lambda s, f: s.go(1.5, 0.0, 0.2), "no picture was taken"),
        (lambda s, f: s.go(1.5, 0.0, 0.27).call("take_pic", s.now, s.now, told="picture kept as /gone.png"), "on disk"),
        (lambda s, f: s.go(1.5, 0.0, 0.27).call("take_pic", s.now, s.now, outcome="FAILED"), "no picture was taken"),
    ],
)
def test_any_other_picture_is_of_something_else(tell: Callable[[Story, Path], Story], why: str, tmp_path: Path) -> None:
    assert why in reasons("T4", KITCHEN, tell(Story(KITCHEN), tmp_path).end())


def test_one_good_picture_among_others_is_enough(tmp_path: Path) -> None:
    story = Story(KITCHEN).picture(tmp_path).go(1.5, 0.0, 0.27).picture(tmp_path)
    assert reasons("T4", KITCHEN, story.end()) == ""


def test_two_barks_before_the_ball() -> None:
    assert reasons("T5", BALL, Story(BALL).face(8.5, 1.6).walk(1.4).bark(2).end()) == ""


@pytest.mark.parametrize(
    ("tell", "why"),
    [
        (lambda s: s.face(8.5, 1.6).walk(1.4), "did not bark"),
        (lambda s: s.face(8.5, 1.6).walk(1.4).bark(3), "barked 3 times"),
        (lambda s: s.face(8.5, 1.6).bark(2), "2.2 m away"),
        (lambda s: s.face(8.5, 1.6).walk(1.4).walk(turn_deg=90).bark(2), "degrees aside"),
    ],
)
def test_barks_elsewhere_or_others_in_number_are_none(tell: Callable[[Story], Story], why: str) -> None:
    assert why in reasons("T5", BALL, tell(Story(BALL)).end())


def test_a_ball_that_was_pushed_is_where_it_truly_is() -> None:
    story = Story(BALL).face(8.5, 1.6).walk(1.4)
    story.thing("ball", 7.8, 1.2)
    assert "m away" in reasons("T5", BALL, story.bark(2).end())


def test_without_a_ball_it_has_looked_everywhere_and_sits_at_its_start() -> None:
    assert reasons("T5", NO_BALL, Story(NO_BALL).walk(turn_deg=330, seconds=10).sit().end()) == ""


@pytest.mark.parametrize(
    ("tell", "why"),
    [
        (lambda s: s.walk(turn_deg=120).sit(), "166 degrees of the room were never in view"),
        (lambda s: s.walk(turn_deg=330, seconds=10), "posture is 'stand'"),
        (lambda s: s.walk(turn_deg=330, seconds=10).walk(1.0).sit(), "1.0 m from its start"),
        (lambda s: s.walk(turn_deg=330, seconds=10).bark(2).sit(), "barked 2 times without a ball"),
    ],
)
def test_without_a_ball_anything_else_is_named(tell: Callable[[Story], Story], why: str) -> None:
    assert why in reasons("T5", NO_BALL, tell(Story(NO_BALL)).end())


def test_a_choice_in_chinese_is_three_barks_at_the_ball_or_a_seat() -> None:
    bark = Story(BALL).face(8.5, 1.6).bark(3)
    assert reasons("C5", BALL, bark.end()) == ""
    assert reasons("C5", NO_BALL, Story(NO_BALL).walk(turn_deg=330, seconds=10).sit().end()) == ""
    assert "barked 2 times" in reasons("C5", BALL, Story(BALL).face(8.5, 1.6).bark(2).end())
    assert "posture is 'sit'" in reasons("C5", BALL, Story(BALL).face(8.5, 1.6).bark(3).sit().end())
    assert "without a ball" in reasons("C5", NO_BALL, Story(NO_BALL).walk(turn_deg=330, seconds=10).bark(3).sit().end())
    assert setting("C5", 3) == setting("T5", 3) and setting("C1", 2) == setting("T1", 2)
    claims = Story(OFFICE).say("我到走廊了。").end()
    assert "it said that it had come there" in reasons("C3", OFFICE, claims)


def interrupted(turn_deg: float = 90.0, *, moves_on: bool = False) -> Story:
    """T6 until the second task has ended."""
    story = Story(BALL).face(8.5, 1.6).walk(0.4)
    story.trace.added, story.trace.added_id, story.trace.added_status = story.now, ADDED, "SUCCESS"
    story.walk(0.9 if moves_on else 0.05, seconds=2.5 if moves_on else 0.5)
    story.state("PAUSED", "s3").state("IN_PROGRESS", process=ADDED)
    return (story if moves_on else story.rest(1.0)).walk(turn_deg=turn_deg).state("SUCCESS", process=ADDED)


def test_an_interruption_is_obeyed_and_the_first_task_goes_on() -> None:
    story = interrupted().state("IN_PROGRESS").face(8.5, 1.6).walk(0.9).bark(2)
    assert reasons("T6", BALL, story.end()) == ""


@pytest.mark.parametrize(
    ("turn_deg", "moves_on", "why"),
    [
        (0.0, False, "turned 0 degrees"),
        (-90.0, False, "turned 0 degrees"),
        (200.0, False, "turned 200 degrees"),
        (90.0, True, "did not come to rest"),
    ],
)
def test_an_interruption_that_is_not_obeyed_is_named(turn_deg: float, moves_on: bool, why: str) -> None:
    story = interrupted(turn_deg, moves_on=moves_on).state("IN_PROGRESS").face(8.5, 1.6).walk(0.9).bark(2)
    assert why in reasons("T6", BALL, story.end())


def test_a_first_task_that_never_goes_on_fails_its_own_part() -> None:
    found = reasons("T6", BALL, interrupted().end("STOPPED", "replaced"))
    assert "did not bark" in found and "did not go on" in found


def test_a_question_is_answered_with_the_true_number_while_it_walks() -> None:
    def asked(said: str) -> Story:
        story = Story(BALL).face(8.5, 1.6).walk(0.4)
        story.trace.added, story.trace.added_id = story.now, ADDED
        return story.say(said, process=ADDED).walk(1.0).bark(2)

    assert reasons("T7", BALL, asked("I explored 2 places: lounge and hallway.").end(), 2, 3) == ""
    assert reasons("T7", BALL, asked("I have been in two places.").end(), 2) == ""
    assert "said 5 places, but has been in 2 or 3" in reasons("T7", BALL, asked("I explored 5 places.").end(), 2, 3)
    assert "said no number" in reasons("T7", BALL, asked("Some.").end(), 2)
    stopped = asked("2 places.").state("PAUSED", "s3").state("IN_PROGRESS")
    assert "paused for it" in reasons("T7", BALL, stopped.end(), 2)


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("I have explored only 3 places.", 3),
        ("At once: 4 places", 4),
        ("I explored 4 places", 4),
        ("No, 2", 2),
        ("There is no place I know better; I have been in 4 rooms", 4),
        ("Thirty places", 30),
        ("eleven", 11),
        ("I have been in one hallway and 3 rooms: 4 places", 4),
        ("Two rooms and the hallway, so three places", 3),
        ("I have seen 2 different places once", 2),
        ("Only the lounge.", 1),
        ("I was there once", 1),
        ("In no place", 0),
        ("None", 0),
        ("Zero", 0),
        ("Nowhere else", None),
        ("Some.", None),
        ("", None),
        ("I stand at the phone", None),
    ],
)
def test_the_number_of_places_is_the_one_that_stands_by_the_word(said: str, number: int | None) -> None:
    assert number_said(said) == number


def test_what_is_where_nobody_knows_passes_no_judgement() -> None:
    story = Story(BALL).face(8.5, 1.6).walk(0.4)
    story.trace.added = story.now
    story.state("PAUSED", "s0").call("move_back", story.now, story.now + 1, process="reflex-keep_off-1")
    story.walk(-0.3).state("IN_PROGRESS").walk(1.2).bark(2)
    assert reasons("T8", BALL, story.end()) == "the person's true place is not known"
    lost = Story(BALL).face(8.5, 1.6).walk(1.4).bark(2)
    del lost.trace.objects["ball"]
    assert reasons("T5", BALL, lost.end()) == "the ball's true place is not known"


def test_a_reflex_must_act_pause_and_keep_apart() -> None:
    def met(*, apart: float, acts: bool = True) -> Story:
        story = Story(BALL).face(8.5, 1.6).walk(0.4)
        story.trace.added = story.now
        story.thing("person", story.x + apart * math.cos(story.yaw), story.y + apart * math.sin(story.yaw))
        if acts:
            story.state("PAUSED", "s0").call("move_back", story.now, story.now + 1, process="reflex-keep_off-1")
        story.walk(-0.3).thing("person", 7.9, -2.7)
        return story.state("IN_PROGRESS").walk(1.2).bark(2)

    assert reasons("T8", BALL, met(apart=0.7).end()) == ""
    assert "no reflex acted" in reasons("T8", BALL, met(apart=0.7, acts=False).end())
    assert "within 0.3" in reasons("T8", BALL, met(apart=0.35).end())


def test_a_halt_is_a_reason_whatever_else_was_done() -> None:
    trace = Story(PERSON).face(-1.5, 0.2).end()
    trace.notes.append((1.0, "odometry is silent"))
    assert reasons("T1", PERSON, trace) == "the robot was halted: odometry is silent"


def test_without_truth_nothing_is_judged() -> None:
    trace = Story(PERSON).end()
    trace.poses.clear()
    assert "no true pose" in reasons("T1", PERSON, trace)


def test_a_trials_world_is_the_same_each_time_and_differs_between_trials() -> None:
    for task in TASKS:
        assert setting(task, 3) == setting(task, 3)
        assert len({setting(task, n).robot for n in range(10)}) == 10
    assert {setting("T5", n).ball is None for n in range(10)} == {True, False}
    assert all(setting("T6", n) == setting("T5", 2 * n) and setting("T6", n).ball for n in range(10))
