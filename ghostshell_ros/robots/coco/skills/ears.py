# SPDX-License-Identifier: Apache-2.0
"""Skills of the ears: one channel a side, so that left and right move together when called one after the other."""

from __future__ import annotations

import math
from threading import Event
from typing import Annotated, Literal

from pydantic import Field

from ghostshell_ros.robots.coco import postures
from ghostshell_ros.robots.coco.body import CocoBody, outcome, wait_for_reset
from ghostshell_ros.robots.coco.skills.ranges import Percent, Seconds
from skill_kernel import Limited, SkillReturn, robot_skill

STOP_S = 0.6
MOVE_S = 0.3
BOTH = ("ear_left", "ear_right")

EarDegrees = Annotated[float, Field(ge=-180, le=180, description="deg"), Limited("ear_deg")]
EarState = Literal["normal", "inquisitive", "opponent", "happy", "sad", "alert", "sleepy", "scared"]

_STATES: dict[str, tuple[float, float]] = {
    "normal": (0.0, 0.0),
    "inquisitive": (0.7, -0.1),
    "opponent": (-1.25, -1.25),
    "happy": (0.3, 0.3),
    "sad": (1.3, 1.3),
    "alert": (0.12, 0.12),
    "sleepy": (1.0, 1.3),
    "scared": (-1.5, -1.5),
}
"""Left and right ear in rad."""


def _swing_s(start_angle: float, end_angle: float, speed: float) -> float:
    """Seconds of one swing from one angle to the other; the peak stays below the servos' speed."""
    return max(0.12, abs(math.radians(end_angle - start_angle)) * 1.5 / postures.blend(1.2, 5.5, speed))


def _swings(start_angle: float, end_angle: float, speed: float, duration: float) -> int:
    return max(1, round((duration - 2.0 * MOVE_S) / _swing_s(start_angle, end_angle, speed)))


@robot_skill(
    subsystem="ear_{side}",
    nominal_s=lambda start_angle, end_angle, speed, duration: (
        2.0 * MOVE_S + _swings(start_angle, end_angle, speed, duration) * _swing_s(start_angle, end_angle, speed)
    ),
    stop_s=STOP_S,
    idempotent=True,
)
def ear_swing(
    side: Literal["left", "right"],
    start_angle: EarDegrees = -40.0,
    end_angle: EarDegrees = 40.0,
    speed: Percent = 60.0,
    duration: Seconds = 2.0,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Swing one ear to and fro. Angles in degrees: 0 upright, 90 pointing forward, -90 laid back. speed in percent.
    duration: seconds; whole swings only. Call it for both sides one after the other and they move together."""
    joint = f"ear_{side}"
    first, last = {joint: math.radians(start_angle)}, {joint: math.radians(end_angle)}
    swing_s = _swing_s(start_angle, end_angle, speed)
    count = _swings(start_angle, end_angle, speed, duration)
    frames = [(MOVE_S, first), *((swing_s, first if k % 2 else last) for k in range(count)), (MOVE_S, {joint: 0.0})]
    return _swing(body, (joint,), frames, stop_evt, until_reset, f"{side} ear swung {count} times")


@robot_skill(subsystem=BOTH, nominal_s=lambda duration: max(duration, 2.0 * MOVE_S), stop_s=STOP_S, idempotent=True)
def ear_state(
    state: EarState = "normal", duration: Seconds = 2.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Let both ears show a state of mind for a while, then stand upright again. duration: seconds in all."""
    goal = dict(zip(BOTH, _STATES[state], strict=True))
    result = body.move(goal, MOVE_S, stop_evt)
    if result.ok and until_reset:
        wait_for_reset(stop_evt)
        body.relax(dict.fromkeys(BOTH, 0.0), MOVE_S)
        return SkillReturn.success(f"ears {state} until the reset")
    if result.ok:
        result = body.stay(BOTH, duration - 2.0 * MOVE_S, stop_evt)
    if result.ok:
        result = body.move(dict.fromkeys(BOTH, 0.0), MOVE_S, stop_evt)
    return outcome(result, f"ears {state}")


_SHAKE_S = 0.2


def _shakes(duration: float) -> int:
    return max(1, round(duration / _SHAKE_S) - 1)


@robot_skill(subsystem=BOTH, nominal_s=lambda duration: (_shakes(duration) + 1) * _SHAKE_S, stop_s=STOP_S, idempotent=True)
def shake_ears(duration: Seconds = 1.5, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Shake both ears quickly, one forward while the other goes back. duration: seconds."""
    count = _shakes(duration)
    frames = [(_SHAKE_S, {"ear_left": s, "ear_right": -s}) for s in (0.32 if k % 2 else -0.32 for k in range(count))]
    frames.append((_SHAKE_S, dict.fromkeys(BOTH, 0.0)))
    return _swing(body, BOTH, frames, stop_evt, until_reset, "shook the ears")


def _swing(
    body: CocoBody,
    joints: tuple[str, ...],
    frames: list[tuple[float, dict[str, float]]],
    stop_evt: Event,
    until_reset: bool,
    done: str,
) -> SkillReturn:
    rounds = 0
    while not rounds or until_reset:
        result = body.play(postures.move(body.pose(joints), frames, joints), stop_evt)
        if not result.ok:
            break
        rounds += 1
    if until_reset:
        body.relax(dict.fromkeys(joints, 0.0), MOVE_S)
        return outcome(result, f"{done} until the reset, {rounds} times")
    return outcome(result, done if result.ok else "stopped before the end")
