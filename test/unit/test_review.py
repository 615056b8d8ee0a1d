# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a robot of one's own are found before it is started: in its file, its skills and its body."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skill_kernel.review import Review, review

ROOT = Path(__file__).parents[2]
SKILLS = '''
from typing import Annotated, Literal
from pydantic import Field
from skill_kernel import Content, Limited, SkillReturn, robot_skill

LEVEL = Annotated[float, Limited("level")]

@robot_skill(subsystem="led", nominal_s=1.0)
def shine(colour: Literal["red", "green"] = "red", *, body) -> SkillReturn:
    """Light the LED."""
    body.light(colour)
    return SkillReturn.success()
'''
BODY = """
class Body:
    level: float

    def __init__(self) -> None:
        self.colour = "off"

    def light(self, colour):
        self.colour = colour
"""
FILE = """
name: lamp
skills: [lamp_skills]
body: lamp_body:Body
limits: {levels: [0, 1]}
subsystems:
  led: {exclusive_per_process: true, parallel: false}
"""


@pytest.fixture
def lamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name, text in (("lamp_skills.py", SKILLS), ("lamp_body.py", BODY), ("lamp.yaml", FILE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    yield tmp_path
    for module in ("lamp_skills", "lamp_body"):
        sys.modules.pop(module, None)


def changed(lamp: Path, name: str, old: str, new: str) -> Review:
    """Review the lamp with one mistake in it."""
    text = (lamp / name).read_text(encoding="utf-8")
    assert old in text
    (lamp / name).write_text(text.replace(old, new), encoding="utf-8")
    return review(str(lamp / "lamp.yaml"))


def test_a_sound_robot_has_neither_faults_nor_remarks(lamp: Path) -> None:
    assert review(str(lamp / "lamp.yaml")) == Review(())


@pytest.mark.parametrize("robot", ["coco", "kalos", *map(str, sorted((ROOT / "examples").glob("*/*.yaml")))])
def test_the_robots_that_ship_are_sound(robot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert review(robot) == Review(())


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("lamp_skills.py", '"led"', '"ledd"', "'shine' uses the subsystem 'ledd', .* did you mean 'led'"),
        ("lamp_skills.py", '"led"', '"led_{colour}"', "the subsystem 'led_red'"),
        ("lamp_skills.py", 'subsystem="led"', 'subsystem=["main", "arm"]', "the subsystem 'arm', .* known: led"),
        ("lamp.yaml", "lamp_body:Body", "lamp_body:Boddy", "no class 'Boddy' .* did you mean 'Body'"),
        ("lamp.yaml", "lamp_body:Body", "lamp_bdy:Body", "cannot be imported"),
        ("lamp_body.py", "class Body:", "class Body", "'lamp_body:Body' of robot 'lamp' cannot be imported .SyntaxError: "),
        ("lamp_body.py", "class Body:", "import math\nmath.pie\nclass Body:", "cannot be imported .AttributeError: .*'pie'"),
        ("lamp_body.py", "class Body:", "raise SystemExit(1)\nclass Body:", "cannot be imported .SystemExit: 1"),
        ("lamp_skills.py", '= "red", *', '= Field("red", max_length=5), *', "'colour' is bounded by nothing"),
        ("lamp.yaml", "subsystems:", "subsytems:", "'subsystems' is missing .is 'subsytems' meant"),
        ("lamp_skills.py", "nominal_s", "nominal", "cannot be loaded"),
        ("lamp.yaml", "limits:", "first_actions: [shin]\nlimits:", "first_actions names 'shin', .* did you mean 'shine'"),
        ("lamp_skills.py", "*, body)", "level: LEVEL = 1.0, *, body)", "the limit 'level', .* did you mean 'levels'"),
    ],
)
def test_a_mistake_that_makes_motion_unsafe_or_impossible_is_a_fault(
    lamp: Path, file: str, old: str, new: str, says: str
) -> None:
    faults = changed(lamp, file, old, new).faults
    assert len(faults) >= 1 and re.search(says, faults[0]), faults


@pytest.mark.parametrize("name", ["main", "default", "led"])
def test_a_known_subsystem_is_no_fault(lamp: Path, name: str) -> None:
    assert changed(lamp, "lamp_skills.py", 'subsystem="led"', f'subsystem="{name}"') == Review(())


def test_a_subsystem_that_any_text_can_name_is_no_fault(lamp: Path) -> None:
    (lamp / "lamp_skills.py").write_text(SKILLS.replace('Literal["red", "green"]', "str").replace('"led"', '"led_{colour}"'))
    assert review(str(lamp / "lamp.yaml")) == Review(())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('    """Light the LED."""\n', "", "skill 'shine' has no docstring"),
        (': Literal["red", "green"]', "", "parameter 'colour' of skill 'shine' has no type"),
        ("=1.0)", "=1.0, speaks_text=True)", "skill 'shine' is to speak plain text and takes none; annotate a parameter"),
        (
            '=1.0)\ndef shine(colour: Literal["red", "green"] = "red"',
            "=1.0, speaks_text=True)\ndef shine(text: Content, colour: str",
            "skill 'shine' refuses plain text, which comes without 'colour'",
        ),
        ("body.light(", "body.ligt(", "skill 'shine' uses body.ligt, which Body lacks; did you mean 'light'"),
    ],
)
def test_what_a_model_or_a_call_will_miss_is_remarked(lamp: Path, old: str, new: str, says: str) -> None:
    found = changed(lamp, "lamp_skills.py", old, new)
    assert not found.faults and len(found.remarks) == 1 and says in found.remarks[0]


