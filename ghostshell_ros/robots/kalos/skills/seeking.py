# SPDX-License-Identifier: Apache-2.0
"""Define finding, going up to and following what the camera sees, and taking pictures."""

import math
import time
from threading import Event
from typing import Literal

from ghostshell_ros.navigation.motion import composed, seen_from
from ghostshell_ros.robots.control import Control
from ghostshell_ros.robots.kalos.body import BLOCKED, FRESH_S, SURE, KalosBody, SkillEnd
from ghostshell_ros.robots.kalos.skills.locomotion import PLACES, STOP_S, Near, Seconds, Thing
from skill_kernel import PauseEvent, SkillReturn, robot_skill
from skill_kernel.config.yaml_text import private
from skill_kernel.kernel.kernel import SkillCaller
from skill_kernel.skills.drivers import Detection, Pose2D, outcome

TURN_DEG = 60.0
"""Turn between two looks; less than the camera's field of view, so that nothing is missed in between."""
LOOK_S = 0.5
LOOK_AGAIN_S = 2.0
"""Time for a second look at a thing that was doubtful."""
LOST_S = 3.0
STEP_M = 1.0
FOLLOW_STEP_M = 0.6
AIM_RAD = math.radians(6.0)
IN_VIEW_RAD = math.radians(25.0)
"""Bearing beyond which a thing may be out of the camera's view."""
NEAR_ENOUGH_M = 0.1
IN_FRONT_M = 0.35
"""Distance within which an obstacle is the target itself, or what it lies on."""
APPROACH_S = 25.0
HERE_S = 25.0
MOTIONS = 60


@robot_skill(
    subsystem="movement",
    nominal_s=lambda where: HERE_S if where == "here" else len(PLACES) * (HERE_S + 12.0),
    stop_s=STOP_S,
    on_failure="continue",  # that it is not there is an answer, and the plan may have a branch for it
)
def search(
    target: Thing,
    where: Literal["here", "everywhere"] = "here",
    *,
    body: KalosBody,
    kernel: SkillCaller,
    stop_evt: Event,
    pause_evt: PauseEvent,
) -> SkillReturn:
    """Find a thing or a person: look around, here on the spot or at every place of the building. Ends facing it, and
    tells how far it is; fails when it is not there."""
    control = Control(stop_evt, pause_evt, body.now)
    troubles: list[str] = []
    for place in ("", *(PLACES if where == "everywhere" else ())):
        if place:
            went = kernel.call("goto_waypoint", waypoint=place)
            if control.stopped or went.interrupted:
                return SkillReturn.interruption(f"stopped looking for the {target} on the way to {place}")
            if not went.ok:
                troubles.append(went.message)
                continue
        try:
            seen = _look_around(body, kernel, control, target)
        except SkillEnd as end:
            return end.result
        if seen is not None:
            at = f" near {place}" if place else ""
            return SkillReturn.success(f"{target}{at} {_where(seen)}", value=_seen(seen, place))
    missing = f"; {'; '.join(troubles)}" if troubles else ""
    return SkillReturn.failure(f"no {target} to be seen {where}{missing}")


