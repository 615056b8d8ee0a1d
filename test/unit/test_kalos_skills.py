# SPDX-License-Identifier: Apache-2.0
"""Kalos's skills: they do what their names say, stop in time, rest while paused and go on with what remains."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from kalos_fake import BLOCKED, Kalos, Pause, Stop, config, registry

from ghostshell_ros.robots.kalos import body
from ghostshell_ros.robots.kalos.skills.locomotion import HALLWAY, PLACES
from skill_kernel.codes import CallCode
from skill_kernel.robot import RobotConfig, RobotConfigError, find_file
from skill_kernel.skills.arguments import unknown_limits
from skill_kernel.skills.drivers import DriverResult

ATOMIC = {"take_pic"}
PAUSABLE = {
    "move_forward",
    "move_back",
    "strafe",
    "rotate",
    "nav",
    "goto_waypoint",
    "patrol",
    "search",
    "approach",
    "follow",
    "speak",
    "ask",
}
OTHERS = {"stand", "sit", "nod", "bark", "query_memory"}
WALKS = [
    ("move_forward", {"distance_m": 2.0}),
    ("move_back", {"distance_m": 2.0}),
    ("strafe", {"direction": "right", "distance_m": 2.0}),
    ("rotate", {"angle_deg": 200.0}),
    ("goto_waypoint", {"waypoint": PLACES[0]}),
    ("nav", {"x_m": 1.0, "y_m": 2.0}),
    ("patrol", {"area": "hallway"}),
    ("search", {"target": "ball"}),
    ("follow", {}),
    ("sit", {}),
    ("nod", {"times": 5}),
    ("bark", {"times": 8}),
    ("query_memory", {"question": "How many places have you explored?"}),
    ("speak", {"text": "A long sentence that is worth saying at length."}),
    ("ask", {"question": "Shall I?"}),
]


def test_every_skill_is_described_bounded_and_on_a_subsystem_of_the_robot() -> None:
    assert {s.name for s in registry()} == ATOMIC | PAUSABLE | OTHERS
    for skill in registry():
        assert len(skill.description) > 4 and unknown_limits(skill, config().limits) == [], skill.name
        assert set(skill.subsystems) <= set(config().subsystems), skill.name
        assert skill.interruptible == (skill.name not in ATOMIC), skill.name
        assert skill.pausable == (skill.name in PAUSABLE), skill.name
        assert skill.stop_s is not None or skill.name in ATOMIC, skill.name
    assert registry().text_skill is not None and registry().text_skill.name == "speak"


@pytest.mark.parametrize(("name", "arguments"), WALKS, ids=[w[0] for w in WALKS])
def test_a_stopped_skill_ends_as_interrupted_within_its_stop_time(name: str, arguments: dict[str, object]) -> None:
    kalos = Kalos()
    kalos.world.things = [("person", 20.0, 0.0)]
    result = kalos.run(name, stop_at=0.7, **arguments)
    skill = registry().get(name)
    assert result.interrupted and not result.ok
    assert kalos.world.now <= 0.7 + skill.stop_s


def test_the_answer_of_the_memory_is_the_result_and_is_said_while_nothing_moves() -> None:
    kalos = Kalos()
    kalos.drivers.remembered = "I explored 3 places: hallway, kitchen and office."
    result = kalos.run("query_memory", question="How many places have you explored?")
    assert result.ok and result.message == kalos.drivers.remembered
    asked, *said = kalos.drivers.calls
    assert asked == ("memory", "How many places have you explored?")
    assert {c[0] for c in said} == {"speak"} and " ".join(c[1] for c in said) == kalos.drivers.remembered
    quiet = Kalos()
    assert quiet.run("query_memory", question="Who did you see?", aloud=False).ok
    assert [c[0] for c in quiet.drivers.calls] == ["memory"]


def test_an_answer_that_cannot_be_said_at_once_is_said_when_the_other_text_is_over_and_a_missing_memory_is_a_failure() -> None:
    kalos = Kalos()
    kalos.drivers.refusals = 3
    assert kalos.run("query_memory", question="Who did you see?").ok
    assert [c[0] for c in kalos.drivers.calls][:5] == ["memory", "speak", "speak", "speak", "speak"]
    kalos.drivers.remembered = None
    result = kalos.run("query_memory", question="Who did you see?")
    assert not result.ok and result.error_code == 565 and "running" in result.message


def test_the_answer_of_a_person_is_the_result_of_the_question_which_is_said_aloud() -> None:
    kalos = Kalos()
    kalos.drivers.answer = "yes"
    result = kalos.run("ask", question="Shall I open the door?", choices="yes, no")
    assert result.ok and (result.message, result.value) == ("yes", "yes")
    said, (name, goal) = kalos.drivers.calls
    assert said == ("speak", "Shall I open the door?") and name == "ask_human"
    goal.pop("timeout_s")
    assert goal == {"process_id": "p", "question": "Shall I open the door?", "choices": ["yes", "no"]}


def test_a_question_that_nobody_answers_is_a_failure_and_one_of_a_paused_call_is_taken_back_and_asked_again() -> None:
    kalos = Kalos()
    result = kalos.run("ask", question="Shall I?")
    assert not result.ok and not result.interrupted and result.error_code == 540
    kalos = Kalos()
    kalos.drivers.answer = "go on"
    result = kalos.run("ask", question="What now?", pause=(1.5, 40.0))
    assert result.message == "go on" and kalos.world.now == pytest.approx(41.0, abs=0.1)
    assert [c[0] for c in kalos.drivers.calls] == ["speak", "ask_human", "ask_human"] and len(kalos.pause.rests) == 1


@pytest.mark.parametrize("code", [0, CallCode.STOP_UNCERTAIN, CallCode.DRIVER_LOST])
def test_a_question_is_asked_again_also_where_the_pause_was_over_before_it_was_taken_back(code: int) -> None:
    kalos = Kalos()
    ends = [DriverResult(False, int(code), cancelled=not code), DriverResult(True, values={"answer": "yes"})]
    kalos.drivers.ask_human = lambda **goal: ends.pop(0)
    assert kalos.run("ask", question="Shall I?").message == "yes" and ends == []


def test_a_walk_paused_at_a_metre_and_a_half_goes_on_with_the_half_that_remains() -> None:
    kalos = Kalos()
    result = kalos.run("move_forward", distance_m=2.0, pause=(4.0, 60.0))
    assert result.ok and kalos.world.walked == pytest.approx(2.0, abs=0.03)
    asked = [c[1] for c in kalos.drivers.calls if c[0] == "drive"]
    assert asked == [2.0, pytest.approx(0.5, abs=0.06)]
    assert kalos.pause.rests == [pytest.approx(4.0, abs=0.06)]


@pytest.mark.parametrize("heard", [True, False], ids=["the driver tells", "by odometry"])
def test_a_walk_paused_again_and_again_still_makes_its_way_once(heard: bool) -> None:
    kalos = Kalos()
    kalos.drivers.answers_cancel = heard
    kalos.run("stand")
    for begin in (0.5, 1.5, 2.5):
        kalos.run("move_forward", distance_m=1.0, pause=(kalos.world.now + begin, kalos.world.now + 50.0))
    assert kalos.world.walked == pytest.approx(3.0, abs=0.07)


@pytest.mark.parametrize(("moved_m", "counts"), [(0.08, True), (0.14, True), (1.5, False)])
def test_what_it_coasts_after_a_pause_began_is_part_of_its_way(moved_m: float, counts: bool) -> None:
    kalos = Kalos()

    class Coasting(Pause):
        def rest(self) -> None:
            kalos.drivers._go("distance", moved_m)
            super().rest()

    kalos.stop = Stop(kalos.world)
    kalos.pause = Coasting(kalos.world, kalos.stop, 4.0, 60.0)
    result = kalos.call("move_forward", distance_m=2.0)
    expected = 2.0 if counts else 2.0 + moved_m
    assert result.ok and kalos.world.walked == pytest.approx(expected, abs=0.03)
    assert result.message == f"walked {2.0:.2f} m of 2 m"


def test_a_walk_stopped_while_it_is_paused_ends() -> None:
    kalos = Kalos()
    result = kalos.run("move_forward", distance_m=2.0, pause=(3.0, 60.0), stop_at=10.0)
    assert result.interrupted and "1.0" in result.message and kalos.world.walked < 1.1


def test_a_turn_of_more_than_a_half_is_made_whole_over_a_pause() -> None:
    kalos = Kalos()
    assert kalos.run("rotate", angle_deg=-300.0, pause=(3.0, 9.0)).ok
    assert math.degrees(kalos.world.turned) == pytest.approx(-300.0, abs=2.0)


def test_back_and_aside_go_the_right_way() -> None:
    kalos = Kalos()
    assert kalos.run("move_back", distance_m=0.5).ok and kalos.world.walked == pytest.approx(-0.5, abs=0.03)
    assert kalos.run("strafe", direction="right", distance_m=0.5).ok
    assert kalos.world.aside == pytest.approx(-0.5, abs=0.03)


def test_a_blocked_way_is_a_failure_that_says_how_far_it_came_and_why() -> None:
    kalos = Kalos()
    kalos.world.wall = 0.61
    result = kalos.run("move_forward", distance_m=2.0)
    assert not result.ok and not result.interrupted and result.error_code == BLOCKED
    assert "0.60 m of 2 m" in result.message and "in front" in result.message


def test_the_code_of_a_blocked_way_is_that_of_the_action() -> None:
    action = (Path(__file__).parents[2] / "action" / "Drive.action").read_text()
    assert f"BLOCKED = {BLOCKED} " in action and body.BLOCKED == BLOCKED


def test_a_driver_that_is_not_active_is_the_reason_of_the_failure() -> None:
    kalos = Kalos()
    kalos.drivers.drive = lambda **_: DriverResult(False, CallCode.DRIVER_INACTIVE, "not active")
    assert kalos.run("move_forward").error_code == CallCode.DRIVER_INACTIVE


def test_it_stands_up_before_the_first_walk_and_after_sitting_only() -> None:
    kalos = Kalos()
    for name in ("move_forward", "rotate", "sit", "rotate", "rotate"):
        assert kalos.run(name).ok
    assert [c[0] if c[0] != "posture" else c[1] for c in kalos.drivers.calls] == [
        "stand",
        "drive",
        "drive",
        "sit",
        "stand",
        "drive",
        "drive",
    ]


def test_a_base_that_has_not_followed_is_told_to_stand_before_the_next_walk() -> None:
    kalos = Kalos()
    assert kalos.run("move_forward").ok
    drive = kalos.drivers.drive
    kalos.drivers.drive = lambda **_: DriverResult(False, 444, "the base has not followed: does it stand?")
    assert not kalos.run("move_forward").ok
    kalos.drivers.drive = drive
    kalos.drivers.calls.clear()
    assert kalos.run("move_forward").ok and kalos.drivers.calls[0][:2] == ("posture", "stand")


def test_a_nod_that_is_stopped_ends_level() -> None:
    kalos = Kalos()
    result = kalos.run("nod", stop_at=1.6)
    assert result.interrupted and kalos.drivers.calls[-1] == ("posture", "", 0.0)


def test_speech_goes_on_after_a_pause_at_the_word_that_was_cut() -> None:
    kalos = Kalos()
    result = kalos.run("speak", text="The quick brown fox jumps.", pause=(1.2, 5.0))
    assert result.ok and result.message == "said: The quick brown fox jumps."
    assert [c[1] for c in kalos.drivers.calls] == ["The quick brown fox jumps.", "brown fox jumps."]


def test_a_patrol_names_the_place_it_could_not_reach_and_visits_the_others() -> None:
    kalos = Kalos()
    kalos.world.unreachable = {HALLWAY[0]}
    result = kalos.run("patrol", area="hallway", rounds=2)
    went = [c[1] for c in kalos.drivers.calls if c[0] == "navigate"]
    assert went == [*HALLWAY, *HALLWAY]
    assert not result.ok and HALLWAY[0] in result.message and "the door is blocked" in result.message


def test_a_paused_patrol_takes_up_the_place_it_was_on_the_way_to() -> None:
    kalos = Kalos()
    assert kalos.run("patrol", area="hallway", pause=(4.0, 30.0)).ok
    went = [c[1] for c in kalos.drivers.calls if c[0] == "navigate"]
    assert went[:3] == [HALLWAY[0], HALLWAY[1], HALLWAY[1]] and len(went) == len(HALLWAY) + 1


def test_search_turns_until_it_sees_the_thing_and_ends_facing_it() -> None:
    kalos = Kalos()
    kalos.world.things = [("ball", -2.0, 0.5), ("apple", 1.0, 0.0)]
    result = kalos.run("search", target="ball")
    assert result.ok and "2.1 m" in result.message and "straight ahead" in result.message
    assert math.degrees(kalos.world.yaw) == pytest.approx(166.0, abs=3.0)


def test_search_turns_back_to_what_it_was_not_sure_of_before_it_says_that_it_is_not_there() -> None:
    kalos = Kalos()
    kalos.world.things = [("ball", 0.0, 3.0)]
    kalos.world.clear = lambda label, bearing: 0.5 if abs(bearing) < math.radians(3.0) else 0.25
    result = kalos.run("search", target="ball")
    assert result.ok and "3.0 m" in result.message and "straight ahead" in result.message
    assert math.degrees(kalos.world.yaw) % 360.0 == pytest.approx(90.0, abs=3.0)

    kalos.world.clear = lambda label, bearing: 0.3
    result = kalos.run("search", target="ball")
    assert not result.ok and "no ball" in result.message


def test_search_everywhere_goes_from_place_to_place_and_says_what_it_did_not_find() -> None:
    kalos = Kalos()
    kalos.world.unreachable = {PLACES[-1]}
    result = kalos.run("search", target="ball", where="everywhere")
    assert [c[1] for c in kalos.drivers.calls if c[0] == "navigate"] == list(PLACES)
    assert not result.ok and "no ball" in result.message and PLACES[-1] in result.message


@pytest.mark.parametrize("skill", ["search", "approach", "follow"])
def test_what_the_detector_does_not_know_is_told_at_once_and_not_searched_for(skill: str) -> None:
    kalos = Kalos()
    kalos.drivers.known = ("ball", "person")
    result = kalos.run(skill, target="apple")
    assert not result.ok and result.message == "the detector knows no “apple”, only ball, person; so nobody has looked for it"
    assert not kalos.drivers.calls and kalos.world.now < 0.5


def test_search_without_a_detector_says_so_at_once() -> None:
    kalos = Kalos()
    kalos.drivers.looking = False
    result = kalos.run("search", target="ball")
    assert not result.ok and "detector" in result.message and kalos.world.now < 3.0


def test_approach_ends_in_front_of_the_thing_at_the_distance_to_keep() -> None:
    kalos = Kalos()
    kalos.world.things = [("ball", 3.0, 1.5)]
    assert kalos.run("approach", target="ball", distance_m=0.8, pause=(4.0, 9.0)).ok
    left = math.hypot(3.0 - kalos.world.x, 1.5 - kalos.world.y)
    assert left == pytest.approx(0.8, abs=0.15)


@pytest.mark.parametrize("turn_deg", [90.0, -120.0, 180.0])
def test_approach_turns_back_to_the_thing_when_it_was_turned_away_in_a_pause(turn_deg: float) -> None:
    class Turning(Pause):
        def rest(self) -> None:
            self.world.yaw += math.radians(turn_deg)
            self.world.x += 0.4
            super().rest()

    kalos = Kalos()
    kalos.world.things = [("ball", 4.0, 0.5)]
    kalos.stop = Stop(kalos.world)
    kalos.pause = Turning(kalos.world, kalos.stop, 2.0, 6.0)
    assert kalos.call("approach", target="ball").ok
    assert math.hypot(4.0 - kalos.world.x, 0.5 - kalos.world.y) == pytest.approx(0.7, abs=0.15)


def test_approach_fails_when_there_is_nothing_or_something_in_the_way() -> None:
    kalos = Kalos()
    result = kalos.run("approach", target="ball")
    assert not result.ok and "search" in result.message
    kalos.world.things, kalos.world.wall = [("ball", 4.0, 0.0)], 1.0
    assert kalos.run("approach", target="ball").error_code == BLOCKED


def test_approach_ends_where_what_the_thing_lies_on_blocks_the_way() -> None:
    kalos = Kalos()
    kalos.world.things, kalos.world.wall = [("apple", 2.0, 0.0)], 1.12
    result = kalos.run("approach", target="apple", distance_m=0.7)
    assert result.ok and "0.9 m away" in result.message


def test_follow_keeps_up_with_who_walks_away_for_its_time() -> None:
    kalos = Kalos()
    kalos.run("stand")

    seen = kalos.drivers.detections

    def walking() -> object:
        kalos.world.things = [("person", 2.0 + 0.2 * kalos.world.now, 0.1 * kalos.world.now)]
        return seen()

    kalos.drivers.detections = walking
    begun = kalos.world.now
    result = kalos.run("follow", duration_s=20.0, pause=(begun + 5.0, begun + 15.0))
    _, x, y = kalos.world.things[0]
    assert result.ok and kalos.world.now - begun == pytest.approx(30.0, abs=3.0)
    assert math.hypot(x - kalos.world.x, y - kalos.world.y) < 2.5


def test_follow_fails_when_the_person_is_lost() -> None:
    result = Kalos().run("follow", duration_s=60.0)
    assert not result.ok and "lost sight" in result.message


def test_a_picture_is_kept_and_the_result_says_where(tmp_path: Path) -> None:
    kalos = Kalos(tmp_path / "pictures")
    result = kalos.run("take_pic")
    (kept,) = (tmp_path / "pictures").glob("*.png")
    assert result.ok and str(kept) in result.message and kept.read_bytes().startswith(b"\x89PNG")
    kalos.drivers.picture = None
    assert "camera" in kalos.run("take_pic").message


@pytest.mark.parametrize(("key", "near"), [("cruise_linear", "cruise_liner"), ("stop_distance", "stop_distanc")])
def test_a_misspelt_key_of_the_base_is_told_with_the_nearest(tmp_path: Path, key: str, near: str) -> None:
    wrong = find_file("kalos").read_text().replace(f"{key}:", f"{near}:")
    (tmp_path / "kalos.yaml").write_text(wrong)
    with pytest.raises(RobotConfigError, match=key):
        RobotConfig.load(tmp_path / "kalos.yaml")
