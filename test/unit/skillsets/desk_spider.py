# SPDX-License-Identifier: Apache-2.0
"""A desk robot's skill set with many channels, to test prompts and the offline parser on."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from skill_kernel import SkillReturn, robot_skill
from skill_kernel.skills.skill import Limited

Percent = Annotated[int, Field(ge=0, le=100, description="percent")]
Seconds = Annotated[float, Field(gt=0, le=30, description="seconds")]


@robot_skill("say", subsystem="main", speaks_text=True)
def say(text: str) -> SkillReturn:
    """Say a text aloud."""
    return SkillReturn(True)


@robot_skill("spider_stand", subsystem="legs")
def spider_stand(posture: Literal["normal", "high", "low"] = "normal", duration: Seconds = 1.0) -> SkillReturn:
    """Stand up on all four legs."""
    return SkillReturn(True)


@robot_skill("spider_sit", subsystem="legs")
def spider_sit(style: Literal["normal", "dog"] = "normal", duration: Seconds = 1.0) -> SkillReturn:
    """Sit down."""
    return SkillReturn(True)


@robot_skill("spider_run_distance", subsystem="legs")
def spider_run_distance(
    distance: Annotated[float, Field(ge=-200, le=200, description="cm; negative walks backward")],
    speed: Percent = 50,
    amplitude: Percent = 50,
) -> SkillReturn:
    """Walk straight ahead for a distance."""
    return SkillReturn(True)


@robot_skill("spider_rotate", subsystem="legs")
def spider_rotate(angle: Annotated[float, Field(ge=-360, le=360, description="degrees, positive turns left")]) -> SkillReturn:
    """Turn on the spot."""
    return SkillReturn(True)


@robot_skill("spider_body_lean", subsystem="legs")
def spider_body_lean(direction: Literal["left", "right", "forward", "backward"], duration: Seconds = 1.0) -> SkillReturn:
    """Lean the body to one side and come back."""
    return SkillReturn(True)


@robot_skill("spider_wave_move", subsystem="legs")
def spider_wave_move(
    speed: Percent = 50, amplitude: Percent = 50, times: Annotated[int, Field(ge=1, le=10)] = 2, until_reset: bool = False
) -> SkillReturn:
    """Wave with the body."""
    return SkillReturn(True)


@robot_skill("spider_shake_ass", subsystem="legs")
def spider_shake_ass(
    speed: Percent = 50, amplitude: Percent = 50, times: Annotated[int, Field(ge=1, le=10)] = 3
) -> SkillReturn:
    """Wag the bottom."""
    return SkillReturn(True)


@robot_skill("spider_push_up", subsystem="legs")
def spider_push_up(duration: Seconds = 3.0) -> SkillReturn:
    """Do push-ups."""
    return SkillReturn(True)


@robot_skill("spider_single_leg_knock", subsystem="legs")
def spider_single_leg_knock(
    leg: Annotated[int, Field(ge=1, le=4)], speed: Percent = 50, times: Annotated[int, Field(ge=1, le=10)] = 1
) -> SkillReturn:
    """Knock on the table with one leg."""
    return SkillReturn(True)


@robot_skill("head_act", subsystem="head")
def head_act(action: Literal["nod", "shake"], duration: Seconds = 1.0, until_reset: bool = False) -> SkillReturn:
    """Move the head in a gesture."""
    return SkillReturn(True)


@robot_skill("head_pose", subsystem="head")
def head_pose(
    yaw: Annotated[float, Field(ge=-60, le=60, description="degrees, positive looks left")] = 0.0,
    pitch: Annotated[float, Field(ge=-30, le=30, description="degrees, positive looks up")] = 0.0,
) -> SkillReturn:
    """Point the head in a direction."""
    return SkillReturn(True)


@robot_skill("ear_swing", subsystem="ear_{side}")
def ear_swing(
    side: Literal["left", "right"],
    start_angle: Annotated[float, Field(ge=-90, le=90, description="degrees")] = -30.0,
    end_angle: Annotated[float, Field(ge=-90, le=90, description="degrees")] = 30.0,
    speed: Percent = 50,
    duration: Seconds = 1.0,
) -> SkillReturn:
    """Swing one ear to and fro."""
    return SkillReturn(True)


@robot_skill("shake_ears", subsystem=("ear_left", "ear_right"))
def shake_ears(duration: Seconds = 1.0) -> SkillReturn:
    """Shake both ears."""
    return SkillReturn(True)


@robot_skill("display_face", subsystem="face")
def display_face(
    face: Literal["smile", "happy", "calm", "surprise", "wink", "pitiable", "very_fear"],
    duration: Seconds = 2.0,
    until_reset: bool = False,
) -> SkillReturn:
    """Show an expression on the display."""
    return SkillReturn(True)


@robot_skill("emotion", subsystem="face")
def emotion(emo: Literal["happy", "sad", "angry"], duration: Seconds = 2.0) -> SkillReturn:
    """Show an emotion with eyes."""
    return SkillReturn(True)


@robot_skill("wink_left", subsystem="face")
def wink_left(duration: Seconds = 1.0) -> SkillReturn:
    """Wink with the left eye."""
    return SkillReturn(True)


@robot_skill("wink_right", subsystem="face")
def wink_right(duration: Seconds = 1.0) -> SkillReturn:
    """Wink with the right eye."""
    return SkillReturn(True)


@robot_skill("play_bgm", subsystem="bgm")
def play_bgm(name: str = "default", volume: Percent = 50, until_reset: bool = False) -> SkillReturn:
    """Play background music until reset or stopped."""
    return SkillReturn(True)


@robot_skill("secret", subsystem="hidden", nominal_s=0.5)
def secret(body: Any, stop_evt: Any, rate: Annotated[float, Limited("rate_limit")] = 0.5) -> SkillReturn:
    """Hum quietly."""
    implementation_detail = "never shown to a model"
    return SkillReturn(True, implementation_detail)
