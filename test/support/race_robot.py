# SPDX-License-Identifier: Apache-2.0
"""A robot whose skills write down when they began and ended, for the race of interrupts against calls."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from skill_kernel import ContentStream, SkillReturn, robot_skill

ROBOT_YAML = """
name: racer
skills: [race_robot]
body: race_robot:RaceBody
text_skill: say
subsystems:
  main: {exclusive_per_process: false, parallel: false}
  legs: {exclusive_per_process: true, parallel: false}
  arm: {exclusive_per_process: true, parallel: false}
  head: {exclusive_per_process: false, parallel: false}
"""

DIARY = "RACE_DIARY"
"""Environment variable with the file that the skills write to."""


class RaceBody:
    """One line for each beginning and end: B or E, channel, tag, steady time [ns], whether the stop had been asked."""

    def __init__(self) -> None:
        self._file = os.open(os.environ[DIARY], os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, mark: str, channel: str, tag: str, stop_evt: threading.Event) -> None:
        os.write(self._file, f"{mark} {channel} {tag} {time.monotonic_ns()} {int(stop_evt.is_set())}\n".encode())

    def act(self, channel: str, tag: str, ms: float, stop_evt: threading.Event, until_reset: bool) -> SkillReturn:
        self.write("B", channel, tag, stop_evt)
        stopped = stop_evt.wait(10.0 if until_reset else ms / 1000)
        self.write("E", channel, tag, stop_evt)
        return SkillReturn.interruption("stopped") if stopped else SkillReturn.success()


def _skill(name: str, channel: str) -> Any:
    def function(
        tag: str, ms: float = 1.0, *, body: RaceBody, stop_evt: threading.Event, until_reset: bool = False
    ) -> SkillReturn:
        return body.act(channel, tag, ms, stop_evt, until_reset)

    function.__doc__ = f"Hold the {channel} for some milliseconds."
    return robot_skill(name, subsystem=channel, nominal_s=0.1, stop_s=0.2)(function)


walk, wave, nod = _skill("walk", "legs"), _skill("wave", "arm"), _skill("nod", "head")


@robot_skill(subsystem="main", nominal_s=0.1, stop_s=0.2, speaks_text=True)
def say(text: ContentStream, *, body: RaceBody, stop_evt: threading.Event) -> SkillReturn:
    """Say a text, whose first word is the tag."""
    tag = ""
    for piece in text:
        if not tag:
            tag = piece.split()[0]
            body.write("B", "main", tag, stop_evt)
    if tag:
        body.write("E", "main", tag, stop_evt)
    return SkillReturn.interruption("stopped") if stop_evt.is_set() else SkillReturn.success()
