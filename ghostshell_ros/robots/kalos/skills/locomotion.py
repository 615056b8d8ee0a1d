# SPDX-License-Identifier: Apache-2.0
"""Define walking, turning, stepping aside, and going to points and named places of the map."""

import math
from threading import Event
from typing import Annotated, Literal

from pydantic import Field

from ghostshell_ros.robots.kalos.body import Control, KalosBody, Pause
from ghostshell_ros.robots.kalos.skills.parameters import (
    HALLWAY,
    PLACES,
    ROOMS,
    STOP_S,
    Degrees,
    Metres,
    Place,
    Sideways,
    turn_s,
    way_s,
)
from skill_kernel import SkillReturn, robot_skill
from skill_kernel.kernel.kernel import SkillCaller
from skill_kernel.skills.drivers import Pose2D, outcome

MapMetres = Annotated[float, Field(ge=-1000, le=1000, description="m")]
NAV_S = 25.0
"""Time of a way through the building; only the map knows its length."""


@robot_skill(subsystem="movement", nominal_s=way_s, stop_s=STOP_S)
def move_forward(distance_m: Metres = 1.0, *, body: KalosBody, stop_evt: Event, pause_evt: Pause) -> SkillReturn:
    """Walk straight ahead. distance_m: metres. Stands up first if need be, and stops before what is in the way."""
    return _walk(body, distance_m, Control(stop_evt, pause_evt, body.now))


@robot_skill(subsystem="movement", nominal_s=lambda distance_m: way_s(distance_m, slower=0.6), stop_s=STOP_S)
def move_back(distance_m: Metres = 0.5, *, body: KalosBody, stop_evt: Event, pause_evt: Pause) -> SkillReturn:
    """Walk backward without turning. distance_m: metres."""
    return _walk(body, -distance_m, Control(stop_evt, pause_evt, body.now))


@robot_skill(subsystem="movement", nominal_s=lambda distance_m: way_s(distance_m, slower=0.5), stop_s=STOP_S)
def strafe(
    direction: Literal["left", "right"], distance_m: Sideways = 0.5, *, body: KalosBody, stop_evt: Event, pause_evt: Pause
) -> SkillReturn:
    """Step to the side without turning. distance_m: metres."""
    sign = 1.0 if direction == "left" else -1.0
    result, done = body.move("lateral", sign * distance_m, Control(stop_evt, pause_evt, body.now))
    return outcome(result, f"stepped {abs(done):.2f} m of {distance_m:g} m to the {direction}")


@robot_skill(subsystem="movement", nominal_s=lambda angle_deg: turn_s(math.radians(angle_deg)), stop_s=STOP_S)
def rotate(angle_deg: Degrees = 90.0, *, body: KalosBody, stop_evt: Event, pause_evt: Pause) -> SkillReturn:
    """Turn on the spot. angle_deg: degrees, positive to the left (counter-clockwise), negative to the right."""
    result, done = body.move("turn", math.radians(angle_deg), Control(stop_evt, pause_evt, body.now))
    return outcome(result, f"turned {math.degrees(done):.0f} of {angle_deg:g} degrees")


@robot_skill(subsystem="movement", nominal_s=NAV_S, stop_s=STOP_S)
def nav(
    x_m: MapMetres, y_m: MapMetres, yaw_deg: Degrees = 0.0, *, body: KalosBody, stop_evt: Event, pause_evt: Pause
) -> SkillReturn:
    """Navigate to a point of the map around what stands in the way. x_m, y_m: metres, yaw_deg: heading at the end in
    degrees, 0 along x."""
    goal = Pose2D(x_m, y_m, math.radians(yaw_deg))
    result = body.navigate(Control(stop_evt, pause_evt, body.now), pose=goal)
    left = result.values.get("distance_left", math.nan)
    return outcome(result, f"at ({x_m:g}, {y_m:g})" if result.ok else f"{left:.1f} m short of ({x_m:g}, {y_m:g})")


def _walk(body: KalosBody, distance: float, control: Control) -> SkillReturn:
    result, done = body.move("distance", distance, control)
    return outcome(result, f"walked {done:.2f} m of {distance:g} m")


LEG_S = 12.0
AREAS = {"hallway": HALLWAY, "rooms": ROOMS, "building": PLACES}
Area = Literal["hallway", "rooms", "building"]


@robot_skill(subsystem="movement", nominal_s=NAV_S, stop_s=STOP_S)
def goto_waypoint(waypoint: Place, *, body: KalosBody, stop_evt: Event, pause_evt: Pause) -> SkillReturn:
    """Go (navigate, return) to a named place of the building around what stands in the way."""
    result = body.navigate(Control(stop_evt, pause_evt, body.now), waypoint=waypoint)
    left = result.values.get("distance_left", 0.0)
    return outcome(result, f"at {waypoint}" if result.ok else f"did not reach {waypoint}, {left:.1f} m were left")


@robot_skill(subsystem="movement", nominal_s=lambda area, rounds: LEG_S * rounds * max(1, len(AREAS[area])), stop_s=STOP_S)
def patrol(
    area: Area = "hallway",
    rounds: Annotated[int, Field(ge=1, le=20, description="times")] = 1,
    *,
    kernel: SkillCaller,
    stop_evt: Event,
    pause_evt: Pause,
) -> SkillReturn:
    """Patrol: walk from place to place of the hallway, the rooms or the whole building. A place it cannot reach is left
    out and named at the end. rounds: how often."""
    control = Control(stop_evt, pause_evt)
    visited, missed = 0, dict[str, str]()
    for place in AREAS[area] * rounds:
        result = kernel.call("goto_waypoint", waypoint=place)
        if control.stopped or result.interrupted:
            return SkillReturn.interruption(f"patrolled {visited} of {len(AREAS[area]) * rounds} places")
        if result.ok:
            visited += 1
        else:
            missed[place] = result.message
    what = f"patrolled {visited} of {len(AREAS[area]) * rounds} places"
    return SkillReturn.failure(f"{what}; {'; '.join(missed.values())}") if missed else SkillReturn.success(what)
