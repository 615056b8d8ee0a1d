# SPDX-License-Identifier: Apache-2.0
"""A robot without hardware that measures one distance, for tests of the node of the reflexes."""

from __future__ import annotations

import threading
import time
from typing import Annotated

from pydantic import Field

from skill_kernel import ContentStream, PauseEvent, SkillReturn, robot_skill

ROBOT_YAML = """
name: jumpy
skills: [reflex_robot]
body: reflex_robot:NoBody
text_skill: say
subsystems:
  main: {exclusive_per_process: false, parallel: false}
  movement: {exclusive_per_process: true, parallel: false}
  sound: {exclusive_per_process: false, parallel: false}
base:
  max_forward: 0.5
  max_backward: 0.5
  max_turn: 1.0
  max_acceleration: 1.0
  max_turn_acceleration: 4.0
  cruise_linear: 0.4
  cruise_turn: 0.8
  radius: 0.3
observation:
  near_m:
    role: Metres to the nearest thing in front.
    kind: number
    source: {topic: near, type: std_msgs/msg/Float64}
    process: {function: take, path: data}
    max_age_s: 0.5
    at_once: true
  loud:
    role: Whether it is loud.
    kind: boolean
    source: {topic: loud, type: std_msgs/msg/Bool}
    process: {function: take, path: data}
    max_age_s: 0.5
"""

BACK_S = 0.15


class NoBody:
    """Nothing to move."""


@robot_skill(subsystem="movement", nominal_s=60.0, stop_s=0.3)
def patrol(*, body: NoBody, pause_evt: PauseEvent, stop_evt: threading.Event) -> SkillReturn:
    """Walk about until stopped; a pause is waited out."""
    rests = 0
    while not stop_evt.wait(0.002):
        if pause_evt.is_set():
            pause_evt.rest()
            rests += not stop_evt.is_set()
    return SkillReturn.interruption(f"rested {rests} times")


@robot_skill(subsystem="movement", nominal_s=BACK_S, stop_s=0.2)
def move_back(distance_m: Annotated[float, Field(ge=0, le=5)] = 0.5, *, body: NoBody, stop_evt: threading.Event) -> SkillReturn:
    """Walk backward. distance_m: metres."""
    seconds = BACK_S * distance_m / 0.5
    return SkillReturn.interruption() if stop_evt.wait(seconds) else SkillReturn.success(f"walked back {distance_m:g} m")


@robot_skill(subsystem="sound", nominal_s=0.1, stop_s=0.2, speaks_text=True)
def say(text: ContentStream, *, body: NoBody, stop_evt: threading.Event) -> SkillReturn:
    """Say a text."""
    said = "".join(text)
    time.sleep(0.05)
    return SkillReturn.success(f"said: {said}")


@robot_skill(subsystem="movement", nominal_s=0.1, stop_s=0.2)
def stumble(*, body: NoBody) -> SkillReturn:
    """Fail, always."""
    return SkillReturn.failure("stumbled")