@robot_skill(subsystem="movement", nominal_s=APPROACH_S, stop_s=STOP_S)
def approach(target: Thing, distance_m: Near = 0.7, *, body: KalosBody, stop_evt: Event, pause_evt: PauseEvent) -> SkillReturn:
    """Go up to a thing or a person in sight. distance_m: metres to keep. Fails when it is out of sight; search finds
    it."""
    control, rested_s, place = Control(stop_evt, pause_evt, body.now), 0.0, None
    for _ in range(MOTIONS):
        if not control.go_on():
            return SkillReturn.interruption(f"stopped on the way to the {target}")
        if control.rested_s > rested_s and place is not None and abs(off := _direction(body, place)) > IN_VIEW_RAD:
            # Whoever had the body meanwhile may have turned it away.
            body.step(control, 0.0, off)
        rested_s = control.rested_s
        try:
            seen = body.look(target, control, LOST_S, sure=0.0)
        except SkillEnd as end:
            return end.result
        if control.is_set():
            continue
        if seen is None:
            return SkillReturn.failure(f"no {target} in sight for {LOST_S:g} s; search for it first")
        if math.isnan(seen.distance) and abs(seen.bearing) <= AIM_RAD:
            return SkillReturn.failure(f"the {target} is in sight, but how far it is cannot be told")
        place = _place(body, seen)
        left = seen.distance - distance_m
        if left <= NEAR_ENOUGH_M and abs(seen.bearing) <= AIM_RAD:
            return SkillReturn.success(f"{target} {_where(seen)}", value=_seen(seen))
        # First face it, for an arc would end beside it.
        way = 0.0 if abs(seen.bearing) > AIM_RAD else min(left, STEP_M)
        result, done = body.step(control, max(0.0, way), seen.bearing if way <= 0.0 else 0.0)
        if result.error_code == BLOCKED and left - done <= IN_FRONT_M:
            return SkillReturn.success(f"as near to the {target} as the way is free: {seen.distance - done:.1f} m away")
        if not result.ok and not result.cancelled:
            return outcome(result, f"{target} {_where(seen)}")
        control.wait(FRESH_S)
    return SkillReturn.failure(f"did not come nearer to the {target} in {MOTIONS} steps")


@robot_skill(subsystem="movement", nominal_s=lambda duration_s: duration_s + LOST_S, stop_s=STOP_S)
def follow(
    target: Thing = "person",
    distance_m: Near = 1.8,
    duration_s: Seconds = 30.0,
    *,
    body: KalosBody,
    stop_evt: Event,
    pause_evt: PauseEvent,
) -> SkillReturn:
    """Follow a person, or a thing that moves. distance_m: metres to keep. duration_s: seconds; a pause does not count."""
    control = Control(stop_evt, pause_evt, body.now)
    begun, walked = body.now(), 0.0
    while (lasted := body.now() - begun - control.rested_s) < duration_s:
        if not control.go_on():
            return SkillReturn.interruption(f"followed the {target} for {lasted:.0f} s, {walked:.1f} m")
        try:
            seen = body.look(target, control, LOST_S, sure=0.0)
        except SkillEnd as end:
            return end.result
        if control.is_set():
            continue
        if seen is None:
            return SkillReturn.failure(f"lost sight of the {target} after {lasted:.0f} s and {walked:.1f} m")
        left = 0.0 if math.isnan(seen.distance) else seen.distance - distance_m
        if left <= NEAR_ENOUGH_M and abs(seen.bearing) <= AIM_RAD:
            control.wait(FRESH_S / 2)
            continue
        way = min(max(left, 0.0), FOLLOW_STEP_M) if abs(seen.bearing) < 4 * AIM_RAD else 0.0
        result, done = body.step(control, way, seen.bearing)
        walked += done
        if not result.ok and not result.cancelled:
            return outcome(result, f"followed the {target} for {lasted:.0f} s, {walked:.1f} m")
    return SkillReturn.success(f"followed the {target} for {duration_s:g} s, {walked:.1f} m")


def _look_around(body: KalosBody, kernel: SkillCaller, control: Control, target: str) -> Detection | None:
    """Turn once around in steps, then back to the surest of what was doubtful.

    Returns what was seen, or None when the target is not here. Raises SkillEnd when the skill has to end.
    """
    doubtful: tuple[float, float] | None = None
    """Confidence, and degrees to the left of where it looked first."""
    for step in range(round(360.0 / TURN_DEG)):
        seen = _look(body, control, target, LOOK_S)
        if seen is not None and seen.confidence >= SURE:
            return _face(body, kernel, control, target, seen)
        if seen is not None and (doubtful is None or seen.confidence > doubtful[0]):
            doubtful = seen.confidence, step * TURN_DEG + math.degrees(seen.bearing)
        _turn(kernel, control, TURN_DEG)
    if doubtful is None:
        return None
    _turn(kernel, control, math.remainder(doubtful[1], 360.0))
    seen = _look(body, control, target, LOOK_AGAIN_S)
    return _face(body, kernel, control, target, seen) if seen is not None and seen.confidence >= SURE else None


