# SPDX-License-Identifier: Apache-2.0
"""A robot for tests of teams: it lifts for some time and can pause, or holds and cannot."""

from __future__ import annotations

import threading
import time

from skill_kernel import PauseEvent, SkillReturn, robot_skill

ROBOT_YAML = """
name: worker
skills: [team_robot]
body: team_robot:Body
subsystems:
  main: {exclusive_per_process: false, parallel: false}
  arm: {exclusive_per_process: true, parallel: false}
  free: {exclusive_per_process: false, parallel: true}
"""


class Body:
    """Nothing to move."""


@robot_skill(subsystem="arm", nominal_s=5.0, stop_s=0.3)
def lift(seconds: float, pause_evt: PauseEvent, stop_evt: threading.Event) -> SkillReturn:
    """Lift for some seconds; a pause is waited out."""
    left_s, rests = seconds, 0
    while left_s > 0 and not stop_evt.wait(0.01):
        left_s -= 0.01
        if pause_evt.is_set():
            pause_evt.rest()
            rests += 1
    if stop_evt.is_set():
        return SkillReturn.interruption(f"lifted for {seconds - left_s:.1f} s")
    return SkillReturn.success("lifted", value={"rests": rests, "ended_s": time.monotonic()})


@robot_skill(subsystem="arm", nominal_s=5.0, stop_s=0.3)
def hold(seconds: float, stop_evt: threading.Event) -> SkillReturn:
    """Hold for some seconds; it cannot pause."""
    return SkillReturn.interruption() if stop_evt.wait(seconds) else SkillReturn.success("held")


@robot_skill(subsystem="free", nominal_s=0.0)
def tell() -> SkillReturn:
    """Tell the steady time at which it began."""
    return SkillReturn.success(value=time.monotonic())
