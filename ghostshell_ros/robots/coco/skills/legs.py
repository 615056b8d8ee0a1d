# SPDX-License-Identifier: Apache-2.0
"""Skills of the legs that change posture, place or heading."""

from __future__ import annotations

import math
from threading import Event
from typing import Annotated, Literal

from pydantic import Field

from ghostshell_ros.robots.coco import gait, moves, postures
from ghostshell_ros.robots.coco.body import CocoBody, outcome, wait_for_reset
from ghostshell_ros.robots.coco.skills.ranges import Percent, Seconds
from skill_kernel import Limited, SkillReturn, robot_skill

STOP_S = 0.9
"""0.2 s until the driver stops, `postures.SETTLE_S` to put the feet down, and what two driver calls cost."""

HOLD_STOP_S = 0.4

Centimetres = Annotated[float, Field(ge=-1000, le=1000, description="cm"), Limited("walk_distance_cm")]
Degrees = Annotated[float, Field(ge=-1080, le=1080, description="deg"), Limited("turn_deg")]


@robot_skill(subsystem="legs", nominal_s=lambda duration: max(duration, postures.MOVE_S), stop_s=HOLD_STOP_S, idempotent=True)
def spider_stand(
    posture: Literal["normal", "high", "low", "wide"] = "normal",
    duration: Seconds = 1.0,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Stand up, or change how tall CoCo stands. duration: seconds in all, at least 0.8; CoCo stays standing
    afterwards."""
    change = postures.stand(body.pose(), posture)
    return _posture(body, change, duration, stop_evt, until_reset, f"standing ({posture})")


@robot_skill(subsystem="legs", nominal_s=lambda duration: max(duration, postures.MOVE_S), stop_s=HOLD_STOP_S, idempotent=True)
def spider_sit(
    style: Literal["normal", "dog", "lie"] = "normal",
    duration: Seconds = 1.0,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Sit down: normal (belly on the desk), dog (rear down, chest up) or lie (flat, legs spread). duration: seconds
    in all, at least 0.8; CoCo stays seated afterwards."""
    change = postures.sit(body.pose(), style)
    return _posture(body, change, duration, stop_evt, until_reset, f"sitting ({style})")


@robot_skill(
    subsystem="legs",
    nominal_s=lambda speed, amplitude, distance: gait.walk_time_s(distance / 100.0, speed, amplitude),
    stop_s=STOP_S,
    remaining=lambda progress, distance, **_: _left("distance", distance, progress["distance"], 1.0),
)
def spider_run_distance(
    speed: Percent = 60.0,
    amplitude: Percent = 60.0,
    distance: Centimetres = 20.0,
    *,
    body: CocoBody,
    stop_evt: Event,
    until_reset: bool = False,
) -> SkillReturn:
    """Walk straight ahead, or backward if distance is negative. speed: pace of the steps in percent. amplitude: width
    of the steps in percent. distance: centimetres. Stands up first if need be."""
    result, done = body.ready(stop_evt), 0.0
    if result.ok:
        result, done = body.walk(distance / 100.0, speed, amplitude, stop_evt)
    if result.ok and until_reset:
        wait_for_reset(stop_evt)
    return outcome(result, f"walked {done * 100.0:.1f} cm of {distance:g} cm", progress={"distance": done * 100.0})


@robot_skill(
    subsystem="legs",
    nominal_s=lambda angle: gait.turn_time_s(math.radians(angle)),
    stop_s=STOP_S,
    remaining=lambda progress, angle: _left("angle", angle, progress["angle"], 2.0),
)
def spider_rotate(angle: Degrees = 90.0, *, body: CocoBody, stop_evt: Event, until_reset: bool = False) -> SkillReturn:
    """Turn on the spot. angle: degrees, positive to the left (counter-clockwise), negative to the right. Stands up
    first if need be."""
    result, done = body.ready(stop_evt), 0.0
    if result.ok:
        result, done = body.turn(math.radians(angle), stop_evt)
    if result.ok and until_reset:
        wait_for_reset(stop_evt)
    return outcome(result, f"turned {math.degrees(done):.0f} of {angle:g} degrees", progress={"angle": math.degrees(done)})


def _left(name: str, whole: float, done: float, least: float) -> dict[str, float] | None:
    """Return the argument for what is left of a move that was stopped; None when that is less than `least`."""
    left = math.copysign(max(abs(whole) - math.copysign(1.0, whole) * done, 0.0), whole)
    return {name: left} if abs(left) >= least else None


@robot_skill(subsystem="legs", nominal_s=lambda duration: max(duration, 2.0 * postures.MOVE_S), stop_s=STOP_S)
def spider_body_lean(
    direction: moves.Direction = "left", duration: Seconds = 2.5, *, body: CocoBody, stop_evt: Event, until_reset: bool = False
) -> SkillReturn:
    """Tilt the body to one side with all feet on the ground, and come back upright. duration: seconds in all, at
    least 1.6."""
    result = body.ready(stop_evt)
    if not result.ok:
        return outcome(result, "not leaned")
    lean = moves.lean(body.pose(), direction)
    stay = postures.hold(lean.end(), max(postures.SAMPLE_S, duration - 2.0 * postures.MOVE_S))
    if until_reset:
        result = body.legs([lean], stop_evt)
        if result.ok:
            wait_for_reset(stop_evt)
            body.settle()
    else:
        result = body.legs([lean, stay, postures.stand(stay.end())], stop_evt)
    return outcome(result, f"leaned {direction}" if result.ok else f"began to lean {direction}")


def _posture(
    body: CocoBody, change: postures.Trajectory, duration: float, stop_evt: Event, until_reset: bool, what: str
) -> SkillReturn:
    result = body.play(change, stop_evt)
    if result.ok:
        result = body.stay(postures.JOINTS, duration - change.duration, stop_evt)
        if result.ok and until_reset:
            wait_for_reset(stop_evt)
        return outcome(result, what)
    return outcome(result, f"not yet {what}")
