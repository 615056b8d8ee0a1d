# SPDX-License-Identifier: Apache-2.0
"""A robot without hardware whose skills last as long as they are told: for tests of several processes at a time."""

from __future__ import annotations

import threading
import time
from typing import Any

from ghostshell_ros.robots.asking import ask as ask
from skill_kernel import ContentStream, SkillReturn, robot_skill
from skill_kernel.skills.drivers import Action

ROBOT_YAML = """
name: several
skills: [process_robot]
body: process_robot:NoBody
text_skill: say
subsystems:
  main: {exclusive_per_process: false, parallel: false}
  legs: {exclusive_per_process: true, parallel: false}
  arm: {exclusive_per_process: true, parallel: false}
"""

TICK_S = 0.005
STOP_S = 0.2


class NoBody:
    """Nothing to move, and somebody to ask."""

    def __init__(self, *, ask_human: Action) -> None:
        self.ask_human = ask_human


def _act(seconds: float, stop_evt: threading.Event, pause_evt: Any = None) -> SkillReturn:
    """Last so long without the pauses."""
    left_s = seconds
    while left_s > 0:
        began_s = time.monotonic()
        if stop_evt.wait(min(TICK_S, left_s)):
            return SkillReturn.interruption(f"stopped with {left_s:.2f} s to go")
        left_s -= time.monotonic() - began_s
        if pause_evt is not None and pause_evt.is_set():
            pause_evt.rest()
    return SkillReturn.success()


@robot_skill(subsystem="legs", nominal_s=lambda seconds: seconds, stop_s=STOP_S)
def walk(seconds: float = 1.0, *, body: NoBody, stop_evt: threading.Event, pause_evt: threading.Event) -> SkillReturn:
    """Walk; it can pause."""
    return _act(seconds, stop_evt, pause_evt)


@robot_skill(subsystem="legs", nominal_s=lambda seconds: seconds, stop_s=STOP_S)
def hop(seconds: float = 1.0, *, body: NoBody, stop_evt: threading.Event) -> SkillReturn:
    """Hop; it cannot pause."""
    return _act(seconds, stop_evt)


@robot_skill(subsystem="arm", nominal_s=lambda seconds: seconds, stop_s=STOP_S)
def wave(seconds: float = 1.0, *, body: NoBody, stop_evt: threading.Event, pause_evt: threading.Event) -> SkillReturn:
    """Wave; it can pause."""
    return _act(seconds, stop_evt, pause_evt)


@robot_skill(subsystem="main", nominal_s=0.1, stop_s=STOP_S, speaks_text=True)
def say(text: ContentStream, *, body: NoBody, stop_evt: threading.Event) -> SkillReturn:
    """Say a text."""
    for _ in text:
        pass
    return SkillReturn.success()