def test_a_joint_in_degrees_is_remarked(lamp: Path) -> None:
    joints = "joints: {pan: {lower: -90, upper: 90, rest: 0, max_velocity: 1}}\nsubsystems:"
    found = changed(lamp, "lamp.yaml", "subsystems:", joints)
    assert not found.faults and len(found.remarks) == 1 and "from -90 to 90 rad; if these are degrees" in found.remarks[0]


@pytest.mark.parametrize("attribute", ["colour", "level", "light"])
def test_what_a_body_keeps_is_known(lamp: Path, attribute: str) -> None:
    assert changed(lamp, "lamp_skills.py", "body.light(colour)", f"body.{attribute}") == Review(())


@pytest.mark.parametrize("way", ["setattr(self, colour, 1)", "self.__dict__.update({colour: 1})"])
def test_a_body_that_makes_its_attributes_itself_is_believed(lamp: Path, way: str) -> None:
    (lamp / "lamp_body.py").write_text(BODY + f"        {way}\n", encoding="utf-8")
    assert changed(lamp, "lamp_skills.py", "body.light(colour)", "body.anything") == Review(())


DRIVEN = FILE + "drivers: {lamp_driver: {actions: {light: ghostshell/action/ShowFace}}}\n"


def driven(lamp: Path, kind: str, call: str) -> Review:
    """Review a lamp whose driver serves `light` as an action of a type, which its body calls."""
    pytest.importorskip("ghostshell.action", reason="needs the built interfaces")
    (lamp / "lamp.yaml").write_text(DRIVEN.replace("ghostshell/action/ShowFace", kind), encoding="utf-8")
    body = BODY.replace('self.colour = "off"', "self._light = light").replace("self) -> None", "self, light) -> None")
    (lamp / "lamp_body.py").write_text(f"{body}        {call}\n", encoding="utf-8")
    return review(str(lamp / "lamp.yaml"))


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("ghostshell/action/ShowFase", "type ghostshell/action/ShowFase, which is not installed; did you mean 'ShowFace'"),
        ("lamp_msgs/action/Shine", "type lamp_msgs/action/Shine, which is not installed: source its package"),
    ],
)
def test_a_type_of_action_that_is_not_there_is_a_fault(lamp: Path, kind: str, says: str) -> None:
    (fault,) = driven(lamp, kind, "self._light(face=colour)").faults
    assert says in fault and "the action 'light'" in fault


def test_without_ros_nothing_is_said_of_types(lamp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (lamp / "lamp.yaml").write_text(DRIVEN.replace("ShowFace", "ShowFase"), encoding="utf-8")
    monkeypatch.setitem(sys.modules, "ghostshell.action", None)
    assert review(str(lamp / "lamp.yaml")) == Review(())
