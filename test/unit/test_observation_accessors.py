# SPDX-License-Identifier: Apache-2.0
"""One table of accessors: what a robot has is there, and every other name or argument is refused with the nearest."""

from __future__ import annotations

import pytest
from observing import CALLS, KALOS, TABLE, Scene, person

from skill_kernel.config.observation import RESERVED, STANDARD
from skill_kernel.observation.accessors import accessors_of
from skill_kernel.observation.model import ArgumentError, ObservationError, StaleFieldError
from skill_kernel.robot import RobotConfig

DESIGNED = {
    "visible",
    "count",
    "distance_to",
    "bearing_to",
    "people_visible",
    "front_distance_m",
    "left_distance_m",
    "right_distance_m",
    "back_distance_m",
    "nearest_distance_m",
    "x_m",
    "y_m",
    "heading_deg",
    "speed_mps",
    "moving",
    "room",
    "posture",
    "battery_percent",
    "charging",
    "subsystem_busy",
    "heard",
    "heard_words",
    "heard_age_s",
    "age_s",
    "stale",
}


def test_kalos_has_all_accessors_and_coco_those_of_what_it_has() -> None:
    assert set(TABLE) == DESIGNED
    assert set(accessors_of(RobotConfig.load("coco"))) == {
        "subsystem_busy",
        "heard",
        "heard_words",
        "heard_age_s",
        "head_turn",
        "age_s",
        "stale",
    }


@pytest.mark.parametrize(
    ("said", "words", "there"),
    [
        ("I’m here, you KNOW", "i'm here", True),
        ("I'm here, you KNOW", "I’m here!", True),
        ("I know", "no", False),
        ("No.", "no", True),
        ("come here", "here come", False),
        ("", "no", False),
    ],
)
def test_words_that_were_heard_are_found_whole_and_with_their_apostrophe(said: str, words: str, there: bool) -> None:
    scene = Scene()
    scene.observer.take("last_heard", said, scene.now)
    assert scene.view().call("heard_words", words) is there


def test_no_field_of_a_robots_own_can_take_the_name_of_an_accessor() -> None:
    assert DESIGNED - set(STANDARD) <= RESERVED


def test_every_accessor_gives_the_type_it_promises() -> None:
    scene = Scene()
    scene.everything()
    scene.see(*(person(2.0) for _ in range(2)))
    for name, *arguments in CALLS:
        value = scene.view().call(name, *arguments)
        assert type(value) is TABLE[name].returns, name


def test_every_accessor_of_a_missing_field_raises_a_stale_field_error() -> None:
    scene = Scene()
    scene.observer.miss("last_heard", "gone")
    for name, *arguments in CALLS:
        if name not in ("age_s", "stale"):
            with pytest.raises(StaleFieldError):
                scene.view().call(name, *arguments)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (("visibel", "ball"), ArgumentError, "did you mean 'visible'"),
        (("__class__",), ArgumentError, "there is no accessor"),
        (("visible",), ArgumentError, r"visible\(label: str\) -> bool takes 1 argument\(s\), not 0"),
        (("visible", "ball", "apple"), ArgumentError, "takes 1 argument"),
        (("visible", "aple"), ArgumentError, "did you mean 'apple'"),
        (("visible", 3), ArgumentError, "is a text in quotes, not int"),
        (("subsystem_busy", "legs"), ArgumentError, "known: main, movement, sound, default"),
        (("age_s", "batery"), ArgumentError, "did you mean 'battery'"),
        (("stale", "pos"), ArgumentError, "stale knows no field 'pos'"),
        (("visible", "x" * 5000), ArgumentError, "knows no label"),
    ],
)
def test_a_wrong_call_is_refused_with_what_is_right(call: tuple[str, ...], error: type[ObservationError], says: str) -> None:
    scene = Scene()
    scene.everything()
    with pytest.raises(error, match=says) as raised:
        scene.view().call(*call)
    assert len(str(raised.value)) < 600


def test_a_field_of_the_robots_own_is_an_accessor_of_its_name() -> None:
    robot = RobotConfig.model_validate(
        KALOS.model_dump(mode="json")
        | {
            "observation": {
                "motor_c": {
                    "role": "Temperature of the hottest motor in degrees Celsius.",
                    "kind": "number",
                    "source": {"topic": "motor", "type": "sensor_msgs/msg/Temperature"},
                    "process": {"function": "take", "path": "temperature"},
                    "max_age_s": 2,
                }
            }
        }
    )
    scene = Scene(robot)
    assert accessors_of(robot)["motor_c"].doc.startswith("Temperature of the hottest")
    scene.observer.take("motor_c", 61.5, scene.now)
    assert scene.view().call("motor_c") == 61.5
    scene.wait(2.1)
    with pytest.raises(StaleFieldError):
        scene.view().call("motor_c")


def test_a_subsystem_is_busy_while_a_skill_uses_it_and_not_while_it_is_only_held() -> None:
    scene = Scene()
    for state, busy in (("busy", True), ("held", False), ("free", False)):
        scene.observer.take("subsystems", {"movement": state}, scene.now)
        assert scene.view().call("subsystem_busy", "movement") is busy
    with pytest.raises(StaleFieldError, match="says nothing of subsystem 'sound'"):
        scene.view().call("subsystem_busy", "sound")


@pytest.mark.parametrize(
    ("x", "y", "room"),
    [
        (0, 0, "hallway"),
        (1.5, 2.4, "kitchen"),
        (5.25, 2.3, "office"),
        (9.5, 2.5, "lounge"),
        (7, -2.2, "lobby"),
        (0, -2, ""),
        (40, 0, ""),
    ],
)
def test_the_room_is_the_area_that_holds_the_robot(x: float, y: float, room: str) -> None:
    scene = Scene()
    scene.mapped()
    scene.odometry(x, y)
    assert scene.view().call("room") == room


def test_every_waypoint_of_kalos_lies_in_the_room_of_its_name() -> None:
    for name, place in KALOS.waypoints.items():
        inside = [room for room, area in KALOS.rooms.items() if area.holds(place.x, place.y)]
        assert inside == [name.split("_")[0]]
