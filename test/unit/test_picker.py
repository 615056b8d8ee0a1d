# SPDX-License-Identifier: Apache-2.0
"""The example of docs/own_arm.md: an arm of five joints sorts what lies on its workbench, all of it named by its own files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from arm_sim import ArmSim

from planners.language.parser import CommandParser
from skill_kernel.skills.arguments import signature_text
from skill_kernel.skills.registry import SkillRegistry

pytestmark = pytest.mark.component

PICKER = Path(__file__).resolve().parents[2] / "examples" / "picker" / "picker.yaml"


@pytest.fixture
def picker(monkeypatch: pytest.MonkeyPatch) -> ArmSim:
    monkeypatch.setattr(sys, "path", [*sys.path])
    return ArmSim(str(PICKER))


def test_it_sorts_into_trays_and_a_drawer(picker: ArmSim) -> None:
    body, stop = picker.body, picker.stop
    for deed in (
        lambda: body.pick("ball", "bench", stop),
        lambda: body.put("right_tray", stop),
        lambda: body.swing("drawer", 0.95, stop),
        lambda: body.pick("can", "bench", stop),
        lambda: body.put("left_tray", stop),
        lambda: body.swing("drawer", 0.0, stop),
    ):
        done = deed()
        assert done.ok, done.message
    lying = picker.lying()
    assert (lying["ball"], lying["can"], lying["cube"]) == ("right_tray", "left_tray", "bench")
    assert picker.shares()["drawer"] < 0.05 and picker.most_force <= 20.0 + 1e-6


@pytest.mark.parametrize(
    ("said", "source"),
    [
        ("put it into the left tray", '<release_to space="left_tray"/>'),
        ("put it in the right tray", '<release_to space="right_tray"/>'),
        ("take the can from the left tray", '<pick_from object="can" space="left_tray"/>'),
        ("put it into the left", ""),
    ],
)
def test_a_side_in_the_name_of_a_place_is_no_direction(picker: ArmSim, said: str, source: str) -> None:
    assert CommandParser(SkillRegistry.from_modules(picker.config.skills)).read(said).source == source


def test_its_skills_offer_what_its_workbench_names(picker: ArmSim) -> None:
    skills = SkillRegistry.from_modules(picker.config.skills)
    (pick,) = (skill for skill in skills if skill.name == "pick_from")
    assert signature_text(pick) == (
        "pick_from(object: Literal['cube', 'ball', 'can'], space: Literal['bench', 'left_tray', 'right_tray'])"
    )
