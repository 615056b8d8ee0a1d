# SPDX-License-Identifier: Apache-2.0
"""Skills of the head: yaw and pitch."""

from __future__ import annotations

import math
from threading import Event
from typing import Annotated, Literal

from pydantic import Field

from ghostshell_ros.robots.coco import postures
from ghostshell_ros.robots.coco.body import HEAD, CocoBody, outcome, wait_for_reset
from ghostshell_ros.robots.coco.skills.ranges import Seconds
from skill_kernel import Limited, SkillReturn, robot_skill

STOP_S = 0.8
MOVE_S = 0.6
MIN_ACT_S = 0.6
RETURN_S = 0.4

Act = Literal["nod", "shake", "look_left", "look_right", "look_up", "look_down", "look_around", "circle", "bow"]
Yaw = Annotated[float, Field(ge=-180, le=180, description="deg"), Limited("head_yaw_deg")]
Pitch = Annotated[float, Field(ge=-90, le=90, description="deg"), Limited("head_pitch_deg")]

_LOOKS: dict[str, tuple[tuple[float, float], ...]] = {
    "look_left": ((0.9, 0.0),),
    "look_right": ((-0.9, 0.0),),
    "look_up": ((0.0, 0.5),),
    "look_down": ((0.0, -0.5),),
    "look_around": ((0.9, 0.1), (-0.9, 0.1)),
    "bow": ((0.0, -0.5),),
}
"""Yaw and pitch in rad where the head lingers."""

_BEATS: dict[str, tuple[tuple[float, float], ...]] = {
    "nod": ((0.0, -0.32), (0.0, 0.12)),
    "shake": ((0.5, 0.0), (-0.5, 0.0)),
    "circle": ((0.4, 0.0), (0.0, 0.3), (-0.4, 0.0), (0.0, -0.3)),
}
"""Yaw and pitch of one beat, which is repeated."""

_BEAT_S = {"nod": 0.6, "shake": 0.7, "circle": 1.2}


@robot_skill(subsystem="head", nominal_s=lambda duration: max(duration, MIN_ACT_S), stop_s=STOP_S, idempotent=True)
def head_act(
    action: Act = "nod", duration: Seconds = 1.5, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Move the head expressively and bring it back to where it was: nod for yes, shake for no, look somewhere,
    look_around, circle, bow. duration: seconds in all, at least 0.6; longer means more nods or a longer look."""
    home = body.pose(HEAD)
    frames = _frames(action, max(duration, MIN_ACT_S), home)
    rounds = 0
    while not rounds or until_reset:
        result = body.play(postures.move(body.pose(HEAD), frames, HEAD), stop_evt)
        if not result.ok:
            break
        rounds += 1
    if until_reset:
        body.relax(home, RETURN_S)
        return outcome(result, f"{action} until the reset, {rounds} times")
    return outcome(result, action if result.ok else f"{action} not finished")


@robot_skill(subsystem="head", nominal_s=MOVE_S, stop_s=STOP_S, idempotent=True)
def head_pose(yaw: Yaw = 0.0, pitch: Pitch = 0.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Point the head and keep it there. yaw: degrees, positive to the left (at most 65). pitch: degrees, positive up
    (-30 to 38). Around other calls it keeps the pose until the end tag and then comes back."""
    home = body.pose(HEAD)
    goal = dict(zip(HEAD, (math.radians(yaw), math.radians(pitch)), strict=True))
    result = body.move(goal, MOVE_S, stop_evt)
    if result.ok and until_reset:
        wait_for_reset(stop_evt)
        body.relax(home, RETURN_S)
    return outcome(result, f"head at yaw {yaw:g}, pitch {pitch:g}" if result.ok else "head did not get there")


def _frames(action: str, duration: float, home: postures.Pose) -> list[tuple[float, dict[str, float]]]:
    """Key poses relative to where the head was; they take `duration` seconds and end there."""

    def at(offset: tuple[float, float]) -> dict[str, float]:
        return {joint: home[joint] + change for joint, change in zip(HEAD, offset, strict=True)}

    if action in _LOOKS:
        places = _LOOKS[action]
        move_s = min(0.5, duration / (len(places) + 1.0) * 0.6)
        linger_s = (duration - move_s * (len(places) + 1)) / len(places)
        frames = [frame for place in places for frame in ((move_s, at(place)), (linger_s, at(place)))]
        return [*frames, (move_s, dict(home))]
    beat = _BEATS[action]
    beats = max(1, round((duration - 0.25) / _BEAT_S[action]))
    part_s = duration / (beats * len(beat) + 1)
    return [*((part_s, at(offset)) for _ in range(beats) for offset in beat), (part_s, dict(home))]
