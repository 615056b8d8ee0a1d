# SPDX-License-Identifier: Apache-2.0
"""A robot for tests of the skill_kernel node: skills that end when stopped, by themselves, or too late."""

from __future__ import annotations

import threading
import time
from typing import Annotated

from pydantic import Field

from skill_kernel import Content, ContentStream, Limited, PauseEvent, SkillReturn, robot_skill

ROBOT_YAML = """
name: toy
skills: [kernel_robot]
body: kernel_robot:ToyBody
subsystems:
  main: {exclusive_per_process: false, parallel: false}
  legs: {exclusive_per_process: true, parallel: false}
  arm: {exclusive_per_process: true, parallel: false}
  free: {exclusive_per_process: false, parallel: true}
limits: {distance: [0, 200]}
"""


class ToyBody:
    """Remembers when a skill began, so that a skill can tell its caller."""


@robot_skill(subsystem="legs", nominal_s=60.0, stop_s=0.3)
def walk(distance: Annotated[float, Field(ge=0, le=500), Limited("distance")], stop_evt: threading.Event) -> SkillReturn:
    """Walk until stopped."""
    stop_evt.wait(30.0)
    return SkillReturn.interruption(f"walked of {distance:g}")


@robot_skill(subsystem="legs", nominal_s=60.0, stop_s=0.3)
def turn(stop_evt: threading.Event) -> SkillReturn:
    """Turn until stopped."""
    stop_evt.wait(30.0)
    return SkillReturn.interruption()


@robot_skill(subsystem="legs", nominal_s=60.0, stop_s=0.3)
def march(pause_evt: PauseEvent, stop_evt: threading.Event) -> SkillReturn:
    """Walk on the spot until stopped; a pause is waited out."""
    rests = 0
    while not stop_evt.wait(0.01):
        if pause_evt.is_set():
            pause_evt.rest()
            rests += not stop_evt.is_set()
    return SkillReturn.interruption(f"rested {rests} times")


@robot_skill(subsystem="free", nominal_s=0.0)
def clock_now() -> SkillReturn:
    """Tell the steady time at which it began, in nanoseconds."""
    return SkillReturn.success(str(time.monotonic_ns()))


@robot_skill(subsystem="free", nominal_s=0.0)
def explode() -> SkillReturn:
    """Raise."""
    raise RuntimeError("boom")


@robot_skill(subsystem="arm", nominal_s=0.1, stop_s=0.1)
def deaf(seconds: float, stop_evt: threading.Event) -> SkillReturn:
    """Promise to stop within 0.1 s, and go on."""
    time.sleep(seconds)
    return SkillReturn.success("done after all")


@robot_skill(subsystem="main", nominal_s=1.0)
def say(text: Content) -> SkillReturn:
    """Give the text back."""
    return SkillReturn.success(text)


@robot_skill(subsystem="main", nominal_s=1.0)
def count_pieces(text: ContentStream, stop_evt: threading.Event) -> SkillReturn:
    """Count the pieces."""
    return SkillReturn.success(str(sum(1 for _ in text)))
