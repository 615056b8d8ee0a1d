# SPDX-License-Identifier: Apache-2.0
"""What System 1 relies on, counts, and does without a model."""

from __future__ import annotations

import math

import pytest

from planners.language.client import OfflineClient
from planners.prompts.prompt import CallReport, GrammarOptions, RobotFacts
from planners.scene import SceneSnapshot, snapshot
from skill_kernel.observation.model import FieldValue, Kind, Observation, Pose, SeenObject
from skill_kernel.robot import RobotConfig
from skill_kernel.skills.registry import SkillRegistry


@pytest.fixture(scope="module")
def commands() -> OfflineClient:
    robot = RobotConfig.load("kalos")
    skills = SkillRegistry.from_modules(robot.skills, text_skill=robot.text_skill)
    return OfflineClient(RobotFacts("kalos", "", skills, GrammarOptions(robot.builtin_names, robot.limits)))


def test_only_what_is_understood_wholly_is_followed(commands: OfflineClient) -> None:
    assert commands.read_wholly("stand up, then nod twice") != ""
    assert commands.read_wholly("stand up, then think about the meaning of life") == ""
    assert commands.read_wholly("find out whether anybody is unhappy here") == ""


def test_what_was_done_is_not_done_again(commands: OfflineClient) -> None:
    whole = commands.read_wholly("stand up, then nod twice")
    rest = commands.read_wholly("stand up, then nod twice", [CallReport("stand", {}, "DONE")])
    assert "stand" in whole and "stand" not in rest and "nod" in rest


def test_what_was_cut_off_nobody_knows_where_is_not_begun_anew(commands: OfflineClient) -> None:
    assert commands.read_wholly("walk forward 2 m", [CallReport("move_forward", {}, "INTERRUPTED")]) == ""


@pytest.mark.parametrize(
    ("other", "holds"),
    [
        (SceneSnapshot("hall", "stand", frozenset({"ball"}), Pose(0.3, 0.0, 0.5)), True),
        (SceneSnapshot("kitchen", "stand", frozenset({"ball"}), Pose(0.3, 0.0, 0.5)), False),
        (SceneSnapshot("hall", "sit", frozenset({"ball"}), Pose(0.0, 0.0, 0.0)), False),
        (SceneSnapshot("hall", "stand", frozenset(), Pose(0.0, 0.0, 0.0)), False),
        (SceneSnapshot("hall", "stand", frozenset({"ball"}), Pose(0.6, 0.0, 0.0)), False),
        (SceneSnapshot("hall", "stand", frozenset({"ball"}), Pose(0.0, 0.0, 1.0)), False),
        (SceneSnapshot("hall", "stand", frozenset({"ball"}), Pose(0.0, 0.0, math.tau - 0.1)), True),
        (SceneSnapshot("hall", "stand", frozenset({"ball"}), None), True),
    ],
)
def test_the_ground_of_a_queue_holds_while_place_and_things_are_the_same(other: SceneSnapshot, holds: bool) -> None:
    assert SceneSnapshot("hall", "stand", frozenset({"ball"}), Pose(0.0, 0.0, 0.0)).holds(other) is holds


def test_stale_fields_are_relied_on_by_nobody() -> None:
    def field(name: str, kind: Kind, value: object, age: float) -> FieldValue:
        return FieldValue(name, kind, value, 100.0 - age, 1.0)  # type: ignore[arg-type]

    fields = {
        "room": field("room", Kind.TEXT, "hall", 5.0),
        "pose": field("pose", Kind.POSE, Pose(1.0, 2.0, 0.0), 0.1),
        "object_detections": field("object_detections", Kind.OBJECTS, (SeenObject(1, "ball", 0.9, 0.0, 1.0),), 0.1),
        "posture": field("posture", Kind.TEXT, "moving", 0.1),
    }
    seen = snapshot(Observation(100.0, fields=fields), 100.0)
    assert seen == SceneSnapshot("", "", frozenset({"ball"}), Pose(1.0, 2.0, 0.0))
    assert snapshot(Observation(100.0, fields=fields), 102.0) == SceneSnapshot()
    assert snapshot(None, 0.0) == SceneSnapshot()


def test_a_resume_motion_may_ask_for_the_pose_only() -> None:
    whole = RobotConfig.load("kalos")
    assert whole.resume_motion.format(x_m=1.0, y_m=-2.0, yaw_deg=90.0) == '<nav x_m="1.00" y_m="-2.00" yaw_deg="90"/>'
    with pytest.raises(ValueError, match="in braces"):
        RobotConfig.model_validate({**whole.model_dump(), "resume_motion": '<nav x_m="{speed}"/>'})


@pytest.mark.parametrize("name", ["coco", "kalos"])
def test_every_first_action_is_a_skill_of_its_robot(name: str) -> None:
    robot = RobotConfig.load(name)
    skills = SkillRegistry.from_modules(robot.skills, text_skill=robot.text_skill)
    assert robot.first_actions and set(robot.first_actions) <= set(skills.names)
