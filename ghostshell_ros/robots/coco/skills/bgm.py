# SPDX-License-Identifier: Apache-2.0
"""Background music."""

from __future__ import annotations

from threading import Event
from typing import Literal

from ghostshell_ros.drivers.tunes import TUNES
from ghostshell_ros.robots.coco.body import CocoBody, outcome
from ghostshell_ros.robots.coco.skills.ranges import Percent
from skill_kernel import SkillReturn, robot_skill

STOP_S = 0.3
Tune = Literal["dance", "happy", "calm", "sad", "suspense", "lullaby", "birthday", "ode_to_joy"]


@robot_skill(subsystem="bgm", nominal_s=lambda name: TUNES[name].duration_s, stop_s=STOP_S)
def play_bgm(
    name: Tune = "dance", volume: Percent = 50.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Play background music. volume in percent. As an empty tag the tune plays once, around text or other calls
    it goes on until the end tag."""
    result = body.play_sound(name=name, stop=stop_evt, volume=volume / 100.0, loop=until_reset)
    return outcome(result, f"played '{name}'" if result.ok else f"played part of '{name}'")
