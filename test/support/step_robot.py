# SPDX-License-Identifier: Apache-2.0
"""A robot with a lamp to see, for tests of plans in steps: skills that end by themselves, one that fails."""

from __future__ import annotations

import threading

from skill_kernel import SkillReturn, robot_skill

ROBOT_YAML = """
name: stepper
skills: [step_robot]
body: step_robot:Body
subsystems:
  main: {exclusive_per_process: false, parallel: false}
  legs: {exclusive_per_process: true, parallel: false}
observation:
  lamp:
    role: Whether the lamp is lit.
    kind: boolean
    source: {topic: lamp, type: std_msgs/msg/Bool}
    process: {function: take, path: data}
    max_age_s: 5.0
"""


class Body:
    """Needs nothing."""


@robot_skill(subsystem="legs", nominal_s=0.1, stop_s=0.1)
def go(place: str, stop_evt: threading.Event) -> SkillReturn:
    """Go somewhere."""
    return SkillReturn.interruption("stopped") if stop_evt.wait(0.1) else SkillReturn.success(place)


@robot_skill(subsystem="legs", nominal_s=30.0, stop_s=0.1)
def stroll(stop_evt: threading.Event) -> SkillReturn:
    """Walk until stopped."""
    stop_evt.wait(30.0)
    return SkillReturn.interruption("stopped")


@robot_skill(subsystem="legs", nominal_s=0.1)
def stumble() -> SkillReturn:
    """Fail."""
    return SkillReturn.failure("stumbled")