def _turn(kernel: SkillCaller, control: Control, angle_deg: float) -> None:
    """Turn, and wait for an image from there. Raises SkillEnd when the turn fails or is stopped."""
    turned = kernel.call("rotate", angle_deg=angle_deg)
    if turned.interrupted or not turned.ok:
        raise SkillEnd(turned)
    control.wait(FRESH_S)


def _look(body: KalosBody, control: Control, target: str, seconds: float) -> Detection | None:
    """Look ahead, and look again after a pause. Returns what was seen, also if doubtful. Raises SkillEnd at a stop."""
    while control.go_on():
        seen = body.look(target, control, seconds, least=0.0)
        if not control.is_set():
            return seen
    raise SkillEnd(SkillReturn.interruption(f"stopped looking for the {target}"))


def _face(body: KalosBody, kernel: SkillCaller, control: Control, target: str, seen: Detection) -> Detection:
    """Turn to what was seen, and return it as it is seen from there. Raises SkillEnd when the turn fails or is stopped."""
    _turn(kernel, control, math.degrees(seen.bearing))
    return body.look(target, control, LOOK_S) or seen


def _place(body: KalosBody, seen: Detection) -> Pose2D | None:
    """Return where something seen is, in the frame of odometry; None while that or its distance is unknown."""
    pose = body.senses.odometry()
    if pose is None or math.isnan(seen.distance):
        return None
    ahead, left = seen.distance * math.cos(seen.bearing), seen.distance * math.sin(seen.bearing)
    return composed(pose, Pose2D(ahead, left, 0.0))


def _direction(body: KalosBody, place: Pose2D) -> float:
    """Return the bearing of a place from where the robot looks now, in rad; 0 without odometry."""
    pose = body.senses.odometry()
    if pose is None:
        return 0.0
    here = seen_from(pose, place)
    return math.atan2(here.y, here.x)


def _seen(seen: Detection, place: str = "") -> dict[str, str | float | None]:
    """Return what was found for a caller: bearing to the left [deg], distance [m] or None, and the place it is near."""
    distance = None if math.isnan(seen.distance) else round(seen.distance, 2)
    return {"label": seen.label, "bearing_deg": round(math.degrees(seen.bearing), 1), "distance_m": distance, "near": place}


def _where(seen: Detection) -> str:
    degrees = math.degrees(seen.bearing)
    side = "straight ahead" if abs(degrees) < 5 else f"{abs(degrees):.0f} degrees to the {'left' if degrees > 0 else 'right'}"
    return f"{'at an unknown distance' if math.isnan(seen.distance) else f'{seen.distance:.1f} m away'}, {side}"


TAKE_S = 2.5
"""Longest time: 2 s until an image comes, and time to write it."""


@robot_skill(subsystem="default", nominal_s=TAKE_S, on_failure="continue")
def take_pic(*, body: KalosBody) -> SkillReturn:
    """Take a picture (photo) with the front camera and keep it; the result says where. It cannot be interrupted."""
    from PIL import Image

    pixels = body.senses.image()
    if pixels is None:
        return SkillReturn.failure("the camera sent no picture within 2 s; is the simulator or the camera running?")
    seconds = body.wall()
    name = time.strftime("%Y%m%d-%H%M%S", time.gmtime(seconds)) + f"-{int(seconds % 1 * 1000):03d}.png"
    try:
        body.pictures.mkdir(parents=True, exist_ok=True)
        with open(body.pictures / name, "xb", opener=private) as file:
            Image.fromarray(pixels).save(file, "png")
    except OSError as error:
        return SkillReturn.failure(f"the picture could not be kept in {body.pictures}: {error}")
    height, width = pixels.shape[:2]
    return SkillReturn.success(f"picture of {width} x {height} kept as {body.pictures / name}")
