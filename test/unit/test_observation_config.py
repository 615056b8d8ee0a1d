# SPDX-License-Identifier: Apache-2.0
"""The sections `observation` and `rooms` of a robot's YAML: what fits is read, what does not is named in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from skill_kernel.config.observation import RoomConfig
from skill_kernel.observation.model import Kind
from skill_kernel.robot import RobotConfig, RobotConfigError

FIELD = {
    "role": "Charge of the battery in percent.",
    "kind": "number",
    "max_age_s": 5,
    "source": {"topic": "battery_state", "type": "sensor_msgs/msg/BatteryState"},
    "process": {"function": "take", "path": "percentage", "scale": 100},
}
POSE = {"role": "Where it is.", "kind": "pose", "max_age_s": 1, "source": {"topic": "odom"}, "process": {"function": "pose"}}
ROOM = {"role": "The room.", "kind": "text", "source": {"field": "pose"}, "process": {"function": "room"}}
ROBOT = {"name": "toy", "skills": ["toys.skills"], "subsystems": {"legs": {"exclusive_per_process": True, "parallel": False}}}


def load(folder: Path, **sections: object) -> RobotConfig:
    path = folder / "toy.yaml"
    path.write_text(yaml.safe_dump(ROBOT | sections, sort_keys=False), encoding="utf-8")
    return RobotConfig.load(path)


def changed(field: dict[str, object], *path: str, **to: object) -> dict[str, object]:
    """Return a field with some keys changed, in a part of it; None takes a key out."""
    if path:
        inner = field[path[0]]
        assert isinstance(inner, dict)
        return field | {path[0]: changed(inner, *path[1:], **to)}
    return {k: v for k, v in (field | to).items() if v is not None}


def test_a_robot_that_says_nothing_has_what_every_robot_has(tmp_path: Path) -> None:
    assert list(load(tmp_path).observation) == ["subsystems", "last_heard"]
    assert load(tmp_path, observation=None).observation == {}


def test_a_field_is_read(tmp_path: Path) -> None:
    field = load(tmp_path, observation={"battery": FIELD}).observation["battery"]
    assert (field.kind, field.source.topic, field.max_age_s, field.serialise.digits) == (Kind.NUMBER, "battery_state", 5.0, 2)


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (changed(FIELD, max_age=5), "key 'observation.battery.max_age' is unknown; did you mean 'max_age_s'"),
        (changed(FIELD, "source", topik="x"), "'observation.battery.source.topik' is unknown; did you mean 'topic'"),
        (changed(FIELD, "process", pth="x"), "'observation.battery.process.take.pth' is unknown; did you mean 'path'"),
        (changed(FIELD, "process", function="tak"), "there is no 'tak'; did you mean 'take'"),
        (changed(FIELD, serialise={"digit": 1}), "'observation.battery.serialise.digit' is unknown; did you mean 'digits'"),
        (changed(FIELD, role=None), "'observation.battery.role' is missing"),
        (changed(FIELD, max_age_s=0), "'observation.battery.max_age_s': input should be greater than 0"),
        (changed(FIELD, max_age_s=None), "a sensor may fall silent; give max_age_s, or source.qos state or event"),
        (changed(FIELD, kind="text"), "field 'battery' must be of kind 'number'"),
        (changed(FIELD, kind="pose"), "'take' makes a boolean, number or text, no pose"),
        (changed(FIELD, kind="numbr"), "'observation.battery.kind': input should be"),
        (FIELD | {"source": {"topic": "t", "field": "pose"}}, "give one of topic and field"),
        (changed(FIELD, "source", topic=None), "give one of topic and field"),
        (changed(FIELD, "source", type=None), "'take' needs source.type"),
        (changed(FIELD, "source", type="BatteryState"), "is not an interface, such as sensor_msgs/msg/BatteryState"),
        (changed(FIELD, "process", path="a.__class__"), "is not a path such as twist.linear.x"),
        (changed(FIELD, process={"path": "percentage"}), "key 'observation.battery.process.function' is missing"),
        (changed(FIELD, process={"function": "room"}), "'room' makes a field of kind 'text', not 'number'"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_valid(tmp_path: Path, field: dict[str, object], says: str) -> None:
    with pytest.raises(RobotConfigError) as raised:
        load(tmp_path, observation={"battery": field})
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Battery", "'Battery' is no field name"),
        ("two words", "is no field name"),
        ("import", "'import' is no field name"),
        ("__class__", "is no field name"),
        ("visible", "'visible' is the name of an accessor"),
        ("min", "'min' is the name of an accessor"),
    ],
)
def test_a_name_that_would_mean_something_else_is_refused(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(RobotConfigError, match=says):
        load(tmp_path, observation={name: FIELD})


def test_a_field_is_made_only_of_a_fitting_one_above_it(tmp_path: Path) -> None:
    assert list(load(tmp_path, observation={"pose": POSE, "room": ROOM}).observation) == ["pose", "room"]
    with pytest.raises(RobotConfigError, match="made of 'pose', which must be written above it"):
        load(tmp_path, observation={"room": ROOM, "pose": POSE})
    with pytest.raises(RobotConfigError, match="needs a source of kind 'pose', and 'battery' is none"):
        load(tmp_path, observation={"battery": FIELD, "room": ROOM | {"source": {"field": "battery"}}})


def test_only_what_is_tracked_can_be_counted(tmp_path: Path) -> None:
    seen = {
        "role": "What is seen.",
        "kind": "objects",
        "source": {"topic": "object_detections"},
        "process": {"function": "track", "labels": ["person", "ball"]},
        "max_age_s": 1.0,
    }
    people = {
        "role": "How many people.",
        "kind": "number",
        "source": {"field": "object_detections"},
        "process": {"function": "count", "label": "person"},
    }
    assert load(tmp_path, observation={"object_detections": seen, "visible_people": people})
    wrong = people | {"process": {"function": "count", "label": "persn"}}
    with pytest.raises(RobotConfigError, match="counts 'persn', .* does not track; did you mean 'person'"):
        load(tmp_path, observation={"object_detections": seen, "visible_people": wrong})
    anything = seen | {"process": {"function": "track"}}
    assert load(tmp_path, observation={"object_detections": anything, "visible_people": wrong})


@pytest.mark.parametrize(
    ("room", "says"),
    [
        ({"x": [0, 1]}, "x and y each need a smaller and a larger number"),
        ({"x": [1, 0], "y": [0, 1]}, "x and y each need a smaller and a larger number"),
        ({"corners": [[0, 0], [1, 1]]}, "at least three corners, not 2"),
        ({"x": [0, 1], "y": [0, 1], "corners": [[0, 0], [1, 0], [1, 1]]}, "either x and y or corners"),
        ({"corner": [[0, 0], [1, 0], [1, 1]]}, "did you mean 'corners'"),
        ({}, "either x and y or corners"),
    ],
)
def test_a_wrong_room_is_named(tmp_path: Path, room: dict[str, object], says: str) -> None:
    with pytest.raises(RobotConfigError, match=says):
        load(tmp_path, rooms={"kitchen": room})


def test_a_room_may_have_any_outline() -> None:
    angle = RoomConfig(corners=((0, 0), (4, 0), (4, 1), (1, 1), (1, 3), (0, 3)))
    assert [angle.holds(*point) for point in ((0.5, 2.5), (3.5, 0.5), (2, 2), (-1, 0.5), (float("nan"), 0.5))] == [
        True,
        True,
        False,
        False,
        False,
    ]
