# SPDX-License-Identifier: Apache-2.0
"""Define the skills of the camera head. A language model is told their signatures and docstrings."""

from __future__ import annotations

from threading import Event
from typing import Annotated

from pydantic import Field

from pan_tilt_robot.body import PanTiltBody, Place, outcome
from skill_kernel import Content, Limited, SkillReturn, robot_skill

STOP_S = 0.3

Pan = Annotated[float, Field(ge=-180, le=180), Limited("pan_deg")]
Tilt = Annotated[float, Field(ge=-90, le=90), Limited("tilt_deg")]


@robot_skill(subsystem="head", nominal_s=1.0, stop_s=STOP_S)
def look(pan_deg: Pan = 0.0, tilt_deg: Tilt = 0.0, *, body: PanTiltBody, stop_evt: Event) -> SkillReturn:
    """Turn the camera head and keep it there. pan_deg: degrees, positive to the left. tilt_deg: degrees, positive up.
    Both 0 is straight ahead."""
    return outcome(body.visit([(pan_deg, tilt_deg)], stop_evt), f"look at pan {pan_deg:g}, tilt {tilt_deg:g}")


@robot_skill(subsystem="head", nominal_s=1.2, stop_s=STOP_S)
def nod(*, body: PanTiltBody, stop_evt: Event) -> SkillReturn:
    """Nod for yes and come back."""
    return _gesture("nod", [(0.0, -15.0), (0.0, 10.0), (0.0, -15.0), (0.0, 0.0)], body, stop_evt)


@robot_skill(subsystem="head", nominal_s=1.4, stop_s=STOP_S)
def shake(*, body: PanTiltBody, stop_evt: Event) -> SkillReturn:
    """Shake the head for no and come back."""
    return _gesture("shake", [(20.0, 0.0), (-20.0, 0.0), (20.0, 0.0), (0.0, 0.0)], body, stop_evt)


@robot_skill(subsystem="head", nominal_s=2.7, stop_s=STOP_S)
def scan(*, body: PanTiltBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Scan the room: sweep the camera to the left, to the right and back. Around other calls it goes on until it is reset."""
    rounds = 0
    while not rounds or until_reset:
        result = body.visit([(60.0, 0.0), (-60.0, 0.0), (0.0, 0.0)], stop_evt)
        if not result.ok:
            break
        rounds += 1
    return outcome(result, f"scan, {rounds} times")


@robot_skill(subsystem="main", nominal_s=lambda text="": 0.5 + 0.07 * len(text), stop_s=STOP_S, speaks_text=True)
def speak(text: Content, *, body: PanTiltBody, stop_evt: Event) -> SkillReturn:
    """Say a text aloud. Plain text of the answer is spoken without this tag."""
    return outcome(body.speak(text=text, stop=stop_evt), f"say: {text}")


def _gesture(name: str, offsets: list[Place], body: PanTiltBody, stop_evt: Event) -> SkillReturn:
    """Visit places relative to where the head points now."""
    pan, tilt = body.place()
    return outcome(body.visit([(pan + right, tilt + up) for right, up in offsets], stop_evt), name)
