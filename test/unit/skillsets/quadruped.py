# SPDX-License-Identifier: Apache-2.0
"""A made-up quadruped with plain SI skills, to test that nothing is wired to one robot."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from skill_kernel import SkillReturn, robot_skill


@robot_skill(subsystem="MOVEMENT")
def move_forward(distance_m: Annotated[float, Field(ge=0, le=3)]) -> SkillReturn:
    """Move straight ahead."""
    return SkillReturn(True)


@robot_skill(subsystem="MOVEMENT")
def rotate(angle_deg: Annotated[float, Field(ge=-180, le=180)]) -> SkillReturn:
    """Rotate in place, counter-clockwise."""
    return SkillReturn(True)


@robot_skill(subsystem="MOVEMENT")
def stand() -> SkillReturn:
    """Stand up."""
    return SkillReturn(True)


@robot_skill(subsystem="MOVEMENT")
def sit() -> SkillReturn:
    """Sit down."""
    return SkillReturn(True)


@robot_skill(subsystem="HEAD")
def nod() -> SkillReturn:
    """Nod once."""
    return SkillReturn(True)


@robot_skill(subsystem="main", speaks_text=True)
def speak(text: str) -> SkillReturn:
    """Speak a text."""
    return SkillReturn(True)
