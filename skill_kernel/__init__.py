# SPDX-License-Identifier: Apache-2.0
"""Skills, subsystems and the kernel that runs them (TypeGo 4 and 5). Imports no ROS."""

from skill_kernel.codes import CallCode, ModelCode, Outcome, ParseCode
from skill_kernel.skills.hearing import PauseEvent
from skill_kernel.skills.skill import Content, ContentStream, Limited, Skill, SkillDefinitionError, SkillReturn, robot_skill

__all__ = [
    "CallCode",
    "Content",
    "ContentStream",
    "Limited",
    "ModelCode",
    "Outcome",
    "ParseCode",
    "PauseEvent",
    "Skill",
    "SkillDefinitionError",
    "SkillReturn",
    "robot_skill",
]
